"""What a sweep found: the best trial, its settings as a file, and the importance of each setting."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from ga3c.bench import record, report
from ga3c.config import Config, SettingsFile, by_name
from ga3c.metrics.text import number
from ga3c.sweep import study
from ga3c.sweep.plan import Plan
from ga3c.sweep.study import Past
from ga3c.sweep.yardstick import Yardstick

_OF_TRIALS = ("log", "keep", "checkpoint_seconds", "profile", "torch_threads")
"""Settings that the sweep gives to every trial. They are left out of the best settings."""


def common(configs: Sequence[Config], path: Path, kept: Mapping[str, Any]) -> SettingsFile:
    """What all runs of a trial have in common: all settings of a single run, and of runs in several environments those
    that do not depend on the environment. `kept` names settings that people fixed."""
    first, *others = configs
    settings = {
        name: value
        for name, value in by_name(first).items()
        if all(by_name(other)[name] == value for other in others) and (name in kept or name not in _OF_TRIALS)
    }
    ids = {config.env_id for config in configs}
    return SettingsFile(path, first.env_id if len(ids) == 1 else None, first.preset, first.env_args, settings)


def write_best(path: Path, best: Past, value: float, configs: Sequence[Config], kept: Mapping[str, Any]) -> None:
    """Writes the settings of the best trial for `ga3c train --config`."""
    scores = ", ".join(f"{run.env_id} (seed {run.seed}) {score:.6g}" for run, score in best.scores.items())
    head = f"# Trial {best.number} of a sweep, value {value:.4g}: {scores}\n\n"
    record.write(path, head + common(configs, path, kept).to_toml())


def gather(plan: Plan, pasts: Sequence[Past], folder: Path) -> dict[str, Any]:
    """The result of a sweep."""
    yardstick = Yardstick(plan.env_ids, pasts)
    best = yardstick.best(pasts)
    states = [past.state for past in pasts]
    return {
        "envs": list(plan.env_ids),
        "space": {name: str(part) for name, part in plan.space.items()},
        "fixed": dict(plan.fixed),
        "folder": str(folder),
        "counts": {state: states.count(state) for state in dict.fromkeys(states)},
        "best": None if best is None else _row(best, yardstick),
        "importance": study.importance(plan.space, pasts, yardstick.value),
        "trials": [_row(past, yardstick) for past in pasts],
        "date": record.date(),
    }


def _row(past: Past, yardstick: Yardstick) -> dict[str, Any]:
    by_env: dict[str, list[float]] = {}
    for run, score in past.latest.items():
        by_env.setdefault(run.env_id, []).append(score)
    scores = {env_id: sum(found) / len(found) for env_id, found in by_env.items()}
    return {
        "number": past.number,
        "state": past.state,
        "value": yardstick.value(past),
        "params": dict(past.params),
        "scores": scores,
        "normalised": {env_id: yardstick.normalised(env_id, score) for env_id, score in scores.items()},
        "reason": past.reason,
    }


def write_csv(path: Path, result: Mapping[str, Any]) -> None:
    """A row for each trial."""
    names, ids = list(result["space"]), result["envs"]
    rows = [
        {**row, **row["params"], **{f"score {env_id}": row["scores"].get(env_id, math.nan) for env_id in ids}}
        for row in result["trials"]
    ]
    record.write_csv(path, ["number", "state", "value", *names, *(f"score {env_id}" for env_id in ids), "reason"], rows)


def show(result: Mapping[str, Any], console: Console) -> None:
    """The best trial and the importance of each setting."""
    counts = ", ".join(f"{count} {state}" for state, count in result["counts"].items() if count)
    console.print(f"Trials: {counts or 'none'}.", highlight=False)
    best = result["best"]
    if best is None:
        console.print("No trial is complete, so there is no best one yet.", highlight=False)
        return
    console.print(f"Best: trial {best['number']}, value {best['value']:.3f}.", highlight=False)
    scores = report.table("environment", "score", "normalised")
    for env_id, score in best["scores"].items():
        scores.add_row(env_id, number(score), f"{best['normalised'][env_id]:.3f}")
    console.print(scores)
    settings = report.table("setting", "best", "searched", "importance", left=1)
    for name in sorted(best["params"], key=lambda one: -result["importance"].get(one, 0.0)):
        share = result["importance"].get(name)
        settings.add_row(
            name, _text(best["params"][name]), result["space"][name], "-" if share is None else f"{share:.0%}"
        )
    console.print(settings)
    if not result["importance"]:
        report.note(console, "The importance of settings is told once five trials are complete.")


def settings_text(params: Mapping[str, Any]) -> str:
    """The settings of a trial in one line."""
    return " ".join(f"{name}={_text(value)}" for name, value in params.items())


def _text(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
