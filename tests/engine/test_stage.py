"""The loop that predictors and trainers share: take a batch, work, rest when surplus, end with the queue."""

import queue
from collections.abc import Callable, Iterator, Sequence

import pytest
import torch

from ga3c.engine.lane import Lane
from ga3c.engine.seats import Seats
from ga3c.engine.stage import Stage
from ga3c.engine.store import Closed
from ga3c.metrics.stats import Gauges, Stats
from ga3c.metrics.trace import Tracer

WaitUntil = Callable[..., None]
Batch = Sequence[int] | None


class Recorder(Stage[int]):
    """Records the batches it worked on; None in its queue closes it, and an exception is raised by `work`."""

    def __init__(self, seats: Seats | None = None, fails_with: Exception | None = None) -> None:
        stats = Stats(1, lambda steps, seconds: 0.0, lambda: Gauges(0, 0, 0, 0, 0, 0, 0))
        super().__init__("trainer", 3, Lane(torch.device("cpu"), seed=0), stats, seats)
        self.stats = stats
        self.queue: queue.Queue[Batch] = queue.Queue()
        self.worked: list[Sequence[int]] = []
        self.waits: list[int] = []
        self.rests = 0
        self._fails_with = fails_with

    def take(self) -> Batch:
        return self.queue.get()

    def work(self, batch: Sequence[int], waited: int) -> None:
        if self._fails_with is not None:
            raise self._fails_with
        self.worked.append(batch)
        self.waits.append(waited)

    def rest(self) -> None:
        self.rests += 1


@pytest.fixture
def started() -> Iterator[Callable[[Recorder], Recorder]]:
    stages: list[Recorder] = []

    def start(stage: Recorder) -> Recorder:
        stages.append(stage)
        stage.start()
        return stage

    yield start
    for stage in stages:
        stage._seats.close()
        stage.queue.put(None)
        stage.join(10)
        assert not stage.is_alive()


def test_batches_are_worked_on_in_order_until_the_queue_is_closed(started: Callable[[Recorder], Recorder]) -> None:
    stage = Recorder()
    stage.stats.trace = Tracer(60.0)
    for batch in ([1], [], [2, 3], None, [4]):
        stage.queue.put(batch)
    started(stage).join(10)
    assert stage.worked == [[1], [2, 3]], "an empty batch is no work"
    assert all(waited >= 0 for waited in stage.waits)
    assert (stage.name, stage.rests, stage.stats.failure) == ("trainer-3", 0, None)


def test_a_surplus_stage_finishes_its_batch_then_rests(
    started: Callable[[Recorder], Recorder], wait_until: WaitUntil
) -> None:
    seats = Seats(2)
    stage = started(Recorder(seats))
    assert seats.sit()
    stage.queue.put([1])
    wait_until(lambda: stage.worked == [[1]])
    assert seats.set(1) == 1
    stage.queue.put([2])
    wait_until(lambda: stage.rests == 1)
    assert stage.worked == [[1], [2]]
    stage.queue.put([3])
    seats.set(2)
    wait_until(lambda: stage.worked == [[1], [2], [3]])
    assert stage.stats.failure is None


@pytest.mark.parametrize(("error", "failure"), [(Closed(), None), (ValueError("broken"), "trainer-3 failed:")])
def test_an_error_ends_the_stage_and_is_reported(
    started: Callable[[Recorder], Recorder], error: Exception, failure: str | None
) -> None:
    stage = Recorder(fails_with=error)
    stage.queue.put([1])
    started(stage).join(10)
    assert not stage.is_alive()
    if failure is None:
        assert stage.stats.failure is None, "closing the store ends a run as planned"
    else:
        assert stage.stats.failure is not None
        assert failure in stage.stats.failure
