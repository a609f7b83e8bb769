"""The agent pool of a host: the same processes over the same slots, started when the server says so."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from ga3c.agents.pool import AgentChild, AgentPool
from ga3c.agents.processes import Failure, Hang
from ga3c.agents.remote.protocol import MOST_WORDS, Assignment, ProtocolError
from ga3c.agents.slots import SlotPlan
from ga3c.agents.supervision import Life
from ga3c.config import EnvConfig
from ga3c.envs.spec import EnvSpec
from ga3c.errors import UserError


class Vacant:
    """Stands for a process that was not started yet."""

    can_be_killed: ClassVar[bool] = False
    pid = None

    def exit_code(self) -> int | None:
        return 0

    def failure(self, worker: int) -> Failure:
        return Failure(worker, 0, Path(os.devnull), "")

    def end(self, deadline: float) -> None: ...
    def kill_session(self) -> None: ...
    def ask_for_stack(self) -> None: ...
    def has_answered(self) -> bool:
        return False

    def hang(self, worker: int, seconds: float) -> Hang:
        return Hang(worker, seconds, "")

    def cut_log(self) -> bool:
        return False

    def wake(self, group: int) -> None: ...
    def release(self) -> None: ...


class HostedPool(AgentPool):
    """Processes with the numbers that they have on this host. The server decides which life of each is played."""

    def __init__(self, spec: EnvSpec, assignment: Assignment, log_folder: Path) -> None:
        plan = assignment.plan
        _check_plan(SlotPlan.of(spec, agents=plan.agents, workers=plan.workers), plan)
        env: EnvConfig = assignment.env
        super().__init__(
            spec, env, agents=plan.agents, workers=plan.workers, max_agents=plan.agents, seed=assignment.seed,
            log_folder=log_folder, first_agent=assignment.first_agent,
        )  # fmt: skip

    def _first_life(self, number: int) -> Life[AgentChild]:
        return Life(Vacant(), -1, failed=True)

    def begin(self, number: int, incarnation: int) -> None:
        """Starts a life of a process, the one before which has ended."""
        with self._lock:
            if not self._lives[number].failed:
                raise ProtocolError(f"the server starts process {number}, which runs")
            self.queue.disown(self._of_worker[number], incarnation)
            self._lives[number] = Life(self._spawn(number, incarnation), incarnation)

    def let_play(self, playing: Sequence[int]) -> None:
        """Takes over how many agents of each group play. The server keeps back what paused groups ask."""
        for number, groups in enumerate(self._of_worker):
            mine = [playing[group.number] for group in groups]
            if any(mine) and not any(self.slots.playing[group.number] for group in groups):
                self.slots.resumed_ns[number] = time.monotonic_ns()
        self.slots.playing[: len(self.groups)] = playing

    def kill(self, number: int) -> None:
        """Kills a process, which `find_failed` then reports."""
        self._lives[number].child.kill_session()

    def ask(self, number: int) -> None:
        """Asks a process where it is."""
        self._lives[number].child.ask_for_stack()

    def stack(self, number: int) -> Hang | None:
        """Where it is, once it has answered."""
        child = self._lives[number].child
        if not child.has_answered():
            return None
        hang = child.hang(number, 0.0)
        return Hang(number, 0.0, hang.stack[-MOST_WORDS:], hang.stopped)


def _check_plan(mine: SlotPlan, wanted: SlotPlan) -> None:
    """An environment of another version may look otherwise here."""
    for name in ("frame_shape", "frame_dtype", "action_shape", "action_dtype", "mask_size"):
        here, there = getattr(mine, name), getattr(wanted, name)
        if here != there:
            what = name.replace("_", " ")
            raise UserError(
                f"The environment has the {what} {here} here and {there} on the server; install the same versions."
            )
