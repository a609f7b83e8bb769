"""The predictor: a thread that takes all waiting requests and answers them with one call of the network."""

import functools
from collections.abc import Callable, Sequence

import numpy as np
import torch

from ga3c import nets
from ga3c.agents.flags import EPISODE
from ga3c.agents.host import AgentHost
from ga3c.agents.prediction_queue import Request
from ga3c.engine.explorer import Explorer
from ga3c.engine.frames import SharedFrames
from ga3c.engine.lane import Lane
from ga3c.engine.model import Model
from ga3c.engine.preprocess import ScreenPreprocessor
from ga3c.engine.rows import Index, RowTable
from ga3c.engine.seats import Seats
from ga3c.engine.stage import Stage
from ga3c.engine.store import ExperienceStore
from ga3c.engine.timing import PredictionTimes
from ga3c.engine.training_queue import TrainingQueue
from ga3c.envs.actions import check_finite
from ga3c.metrics.stats import Ended, Stats


class Predictor(Stage[Request]):
    """Decides one step of each agent in a batch: stores and stacks its frame, runs the network, samples an action."""

    def __init__(
        self,
        number: int,
        *,
        pool: AgentHost,
        frames: SharedFrames,
        training_queue: TrainingQueue,
        store: ExperienceStore,
        model: Model,
        lane: Lane,
        stats: Stats,
        masks: SharedFrames | None = None,
        explorer: Explorer | None = None,
        seats: Seats | None = None,
    ) -> None:
        """`masks` are the agents' action masks, where the environment has them. Without an `explorer` every action is
        drawn from the policy. Without `seats` the predictor never rests."""
        super().__init__("predictor", number, lane, stats, seats)
        self._pool = pool
        self._slots = pool.slots
        self._frames = frames
        self._masks = masks
        self._prediction_queue = pool.queue
        self._training_queue = training_queue
        self._store = store
        self._model = model
        self._network = model.reader()
        self._explorer = explorer
        self._explores = False
        """Whether an agent of the batch under way explores."""
        self._random = np.random.default_rng(lane.generator.initial_seed())
        spec, max_agents = pool.spec, pool.max_agents
        self._preprocess = ScreenPreprocessor(spec, lane.device) if spec.raw_screens else None
        self._tables = store.tables(lane, max_agents)
        self._host_actions = store.host_actions(lane, max_agents)
        self._actions = self._host_actions.numpy()
        self._times = PredictionTimes(self._track, lane, stats, pool.slots)
        self._agents_of = [np.arange(group.start, group.stop) for group in pool.groups]
        self._graphs: dict[int, Callable[[], None]] = {}

    def prepare(self) -> None:
        self._graphs = self._capture()

    def run(self) -> None:
        with torch.inference_mode():
            super().run()

    def take(self) -> Sequence[Request] | None:
        return self._prediction_queue.take()

    def work(self, requests: Sequence[Request], waited: int) -> None:
        times = self._times
        times.begin(waited)
        agents = self._asking(requests)
        flags = self._slots.flags[agents]
        places = self._store.place(agents, flags, self._model.version)
        times.placed(places.waited)
        table = self._tables.fitting(len(agents))
        table.fill(places, rewards := self._slots.rewards[agents])
        if self._explorer is not None:
            way, action = self._explorer.choose(agents, rewards, places.age == 0, self._random)
            table.force(way, action)
            self._explores = bool(way.any())
        self._refresh_frames(requests)
        times.launch()
        self._launch(table)
        self._lane.finish()
        times.done()
        actions = self._actions[: len(agents)]
        check_finite(actions)
        self._slots.actions[agents] = actions
        ended = self._ended(agents[(flags & EPISODE) != 0])
        times.reply(requests, agents)
        # Before the groups are woken: a later mark could fall on their next request.
        self._prediction_queue.done(requests)
        self._pool.reply(requests)
        times.replied()
        self._training_queue.put(places.finished)
        times.end(len(agents), places.steps, ended)

    def _asking(self, requests: Sequence[Request]) -> Index:
        """The agents that made the requests: the first ones of each group, since the others pause."""
        asking = self._slots.asking
        return np.concatenate([self._agents_of[r.group.number][: asking[r.group.number]] for r in requests])

    def _refresh_frames(self, requests: Sequence[Request]) -> None:
        for request in requests:
            self._frames.refresh(request.group.start, request.group.stop)
            if self._masks is not None:
                self._masks.refresh(request.group.start, request.group.stop)

    def _launch(self, table: RowTable) -> None:
        if self._lane.captures:
            self._graphs[table.size]()
        else:
            self._step(table)

    def _step(self, table: RowTable) -> None:
        """The work of one prediction, from the frames in shared memory to the sampled actions, all on the device."""
        store, rows = self._store, table.send()
        frames = self._frames.select(rows.agent)
        masks = None if self._masks is None else self._masks.select(rows.agent)
        if self._preprocess is not None:
            frames = self._preprocess(frames)
        store.write_results(rows)
        store.write_frames(rows, frames)
        store.carry(rows, table.carried)
        observations = store.observe(rows)
        self._times.copied()
        state = store.recall(rows)
        parameters, state = self._network.act(observations, state)
        parameters = nets.masked(parameters, masks)
        store.remember(rows, state)
        actions, log_probs = self._network.head.sample(parameters, self._lane.generator)
        if self._explorer is not None and (self._explores or self._lane.captures):
            head = self._network.head
            actions, log_probs = self._explorer.apply(rows.way, rows.forced, head, parameters, actions)
        store.write_decisions(rows, actions, log_probs, masks)
        self._host_actions[: table.size].copy_(actions, non_blocking=True)

    def _capture(self) -> dict[int, Callable[[], None]]:
        """A graph for each size of table, where the lane captures graphs."""
        graphs = {}
        with torch.no_grad():
            for table in self._tables:
                table.clear()
                graphs[table.size] = self._lane.capture(functools.partial(self._step, table))
        return graphs

    def _ended(self, agents: Index) -> list[Ended]:
        slots = self._slots
        return [Ended(int(agent), float(slots.scores[agent]), int(slots.lengths[agent])) for agent in agents]
