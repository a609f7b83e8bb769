"""Trains an environment for some seconds in a folder that is deleted then, and returns the run's curve."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ga3c import api
from ga3c.check.learning import Curve
from ga3c.config import DeviceName
from ga3c.errors import Ga3cError
from ga3c.metrics.snapshot import Episode, Snapshot
from ga3c.run.callbacks import Callback
from ga3c.run.session import Run


class _Recorder(Callback):
    """Keeps what a curve needs."""

    def __init__(self) -> None:
        self.rows: list[Snapshot] = []
        self.scores: list[float] = []
        self.run: Run | None = None

    def on_start(self, run: Run) -> None:
        self.run = run

    def on_metrics(self, run: Run, metrics: Snapshot) -> None:
        self.rows.append(metrics)

    def on_episode(self, run: Run, episode: Episode) -> None:
        self.scores.append(episode.score)


def train(
    env_id: str,
    env_args: Mapping[str, Any],
    wraps: tuple[str, ...],
    seconds: float,
    device: DeviceName,
    continuous: bool,
) -> Curve:
    """Trains with the preset's settings."""
    recorder, problem = _Recorder(), None
    with tempfile.TemporaryDirectory(prefix="ga3c-check-") as folder:
        try:
            api.train(
                env_id, out=Path(folder) / "run", env_args=dict(env_args), wrap=wraps, callbacks=[recorder], ui="none",
                minutes=seconds / 60.0, device=device, tune="off", log="csv", checkpoint_seconds=3600.0,
            )  # fmt: skip
        except Ga3cError as error:
            problem = str(error)
    rows, run = recorder.rows, recorder.run
    last = rows[-1] if rows else None
    return Curve(
        seconds=last.seconds if last else 0.0,
        steps=last.steps if last else 0,
        updates=last.updates if last else 0,
        pps=last.steps / last.seconds if last and last.seconds else 0.0,
        entropy=tuple(row.entropy for row in rows),
        value_loss=tuple(row.value_loss for row in rows),
        scores=tuple(recorder.scores),
        values_scaled=run is not None and run.config.learn.scale_returns,
        continuous=continuous,
        problem=problem,
    )
