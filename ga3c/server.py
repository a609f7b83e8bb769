"""The server: starts a system, supervises it, records and saves what it does, and stops it."""

import contextlib
import math
import signal
import threading
import time
from collections.abc import Iterator, Sequence

import torch

from ga3c import checkpoint
from ga3c.agents.processes import Failure
from ga3c.checkpoint import Checkpoint
from ga3c.config import Config
from ga3c.errors import Diverged, RunFailed
from ga3c.runfolder import RunFolder
from ga3c.sinks.base import Sink
from ga3c.sinks.plain import count, number
from ga3c.stats import WINDOW, Counters, Episode, Snapshot
from ga3c.system import System
from ga3c.tuning import Tuning

_TICK = 0.1
"""Seconds between looks at the processes and the limits."""
_RECORD = 1.0
"""Seconds between records of metrics."""
_SILENCE = 30.0
"""Seconds without a word from an agent process after which people are told."""
_PATIENCE = 2.0
"""Seconds that agent processes get to end by themselves."""


class Server:
    """One run of one system."""

    def __init__(
        self, config: Config, system: System, folder: RunFolder, tuning: Tuning | None = None, rules: str = ""
    ) -> None:
        """`tuning` changes the system while it runs, by the records that are taken here. `rules` names the protocol of
        its scores."""
        self.config = config
        self._rules = rules
        self._tuning = tuning
        self.system = system
        self.stats = system.stats
        self._folder = folder
        self._sinks: list[Sink] = []
        self._best_saved = checkpoint.best_score(folder.checkpoints)
        self._stopping = False
        self._reason = ""
        self._failure: RunFailed | None = None
        self._failures = 0
        self._shown_traceback = False

    def resume(self, saved: Checkpoint, recent: Sequence[Episode]) -> None:
        """Goes on from a checkpoint; `recent` are the last episodes before it. Call before `run`."""
        self.system.model.load(saved.tensors, saved.counters.updates)
        self.stats.resume(saved.counters, recent, saved.best_score)

    def run(self, sinks: Sequence[Sink]) -> None:
        """Trains until a limit is reached, somebody asks it to stop, or it cannot go on (RunFailed)."""
        self._sinks = list(sinks)
        self._tell(f"Training {self.config.env_id} in {self._folder.path}.")
        with self._signals():  # to the end: what would interrupt the last checkpoint must wait for it
            try:
                self.system.start()
                self.stats.start_clock()
                self._save(self._record())  # a run can be resumed from its first moment on
                self._supervise()
            except OSError as error:
                self._failure = _refused(error)
            finally:
                self._shut_down()
            self._conclude()

    def _conclude(self) -> None:
        """The last checkpoint, the trace, and whether all went well. What failed first is told, not what came of it."""
        last = self._record()
        try:
            counters = self._save(last)
        except Exception as error:
            if self._failure is not None:
                raise self._failure from error
            if isinstance(error, OSError):
                raise _refused(error) from error
            raise
        finally:
            self._write_trace()
        if self._failure is not None:
            raise self._failure
        self._tell(f"{self._reason} Checkpoint at {counters.steps:,} steps.{self._scored(last)}")

    def stop(self, reason: str) -> None:
        """Asks the run to end; returns at once. It takes no lock, so a signal handler may call it at any moment."""
        self._reason = self._reason or reason
        self._stopping = True

    def _scored(self, snapshot: Snapshot) -> str:
        if math.isnan(snapshot.score):
            return ""
        last = min(WINDOW, snapshot.episodes)
        return f" Training score {number(snapshot.score)} over the last {count(last, 'episode')}, {self._rules}."

    # -- supervision --------------------------------------------------------------------------------------------------

    def _supervise(self) -> None:
        now = time.monotonic()
        next_record, next_checkpoint = now + _RECORD, now + self.config.run.checkpoint_seconds
        while not self._stopping:
            time.sleep(_TICK)
            self._care_for_agents()
            now = time.monotonic()
            if now >= next_record:
                next_record = now + _RECORD
                snapshot = self._record()
                self._tune(snapshot)
                if now >= next_checkpoint:
                    next_checkpoint = now + self.config.run.checkpoint_seconds
                    self._save(snapshot)
            if self.stats.failure:
                self._failure = RunFailed(self.stats.failure)
                self.stop("A thread failed.")
            elif self.stats.progress >= 1.0:
                self.stop("The run is complete.")

    def _care_for_agents(self) -> None:
        """Tells of agent processes that died or hang, and starts the dead anew unless that happened too often."""
        for failure in self.system.find_failed():
            self._report(failure)
        if self._failure is not None:
            return
        for _ in range(self.system.restart_failed()):
            self.stats.restarted()
        for worker in self.system.find_silent(_SILENCE):
            self._tell(f"Agent process {worker} has not made a step for {_SILENCE:.0f} s; its environment may hang.")

    def _report(self, failure: Failure) -> None:
        self._failures += 1
        how = f"signal {-failure.exit_code}" if failure.exit_code < 0 else f"exit code {failure.exit_code}"
        allowed = self.config.engine.restarts
        if self._failures > allowed:
            plural = "processes" if failure.kind == "process" else "threads"
            last_words = f"\n{failure.last_words}" if failure.last_words else ""
            self._failure = RunFailed(
                f"Agent {plural} failed {self._failures} times, more than --restarts {allowed} allows; "
                f"the last was {failure.kind} {failure.worker} ({how}, log in {failure.log}).{last_words}"
            )
            self.stop("Agent processes failed too often.")
            return
        self._tell(
            f"Agent {failure.kind} {failure.worker} ended with {how}; it is started anew (failure {self._failures})."
        )
        if failure.last_words and not self._shown_traceback:
            self._shown_traceback = True
            self._tell(failure.last_words)

    def _tune(self, snapshot: Snapshot) -> None:
        if self._tuning is None:
            return
        try:
            news = self._tuning.look(snapshot)
        except (OSError, RuntimeError, MemoryError) as error:
            tuning, self._tuning = self._tuning, None
            why = str(error).strip() or repr(error)
            news = f"Tuning ends, and the run goes on with {tuning.end()} ({why})."
        if news is not None:
            self._tell(news)

    def _shut_down(self) -> None:
        """Ends every thread and process."""
        if self.stats.trace is not None:
            self.stats.trace.close()
        self.system.stop(_PATIENCE)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Ctrl-C, SIGTERM and a closed terminal end the run in order; outside the main thread none are taken."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def handle(number: int, _: object) -> None:
            self.stop(f"Stopped by {signal.Signals(number).name}.")

        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup ignores it on purpose
            numbers.append(signal.SIGHUP)
        before = {number: signal.signal(number, handle) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    # -- what is kept and shown ---------------------------------------------------------------------------------------

    def _record(self) -> Snapshot:
        snapshot, episodes = self.stats.snapshot()
        for sink in list(self._sinks):
            try:
                sink.write(snapshot, episodes)
            except OSError as error:
                self._drop(sink, error)
        return snapshot

    def _tell(self, text: str) -> None:
        for sink in list(self._sinks):
            try:
                sink.message(text)
            except OSError as error:
                self._drop(sink, error)

    def _drop(self, sink: Sink, error: OSError) -> None:
        """A terminal that is gone, or a full disk, is no reason to lose the training too."""
        self._sinks.remove(sink)
        self._tell(f"{type(sink).__name__} cannot be written any more ({error}) and is left out from now on.")

    def _save(self, snapshot: Snapshot) -> Counters:
        """Takes a checkpoint, and keeps it as the best too where it is. Its counters are those of the last record, so
        that the curves on disk go exactly as far as it does."""
        folder = self._folder.checkpoints
        counters, tensors = Counters.of(snapshot), self.system.model.state()
        if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values()):
            raise Diverged(
                "The weights are no longer finite, so nothing was saved; lower --learning-rate or set --clip-norm, and "
                f"go on from the last good checkpoint with `ga3c resume {self._folder.path}`."
            )
        saved = Checkpoint(tensors, counters, snapshot.score, snapshot.best_score)
        checkpoint.save(checkpoint.path_for(folder, counters.steps), saved)
        checkpoint.prune(folder, self.config.run.keep)
        # Before a full window of episodes there is no best score: a lucky first episode is not the best.
        if not math.isnan(snapshot.best_score) and snapshot.score > self._best_saved:
            checkpoint.save(checkpoint.best_path(folder), saved)
            self._best_saved = snapshot.score
        return counters

    def _write_trace(self) -> None:
        if self.stats.trace is None:
            return
        path = self._folder.trace
        try:
            seconds = self.stats.trace.write(path, self.system.rings)
        except OSError as error:
            self._tell(f"{path} could not be written ({error}).")
        else:
            self._tell(f"What everybody did in the last {seconds:.1f} s is in {path}: open it in ui.perfetto.dev.")


def _refused(error: OSError) -> RunFailed:
    return RunFailed(f"The run stopped because the system refused something it needs: {error}.")
