"""The trainer alone: the rollouts of an update, their reuse, and when they are released."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from lanes import KINDS, make_lane
from specs import vector_spec
from torch import Tensor

from ga3c import nets
from ga3c.config import LearnConfig, NetConfig, NetName
from ga3c.engine.model import Model
from ga3c.engine.store import ExperienceStore, Rollouts
from ga3c.engine.trainer import MOST_UPDATES, Trainer, batches_per_launch
from ga3c.engine.training_queue import TrainingQueue
from ga3c.learn.schedules import Rates
from ga3c.metrics.stats import Gauges, Stats, Update

SPEC = vector_spec(3)
ROLLOUT, BATCH, WAITING = 2, 3, 10
"""Steps of a rollout, rollouts of a batch, and batches that the queue holds."""
SINGLY_OR_CHAINED = ["cpu", "replayed"]
WaitUntil = Callable[..., None]


def learn_config(**changes: Any) -> LearnConfig:
    settings: dict[str, Any] = {"rollout": ROLLOUT, "batch_rollouts": BATCH, "correction": "vtrace"}
    return LearnConfig(**(settings | changes))


class Workshop:
    """A trainer and a store, whose free blocks a test puts into the queue as predictors would. It records all calls."""

    def __init__(self, learn: LearnConfig, kind: str = "cpu", net: NetName = "mlp") -> None:
        lane = make_lane(kind, seed=500)
        torch.manual_seed(7)
        self.size = learn.batch_rollouts
        self.model = Model(nets.build(SPEC, NetConfig(net, init="orthogonal")), learn, lane.device)
        self.queue = TrainingQueue(WAITING * self.size, self.size)
        kept = learn.reuse_window if learn.reuse > 1 else 0
        self.blocks = (WAITING + MOST_UPDATES + 1) * self.size + kept
        size = self.model.network.state_size
        self.store = ExperienceStore(SPEC, 0, learn.rollout, self.blocks, 0.9, lane.device, size)
        self.stats = Stats(1, lambda steps, seconds: 0.0, lambda: Gauges(0, 0, 0, 0, 0, 0, 0))
        rates = Rates(learn, lambda: 0.0)
        rates.hold(learning_rate=1e-3, entropy_weight=0.01)
        self.trainer = Trainer(
            0, queue=self.queue, store=self.store, model=self.model, lane=lane, stats=self.stats, config=learn,
            rates=rates,
        )  # fmt: skip
        self.trainer.prepare()
        self.fed: list[list[int]] = []
        """Batches of new rollouts, in order."""
        self.launches: list[int] = []
        """How many batches the trainer took at a time."""
        self.updates: list[list[int]] = []
        """The rollouts of each update. A replayed graph on a GPU does not record them."""
        self.reports: list[Update] = []
        self.free = set(range(self.blocks))
        self._keep_books()

    def _keep_books(self) -> None:
        gather, release, take, trained = self.store.gather, self.store.release, self.queue.take, self.stats.trained

        def gathered(blocks: Tensor) -> Rollouts:
            self.updates.append(blocks.tolist())
            assert self.free.isdisjoint(self.updates[-1]), "a rollout was read after its release"
            return gather(blocks)

        def released(blocks: list[int]) -> None:
            assert len(set(blocks)) == len(blocks), "a rollout was released twice"
            assert self.free.isdisjoint(blocks), "a rollout was released twice"
            self.free.update(blocks)  # before another thread can take it
            release(blocks)

        def taken(most: int) -> list[int] | None:
            rollouts = take(most)
            self.launches.append(len(rollouts or ()) // self.size)
            return rollouts

        def reported(updates: Any) -> None:
            self.reports.extend(updates)
            trained(updates)

        self.store.gather = gathered  # type: ignore[method-assign]
        self.store.release = released  # type: ignore[method-assign]
        self.queue.take = taken  # type: ignore[assignment, method-assign]
        self.stats.trained = reported  # type: ignore[method-assign]

    def feed(self, batches: int = 1) -> list[int]:
        """Puts `batches` batches of free blocks into the queue and returns the blocks."""
        begin = len(self.fed)
        for _ in range(batches):
            blocks = self.store._take(self.size).tolist()
            self.free.difference_update(blocks)
            self.fed.append(blocks)
            assert self.queue.put(blocks)
        return list(itertools.chain(*self.fed[begin:]))

    def fill(self, seed: int = 3) -> None:
        """Fills every block with random experience."""
        store, generator = self.store, torch.Generator().manual_seed(seed)
        rows = len(store.learn)
        some = torch.rand((6, rows), generator=generator)
        store.frames.copy_(torch.randn(store.frames.shape, generator=generator))
        store.actions.copy_((4 * some[0]).long())
        store.log_probs.copy_(-3.0 * some[1])
        store.rewards.copy_(some[2])
        store.learn.copy_(some[3] < 0.8)
        store.discounts.copy_(0.9 * (some[4] < 0.8))
        if store.states is not None:
            store.ages.copy_(torch.rand(store.ages.shape, generator=generator) < 0.8)
            store.states.copy_(torch.rand(store.states.shape, generator=generator))

    def train(self, batches: int = 1) -> list[int]:
        """Trains on `batches` new batches in one launch, in this thread."""
        blocks = self.feed(batches)
        assert self.queue.take(batches) == blocks
        if self.model.device.type == "cuda":
            torch.cuda.synchronize()  # the test wrote to the store outside of any lane
        with self.trainer._lane.active():
            self.trainer.work(blocks, 0)
        return blocks


@pytest.fixture
def work(wait_until: WaitUntil) -> Callable[..., Workshop]:
    """Runs a trainer's thread over batches of new rollouts."""

    def run(learn: LearnConfig, kind: str, batches: int) -> Workshop:
        shop = Workshop(learn, kind)
        shop.fill()
        waiting = min(WAITING, batches)
        shop.feed(waiting)  # so that the first launch finds several
        shop.trainer.start()
        try:
            shop.feed(batches - waiting)
            wait_until(lambda: shop.stats.failure or shop.model.version >= learn.reuse * batches)
        finally:
            shop.queue.close()
            shop.trainer.join(20)
        assert not shop.trainer.is_alive()
        assert shop.stats.failure is None, shop.stats.failure
        return shop

    return run


# -- what is used again -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SINGLY_OR_CHAINED)
@pytest.mark.parametrize("reuse", [1, 2, 3])
def test_every_new_batch_is_trained_on_and_followed_by_what_is_drawn(
    work: Callable[..., Workshop], kind: str, reuse: int
) -> None:
    shop = work(learn_config(reuse=reuse, reuse_window=8), kind, batches=60)
    assert sum(shop.launches) == len(shop.fed) == 60
    assert set(shop.launches) - {0} == {1} if kind == "cpu" else max(shop.launches) == {1: 8, 2: 4, 3: 2}[reuse]
    assert shop.updates[::reuse] == shop.fed, "in the order in which they were put"
    assert shop.model.version == len(shop.updates) == len(shop.reports) == reuse * 60
    assert all(len(set(update)) == BATCH for update in shop.updates), "a rollout is in an update once"


@pytest.mark.parametrize("kind", SINGLY_OR_CHAINED)
@pytest.mark.parametrize(("reuse", "window"), [(2, BATCH), (2, 8), (4, 20)])
def test_what_is_drawn_was_kept(work: Callable[..., Workshop], kind: str, reuse: int, window: int) -> None:
    """The workshop checks that no rollout is read after its release or released twice."""
    shop = work(learn_config(reuse=reuse, reuse_window=window), kind, batches=60)
    kept = list(shop.trainer._kept)
    assert kept == list(itertools.chain(*shop.fed))[-window:], "the newest rollouts, oldest first"
    assert sorted([*shop.store._free, *kept]) == list(range(shop.blocks))
    assert shop.free == set(shop.store._free)


def drawn_from_beyond(shop: Workshop, reuse: int, window: int) -> list[tuple[int, int]]:
    """Rollouts that an update drew although `window` newer ones had come, with the number of the update."""
    beyond = []
    for number, update in enumerate(shop.updates):
        come = list(itertools.chain(*shop.fed[: number // reuse + 1]))
        beyond += [(number, rollout) for rollout in update if rollout not in come[-window:]]
    return beyond


@pytest.mark.parametrize("kind", SINGLY_OR_CHAINED)
@pytest.mark.parametrize(("reuse", "window"), [(2, BATCH), (3, 8)])
def test_what_is_drawn_is_of_the_last_window(work: Callable[..., Workshop], kind: str, reuse: int, window: int) -> None:
    shop = work(learn_config(reuse=reuse, reuse_window=window), kind, batches=60)
    assert drawn_from_beyond(shop, reuse, window) == []


def test_all_that_is_kept_is_drawn_about_as_often() -> None:
    reuse, window, batches = 5, 12, 300
    shop = Workshop(learn_config(reuse=reuse, reuse_window=window))
    shop.trainer._launch = lambda count: None  # type: ignore[method-assign]  # this test is about draws alone
    ages = [0] * (window + BATCH)
    for _ in range(batches):
        pool = [*shop.trainer._kept]
        pool += shop.train()
        for update in shop.trainer._rows[1:reuse, :-2].tolist():
            for rollout in update:
                ages[len(pool) - 1 - pool.index(rollout)] += 1
    mean = sum(ages[:window]) / window
    assert mean > 200
    assert 0.75 * mean < min(ages[:window]) <= max(ages) < 1.25 * mean
    assert ages[window:] == [0] * BATCH, "rollouts that have left the window are not drawn"


def test_with_nothing_to_draw_a_trainer_gives_everything_back_at_once() -> None:
    shop = Workshop(learn_config(reuse=1, reuse_window=64))
    for _ in range(5):
        blocks = shop.train()
        assert shop.updates[-1] == blocks
        assert shop.store.free == shop.blocks
        assert not shop.trainer._kept


def test_a_trainer_gives_back_the_oldest_when_more_than_the_window_is_kept() -> None:
    shop = Workshop(learn_config(reuse=2, reuse_window=4))
    first, second, third = (shop.train() for _ in range(3))
    assert list(shop.trainer._kept) == [second[2], *third]
    assert list(shop.store._free)[-5:] == [*first, *second[:2]]


AGAIN = {"reuse": 3, "ratio_clip": 0.2, "normalise_advantages": True}

# -- several batches in one launch ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("batches", "changes"),
    [(1, {}), (2, {}), (4, {}), (8, {}), (1, AGAIN), (2, AGAIN), (4, AGAIN | {"reuse": 2})],
)
@pytest.mark.parametrize("net", ["mlp", "mlp-lstm"])
def test_chained_updates_are_the_same_as_one_by_one(
    kind: str, changes: dict[str, Any], batches: int, net: NetName
) -> None:
    learn = learn_config(optimiser="adam", optimiser_epsilon=1e-3, reduction="mean", trace_decay=0.9, **changes)
    assert batches <= batches_per_launch(learn, 100, captures=True)
    singly, chained = Workshop(learn, net=net), Workshop(learn, kind, net)
    untouched = singly.model.weights.clone()
    for shop in (singly, chained):
        shop.fill()
    for _ in range(2):
        one_by_one = [rollout for _ in range(batches) for rollout in singly.train()]
        assert chained.train(batches) == one_by_one
    assert singly.model.version == chained.model.version == 2 * batches * learn.reuse
    moved = (singly.model.weights - untouched).abs().max()
    torch.testing.assert_close(chained.model.weights.cpu(), singly.model.weights, rtol=0.0, atol=1e-3 * float(moved))
    for one, other in zip(singly.reports, chained.reports, strict=True):
        assert other[:7] == pytest.approx(one[:7], rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_an_update_lags_by_those_chained_before_it(kind: str) -> None:
    shop = Workshop(learn_config(), kind)
    shop.model.load(shop.model.state(), version=10)
    shop.store.learned[:] = True
    shop.store.versions[:] = 8
    shop.train(4)
    assert [report.lag for report in shop.reports] == [2.0, 3.0, 4.0, 5.0]
    assert [report.lag_max for report in shop.reports] == [2.0, 3.0, 4.0, 5.0]
    shop.train(2)
    assert [report.lag for report in shop.reports[4:]] == [6.0, 7.0]
    assert shop.model.version == 16


def test_another_trainers_update_at_any_moment_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Workshop(learn_config())

    def version(model: Model) -> int:
        """As if another trainer counted an update each time that this one reads the version."""
        model.count_updates(1)
        return model._version

    monkeypatch.setattr(Model, "version", property(version))
    for _ in range(3):
        shop.train()
    assert len(shop.reports) == 3


def test_a_launch_is_bounded_by_its_updates_and_by_the_queue() -> None:
    config = learn_config(batch_rollouts=4)
    assert batches_per_launch(config, 100, captures=True) == MOST_UPDATES
    assert batches_per_launch(config, 13, captures=True) == 3
    assert batches_per_launch(config, 100, captures=False) == 1
    assert batches_per_launch(learn_config(reuse=3), 100, captures=True) == 2
    assert batches_per_launch(learn_config(reuse=64), 100, captures=True) == 1
