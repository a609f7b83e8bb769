"""The server: starts a system, supervises it, records and saves its progress, and stops it."""

import functools
import math
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from ga3c.config import Config
from ga3c.errors import Diverged, RunFailed
from ga3c.metrics.events import Kind
from ga3c.metrics.sinks.base import Sink
from ga3c.metrics.snapshot import AVERAGED_EPISODES, Episode, Snapshot
from ga3c.metrics.text import count, number
from ga3c.run.checkpoint import Checkpoint
from ga3c.run.commands import (
    CommandQueue,
)
from ga3c.run.execution import Execution
from ga3c.run.folder import RunFolder
from ga3c.run.interrupts import Interrupts
from ga3c.run.pauses import Pauses
from ga3c.run.recorder import Recorder
from ga3c.run.reporter import Reporter
from ga3c.run.saver import Saver
from ga3c.run.steering import Steering
from ga3c.run.system import System
from ga3c.run.watch import AgentWatch
from ga3c.tune.tuning import Tunable, Tuning, begin_here

_TICK_SECONDS = 0.1
"""Seconds between looks at processes, limits and commands."""
_PATIENCE_SECONDS = 2.0
"""Seconds for agent processes to end by themselves."""
_STEERED_SECONDS = 2.0
"""Seconds after which a change by people is in a checkpoint: one checkpoint for many changes."""


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
        self.reason = ""
        """Why the run ended, once it has."""
        self.complete = False
        """Whether the run reached its limit."""
        self.resumed = False
        """Whether the run continues from a checkpoint."""
        self.notices: list[tuple[Kind, str]] = [("note", note) for note in notes]
        """Events that are told as soon as the run begins."""
        self._rules = rules
        self._folder = folder
        self._reporter = Reporter()
        begin = functools.partial(begin_here, system, config, folder.tuning) if isinstance(system, Tunable) else None
        self.steering = Steering(system, config.engine, tuning, begin, self._reporter.tell)
        self._interrupts = Interrupts(self.stop, system.hurry)
        self._pauses = Pauses(self._interrupts.take_continued)
        saver = Saver(folder, system.model, config, self.steering.steered)
        self._recorder = Recorder(system, saver, self._reporter, self._pauses, config.run.checkpoint_seconds)
        self._execution = Execution(
            self.steering, self._recorder, self._reporter, self._write_trace, self.stop, self._is_ending
        )
        self._begun = False
        """Whether there is something to conclude."""
        self._stopping = False
        self._failure: BaseException | None = None

    def resume(self, saved: Checkpoint, recent: Sequence[Episode]) -> None:
        """Continues from a checkpoint; `recent` are the last episodes before it. Call before `run`."""
        self.resumed = True
        self.system.model.load(saved.tensors, saved.counters.updates)
        self.stats.resume(saved.counters, recent, saved.best_score)
        if saved.steered is not None:
            self.steering.restore(saved.steered)
            self.notices.append(("note", saved.steered.describe()))

    def signals(self) -> AbstractContextManager[None]:
        """Within the block Ctrl-C, SIGTERM and the like end the run in order, also before it has begun."""
        return self._interrupts.handled()

    def run(self, sinks: Sequence[Sink]) -> None:
        """Trains until a limit is reached, `stop` is called, or the run fails (RunFailed).

        However a run ends that has begun, by a mistake in this program too, its threads and processes are ended and its
        last record and checkpoint are written."""
        self._reporter.add(sinks)
        with self.signals():  # to the end: a signal must not interrupt the last checkpoint
            try:
                for step in (self._train, self._shut_down, self._conclude):
                    self._attempt(step)
            finally:
                self._reporter.close()
        if self._failure is not None:
            raise self._failure

    def _attempt(self, step: Callable[[], None]) -> None:
        """Takes a step of the run. The first failure is kept, and the second becomes its `__cause__`."""
        try:
            step()
        except BaseException as error:
            if self._failure is None:
                self._failure = _told(error)
            elif self._failure.__cause__ is None:
                self._failure.__cause__ = error

    def _train(self) -> None:
        """From the first checkpoint to the decision to stop."""
        text = f"Training {self.config.env_id} in {self._folder.path}."
        about = {"env": self.config.env_id, "folder": str(self._folder.path), "pid": os.getpid()}
        self._reporter.tell("start", text, **about, resumed=self.resumed)
        for kind, notice in self.notices:
            self._reporter.tell(kind, notice)
        recorder = self._recorder
        recorder.start_clock()
        (recorder.save_or_retry if self.resumed else recorder.save_first)(recorder.record())
        self._begun = True
        self.system.start()
        recorder.start_clock()
        self._supervise()

    @property
    def last(self) -> Snapshot | None:
        """The latest record."""
        return self._recorder.last

    def stop(self, reason: str) -> None:
        """Asks the run to end; returns at once. It takes no lock, so a signal handler may call it at any moment."""
        self.reason = self.reason or reason
        self._stopping = True

    def _is_ending(self) -> bool:
        return self._stopping or self.stats.failure is not None

    # -- supervision --------------------------------------------------------------------------------------------------

    def _supervise(self) -> None:
        watch = AgentWatch(self.system, self.config.engine, self._reporter.tell)
        while not self._stopping:
            self._pauses.rest(_TICK_SECONDS)
            failed = None if self._stopping else watch.look()
            if failed is not None and not self._stopping:  # a signal to a whole job also ends agents, and is no failure
                diverged = isinstance(failed, Diverged)
                self._fail(failed, "The policy diverged." if diverged else "Agent processes failed too often.")
                break
            for order in self.commands.take():
                self._execution.carry_out(order)
            if self._interrupts.take_asked():
                text = "SIGUSR1 asks for a checkpoint, which is written now."
                self._reporter.tell("command", text, command="TakeCheckpoint")
                self._recorder.expect_checkpoint(0.0)
            self._recorder.keep(self.steering.look)
            self._recorder.discount_pause()
            if self.stats.failure:
                kind = Diverged if self.stats.diverged else RunFailed
                self._fail(kind(self.stats.failure), "A thread failed.")
            elif self.stats.progress >= 1.0 and not self.steering.paused:
                failed = watch.standstill()
                if failed is not None:
                    self._fail(failed, "The agents stood still.")
                else:
                    self.complete = True
                    self.stop("The run is complete.")

    def _fail(self, failure: RunFailed, reason: str) -> None:
        self._failure = failure
        self.stop(reason)

    # -- the end ------------------------------------------------------------------------------------------------------

    def _shut_down(self) -> None:
        """Ends every thread and process."""
        self.commands.close()
        if self._interrupts.by_keyboard:
            self._reporter.tell("note", "Stopping; press Ctrl-C again to stop at once.")
        if self.stats.trace is not None:
            self.stats.trace.close()
        self.steering.close()
        self.system.stop(_PATIENCE_SECONDS)
        if left := self.system.left:
            text = f"{', '.join(left)} did not end in time and will end after the work under way; nothing waits for it."
            self._reporter.tell("warning", text)

    def _conclude(self) -> None:
        """Writes the last record, the last checkpoint and the trace, and tells how the run ended."""
        if self._begun:
            self._attempt(lambda: self._recorder.save_last(lambda: self._interrupts.hurried))
            self._attempt(self._write_last_trace)
        if self._failure is not None:
            self.reason = self.reason or str(self._failure)
            self._reporter.tell("stop", reason=str(self._failure), complete=False, failed=True)
            return
        assert self.last is not None
        text = f"{self.reason} Checkpoint at {self.last.steps:,} steps.{self._scored(self.last)} {self._next_command()}"
        self._reporter.tell("stop", text, reason=self.reason, complete=self.complete, failed=False)

    def _next_command(self) -> str:
        path = self._folder.path
        other = f"`ga3c play {path}`" if self.complete else f"`ga3c resume {path}`"
        return f"Next: `ga3c eval {path}` or {other}."

    def _scored(self, snapshot: Snapshot) -> str:
        if math.isnan(snapshot.score):
            return ""
        last = min(AVERAGED_EPISODES, snapshot.episodes)
        return f" Training score {number(snapshot.score)} over the last {count(last, 'episode')}, {self._rules}."

    def _write_trace(self) -> float:
        """Writes the trace so far, and returns its seconds."""
        if self.stats.trace is None:
            raise ValueError("this run keeps no trace; start one with --profile SECONDS")
        return self.stats.trace.write(self._folder.trace, self.system.rings)

    def _write_last_trace(self) -> None:
        if self.stats.trace is None:
            return
        path = self._folder.trace
        try:
            seconds = self._write_trace()
        except OSError as error:
            self._reporter.tell("warning", f"{path} could not be written ({error}).")
        else:
            text = f"The trace of the last {seconds:.1f} s is in {path}; open it in ui.perfetto.dev."
            self._reporter.tell("note", text)


def _told(error: BaseException) -> BaseException:
    """The failure of a run in one sentence, where its cause lies outside this program."""
    if isinstance(error, OSError):
        return RunFailed(f"The run stopped because the system refused something it needs: {error}.")
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return RunFailed(
            f"This system does not let the run have another thread ({error}); use fewer --predictors, --trainers or "
            "--agents, or raise the limit of processes (ulimit -u)."
        )
    return error
