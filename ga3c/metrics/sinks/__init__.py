"""Sinks: they keep or show the record of a run. `--log` names those that keep it."""

import difflib
import importlib.util
from collections.abc import Sequence

from ga3c.errors import UserError
from ga3c.metrics.sinks.base import RunFacts, Sink

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


def make(names: Sequence[str], run: RunFacts) -> list[Sink]:
    """The named sinks of a run, each once. Packages are imported only for the sinks that need them."""
    check(names)
    sinks: list[Sink] = []
    try:
        for name in dict.fromkeys(names):
            sinks.append(_make(name, run))  # noqa: PERF401  (sinks made so far are closed on an error)
    except BaseException:
        for sink in sinks:
            sink.close()
        raise
    return sinks


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
