"""The watch over agents: reports those that fail or hang, restarts them, and gives up where that does not help."""

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from ga3c.agents import stacks
from ga3c.agents.processes import Failure, Hang
from ga3c.agents.tasks import DIVERGED
from ga3c.config import EngineConfig
from ga3c.errors import Diverged, RunFailed
from ga3c.run.system import System

COUNTED_SECONDS = 600.0
"""Seconds in which failures count against `--restarts`: a failure an hour must not end a long run."""
_SILENCE_SECONDS = 30.0
"""Seconds without a step of an agent process after which a warning is given."""
_DELAYING_SECONDS = 60.0
"""Seconds in which failures of the same process delay its restart."""
_LONGEST_DELAY = 4.0
"""Seconds between a failure and the restart, at most: long enough to leave the machine to the others, and short enough
that a run with one process does not seem to hang."""
_LOG_SECONDS = 1.0
"""Seconds between looks at the size of logs."""
_LONGEST_LOOK = 1.0
"""The most seconds that one look adds to the time without a step: in a longer gap this process itself stood still."""
_BRIEF_SECONDS = 10.0
"""Seconds without a step at the end of a run that need no reason."""


def restart_delay(failures: int, started: bool) -> float:
    """Seconds to wait after a process has failed so many times within a minute: none at first, then twice as long each
    time. Where it failed before its first step, delays grow slowly: the environment is broken, and its user should see
    that soon."""
    if failures == 1:
        return 0.0
    return min(_LONGEST_DELAY, 0.5 * 2.0 ** min(failures - 2, 10) if started else 0.1 * (failures - 1))


class AgentWatch:
    """Supervises the agents of one run. The server calls `look` about ten times a second."""

    def __init__(self, system: System, engine: EngineConfig, tell: Callable[..., Any]) -> None:
        """`tell` reports an event, as `Reporter.tell` does."""
        self._system = system
        self._stats = system.stats
        self._allowed = engine.restarts
        self._timeout = engine.step_timeout
        self._tell = tell
        self._failures: deque[tuple[float, int]] = deque()
        """When which processes failed, within the window."""
        self._restart_at: dict[int, float] = {}
        self._shown_traceback = False
        self._chatty: set[int] = set()
        self._next_cut = 0.0
        self._looked = time.monotonic()
        self._steps, self._idle, self._watched = self._stats.steps, 0.0, 0.0

    def look(self) -> RunFailed | None:
        """Looks at all agents once. Returns why the run cannot go on, if it cannot."""
        self._pass_time()
        for failure in self._system.find_failed():
            failed = self._report(failure)
            if failed is not None:
                return failed
        now = time.monotonic()
        later = [worker for worker, at in self._restart_at.items() if at > now]
        for _ in range(self._system.restart_failed(later)):
            self._stats.restarted()
        self._look_for_silence()
        if now >= self._next_cut:
            self._next_cut = now + _LOG_SECONDS
            self._cut_logs()
        return None

    def standstill(self) -> RunFailed | None:
        """Why a run that reaches its limit is not complete: no agent has made a step for long."""
        limit = max(_BRIEF_SECONDS, min(self._timeout or _SILENCE_SECONDS, self._watched / 2))
        if self._stats.steps and self._idle < limit:
            return None
        when = f"and no agent made a step in the last {self._idle:.0f} s" if self._stats.steps else "before any step"
        return RunFailed(
            f"The time limit was reached {when}; the environments may hang, or start slowly: look at the logs of the "
            "agent processes, and resume with a higher --minutes."
        )

    def _pass_time(self) -> None:
        """Counts the time since the last step, look by look. A run that is paused owes none."""
        before, self._looked = self._looked, time.monotonic()
        elapsed = 0.0 if self._stats.is_paused else min(_LONGEST_LOOK, self._looked - before)
        steps = self._stats.steps
        self._idle = self._idle + elapsed if steps == self._steps else 0.0
        self._steps = steps
        self._watched += elapsed

    # -- failures -----------------------------------------------------------------------------------------------------

    def _report(self, failure: Failure) -> RunFailed | None:
        now = time.monotonic()
        self._failures.append((now, failure.worker))
        while self._failures[0][0] < now - COUNTED_SECONDS:
            self._failures.popleft()
        count = len(self._failures)
        if failure.exit_code == DIVERGED:
            return Diverged(failure.last_words.splitlines()[-1])
        if count > self._allowed:
            return self._give_up(failure, count)
        recent = [worker for at, worker in self._failures if at > now - _DELAYING_SECONDS]
        delay = restart_delay(recent.count(failure.worker), failure.started)
        self._restart_at[failure.worker] = now + delay
        soon = f"in {delay:.1f} s" if delay else "now"
        text = (
            f"Agent {failure.kind} {failure.worker} {self._cause(failure)}; it is restarted {soon} (failure {count})."
        )
        self._tell(
            "restart", text, worker=failure.worker, incarnation=failure.incarnation, reason=failure.reason,
            exit_code=failure.exit_code, output=failure.last_words, stack=failure.hang.stack if failure.hang else "",
            delay=delay,
        )  # fmt: skip
        if _last_words(failure) and not self._shown_traceback:
            self._shown_traceback = True
            self._tell("note", _last_words(failure))
        return None

    def _cause(self, failure: Failure) -> str:
        if failure.hang is None:
            return f"ended with {failure.reason}"
        limit = "" if failure.started else " while it started"
        return f"made no step for {failure.hang.seconds:.0f} s{limit} and was killed, {_place(failure.hang)}"

    def _give_up(self, failure: Failure, count: int) -> RunFailed:
        plural = "processes" if failure.kind == "process" else "threads"
        reason = f"hung {_place(failure.hang)}" if failure.hang else failure.reason
        return RunFailed(
            f"Agent {plural} failed {count} times, more than --restarts {self._allowed} allows within ten minutes; "
            f"the last was {failure.kind} {failure.worker} ({reason}, log in {failure.log}){_quoted(failure)}"
        )

    # -- silence ------------------------------------------------------------------------------------------------------

    def _look_for_silence(self) -> None:
        for worker in self._system.find_silent(_SILENCE_SECONDS):
            text = f"Agent process {worker} has not made a step for {_SILENCE_SECONDS:.0f} s; its environment may hang."
            self._tell("warning", text, worker=worker)
        if not self._timeout:
            return
        for hang in self._system.end_hung(self._timeout):
            text = (
                f"Agent thread {hang.worker} has not made a step for {hang.seconds:.0f} s, {_place(hang)}; a thread "
                "cannot be killed, so the run goes on without it."
            )
            self._tell("warning", text, worker=hang.worker, stack=hang.stack)

    def _cut_logs(self) -> None:
        for worker in self._system.cut_logs():
            if worker not in self._chatty:
                self._chatty.add(worker)
                text = f"Agent process {worker} prints so much that its log is cut; its beginning and its end are kept."
                self._tell("warning", text, worker=worker)


def _last_words(failure: Failure) -> str:
    """What its log ends with, or where it hung."""
    calls = stacks.innermost(failure.hang.stack) if failure.hang else []
    return "It hung here, innermost call first:\n  " + "\n  ".join(calls) if calls else failure.last_words


def _quoted(failure: Failure) -> str:
    """Its last words after a sentence: one line goes on with it."""
    words = _last_words(failure)
    if not words:
        return "."
    return f".\n{words}" if "\n" in words else f": {words}"


def _place(hang: Hang) -> str:
    """Where a child hangs, or why that is not known."""
    calls = stacks.innermost(hang.stack)
    if calls:
        return f"at {calls[0]}"
    return "stopped by a signal" if hang.stopped else "at an unknown place, since it did not give its Python stack"
