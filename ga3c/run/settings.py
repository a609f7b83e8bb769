"""The settings of a run: the preset's for an environment and a device, and over them what was chosen: in a file, and by
flags or arguments over it."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ga3c import envs, presets
from ga3c.config import (
    DETERMINISTIC,
    Config,
    EnvConfig,
    NetName,
    PresetName,
    SettingsFile,
    SystemName,
    by_name,
    changed,
    check_env_args,
    validated,
)
from ga3c.config.sections import require
from ga3c.engine import device
from ga3c.errors import UserError
from ga3c.run import trust

PINNED = ("agents", "predictors", "trainers", "delay")
"""Choosing one of these turns tuning off, unless tuning is chosen too."""


def preset_config(
    env_id: str,
    preset: PresetName,
    device_name: str,
    system: SystemName = "ga3c",
    net: NetName = "auto",
    env_args: Mapping[str, Any] | None = None,
    wraps: tuple[str, ...] = (),
) -> Config:
    """The preset's settings for an environment within its wrappers, a device, a system and a network."""
    spec = envs.describe(env_id, EnvConfig(wrap=wraps), raw_screens=False, env_args=env_args)
    if system != "ga3c":
        # The same on a CPU and a GPU, so that the A3C systems differ only in where their models are.
        config = presets.for_a3c(presets.base(preset, spec, on_cuda=False, net=net), system)
    else:
        config = presets.base(preset, spec, device.choose(device_name).type == "cuda", net)
    config = dataclasses.replace(config, env=dataclasses.replace(config.env, wrap=wraps))
    return dataclasses.replace(config, env_args=dict(env_args or {}))


def read(
    path: Path | None, env_id: str | None, wraps: Sequence[str] | None = None, net: str | None = None
) -> SettingsFile | None:
    """A file of settings, if there is one. Importing the module of an environment, a wrapper or a network runs its
    code, so a file that names one is refused unless it was named in the command too (`env_id`, `wraps`, `net`)."""
    if path is None:
        return None
    file = SettingsFile.read(path)
    of_file = (file.env_id or "" if env_id is None else "", file.settings.get("wrap", ()) if wraps is None else ())
    found = trust.first_foreign(*of_file, file.settings.get("net", "") if net is None else "", path)
    if found is not None:
        flags = {"wrapper": f"--wrap {' '.join(file.settings.get('wrap', ()))}", "network": f"--net {found.name}"}
        name = flags.get(found.kind, found.name)
        raise UserError(
            f"--config: {path} is for {found.name}: to play it, the code in {found.file} is run; read it first, "
            f"then name {name} in the command too."
        )
    return file


def resolve(
    env_id: str | None,
    preset: PresetName | None,
    chosen: Mapping[str, Any],
    *,
    env_args: Mapping[str, Any] | None = None,
    tunes: bool = True,
    file: SettingsFile | None = None,
) -> Config:
    """The settings of a run. `chosen` has settings by their names, which replace those of `file`, which replace the
    preset's. Without an environment or a preset, the file's is taken. With `tunes`, the run tunes its numbers of
    agents, predictors and trainers unless the file or `chosen` says otherwise."""
    chosen = validated(chosen)
    in_file = {} if file is None else file.settings
    _check_chosen(chosen, {**in_file, **chosen})
    if env_args is None and file is not None and env_id in (None, file.env_id):
        env_args = file.env_args
    check_env_args(env_args or {})
    env_id = env_id or (file and file.env_id) or Config.env_id
    preset = preset or (file and file.preset) or Config.preset
    chosen = {**in_file, **_implied(chosen, in_file), **chosen}
    defaults: dict[str, Any] = dict(DETERMINISTIC) if chosen.get("deterministic") else {}
    base = preset_config(
        env_id,
        preset,
        {**defaults, **chosen}.get("device", "auto"),
        chosen.get("system", "ga3c"),
        chosen.get("net", "auto"),
        env_args,
        chosen.get("wrap", ()),
    )
    schedule = by_name(base)
    for name in ("learning_rate", "entropy_weight"):
        if name in chosen and schedule[name] == schedule[f"{name}_end"]:
            defaults[f"{name}_end"] = chosen[name]  # a preset that keeps the rate constant keeps the chosen one so
    if chosen.get("minutes"):
        defaults["steps"] = 0  # the preset's number of steps is for runs without a limit of their own
    if chosen.get("correction") in ("none", "epsilon"):
        defaults["explore_after"] = 0  # these do not correct for exploration
    if base.engine.system == "ga3c":
        if tunes and "tune" not in defaults and not any(name in chosen for name in PINNED):
            defaults["tune"] = "on"
        if {**defaults, **chosen}.get("tune") == "on" and not chosen.get("max_agents"):
            defaults["max_agents"] = max(base.engine.agents, chosen.get("agents", 0))
            chosen = {name: value for name, value in chosen.items() if name != "max_agents"}
    return changed(base, {**defaults, **chosen})


def _implied(chosen: Mapping[str, Any], in_file: Mapping[str, Any]) -> dict[str, Any]:
    """What choosing settings over those of a file changes besides: settings of the file that the choice makes void."""
    if not in_file:
        return {}
    implied: dict[str, Any] = dict(DETERMINISTIC) if chosen.get("deterministic") else {}
    if chosen.get("minutes") and "steps" not in chosen:
        implied["steps"] = 0  # a limit that is given alone is the only one
    if chosen.get("steps") and "minutes" not in chosen:
        implied["minutes"] = 0.0
    if "max_agents" in in_file and {"agents", "tune"} & {*chosen, *implied}:
        implied["max_agents"] = 0  # it was for the file's number of agents
    for name in ("learning_rate", "entropy_weight"):
        if name in chosen and name in in_file and in_file[name] == in_file.get(f"{name}_end"):
            implied[f"{name}_end"] = chosen[name]
    return implied


_GA3C_ONLY = ("predictors", "trainers", "prediction_batch", "queue")
"""Settings of GA3C alone. None of their values means that there is no such thing."""


def _check_chosen(chosen: Mapping[str, Any], merged: Mapping[str, Any]) -> None:
    """Refuses what was asked for and would be ignored. Once settings are complete, it looks like a default. `merged`
    has the settings of a file too; that of a run is complete, so it may hold what its system has no use for."""
    system = merged.get("system", "ga3c")
    for name in _GA3C_ONLY if system != "ga3c" else ():
        require(name not in chosen, name, chosen.get(name), f"left out: --system {system} has no use for it")
    if merged.get("fuse") and system == "ga3c" and device.choose(merged.get("device", "auto")).type != "cuda":
        raise UserError("--fuse compiles updates for CUDA, but this run is on the CPU; leave --fuse out.")
