"""The experience store against a slow reference in plain Python, and its blocks under contention."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from specs import picture_spec, vector_spec
from torch import Tensor

from ga3c.agents.flags import FINAL, FIRST, TERMINAL
from ga3c.engine.lane import Lane
from ga3c.engine.rows import Places, RowTables
from ga3c.engine.store import Closed, ExperienceStore, stored_frame_shape
from ga3c.engine.training_queue import TrainingQueue
from ga3c.envs.spec import ActionSpec, EnvSpec
from ga3c.errors import UserError
from ga3c.machine import memory

CPU = torch.device("cpu")
DISCOUNT = 0.9
Threads = Callable[..., list[threading.Thread]]
WaitUntil = Callable[..., None]


def make_spec(stack: int, picture: bool) -> EnvSpec:
    return picture_spec(3, 2, 2, stack=stack) if picture else vector_spec(3, stack=stack)


def tensor(values: Any) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values))


def write(
    store: ExperienceStore,
    places: Places,
    frames: Tensor,
    rewards: Any,
    steps: Any,
    log_probs: Any,
    tables: RowTables | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Does what a predictor does with places. `steps` are the actions and, negated too, the states after them. Returns
    the observations and the states before."""
    table = (tables or store.tables(Lane(CPU, 0), len(places.agents))).fitting(len(places.agents))
    table.fill(places, rewards)
    rows = table.send()
    store.write_results(rows)
    store.write_frames(rows, frames)
    store.carry(rows, table.carried)
    observations = store.observe(rows)
    state = store.recall(rows)
    store.remember(rows, None if state is None else remembered(steps))
    store.write_decisions(rows, tensor(steps), tensor(log_probs))
    return observations, state


def remembered(steps: Any) -> Tensor:
    """The states after some steps: [N, 2]."""
    return tensor(np.stack((steps, -np.asarray(steps)), axis=-1).astype(np.float32))


def poison(store: ExperienceStore, blocks: list[int]) -> None:
    """Makes every byte of some blocks wrong, to reveal late reads and missing writes."""
    rows = store.stack + store.rollout
    for block in blocks:
        store.frames[block * rows : (block + 1) * rows] = 213
        store.ages[block * (store.rollout + 1) : (block + 1) * (store.rollout + 1)] = 10**6
        scalars = slice(block * store.rollout, (block + 1) * store.rollout)
        for values in (store.log_probs, store.rewards, store.discounts, store.learn):
            values[scalars] = float("nan")
        store.actions[scalars] = store.versions[block] = -1
        store.learned[block] = ~store.learned[block]
        if store.states is not None:
            store.states[block] = float("nan")


# -- against the reference --------------------------------------------------------------------------------------------


@dataclass
class Decision:
    """One prediction of one agent, and its result."""

    observation: Tensor
    step: int
    version: int
    log_prob: float
    begins: bool
    reward: float = 0.0
    discount: float = 0.0
    learn: float = 0.0


@dataclass
class ReferenceAgent:
    """All steps of an agent as lists, and random draws of what happens next."""

    stack: int
    offset: int
    """Rows of its first block before its first step."""
    decisions: list[Decision] = field(default_factory=list)
    episode: list[Tensor] = field(default_factory=list)
    rollouts_seen: int = 0
    results: int = 0
    last_flags: int = FINAL

    def next_flags(self, random: np.random.Generator) -> int:
        if self.last_flags & FINAL:
            self.last_flags = FIRST
        else:
            kinds = [0, FIRST | TERMINAL, FINAL, TERMINAL, FIRST, TERMINAL | FINAL]
            self.last_flags = int(random.choice(kinds, p=[0.6, 0.12, 0.12, 0.06, 0.05, 0.05]))
        return self.last_flags

    @property
    def row(self) -> int:
        return self.offset + len(self.decisions)

    def live(self, flags: int, frame: Tensor, reward: float, step: int, version: int, log_prob: float) -> None:
        real = not flags & FIRST or bool(flags & TERMINAL)
        if self.decisions and real:
            last = self.decisions[-1]
            last.reward, last.learn = reward, 1.0
            last.discount = 0.0 if flags & TERMINAL else DISCOUNT
            self.results += 1
        self.episode = [frame] if flags & FIRST else [*self.episode, frame]
        seen = self.episode[-self.stack :]
        seen = [seen[0]] * (self.stack - len(seen)) + seen
        self.decisions.append(Decision(torch.cat(seen), step, version, log_prob, bool(flags & FIRST)))


@pytest.mark.parametrize("rollout", [1, 2, 5])
@pytest.mark.parametrize(("stack", "picture"), [(1, False), (1, True), (4, True)])
def test_rollouts_are_those_of_a_slow_reference(stack: int, picture: bool, rollout: int) -> None:
    random, spec, agents = np.random.default_rng(100 * stack + rollout), make_spec(stack, picture), 6
    store = ExperienceStore(spec, agents, rollout, spare_blocks=9, discount=DISCOUNT, device=CPU, state_size=2)
    tables = store.tables(Lane(CPU, 0), agents)
    lives = [ReferenceAgent(stack, agent * rollout // agents) for agent in range(agents)]
    held: list[int] = []
    learned: list[int] = []
    steps = counted = 0
    for turn in range(400):
        batch = random.permutation(agents)[: random.integers(1, agents + 1) if turn else agents]
        ready = [a for a in batch if lives[a].decisions and lives[a].row % rollout == 0]
        flags = np.array([lives[a].next_flags(random) for a in batch], np.uint8)
        frames = torch.from_numpy(random.integers(0, 200, (len(batch), *spec.frame_shape)).astype(spec.frame_dtype))
        rewards = random.normal(size=len(batch)).astype(np.float32)
        log_probs = -random.random(len(batch)).astype(np.float32)
        numbers = np.arange(steps, steps + len(batch))
        version = 3 * steps
        steps += len(batch)

        places = store.place(batch, flags, version)
        before = [0 if f & FIRST else lives[a].decisions[-1].step for a, f in zip(batch, flags, strict=True)]
        observations, state = write(store, places, frames, rewards, numbers, log_probs, tables)
        assert state is not None
        assert torch.equal(state, remembered(before))
        for row, agent in enumerate(batch):
            lives[agent].live(int(flags[row]), frames[row], rewards[row], int(numbers[row]), version, log_probs[row])
            assert torch.equal(observations[row], lives[agent].decisions[-1].observation)
        counted += places.steps

        assert len(places.finished) == len(ready)
        for agent, block in zip(ready, places.finished, strict=True):
            learned += check_rollout(store, block, lives[agent], rollout)
        held += places.finished
        assert len(set(held)) == len(held)
        assert store.free + len(held) == 9
        while len(held) > random.integers(0, 9 - agents + 1):
            block = held.pop(random.integers(len(held)))
            poison(store, [block])
            store.release([block])

    assert counted == sum(life.results for life in lives)
    complete = [d for life in lives for d in life.decisions[: max(0, life.rollouts_seen * rollout - life.offset)]]
    assert sorted(learned) == sorted(d.step for d in complete if d.learn)
    assert len(learned) > 300


def check_rollout(store: ExperienceStore, block: int, life: ReferenceAgent, rollout: int) -> list[int]:
    """Compares the next rollout of an agent with the reference, and returns the steps learned from."""
    first = life.rollouts_seen * rollout - life.offset
    skipped = max(0, -first)  # rows before the agent's first step
    life.rollouts_seen += 1
    expected = life.decisions[first + skipped : first + rollout]
    got = store.gather(torch.tensor([block]))
    assert not got.learn[0, :skipped].any()
    assert torch.isfinite(got.log_probs).all()
    seen = torch.stack([d.observation for d in life.decisions[first + skipped : first + rollout + 1]])
    assert torch.equal(got.observations[0, skipped:], seen)
    assert got.state is not None
    assert got.begins is not None
    assert torch.equal(got.state, remembered([life.decisions[first - 1].step if first > 0 else 0]))
    begins = [d.begins for d in life.decisions[first + skipped : first + rollout + 1]]
    assert got.begins[0].tolist() == [True] * skipped + begins
    actions, learn, rewards = got.actions[0, skipped:], got.learn[0, skipped:], got.rewards[0, skipped:]
    assert actions.tolist() == [d.step for d in expected]
    assert store.versions[block, skipped:].tolist() == [d.version for d in expected]
    assert store.learned[block].tolist() == [False] * skipped + [d.learn > 0 for d in expected]
    assert torch.equal(got.log_probs[0, skipped:], torch.tensor([d.log_prob for d in expected]))
    assert torch.equal(learn, torch.tensor([d.learn for d in expected]))
    assert torch.equal(got.discounts[0, skipped:], torch.tensor([d.discount for d in expected]))
    real = learn > 0
    assert torch.equal(rewards[real], torch.tensor([d.reward for d in expected])[real])
    return [int(step) for step in actions[real]]


def test_an_agent_that_begins_late_finds_nothing_of_others_in_its_first_block() -> None:
    """Agents begin at different rows of their first block. The rows before must not hold steps of other agents when a
    process starts late."""
    store = ExperienceStore(make_spec(1, False), 2, 2, spare_blocks=2, discount=DISCOUNT, device=CPU)

    def step(agent: int, time: int) -> list[int]:
        places = store.place(np.array([agent]), np.array([0 if time else FIRST], np.uint8))
        one = np.ones(1, np.float32)
        write(store, places, torch.full((1, 3), float(agent)), one, np.array([agent]), -one)
        return places.finished

    for time in range(20):
        store.release(step(0, time))
    (block,) = [block for time in range(2) for block in step(1, time)]
    rollout = store.gather(torch.tensor([block]))
    assert rollout.learn.tolist() == [[0.0, 1.0]]
    assert rollout.observations[0, 1:].eq(1.0).all()


def test_a_store_without_states_takes_and_gives_none() -> None:
    store = ExperienceStore(make_spec(1, False), 3, 2, spare_blocks=6, discount=DISCOUNT, device=CPU)
    rows = store.tables(Lane(CPU, 0), 2).fitting(2).send()
    assert store.states is None
    assert store.recall(rows) is None
    store.remember(rows, None)
    assert store.gather(torch.zeros(2, dtype=torch.int64))[-2:] == (None, None)


def test_a_batch_of_rollouts_is_gathered_in_the_order_asked_for() -> None:
    store = ExperienceStore(make_spec(1, False), 3, 2, spare_blocks=6, discount=DISCOUNT, device=CPU)
    store._row[:] = 0
    agents, finished = np.arange(3), []
    for time in range(3):
        flags = np.full(3, FIRST if time == 0 else 0, np.uint8)
        places = store.place(agents, flags)
        frames = torch.tensor([[float(10 * agent + time)] * 3 for agent in agents])
        write(store, places, frames, np.zeros(3, np.float32), agents + 100 * time, np.zeros(3, np.float32))
        finished += places.finished
    got = store.gather(torch.tensor(finished[::-1]))
    assert got.observations.shape == (3, 3, 3)
    assert got.observations[:, :, 0].tolist() == [[20.0, 21.0, 22.0], [10.0, 11.0, 12.0], [0.0, 1.0, 2.0]]
    assert got.actions.tolist() == [[2, 102], [1, 101], [0, 100]]


def test_what_came_of_a_step_is_kept_together() -> None:
    """Rewards, discounts and learn are columns of the results, on the device; versions and learned are on the host."""
    store = ExperienceStore(make_spec(1, False), 3, 2, spare_blocks=6, discount=DISCOUNT, device=CPU)
    assert store.results.shape == (10 * 2, 3)
    rows = store.tables(Lane(CPU, 0), 2).fitting(2).send()
    results = torch.tensor([[1.5, 0.9, 1.0], [-2.0, 0.0, 0.0]], dtype=torch.float64)
    store.write_results(rows._replace(last_step=torch.tensor([7, 2]), result=results))
    for values, two, seven in ((store.rewards, -2.0, 1.5), (store.discounts, 0.0, 0.9), (store.learn, 0.0, 1.0)):
        assert values.untyped_storage().data_ptr() == store.results.untyped_storage().data_ptr()
        assert values.shape == (20,)
        assert (values[2].item(), values[7].item()) == (two, pytest.approx(seven))
        assert values.count_nonzero() == (two != 0.0) + 1
    store.rewards[4] = 8.0
    assert store.results[4].tolist() == [8.0, 0.0, 0.0]
    rollouts = store.gather(torch.tensor([3, 2]))
    assert rollouts.rewards.tolist() == [[0.0, 1.5], [8.0, 0.0]]
    for host, dtype in ((store.versions, np.int64), (store.learned, np.bool_)):
        assert isinstance(host, np.ndarray)
        assert (host.shape, host.dtype) == ((10, 2), dtype)


def test_raw_screens_are_kept_as_the_device_makes_them() -> None:
    spec = picture_spec(84, 84, screen=(210, 160))
    assert stored_frame_shape(spec) == (84, 84)
    assert ExperienceStore(spec, 1, 2, 1, 0.9, CPU).frames.shape[1:] == (84, 84)


def test_a_store_too_large_for_the_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: 1000)
    with pytest.raises(UserError, match=r"^The experience store needs .* use fewer --agents"):
        ExperienceStore(make_spec(4, True), 10, 5, 10, 0.9, CPU)


# -- blocks -----------------------------------------------------------------------------------------------------------


def fill(store: ExperienceStore, count: int) -> list[int]:
    """Steps the only agent `count` times and returns the finished blocks."""
    finished = []
    for _ in range(count):
        finished += store.place(np.array([0]), np.zeros(1, np.uint8)).finished
    return finished


def test_whoever_waits_for_room_wakes_when_a_block_is_released(in_threads: Threads, wait_until: WaitUntil) -> None:
    store = ExperienceStore(make_spec(1, False), 1, 1, spare_blocks=1, discount=0.9, device=CPU)
    (full,) = fill(store, 2)
    assert store.free == 0
    later: list[int] = []
    (thread,) = in_threads(1, lambda _: later.extend(fill(store, 1)))
    wait_until(lambda: store._condition._waiters)  # type: ignore[attr-defined]
    assert later == []
    store.release([full])
    thread.join(10)
    assert len(later) == 1
    assert later != [full]


def test_closing_ends_every_wait_for_room(in_threads: Threads, wait_until: WaitUntil) -> None:
    store = ExperienceStore(make_spec(1, False), 1, 1, spare_blocks=1, discount=0.9, device=CPU)
    fill(store, 2)
    ended: list[int] = []

    def wait(number: int) -> None:
        with pytest.raises(Closed):
            store._take(1)
        ended.append(number)

    in_threads(4, wait)
    wait_until(lambda: len(store._condition._waiters) == 4)  # type: ignore[attr-defined]
    store.close()
    wait_until(lambda: len(ended) == 4)
    store.release([0])
    with pytest.raises(Closed):
        store._take(1)


@pytest.mark.parametrize(("rollout", "batch"), [(1, 2), (3, 1), (5, 4)])
def test_no_block_is_written_while_a_trainer_reads_it(
    in_threads: Threads, wait_until: WaitUntil, rollout: int, batch: int
) -> None:
    """Two writers, three readers. A frame encodes its agent and its time. Released blocks are poisoned first, so a
    block that two threads hold, or that is written too early, gives a rollout of no agent."""
    agents, each, readers = 12, 240, 3
    queue = TrainingQueue(2 * batch, batch)
    spare = queue.capacity + (readers + 1) * batch + agents // 2
    store = ExperienceStore(make_spec(4, True), agents, rollout, spare, DISCOUNT, CPU)
    begun = threading.Barrier(2)
    seen: list[list[tuple[int, int]]] = [[] for _ in range(readers)]

    def picture(agent: Any, time: Any) -> Any:
        checksum = (31 * agent + 7 * time) % 200
        return np.stack([agent, time % 200, checksum], -1).astype(np.uint8)  # [..., 3]

    def predict(number: int) -> None:
        mine = np.arange(number, agents, 2)
        tables = store.tables(Lane(CPU, 0), len(mine))
        for time in range(each):
            places = store.place(mine, np.full(len(mine), FIRST if time == 0 else 0, np.uint8), version=3 * time)
            frames = tensor(
                np.broadcast_to(picture(mine, np.full_like(mine, time))[..., None, None], (len(mine), 3, 2, 2))
            )
            rewards = np.full(len(mine), time, np.float32)
            write(store, places, frames, rewards, np.full(len(mine), time), rewards, tables)
            if time == 0:
                begun.wait(10)
            assert queue.put(places.finished)

    def train(number: int) -> None:
        for blocks in iter(queue.take, None):
            first, first_host = store.gather(torch.tensor(blocks)), (store.versions[blocks], store.learned[blocks])
            again, again_host = store.gather(torch.tensor(blocks)), (store.versions[blocks], store.learned[blocks])
            for one, other in zip((*first, *map(tensor, first_host)), (*again, *map(tensor, again_host)), strict=True):
                assert (one is other is None) or torch.equal(one, other), "a block changed while it was read"
            for row in range(batch):
                seen[number].append(identify(first, *first_host, row))
            poison(store, blocks)
            store.release(blocks)

    def identify(rollouts: Any, versions: Any, learned: Any, row: int) -> tuple[int, int]:
        """The agent and the time of a rollout's first row, after a check of all its numbers against both. An agent's
        first rollout may begin before time 0, with empty rows."""
        agent, begin = int(rollouts.observations[row, -1, 9, 0, 0]), int(rollouts.actions[row, -1]) + 1 - rollout
        times = np.arange(begin, begin + rollout + 1)
        lived = times[:-1] >= 0
        stacked = np.maximum(times[:, None] + np.arange(-3, 1), 0)  # [T + 1, S]
        expected = picture(np.full_like(stacked, agent), stacked).reshape(rollout + 1, 12)
        got = rollouts.observations[row].numpy()[times >= 0]
        assert (got == expected[times >= 0, :, None, None]).all()
        assert rollouts.learn[row].tolist() == lived.astype(float).tolist()
        assert learned[row].tolist() == lived.tolist()
        assert versions[row][lived].tolist() == (3 * times[:-1][lived]).tolist()
        assert rollouts.actions[row].numpy()[lived].tolist() == times[:-1][lived].tolist()
        assert rollouts.rewards[row].numpy()[lived].tolist() == (times[:-1][lived] + 1.0).tolist()
        return agent, begin

    in_threads(readers, train)
    for thread in in_threads(2, predict):
        thread.join(20)
    offsets = np.arange(agents) * rollout // agents
    whole = int(((offsets + each - 1) // rollout).sum()) // batch * batch
    wait_until(lambda: sum(map(len, seen)) >= whole)
    queue.close()
    store.close()
    found = [rollout for some in seen for rollout in some]
    assert len(set(found)) == len(found) == whole
    assert all((begin + offsets[agent]) % rollout == 0 for agent, begin in found)


def test_actions_are_rows_of_the_environments_shape() -> None:
    action = ActionSpec.box(-np.ones(2), np.ones(2))
    store = ExperienceStore(vector_spec(3, action=action), 2, 3, 1, DISCOUNT, CPU)
    table = store.tables(Lane(CPU, 0), 2).fitting(2)
    table.fill(store.place(np.arange(2), np.full(2, FIRST, np.uint8)), np.zeros(2, np.float32))
    sent, chosen = table.send(), torch.tensor([[0.5, 1.5], [2.5, 3.5]])
    store.write_decisions(sent, chosen, torch.zeros(2))
    actions = store.gather(torch.tensor([0, 1])).actions
    assert actions.shape == (2, 3, 2)
    assert actions[[0, 1], sent.step % 3].tolist() == chosen.tolist()
