"""The limits of a run that goes on: which ones hold, and what new ones change."""

from collections.abc import Collection
from typing import Any

from ga3c.config import Config, DeviceName, RunConfig, changed
from ga3c.errors import UserError
from ga3c.learn import schedules
from ga3c.learn.schedules import RateName
from ga3c.metrics.snapshot import Counters


def renewed(config: Config, steps: int | None, minutes: float | None, device: DeviceName | None) -> Config:
    """The configuration of a run that goes on with a new limit or device; None leaves one as it is.

    As in a new run, a limit that is given alone is the run's only limit: with the limit of steps still there,
    `--minutes` could not make a run longer."""
    new: dict[str, Any] = {"steps": steps, "minutes": minutes, "device": device}
    if minutes and steps is None:
        new["steps"] = 0
    if steps and minutes is None:
        new["minutes"] = 0.0
    return changed(config, {name: value for name, value in new.items() if value is not None})


def check_unfinished(config: Config, counters: Counters, path: object) -> None:
    """Refuses a run that has reached its limit."""
    if config.progress(counters.steps, counters.seconds) >= 1.0:
        raise UserError(
            f"{path} is complete: {counters.steps:,} steps in {counters.seconds / 60:.1f} minutes; "
            f"to go further, raise the limit that is reached ({_flags(config.run)})."
        )


def consequences(before: Config, after: Config, counters: Counters, held: Collection[RateName] = ()) -> list[str]:
    """What other limits change, in sentences: limits that no longer hold, and rates that jump because their schedules
    now cover another length. Rates that are `held` do not."""
    told = []
    if before.run.steps and not after.run.steps:
        told.append(f"The limit of {before.run.steps:,} steps no longer holds; the run ends {_end(after.run)}.")
    if before.run.minutes and not after.run.minutes:
        told.append(f"The limit of {before.run.minutes:g} minutes no longer holds; the run ends {_end(after.run)}.")
    was, now = (schedules.rates(one.learn, one.progress(counters.steps, counters.seconds)) for one in (before, after))
    for name, old, new in zip(schedules.RATES, was, now, strict=True):
        if f"{old:.3g}" != f"{new:.3g}" and name not in held:
            covered = _end(after.run).removeprefix("after ")
            rate = name.replace("_", " ")
            told.append(f"The {rate} goes from {old:.3g} to {new:.3g}, because its schedule now covers {covered}.")
    return told


def _end(run: RunConfig) -> str:
    """When a run ends, in words."""
    ends = [f"{run.steps:,} steps"] if run.steps else []
    ends += [f"{run.minutes:g} minutes"] if run.minutes else []
    return f"after {' or '.join(ends)}" if ends else "when it is stopped"


def _flags(run: RunConfig) -> str:
    """The limits of a run, as flags."""
    steps, minutes = f"--steps {run.steps}", f"--minutes {run.minutes:g}"
    return f"{steps} or {minutes}" if run.steps and run.minutes else steps if run.steps else minutes
