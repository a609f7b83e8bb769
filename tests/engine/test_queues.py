"""The two queues by conservation: many producers, many consumers, nothing lost, nothing twice, `close()` ends all."""

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ga3c.agents.prediction_queue import PredictionQueue, Request
from ga3c.agents.slots import Group, arrange
from ga3c.agents.worker import REQUEST
from ga3c.engine.training_queue import TrainingQueue

Threads = Callable[..., list[threading.Thread]]
WaitUntil = Callable[..., None]


@pytest.fixture
def make_queue() -> Iterator[Callable[..., PredictionQueue]]:
    queues: list[PredictionQueue] = []

    def make(groups: list[Group], max_agents: int, asking: list[int] | None = None) -> PredictionQueue:
        queues.append(PredictionQueue(groups, max_agents, asking))
        return queues[-1]

    yield make
    for queue in queues:
        queue.close()
        queue.release()


def ask(queue: PredictionQueue, group: Group, incarnation: int = 0) -> None:
    os.write(queue.write_fd, REQUEST.pack(group.number, incarnation))


# -- the prediction queue ---------------------------------------------------------------------------------------------


def test_as_many_groups_are_taken_as_fit_whichever_they_are(make_queue: Any) -> None:
    groups = arrange(agents=5, workers=2)
    assert [group.size for group in groups] == [2, 1, 1, 1]
    queue = make_queue(groups, max_agents=4)
    for group in groups:
        ask(queue, group)
    assert [len(queue.take()) for _ in range(2)] == [3, 1]


@pytest.mark.parametrize("max_agents", [3, 24])
def test_requests_of_threads_are_conserved(make_queue: Any, in_threads: Threads, max_agents: int) -> None:
    groups, rounds = arrange(agents=24, workers=6), 200
    queue = make_queue(groups, max_agents)
    answered = [threading.Semaphore(0) for _ in groups]
    seen: list[list[int]] = [[] for _ in range(4)]

    def agent(number: int) -> None:
        for _ in range(rounds):
            ask(queue, groups[number])
            assert answered[number].acquire(timeout=60)

    def predictor(number: int) -> None:
        for requests in iter(queue.take, None):
            held = [request.group for request in requests]
            assert held
            assert queue.is_taken(held)
            assert sum(group.size for group in held) <= max_agents
            seen[number].extend(group.number for group in held)
            queue.done(requests)
            for group in held:
                answered[group.number].release()

    predictors = in_threads(4, predictor)
    for thread in in_threads(len(groups), agent):
        thread.join(30)
    queue.close()
    for thread in predictors:
        thread.join(10)
    assert Counter(n for some in seen for n in some) == {group.number: rounds for group in groups}
    assert not queue.is_taken(groups)


AGENT_PROCESS = """
import os, struct, sys
first, second, rounds, request_fd, reply_fd = map(int, sys.argv[1:])
for number in (first, second):
    os.write(request_fd, struct.pack("<II", number, 0))
left = {first: rounds - 1, second: rounds - 1}
while True:
    replies = os.read(reply_fd, 2)
    if not replies:
        break
    for number in replies:
        if left[number]:
            left[number] -= 1
            os.write(request_fd, struct.pack("<II", number, 0))
"""


def test_requests_of_processes_are_conserved(make_queue: Any, in_threads: Threads, wait_until: WaitUntil) -> None:
    groups, rounds = arrange(agents=6, workers=3), 300
    queue = make_queue(groups, 6)
    replies, processes = {}, []
    for worker in range(3):
        child_fd, reply_fd = os.pipe()
        first, second = (group.number for group in groups if group.worker == worker)
        replies[first] = replies[second] = reply_fd
        numbers = map(str, (first, second, rounds, queue.write_fd, child_fd))
        command = [sys.executable, "-S", "-c", AGENT_PROCESS, *numbers]
        processes.append(subprocess.Popen(command, pass_fds=(queue.write_fd, child_fd)))
        os.close(child_fd)
    seen: list[list[int]] = [[] for _ in range(3)]

    def predictor(number: int) -> None:
        for requests in iter(queue.take, None):
            seen[number].extend(request.group.number for request in requests)
            queue.done(requests)
            for request in requests:
                os.write(replies[request.group.number], bytes((request.group.number,)))

    in_threads(3, predictor)
    try:
        wait_until(lambda: sum(map(len, seen)) >= rounds * len(groups))
    finally:
        queue.close()
        for fd in set(replies.values()):
            os.close(fd)
        codes = [process.wait(10) for process in processes]
    assert codes == [0, 0, 0]
    assert Counter(n for some in seen for n in some) == {group.number: rounds for group in groups}


def test_one_read_takes_all_that_waits_up_to_the_limit(make_queue: Any) -> None:
    groups = arrange(agents=10, workers=5)
    queue = make_queue(groups, max_agents=4)
    for group in groups:
        ask(queue, group)
    assert queue.waiting() == 10
    batches = [queue.take() for _ in range(3)]
    assert [[request.group.number for request in batch] for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert queue.waiting() == 0


def test_a_batch_counts_groups_as_the_largest(make_queue: Any) -> None:
    groups = arrange(agents=5, workers=1)  # groups of 3 and 2
    queue = make_queue(groups, max_agents=4)
    for group in groups:
        ask(queue, group)
    assert [len(queue.take()), len(queue.take())] == [1, 1]


def test_what_a_dead_process_asked_is_dropped(make_queue: Any) -> None:
    groups = arrange(agents=4, workers=2)
    queue = make_queue(groups, max_agents=4)
    dead, alive = groups[:2], groups[2:]
    for group in groups:
        ask(queue, group)
    queue.disown(dead, 1)
    assert queue.take() == [Request(group, 0) for group in alive]
    assert not queue.is_taken(dead)
    assert queue.is_taken(alive)
    assert queue.is_taken(groups)
    ask(queue, dead[0], 0)
    assert queue.take() == []
    ask(queue, dead[0], 1)
    assert queue.take() == [Request(dead[0], 1)]


def test_what_a_paused_group_asks_is_kept_until_it_goes_on(make_queue: Any) -> None:
    groups = arrange(agents=4, workers=2)
    queue = make_queue(groups, max_agents=4)
    queue.play([0, 0, 1, 1])
    for group in groups:
        ask(queue, group)
    assert queue.take() == [Request(group, 0) for group in groups[2:]]
    assert [queue.is_kept_back(group) for group in groups] == [True, True, False, False]
    assert not queue.is_taken(groups[:2])
    assert queue.waiting() == 0
    queue.play([1, 0, 1, 0])  # one group continues, another pauses
    assert queue.take() == [Request(groups[0], 0)]
    queue.done([Request(group, 0) for group in groups])
    ask(queue, groups[3])
    assert queue.take() == []
    queue.play([1, 1, 1, 1])
    assert queue.take() == [Request(groups[1], 0), Request(groups[3], 0)]


def test_what_a_paused_process_asked_before_it_died_is_dropped(make_queue: Any) -> None:
    groups = arrange(agents=2, workers=2)
    queue = make_queue(groups, max_agents=2)
    queue.play([0, 1])
    ask(queue, groups[0])
    assert queue.take() == []
    queue.disown(groups[:1], 1)
    assert not queue.is_kept_back(groups[0])
    ask(queue, groups[0], incarnation=1)
    assert queue.take() == []
    queue.play([1, 1])
    assert queue.take() == [Request(groups[0], 1)]


def test_where_fewer_of_each_group_play_more_groups_are_taken(make_queue: Any) -> None:
    groups, asking = arrange(agents=8, workers=2), [2, 2, 2, 2]
    queue = make_queue(groups, max_agents=4, asking=asking)
    for group in groups:
        ask(queue, group)
    assert len(queue.take()) == 2
    queue.play([1, 1, 1, 1])
    asking[:2] = 1, 1
    for group in groups[:2]:
        ask(queue, group)
    # The third and the fourth group still ask for two agents each, so that not all four requests fit.
    assert [[request.group.number for request in queue.take()] for _ in range(2)] == [[2, 3], [0, 1]]
    asking[:] = 1, 1, 2, 2
    for group in groups:
        ask(queue, group)
    assert [[request.group.number for request in queue.take()] for _ in range(2)] == [[0, 1, 2], [3]]


def test_nudges_wake_as_many_readers_and_lose_nothing(make_queue: Any, in_threads: Any, wait_until: Any) -> None:
    groups = arrange(agents=4, workers=2)
    queue = make_queue(groups, max_agents=4)
    taken: list[Any] = []
    threads = in_threads(3, lambda _: taken.append(queue.take()))
    queue.nudge(2)
    wait_until(lambda: len(taken) == 2)
    assert taken == [[], []]
    ask(queue, groups[0])
    wait_until(lambda: not any(thread.is_alive() for thread in threads))
    assert taken[2] == [Request(groups[0], 0)]
    queue.nudge(2)
    ask(queue, groups[1])
    assert queue.take() == [Request(groups[1], 0)], "the second nudge is for another reader"
    assert queue.take() == []


def test_a_nudge_ends_waits_for_rollouts(in_threads: Any, wait_until: Any) -> None:
    queue = TrainingQueue(capacity=4, batch=2)
    taken: list[Any] = []
    threads = in_threads(2, lambda _: taken.append(queue.take()))
    queue.put([1])

    def both_ended() -> bool:
        queue.nudge()
        return not any(thread.is_alive() for thread in threads)

    wait_until(both_ended)
    assert taken == [[], []]
    queue.put([2])
    assert queue.take() == [1, 2]


def test_a_request_is_taken_until_it_is_done(make_queue: Any) -> None:
    groups = arrange(agents=4, workers=1)
    queue = make_queue(groups, max_agents=4)
    assert not queue.is_taken(groups)
    ask(queue, groups[1])
    assert not queue.is_taken(groups)  # it waits, but no predictor holds it
    requests = queue.take()
    assert queue.is_taken(groups)
    assert not queue.is_taken(groups[:1])
    queue.done(requests)
    assert not queue.is_taken(groups)


def test_closing_the_prediction_queue_ends_every_reader(make_queue: Any, in_threads: Threads) -> None:
    groups = arrange(agents=2, workers=1)
    queue = make_queue(groups, max_agents=2)
    reading, ended = threading.Barrier(9), []

    def reader(number: int) -> None:
        reading.wait(10)
        ended.append(queue.take())

    threads = in_threads(8, reader)
    reading.wait(10)
    queue.close()
    queue.close()
    for thread in threads:
        thread.join(10)
    assert ended == [None] * 8
    ask(queue, groups[0])
    assert queue.take() is None


def test_release_gives_the_pipe_back() -> None:
    before = len(os.listdir("/proc/self/fd"))
    queue = PredictionQueue(arrange(2, 1), 2)
    assert len(os.listdir("/proc/self/fd")) == before + 2
    assert not os.get_inheritable(queue.write_fd)
    queue.close()
    queue.release()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_limit_below_the_largest_group_is_refused() -> None:
    with pytest.raises(ValueError, match=r"max_agents is 2, but one group alone has 3 agents"):
        PredictionQueue(arrange(agents=5, workers=1), 2)


# -- the training queue -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("capacity", "batch"), [(1, 1), (4, 4), (16, 3)])
def test_rollouts_are_conserved(in_threads: Threads, wait_until: WaitUntil, capacity: int, batch: int) -> None:
    queue = TrainingQueue(capacity, batch)
    producers, each = 6, 240
    taken: list[list[list[int]]] = [[] for _ in range(3)]

    def produce(number: int) -> None:
        rollouts = range(number * each, (number + 1) * each)
        for start in range(0, each, 8):
            assert queue.put(rollouts[start : start + 8])

    def consume(number: int) -> None:
        for some in iter(queue.take, None):
            assert len(some) == batch
            assert len(queue) <= capacity
            taken[number].append(some)

    consumers = in_threads(3, consume)
    in_threads(producers, produce)
    wait_until(lambda: sum(map(len, taken)) * batch == producers * each)
    queue.close()
    for thread in consumers:
        thread.join(10)
    assert sorted(rollout for batches in taken for some in batches for rollout in some) == list(range(producers * each))


def test_the_oldest_rollouts_come_first() -> None:
    queue = TrainingQueue(8, 3)
    queue.put([5, 1, 9, 2])
    queue.put([7, 3])
    assert [queue.take(), queue.take()] == [[5, 1, 9], [2, 7, 3]]


@pytest.mark.parametrize("most", [1, 2, 3, 4, 7, 8])
@pytest.mark.parametrize("batch", [1, 3])
def test_a_trainer_takes_as_many_batches_as_wait_by_powers_of_two(batch: int, most: int) -> None:
    for waiting in range(batch, 11 * batch):
        queue = TrainingQueue(11 * batch, batch)
        assert queue.put(range(waiting))
        batches = max(count for count in (1, 2, 4, 8) if count <= most and count * batch <= waiting)
        assert queue.take(most) == list(range(batches * batch)), "the oldest rollouts, in order"
        assert len(queue) == waiting - batches * batch


def test_what_waits_is_taken_to_the_last_full_batch() -> None:
    queue = TrainingQueue(16, 2)
    queue.put(range(15))
    taken = [queue.take(4) for _ in range(3)]
    assert taken == [[*range(8)], [*range(8, 12)], [12, 13]]
    assert len(queue) == 1


def test_whoever_would_take_several_batches_waits_for_one(in_threads: Threads, wait_until: WaitUntil) -> None:
    queue = TrainingQueue(12, 3)
    taken: list[list[int] | None] = []
    (thread,) = in_threads(1, lambda _: taken.append(queue.take(4)))
    assert queue.put([5, 6])
    wait_until(lambda: queue._condition._waiters)  # type: ignore[attr-defined]
    assert taken == []
    assert queue.put([7])
    thread.join(10)
    assert taken == [[5, 6, 7]]


@pytest.mark.parametrize(("capacity", "batch"), [(4, 1), (16, 3)])
def test_rollouts_are_conserved_by_consumers_that_take_several_batches(
    in_threads: Threads, wait_until: WaitUntil, capacity: int, batch: int
) -> None:
    queue = TrainingQueue(capacity, batch)
    most, producers, each = (1, 2, 4, 3), 6, 240
    taken: list[list[list[int]]] = [[] for _ in most]

    def produce(number: int) -> None:
        rollouts = range(number * each, (number + 1) * each)
        for start in range(0, each, 8):
            assert queue.put(rollouts[start : start + 8])

    def consume(number: int) -> None:
        while (some := queue.take(most[number])) is not None:
            assert len(some) in {count * batch for count in (1, 2, 4) if count <= most[number]}
            taken[number].append(some)

    consumers = in_threads(len(most), consume)
    in_threads(producers, produce)
    wait_until(lambda: sum(len(some) for batches in taken.copy() for some in batches.copy()) == producers * each)
    queue.close()
    for thread in consumers:
        thread.join(10)
    assert sorted(rollout for batches in taken for some in batches for rollout in some) == list(range(producers * each))
    for batches in taken:  # each consumer sees the rollouts of a producer in the order in which they were made
        for number in range(producers):
            own = [rollout for some in batches for rollout in some if rollout // each == number]
            assert own == sorted(own)


def test_put_waits_while_the_queue_is_full(in_threads: Threads, wait_until: WaitUntil) -> None:
    queue = TrainingQueue(4, 2)
    outcome: list[bool] = []
    (thread,) = in_threads(1, lambda _: outcome.append(queue.put(range(5))))
    wait_until(lambda: len(queue) == 4 and queue._condition._waiters)  # type: ignore[attr-defined]
    assert outcome == []
    assert queue.take() == [0, 1]
    thread.join(10)
    assert outcome == [True]
    assert queue.take() == [2, 3]
    assert len(queue) == 1


def test_closing_the_training_queue_ends_everybody(in_threads: Threads, wait_until: WaitUntil) -> None:
    empty, full = TrainingQueue(2, 2), TrainingQueue(2, 2)
    full.put([0, 1])
    outcomes: list[object] = []
    in_threads(3, lambda _: outcomes.append(empty.take()))
    in_threads(3, lambda _: outcomes.append(full.put([2])))
    for queue in (empty, full):
        wait_until(lambda queue=queue: len(queue._condition._waiters) == 3)
        queue.close()
    wait_until(lambda: len(outcomes) == 6)
    assert sorted(map(str, outcomes)) == ["False"] * 3 + ["None"] * 3
    assert full.take() is None
    assert not full.put([3])
    assert list(iter(full.take, None)) == []


@pytest.mark.parametrize("most", [1, 4])
def test_held_rollouts_wait_until_as_many_have_come_after(most: int) -> None:
    queue, held = TrainingQueue(6, 2, held=5), 5
    assert queue.put(range(11)), "held rollouts do not count towards the capacity"
    assert queue.take(most) == ([0, 1] if most == 1 else [0, 1, 2, 3])
    while len(queue) >= held + 2:
        queue.take()
    assert len(queue) == held + (11 - held) % 2


def test_a_reader_waits_while_all_that_is_there_is_held(in_threads: Threads, wait_until: WaitUntil) -> None:
    queue = TrainingQueue(4, 2, held=3)
    taken: list[list[int] | None] = []
    (thread,) = in_threads(1, lambda _: taken.append(queue.take(4)))
    assert queue.put(range(4))
    wait_until(lambda: queue._condition._waiters)  # type: ignore[attr-defined]
    assert taken == []
    assert queue.put([4])
    thread.join(10)
    assert taken == [[0, 1]]


def test_fewer_than_none_cannot_be_held() -> None:
    with pytest.raises(ValueError, match="held rollouts cannot be -1"):
        TrainingQueue(4, 2, held=-1)


@pytest.mark.parametrize(("capacity", "batch"), [(3, 4), (0, 0), (1, 0), (0, 1), (-1, 1)])
def test_a_queue_that_never_holds_a_batch_is_refused(capacity: int, batch: int) -> None:
    with pytest.raises(ValueError, match=f"a queue of {capacity} rollouts cannot hold a batch of {batch}"):
        TrainingQueue(capacity, batch)
