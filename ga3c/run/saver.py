"""The saver: writes the checkpoints of a run, and tries again where the disk refuses one."""

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch

from ga3c.config import Config, to_toml
from ga3c.engine.model import Model
from ga3c.errors import Diverged, RunFailed
from ga3c.metrics.snapshot import Counters, Snapshot
from ga3c.run import checkpoint
from ga3c.run.checkpoint import Checkpoint
from ga3c.run.folder import RunFolder
from ga3c.run.steered import Steered

RETRY_SECONDS = 10.0
"""Seconds between tries to write a checkpoint that the disk refused, and for which the last one of a run is tried."""
_LAST_TRIES_SECONDS = 0.5
"""Seconds between tries to write the last checkpoint of a run."""


class Written(NamedTuple):
    """A checkpoint that was written."""

    path: Path
    steps: int
    best: bool
    """Whether it has the best score so far, and is kept as the best too."""


class Saver:
    """Writes checkpoints of one model to one folder, and keeps the best."""

    def __init__(
        self,
        folder: RunFolder,
        model: Model,
        config: Config,
        steered: Callable[[], Steered | None] = lambda: None,
    ) -> None:
        """`steered` says what people have changed of the run by now."""
        self._folder = folder
        self._model = model
        self._config = config
        self._steered = steered
        self._best = checkpoint.best_score(folder.checkpoints)

    def save(self, snapshot: Snapshot) -> Written:
        """Writes a checkpoint, and keeps it as the best where it is. Its counters are those of the last record, so that
        the curves on disk end exactly at the checkpoint."""
        folder = self._folder.checkpoints
        counters, tensors = Counters.of(snapshot), self._model.state()
        if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values()):
            raise Diverged(
                "The weights are no longer finite, so nothing was saved; lower --learning-rate or set --clip-norm, and "
                f"go on from the last good checkpoint with `ga3c resume {self._folder.path}`."
            )
        scores = snapshot.score, snapshot.best_score
        saved = Checkpoint(tensors, counters, *scores, to_toml(self._config), self._steered())
        path = checkpoint.path_for(folder, counters.steps)
        checkpoint.save(path, saved)
        checkpoint.prune(folder, self._config.run.keep)
        # Before a full window of episodes there is no best score: a lucky first episode is not the best.
        is_best = not math.isnan(snapshot.best_score) and snapshot.score > self._best
        if is_best:
            checkpoint.save(checkpoint.best_path(folder), saved)
            self._best = snapshot.score
        return Written(path, counters.steps, is_best)

    def save_first(self, snapshot: Snapshot) -> Written:
        """The checkpoint from which a run begins; without it, it does not begin."""
        try:
            return self.save(snapshot)
        except OSError as error:
            raise RunFailed(
                f"The first checkpoint could not be written to {self._folder.checkpoints} ({_reason(error)}), so the "
                "run does not begin; make room there, or choose another folder."
            ) from error

    def save_last(self, snapshot: Snapshot, on_wait: Callable[[str], None], hurried: Callable[[], bool]) -> Written:
        """The checkpoint with which a run ends. Where the disk refuses it, it is tried for some seconds, or until the
        run is `hurried`; `on_wait` gets a sentence about that."""
        deadline = time.monotonic() + RETRY_SECONDS
        waits = False
        while True:
            try:
                return self.save(snapshot)
            except OSError as error:
                if hurried() or time.monotonic() >= deadline:
                    raise RunFailed(self._gave_up(error)) from error
                if not waits:
                    waits = True
                    on_wait(
                        f"The last checkpoint could not be written ({_reason(error)}); it is tried again for "
                        f"{RETRY_SECONDS:.0f} s."
                    )
            time.sleep(_LAST_TRIES_SECONDS)

    def refusal(self, snapshot: Snapshot, error: OSError, seconds: float) -> str:
        """What to tell about a checkpoint that was not written and is tried again after some seconds."""
        return (
            f"The checkpoint at {snapshot.steps:,} steps could not be written ({_reason(error)}); the run goes on, and "
            f"it is tried again every {seconds:g} s. {self._last_good()}"
        )

    def _gave_up(self, error: OSError) -> str:
        return (
            f"The last checkpoint could not be written ({_reason(error)}). {self._last_good()} Make room there and "
            f"go on from it with `ga3c resume {self._folder.path}`."
        )

    def _last_good(self) -> str:
        there = checkpoint.list_last(self._folder.checkpoints)
        return f"The last good one is {there[-1]}." if there else "There is none from before."


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
