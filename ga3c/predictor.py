"""The predictor: a thread that takes all requests that wait and answers them with one call of the network."""

import threading
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ga3c.account import OF_PREDICTORS, quick
from ga3c.agents.pool import AgentPool
from ga3c.agents.slots import EPISODE
from ga3c.device import Lane, SharedFrames
from ga3c.model import Model
from ga3c.preprocess import ScreenPreprocessor
from ga3c.queues import Request, TrainingQueue
from ga3c.seats import Seats
from ga3c.stats import Ended, Stats
from ga3c.store import Closed, ExperienceStore, Placement
from ga3c.trace import Tracer, Track

# Rows of the table that goes to the device with each batch. The last three hold the bits of floats.
_AGENT, _FRAME, _AGE, _AGE_ROW, _STEP, _LAST_STEP, _CARRY_FROM, _CARRY_TO, _CARRY_AGE = range(9)
_REWARD, _DISCOUNT, _LEARN = range(9, 12)
_ROWS = 12


class _Table:
    """What the device is told of a batch of one size, on the host and there, without a view made anew each time."""

    def __init__(self, size: int, host: Tensor, device: Tensor) -> None:
        self.host = host[: _ROWS * size]
        self.device = device[: _ROWS * size]
        self.integers = self.host.view(_ROWS, size).numpy()
        self.floats = self.integers.view(np.float64)
        self.device_integers = self.device.view(_ROWS, size)
        self.device_result = self.device_integers[_REWARD:].view(torch.float64).T  # [N, 3]


class Predictor(threading.Thread):
    """One step of every agent in a batch: frames up, stored, stacked, through the network, sampled, actions back."""

    def __init__(
        self,
        number: int,
        pool: AgentPool,
        frames: SharedFrames,
        training_queue: TrainingQueue,
        store: ExperienceStore,
        model: Model,
        lane: Lane,
        stats: Stats,
        seats: Seats | None = None,
    ) -> None:
        """It works while it has one of the `seats`, where it shares them with others, and else always."""
        super().__init__(name=f"predictor-{number}")
        self._pool = pool
        self._slots = pool.slots
        self._frames = frames
        self._prediction_queue = pool.queue
        self._training_queue = training_queue
        self._store = store
        self._model = model
        self._lane = lane
        self._stats = stats
        self._seats = seats or Seats(1)
        self._track = Track("predictors", self.name)
        self._network = model.reader()
        spec, max_agents = pool.spec, pool.max_agents
        self._preprocess = ScreenPreprocessor(spec, lane.device) if spec.raw_screens else None
        self._host_actions = lane.host_buffer(max_agents, dtype=torch.int64)
        self._actions = self._host_actions.numpy()
        self._host_table = lane.host_buffer(_ROWS * max_agents, dtype=torch.int64)
        self._device_table = torch.zeros(_ROWS * max_agents, dtype=torch.int64, device=lane.device)
        self._tables: dict[int, _Table] = {}
        self._times = stats.account.histograms(OF_PREDICTORS) if stats.account is not None else None
        self._taken_ns, self._ready_ns = quick(pool.slots.taken_ns), quick(pool.slots.ready_ns)
        self._copied = 0
        """When the frames of the batch were where the network reads them, unless that is part of a captured graph."""
        self._agents_of = [np.arange(group.start, group.stop) for group in pool.groups]
        self._graphs = self._capture(max_agents)

    def run(self) -> None:
        with torch.inference_mode(), self._lane.active():
            try:
                while self._seats.sit() and self._answer_requests():
                    pass
            except Closed:
                pass  # the run ends while this thread waited for room
            except Exception as error:
                self._stats.fail(self.name, error)

    def _answer_requests(self) -> bool:
        """Until it has to leave its seat to others, or, then with False, the queue is closed."""
        before = time.monotonic_ns()
        while (requests := self._prediction_queue.take()) is not None:
            if requests:
                self._predict(requests, time.monotonic_ns() - before)
                before = time.monotonic_ns()
            if self._seats.leave():
                return True
        if self._stats.trace is not None:
            self._stats.trace.add(self._track, before, ("wait", time.monotonic_ns()))
        return False

    def _predict(self, requests: Sequence[Request], waited: int) -> None:
        begin = time.monotonic_ns()
        asking = self._slots.asking
        agents = np.concatenate([self._agents_of[r.group.number][: asking[r.group.number]] for r in requests])
        flags = self._slots.flags[agents]
        placement = self._store.place(agents, flags, self._model.version)
        placed = time.monotonic_ns()
        size = self._upload(requests, agents, placement)
        launch = time.monotonic_ns()
        if self._times is not None or self._stats.trace is not None:
            self._lane.begin()
        self._launch(size, len(placement.carry_to))
        self._lane.finish()
        done = time.monotonic_ns()
        self._slots.actions[agents] = self._actions[: len(agents)]
        ended = self._ended(agents[(flags & EPISODE) != 0])
        agents_waited = int((time.monotonic_ns() - self._slots.posted_ns[agents]).sum())
        taken, ready = begin + placement.waited, done
        if self._times is not None:
            ready = self._stamp(requests, taken, launch, done)
        # The groups are free to ask again before they are woken: a later mark could fall on their next request.
        self._prediction_queue.done(requests)
        self._pool.reply(requests)
        replied = time.monotonic_ns()
        self._training_queue.put(placement.finished)
        put = time.monotonic_ns() - replied
        self._stats.predicted(
            agents=len(agents), steps=placement.steps, ended=ended, agents_waited=agents_waited, waited=waited,
            blocked=placement.waited + put, preparing=launch - begin - placement.waited, predicting=done - launch,
            replying=replied - done,
        )  # fmt: skip
        if self._times is not None:
            batching, copying, on_device = self._times
            copied = launch if self._lane.captures else self._copied
            batching.add(placed - taken, len(agents))
            copying.add(copied - placed, len(agents))
            on_device.add(ready - copied, len(agents))
        if self._stats.trace is not None:
            # Room is looked for right at the beginning, so a wait for it is drawn there.
            self._trace(
                self._stats.trace, len(agents), begin - waited,
                ("wait", begin), ("blocked", begin + placement.waited), ("prepare", launch), ("predict", done),
                ("reply", replied), ("blocked", replied + put),
            )  # fmt: skip

    def _stamp(self, requests: Sequence[Request], taken: int, launch: int, done: int) -> int:
        """Leaves for the agents' processes what they need to count their part of the account of time, before they are
        woken, and returns when the actions were ready."""
        # The device's own clock tells when it was done; how long this thread took to wake up is part of returning.
        ready = min(done, launch + self._lane.timed()) if self._lane.captures else done
        for request in requests:
            number = request.group.number
            self._taken_ns[number], self._ready_ns[number] = taken, ready
        return ready

    def _trace(self, trace: Tracer, agents: int, begin: int, *parts: tuple[str, int]) -> None:
        trace.add(self._track, begin, *parts, agents=agents)
        if (span := self._lane.span()) is not None:
            trace.add(Track("gpu", self.name), span[0], ("predict", span[1]), agents=agents)

    def _upload(self, requests: Sequence[Request], agents: NDArray[np.int64], placement: Placement) -> int:
        """Fills the inputs for one batch and returns its size, padded to one that was captured."""
        count, carried = len(agents), len(placement.carry_to)
        size = self._padded(count)
        table = self._table(size)
        self._pad(table, count, carried)
        integers, floats = table.integers, table.floats
        integers[_AGENT, :count] = agents
        integers[_FRAME, :count] = placement.frame
        integers[_AGE, :count] = placement.age
        integers[_AGE_ROW, :count] = placement.age_row
        integers[_STEP, :count] = placement.step
        integers[_LAST_STEP, :count] = placement.last_step
        integers[_CARRY_FROM, :carried] = placement.carry_from
        integers[_CARRY_TO, :carried] = placement.carry_to
        integers[_CARRY_AGE, :carried] = placement.carry_age
        floats[_REWARD, :count] = self._slots.rewards[agents]
        floats[_DISCOUNT, :count] = placement.discount
        floats[_LEARN, :count] = placement.learn
        for request in requests:
            self._frames.refresh(request.group.start, request.group.stop)
        return size

    def _table(self, size: int) -> _Table:
        if size not in self._tables:
            self._tables[size] = _Table(size, self._host_table, self._device_table)
        return self._tables[size]

    def _pad(self, table: _Table, count: int, carried: int) -> None:
        """Points what a captured batch has too many of at the spare block."""
        store, integers = self._store, table.integers
        integers[:_CARRY_FROM, count:] = 0
        integers[_REWARD:, count:] = 0
        integers[_FRAME, count:] = store.spare_frame
        integers[_AGE_ROW, count:] = store.spare_age
        integers[_STEP, count:] = store.spare_step
        integers[_LAST_STEP, count:] = store.spare_step
        integers[_CARRY_FROM, carried:] = store.spare_frame
        integers[_CARRY_TO, carried:] = store.spare_frame
        integers[_CARRY_AGE, carried:] = 0

    def _step(self, size: int, carried: int) -> None:
        """The work of one prediction, from the frames in shared memory to the sampled actions, all on the device."""
        table = self._table(size)
        table.device.copy_(table.host, non_blocking=True)
        integers, result = table.device_integers, table.device_result.float()
        frames = self._frames.select(integers[_AGENT])
        if self._preprocess is not None:
            frames = self._preprocess(frames)
        store = self._store
        store.write_result(integers[_LAST_STEP], result)
        store.write_frames(frames, integers[_FRAME], integers[_AGE], integers[_AGE_ROW])
        if carried:
            rows = integers[:, :carried]
            store.carry(rows[_CARRY_FROM], rows[_CARRY_TO], rows[_CARRY_AGE])
        observations = store.observe(integers[_FRAME], integers[_AGE])
        self._copied = time.monotonic_ns()
        state = store.recall(integers[_STEP], integers[_AGE])
        parameters, _, state = self._network.step(observations, state)
        store.remember(integers[_STEP], state)
        actions, log_probs = self._network.head.sample(parameters, self._lane.generator)
        store.write_decision(integers[_STEP], actions, log_probs)
        self._host_actions[:size].copy_(actions, non_blocking=True)

    def _launch(self, size: int, carried: int) -> None:
        if self._lane.captures:
            self._graphs[size]()
        else:
            self._step(size, carried)

    def _capture(self, max_agents: int) -> dict[int, Callable[[], None]]:
        """One graph per size of batch that is a power of two, where the device wants graphs."""
        if not self._lane.captures:
            return {}
        sizes = [2**k for k in range(2, 20) if 2**k < max_agents] + [max_agents]
        graphs = {}
        with torch.no_grad():
            for size in sizes:
                self._pad(self._table(size), 0, 0)
                graphs[size] = self._lane.capture(lambda size=size: self._step(size, size))  # type: ignore[misc]
        return graphs

    def _padded(self, count: int) -> int:
        return min((size for size in self._graphs if size >= count), default=count)

    def _ended(self, agents: NDArray[np.int64]) -> list[Ended]:
        slots = self._slots
        return [Ended(int(agent), float(slots.scores[agent]), int(slots.lengths[agent])) for agent in agents]
