"""The settings of a run: the preset's for an environment and a device, and over them what was chosen."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from ga3c import envs, presets
from ga3c.config import (
    DETERMINISTIC,
    Config,
    EnvConfig,
    NetName,
    PresetName,
    SystemName,
    by_name,
    changed,
    check_env_args,
    validated,
)
from ga3c.engine import device

PINNED = ("agents", "predictors", "trainers", "delay")
"""Choosing one of these turns tuning off, unless tuning is chosen too."""


def preset_config(
    env_id: str,
    preset: PresetName,
    device_name: str,
    system: SystemName = "ga3c",
    net: NetName = "auto",
    env_args: Mapping[str, Any] | None = None,
) -> Config:
    """The preset's settings for an environment, a device, a system and a network."""
    spec = envs.describe(env_id, EnvConfig(), raw_screens=False, env_args=env_args)
    if system != "ga3c":
        # The same on a CPU and a GPU, so that the A3C systems differ only in where their models are.
        config = presets.for_a3c(presets.base(preset, spec, on_cuda=False, net=net), system)
    else:
        config = presets.base(preset, spec, device.choose(device_name).type == "cuda", net)
    return dataclasses.replace(config, env_args=dict(env_args or {}))


def resolve(
    env_id: str,
    preset: PresetName,
    chosen: Mapping[str, Any],
    *,
    env_args: Mapping[str, Any] | None = None,
    tunes: bool = True,
) -> Config:
    """The settings of a run. `chosen` has settings by their names, which replace the preset's. With `tunes`, the run
    tunes its numbers of agents, predictors and trainers unless `chosen` says otherwise."""
    chosen = validated(chosen)
    check_env_args(env_args or {})
    defaults: dict[str, Any] = dict(DETERMINISTIC) if chosen.get("deterministic") else {}
    base = preset_config(
        env_id,
        preset,
        {**defaults, **chosen}.get("device", "auto"),
        chosen.get("system", "ga3c"),
        chosen.get("net", "auto"),
        env_args,
    )
    schedule = by_name(base)
    for name in ("learning_rate", "entropy_weight"):
        if name in chosen and schedule[name] == schedule[f"{name}_end"]:
            defaults[f"{name}_end"] = chosen[name]  # a preset that keeps the rate constant keeps the chosen one so
    if chosen.get("minutes"):
        defaults["steps"] = 0  # the preset's number of steps is for runs without a limit of their own
    if base.engine.system == "ga3c":
        if tunes and "tune" not in defaults and not any(name in chosen for name in PINNED):
            defaults["tune"] = "on"
        if {**defaults, **chosen}.get("tune") == "on" and not chosen.get("max_agents"):
            defaults["max_agents"] = max(base.engine.agents, chosen.get("agents", 0))
            chosen = {name: value for name, value in chosen.items() if name != "max_agents"}
    return changed(base, {**defaults, **chosen})
