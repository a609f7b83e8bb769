"""Labels of the lines of a plot: the settings that tell runs apart, in as few words as possible."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ga3c.view.curves import RunCurve

_SHORT = {"learning_rate": "lr", "learning_rate_end": "lr end"}
_MOST_NAMED = 3
"""The most settings in a label, unless the lines need more to be told apart; "…" stands for the others."""


def labels(groups: Sequence[Sequence[RunCurve]]) -> list[str]:
    """The shortest text that tells each group of runs from the others: environment, system and preset, then single
    settings, seeds and folders, each only for groups that still have the same text."""
    heads = [group[0] for group in groups]
    told: list[tuple[str, ...]] = [()] * len(heads)
    for tell in (_identities, _settings, _seeds, _folders):
        for same in {text: [i for i, other in enumerate(told) if other == text] for text in told}.values():
            if len(same) > 1:
                for i, more in zip(same, tell([heads[i] for i in same]), strict=True):
                    told[i] += more
    return [", ".join(parts) for parts in told]


Texts = list[tuple[str, ...]]


def _identities(runs: Sequence[RunCurve]) -> Texts:
    names = _differing(runs, ["env_id", "engine.system", "preset"])
    return [tuple(setting(name, run.settings[name]) for name in names) for run in runs]


def _settings(runs: Sequence[RunCurve]) -> Texts:
    names = dict.fromkeys(name for run in runs for name in run.settings)
    differing = _differing(runs, [name for name in names if not _says_nothing_more(name, runs)])
    texts = {name: [setting(name, run.settings.get(name)) for run in runs] for name in differing}
    named = _most_telling(texts)
    rest = ("…",) if len(named) < len(texts) else ()
    return [tuple(texts[name][i] for name in named) + rest for i in range(len(runs))]


def _says_nothing_more(name: str, runs: Sequence[RunCurve]) -> bool:
    """Whether another setting already says the same: the end of a schedule that equals its start, or a maximum of
    agents that equals their number."""

    def repeats(settings: Mapping[str, Any]) -> bool:
        if name == "engine.max_agents":
            return settings.get(name) in (None, 0, settings.get("engine.agents"))
        return name.endswith("_end") and settings.get(name) == settings.get(name.removesuffix("_end"))

    return all(repeats(run.settings) for run in runs)


def _differing(runs: Sequence[RunCurve], names: Sequence[str]) -> list[str]:
    """Those of the named settings that differ between the runs."""
    first = runs[0].settings
    return [name for name in names if any(run.settings.get(name) != first.get(name) for run in runs)]


def _most_telling(texts: Mapping[str, Sequence[str]]) -> list[str]:
    """The few settings to name if many differ. Each next one tells the most lines apart, given those before it."""

    def told_apart(names: Sequence[str]) -> int:
        return len(set(zip(*(texts[name] for name in names), strict=True)))

    named: list[str] = []
    while len(named) < len(texts) and (len(named) < _MOST_NAMED or told_apart(named) < told_apart([*texts])):
        left = [name for name in texts if name not in named]
        named.append(max(left, key=lambda name: told_apart([*named, name])))
    return [name for name in texts if name in named]


def _seeds(runs: Sequence[RunCurve]) -> Texts:
    return [(f"seed {run.seed}",) if len({run.seed for run in runs}) > 1 else () for run in runs]


def _folders(runs: Sequence[RunCurve]) -> Texts:
    told_by_name = len({run.folder.resolve().name for run in runs}) == len(runs)
    # matplotlib hides labels that begin with an underscore, as the name of a folder may.
    return [(f"run {run.folder.resolve().name if told_by_name else run.folder}",) for run in runs]


def setting(name: str, value: Any) -> str:
    """A setting for people: `rollout 32`, `lr 5e-4`, `life loss off`; an environment by its id alone."""
    name = name.rpartition(".")[2]
    if name == "env_id":
        return str(value)
    if isinstance(value, bool):
        value = "on" if value else "off"
    elif isinstance(value, float):
        small = 0.0 < abs(value) < 0.01
        value = np.format_float_scientific(value, trim="-", exp_digits=1) if small else f"{value:g}"
    # The config.toml of a version that did not have the setting leaves it out.
    return f"{_SHORT.get(name, name.replace('_', ' '))} {'unset' if value is None else value}"


def title(runs: Sequence[RunCurve]) -> str:
    """The environment and the preset, if all runs share them."""
    differing = _differing(runs, ["env_id", "engine.system", "preset"])
    return ", ".join(setting(name, runs[0].settings[name]) for name in ("env_id", "preset") if name not in differing)
