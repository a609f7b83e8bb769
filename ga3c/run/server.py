"""The server: starts a system, supervises it, records and saves its progress, and stops it."""

import contextlib
import math
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence

import torch

from ga3c.agents.processes import Failure
from ga3c.config import Config
from ga3c.errors import Diverged, RunFailed
from ga3c.metrics.sinks.base import Sink
from ga3c.metrics.stats import AVERAGED_EPISODES, Counters, Episode, Snapshot
from ga3c.metrics.text import count, number
from ga3c.run import checkpoint, commands
from ga3c.run.checkpoint import Checkpoint
from ga3c.run.commands import Command, CommandQueue, SetNumbers, SetRates, TakeCheckpoint
from ga3c.run.folder import RunFolder
from ga3c.run.reporter import Reporter
from ga3c.run.system import System
from ga3c.tune.tuner import Setting
from ga3c.tune.tuning import Tunable, Tuning

_TICK_SECONDS = 0.1
"""Between looks at processes, limits and commands."""
_RECORD_SECONDS = 1.0
"""Between records of metrics."""
_SILENCE_SECONDS = 30.0
"""Without a step of an agent process, after which a warning is given."""
_PATIENCE_SECONDS = 2.0
"""For agent processes to end by themselves."""


class Server:
    """One run of one system."""

    def __init__(
        self,
        config: Config,
        system: System,
        folder: RunFolder,
        tuning: Tuning | None = None,
        rules: str = "",
        notes: Sequence[str] = (),
    ) -> None:
        """`tuning` changes the numbers of the system while it runs. `rules` names the protocol of the scores. `notes`
        are told at the start."""
        self.config = config
        self.system = system
        self.stats = system.stats
        self.commands = CommandQueue()
        self.last: Snapshot | None = None
        """The latest record."""
        self.reason = ""
        """Why the run ended, once it has."""
        self.complete = False
        """Whether the run reached its limit."""
        self._rules = rules
        self._notes = notes
        self._tuning = tuning
        self._folder = folder
        self._reporter = Reporter()
        self._best_saved = checkpoint.best_score(folder.checkpoints)
        self._stopping = False
        self._failure: RunFailed | None = None
        self._failures = 0
        self._shown_traceback = False

    def resume(self, saved: Checkpoint, recent: Sequence[Episode]) -> None:
        """Continues from a checkpoint; `recent` are the last episodes before it. Call before `run`."""
        self.system.model.load(saved.tensors, saved.counters.updates)
        self.stats.resume(saved.counters, recent, saved.best_score)

    def run(self, sinks: Sequence[Sink]) -> None:
        """Trains until a limit is reached, `stop` is called, or the run fails (RunFailed)."""
        self._reporter = Reporter(sinks)
        with self._signals():  # to the end: a signal must not interrupt the last checkpoint
            try:
                self._train()
                self._conclude()
            except BaseException as error:
                self._tell_failure(error)
                raise
            finally:
                self._reporter.close()

    def _train(self) -> None:
        """From the start of the system until all its threads and processes have ended."""
        text = f"Training {self.config.env_id} in {self._folder.path}."
        about = {"env": self.config.env_id, "folder": str(self._folder.path), "pid": os.getpid()}
        self._reporter.tell("start", text, **about, resumed=self.stats.steps > 0)
        for note in self._notes:
            self._reporter.tell("note", note)
        try:
            self.system.start()
            self.stats.start_clock()
            self._save(self._record())  # the run can be resumed from its first moment
            self._supervise()
        except OSError as error:
            self._failure = _refused(error)
        except RunFailed as error:
            self._failure = error
        finally:
            self._shut_down()

    def _tell_failure(self, error: BaseException) -> None:
        self.reason = self.reason or str(error)
        self._reporter.tell("stop", reason=str(error), complete=False, failed=True)

    def stop(self, reason: str) -> None:
        """Asks the run to end; returns at once. It takes no lock, so a signal handler may call it at any moment."""
        self.reason = self.reason or reason
        self._stopping = True

    # -- supervision --------------------------------------------------------------------------------------------------

    def _supervise(self) -> None:
        now = time.monotonic()
        next_record, next_checkpoint = now + _RECORD_SECONDS, now + self.config.run.checkpoint_seconds
        while not self._stopping:
            time.sleep(_TICK_SECONDS)
            self._check_agents()
            for command in self.commands.take():
                self._execute(command)
            now = time.monotonic()
            if now >= next_record:
                next_record = now + _RECORD_SECONDS
                snapshot = self._record()
                self._tune(snapshot)
                if now >= next_checkpoint:
                    next_checkpoint = now + self.config.run.checkpoint_seconds
                    self._save(snapshot)
            if self.stats.failure:
                self._fail(RunFailed(self.stats.failure), "A thread failed.")
            elif self.stats.progress >= 1.0:
                self.complete = True
                self.stop("The run is complete.")

    def _check_agents(self) -> None:
        """Reports agent processes that died or are silent, and restarts the dead unless they died too often."""
        for failure in self.system.find_failed():
            self._report(failure)
        if self._failure is not None:
            return
        for _ in range(self.system.restart_failed()):
            self.stats.restarted()
        for worker in self.system.find_silent(_SILENCE_SECONDS):
            text = f"Agent process {worker} has not made a step for {_SILENCE_SECONDS:.0f} s; its environment may hang."
            self._reporter.tell("warning", text, worker=worker)

    def _report(self, failure: Failure) -> None:
        self._failures += 1
        how = f"signal {-failure.exit_code}" if failure.exit_code < 0 else f"exit code {failure.exit_code}"
        allowed = self.config.engine.restarts
        if self._failures > allowed:
            plural = "processes" if failure.kind == "process" else "threads"
            last_words = f"\n{failure.last_words}" if failure.last_words else ""
            text = (
                f"Agent {plural} failed {self._failures} times, more than --restarts {allowed} allows; "
                f"the last was {failure.kind} {failure.worker} ({how}, log in {failure.log}).{last_words}"
            )
            self._fail(RunFailed(text), "Agent processes failed too often.")
            return
        text = f"Agent {failure.kind} {failure.worker} ended with {how}; it is restarted (failure {self._failures})."
        self._reporter.tell("restart", text, worker=failure.worker, reason=how, output=failure.last_words)
        if failure.last_words and not self._shown_traceback:
            self._shown_traceback = True
            self._reporter.tell("note", failure.last_words)

    def _fail(self, failure: RunFailed, reason: str) -> None:
        self._failure = failure
        self.stop(reason)

    def _shut_down(self) -> None:
        """Ends every thread and process."""
        if self.stats.trace is not None:
            self.stats.trace.close()
        self.system.stop(_PATIENCE_SECONDS)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Ctrl-C, SIGTERM and a closed terminal end the run in order. Outside the main thread no signal is handled."""
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

    # -- changes while the run goes on --------------------------------------------------------------------------------

    def _tune(self, snapshot: Snapshot) -> None:
        if self._tuning is None:
            return
        accepted = self._tuning.accepted
        try:
            news = self._tuning.look(snapshot)
        except (OSError, RuntimeError, MemoryError) as error:
            reason = str(error).strip() or repr(error)
            self._end_tuning(f"Tuning ends, and the run goes on with {self._tuning.end()} ({reason}).")
            return
        if news is not None:
            self._reporter.tell("tuned", news, **self._tuning.accepted._asdict(), before=accepted._asdict())

    def _end_tuning(self, text: str) -> None:
        self._tuning = None
        self._reporter.tell("note", text)

    def _execute(self, command: Command) -> None:
        """Carries out a command. One that cannot be carried out is a warning, and changes nothing."""
        try:
            match command:
                case SetNumbers():
                    self._set_numbers(command)
                case SetRates():
                    self.system.rates.hold(command.learning_rate, command.entropy_weight)
                case TakeCheckpoint():
                    self._save(self._record())
        except (OSError, RuntimeError, MemoryError, ValueError) as error:
            self._reporter.tell("warning", f"{command} was not carried out: {error}.", **commands.details(command))
            return
        name = type(command).__name__
        self._reporter.tell("command", f"Done: {command}.", command=name, **commands.details(command))

    def _set_numbers(self, command: SetNumbers) -> None:
        system = self.system
        if not isinstance(system, Tunable):
            raise ValueError(f"the numbers of --system {self.config.engine.system} are fixed")
        changed = {**system.setting._asdict(), **commands.details(command)}
        if self._tuning is not None:
            self._end_tuning("Tuning ends: the numbers of agents, predictors and trainers were set.")
        system.set(Setting(**changed))

    # -- records and checkpoints --------------------------------------------------------------------------------------

    def _record(self) -> Snapshot:
        snapshot, episodes = self.stats.snapshot()
        self.last = snapshot
        self._reporter.write(snapshot, episodes)
        return snapshot

    def _save(self, snapshot: Snapshot) -> Counters:
        """Writes a checkpoint, and keeps it as the best where it is. Its counters are those of the last record, so that
        the curves on disk end exactly at the checkpoint."""
        folder = self._folder.checkpoints
        counters, tensors = Counters.of(snapshot), self.system.model.state()
        if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values()):
            raise Diverged(
                "The weights are no longer finite, so nothing was saved; lower --learning-rate or set --clip-norm, and "
                f"go on from the last good checkpoint with `ga3c resume {self._folder.path}`."
            )
        saved = Checkpoint(tensors, counters, snapshot.score, snapshot.best_score)
        path = checkpoint.path_for(folder, counters.steps)
        checkpoint.save(path, saved)
        checkpoint.prune(folder, self.config.run.keep)
        # Before a full window of episodes there is no best score: a lucky first episode is not the best.
        is_best = not math.isnan(snapshot.best_score) and snapshot.score > self._best_saved
        if is_best:
            checkpoint.save(checkpoint.best_path(folder), saved)
            self._best_saved = snapshot.score
        self._reporter.tell("checkpoint", path=str(path), steps=counters.steps, best=is_best)
        return counters

    def _conclude(self) -> None:
        """Writes the last checkpoint and the trace, and reports how the run ended. Of several failures the first is
        raised."""
        last = self._record()
        failure: Exception | None = self._failure
        try:
            counters = self._save(last)
        except Exception as error:
            failure = failure or (_refused(error) if isinstance(error, OSError) else error)
            failure.__cause__ = None if failure is error else error
        self._write_trace()
        if failure is not None:
            raise failure
        text = f"{self.reason} Checkpoint at {counters.steps:,} steps.{self._scored(last)}"
        self._reporter.tell("stop", text, reason=self.reason, complete=self.complete, failed=False)

    def _scored(self, snapshot: Snapshot) -> str:
        if math.isnan(snapshot.score):
            return ""
        last = min(AVERAGED_EPISODES, snapshot.episodes)
        return f" Training score {number(snapshot.score)} over the last {count(last, 'episode')}, {self._rules}."

    def _write_trace(self) -> None:
        if self.stats.trace is None:
            return
        path = self._folder.trace
        try:
            seconds = self.stats.trace.write(path, self.system.rings)
        except OSError as error:
            self._reporter.tell("warning", f"{path} could not be written ({error}).")
        else:
            text = f"The trace of the last {seconds:.1f} s is in {path}; open it in ui.perfetto.dev."
            self._reporter.tell("note", text)


def _refused(error: OSError) -> RunFailed:
    return RunFailed(f"The run stopped because the system refused something it needs: {error}.")
