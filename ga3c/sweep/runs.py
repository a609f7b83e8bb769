"""One run of a trial: `ga3c train` in a process of its own, on its share of the cores, followed by its files."""

import contextlib
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from ga3c.agents import leftovers
from ga3c.bench import training
from ga3c.config import Config, to_toml
from ga3c.files import replacing
from ga3c.metrics.sinks.csv import read_metrics
from ga3c.metrics.sinks.status import read_status
from ga3c.run.folder import RunFolder
from ga3c.sweep import shares
from ga3c.sweep.shares import Share

_LONGEST_POLL = 1.0
"""The most seconds that one look adds to the idle time: a sweep that was stopped (Ctrl-Z) must not take its runs
for hung."""
_LONGEST_LOG = 100_000


class Progress(NamedTuple):
    """How far a run is."""

    share: float = 0.0
    """The share of its length that is done, 0 to 1."""
    score: float = math.nan
    """Mean of the last 100 episodes; NaN before the first."""
    steps: int = 0


class RunProcess:
    """A run from its start to its end. It leads a session of its own, so that Ctrl-C reaches the sweep alone, which
    then ends its runs in order; if the sweep is killed, the guardian kills what bears its mark."""

    def __init__(self, config: Config, folder: Path, share: Share, mark: str) -> None:
        """Starts the run, or lets it go on from its last checkpoint. A deterministic run starts anew: one that was
        resumed would not be equal to one that was not."""
        self.folder = folder
        self.share = share
        self.log = folder.parent / f"{folder.name}.log"
        self._steps = -1
        self._idle = 0.0
        self._looked_at = time.monotonic()
        folder.parent.mkdir(parents=True, exist_ok=True)
        if not config.engine.deterministic and training.counters(folder) is not None:
            words = ["resume", str(folder), "--trust"]
        else:
            shutil.rmtree(folder, ignore_errors=True)
            file = folder.parent / f"{folder.name}.toml"
            with replacing(file) as temporary:
                temporary.write_text(to_toml(config), encoding="utf-8")
            words = ["train", config.env_id, "--config", str(file), "--out", str(folder)]
            words += ["--wrap", *config.env.wrap] if config.env.wrap else []
        with open(self.log, "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ga3c", *words, "--ui", "none"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | {leftovers.VARIABLE: mark},
                start_new_session=True,
            )
        shares.bind(self._process.pid, share)

    def progress(self) -> Progress:
        """How far it is, and whether it makes steps at all (`idle_seconds`)."""
        found = read_status(self.folder / "status.json") or {}
        now = Progress(found.get("progress") or 0.0, _number(found.get("score")), found.get("steps") or 0)
        moment = time.monotonic()
        moves = now.steps > self._steps or found.get("state") == "paused"
        self._idle = 0.0 if moves else self._idle + min(_LONGEST_POLL, moment - self._looked_at)
        self._steps, self._looked_at = max(self._steps, now.steps), moment
        return now

    @property
    def idle_seconds(self) -> float:
        """Seconds in which it made no step, by the calls of `progress`."""
        return self._idle

    def exit_code(self) -> int | None:
        """None while it trains."""
        return self._process.poll()

    def why(self) -> str:
        """Why it failed: the last line of its output."""
        with open(self.log, "rb") as file:
            file.seek(max(0, self.log.stat().st_size - _LONGEST_LOG))
            lines = [line for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
        code = self._process.returncode
        signalled = f"It was killed by {signal.Signals(-code).name}." if code is not None and code < 0 else ""
        return signalled or (lines[-1].removeprefix("ga3c: ") if lines else f"It ended with code {code}.")

    def ask_to_end(self) -> None:
        """Asks it to end with a checkpoint."""
        if self._process.poll() is None:
            self._process.terminate()

    def wait(self, deadline: float) -> None:
        """Waits for its end until `deadline` (`time.monotonic`)."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, deadline - time.monotonic()))

    def kill(self) -> None:
        """Ends it at once. Its agent processes end with it."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def final_score(config: Config, folder: Path) -> float | None:
    """The score of the run in a folder if it is complete, NaN if no episode ended; None if it is not complete."""
    done = training.counters(folder)
    if done is None or config.progress(done.steps, done.seconds) < 1.0:
        return None
    rows = read_metrics(folder, ("score",))
    return rows[-1]["score"] if rows else math.nan


def drop_weights(folder: Path) -> None:
    """Removes the checkpoints of a run, which take most of its space; its settings and curves stay."""
    shutil.rmtree(RunFolder(folder).checkpoints, ignore_errors=True)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan
