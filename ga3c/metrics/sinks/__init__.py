"""Sinks: they keep or show the record of a run. `--log` names those that keep it."""

import contextlib
import difflib
import functools
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path

from ga3c.errors import Ga3cError, RunFailed, UserError
from ga3c.metrics.sinks.base import RunFacts, Sink
from ga3c.metrics.sinks.events import EventsSink
from ga3c.metrics.sinks.status import StatusSink

NAMES = ("csv", "tensorboard", "wandb", "mlflow")
"""What `--log` may name."""
DEFAULT = ("csv", "tensorboard")
_EXTRAS = ("wandb", "mlflow")
"""Sinks whose package only an extra of the same name installs."""


def check(names: Sequence[str]) -> None:
    """Refuses names that are unknown, and sinks whose package is missing."""
    for name in names:
        if name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(NAMES)}."
            raise UserError(f"--log names {name!r}, which is unknown; {hint}")
        if name in _EXTRAS and importlib.util.find_spec(name) is None:
            raise UserError(f'--log {name} needs the package {name}; install it with pip install "ga3c[{name}]".')


def make(names: Sequence[str], run: RunFacts, events: Path | None = None, status: Path | None = None) -> list[Sink]:
    """The named sinks of a run, each once, after those that write `events` and `status`. Packages are imported only for
    the sinks that need them. A sink that cannot begin, on a full disk for example, is a RunFailed."""
    check(names)
    makers: list[Callable[[], Sink]] = []
    if events is not None:
        makers.append(functools.partial(EventsSink, events))
    if status is not None:
        makers.append(functools.partial(StatusSink, status))
    makers += [functools.partial(_make, name, run) for name in dict.fromkeys(names)]
    sinks: list[Sink] = []
    try:
        for maker in makers:
            sinks.append(maker())  # noqa: PERF401  (sinks made so far are closed on an error)
    except BaseException as error:
        close(sinks)
        if isinstance(error, Exception) and not isinstance(error, Ga3cError):
            reason = str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
            raise RunFailed(f"The record of the run cannot be begun, so the run does not start: {reason}.") from error
        raise
    return sinks


def close(sinks: Sequence[Sink]) -> None:
    """Closes sinks of a run that does not begin. What one raises while it closes is of no interest then."""
    for sink in sinks:
        with contextlib.suppress(Exception):
            sink.close()


def _make(name: str, run: RunFacts) -> Sink:
    if name == "csv":
        from ga3c.metrics.sinks.csv import CsvSink

        return CsvSink(run.folder)
    if name == "tensorboard":
        from ga3c.metrics.sinks.tensorboard import TensorBoardSink

        return TensorBoardSink(run.tensorboard, run.purge_step, run.rules, run.settings)
    if name == "wandb":
        from ga3c.metrics.sinks.wandb import WandbSink

        return WandbSink(run)
    from ga3c.metrics.sinks.mlflow import MlflowSink

    return MlflowSink(run)
