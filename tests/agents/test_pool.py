"""Agent processes for real: started, answered, killed, restarted, ended, and never orphaned."""

import json
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ga3c.agents import stacks
from ga3c.agents.flags import EPISODE, FIRST
from ga3c.agents.pool import AgentPool
from ga3c.agents.prediction_queue import Request
from ga3c.agents.processes import Failure

WaitUntil = Callable[..., None]
MakePool = Callable[..., AgentPool]


def take(pool: AgentPool, seconds: float = 20.0) -> list[Request]:
    """What waits in the prediction queue, as soon as something does."""
    ready, _, _ = select.select([pool.queue._read_fd], [], [], seconds)
    assert ready, "no agent asked for anything"
    return pool.queue.take() or []


def take_groups(pool: AgentPool, count: int) -> list[Request]:
    """Requests until so many groups wait."""
    requests = take(pool)
    while len(requests) < count:
        requests += take(pool)
    return requests


def answer(pool: AgentPool, requests: list[Request], action: int = 0) -> None:
    for request in requests:
        pool.slots.actions[request.group.start : request.group.stop] = action
    pool.queue.done(requests)
    pool.reply(requests)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"  # an orphan whose new parent never asks stays as a zombie


def test_agents_step_as_they_are_answered_and_end_when_told(make_pool: MakePool) -> None:
    pool = make_pool("toys:Ledger-v0", agents=5, workers=2)
    pool.start()
    pids = pool.pids()
    first = take_groups(pool, 4)
    assert sorted(request.group.number for request in first) == [0, 1, 2, 3]
    assert pool.slots.flags.tolist() == [FIRST] * 5
    assert pool.slots.frames.tolist() == [[0.0, float(agent)] for agent in range(5)]
    requests = first
    for step in range(1, 4):
        answer(pool, requests, action=step % 3)
        requests = take_groups(pool, 4)
        # The first episode is of two steps, and truncated: its final frame counts as a request, but as no step.
        assert pool.slots.frames[:, 0].tolist() == [float(min(step, 2))] * 5
    assert pool.slots.posted_ns.min() > 0
    assert (pool.slots.stepping_ns > 0).all()
    assert (pool.slots.waiting_ns > 0).all()
    assert pool.find_failed() == []
    assert len(set(pids)) == 2
    assert all(is_alive(pid) for pid in pids)
    pool.stop(10.0)
    assert not any(is_alive(pid) for pid in pids)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids), "a zombie was left"
    assert pool.pids() == []


def test_only_groups_that_are_answered_step(make_pool: MakePool) -> None:
    pool = make_pool("toys:Ledger-v0", agents=4, workers=1)
    pool.start()
    requests = take_groups(pool, 2)
    favoured = [request for request in requests if request.group.number == 1]
    for step in range(1, 3):
        answer(pool, favoured)
        favoured = take(pool)
        assert [request.group.number for request in favoured] == [1]
        assert pool.slots.frames[:, 0].tolist() == [0.0, 0.0, step, step]


def test_episodes_are_told_with_score_and_length(make_pool: MakePool) -> None:
    pool = make_pool("toys:Countdown-v0", agents=1, workers=1)
    pool.start()
    for _ in range(3):
        answer(pool, take(pool))
    take(pool)
    assert int(pool.slots.flags[0]) & EPISODE
    assert (pool.slots.scores[0], pool.slots.lengths[0]) == (3.0, 3)


def test_a_process_that_does_not_end_is_ended_by_force(make_pool: MakePool) -> None:
    pool = make_pool("toys:Sleeper-v0", agents=2, workers=2)
    pool.start()
    pids = pool.pids()
    answer(pool, take_groups(pool, 2))  # both now sleep in their first step
    pool.stop(0.1)
    assert not any(is_alive(pid) for pid in pids)


def test_worker_processes_never_load_torch(make_pool: MakePool) -> None:
    pool = make_pool("toys:Countdown-v0", agents=2, workers=1)
    pool.start()
    requests = take_groups(pool, 2)
    answer(pool, requests)
    take(pool)
    maps = Path(f"/proc/{pool.pids()[0]}/maps").read_text()
    assert "numpy" in maps
    assert "ga3c-slots" in maps
    assert "libtorch" not in maps
    assert "site-packages/torch/" not in maps


def test_a_killed_process_is_found_and_started_anew(make_pool: MakePool, wait_until: WaitUntil) -> None:
    pool = make_pool("toys:Ledger-v0", agents=4, workers=2)
    pool.start()
    requests = take_groups(pool, 4)
    mine = [request for request in requests if request.group.worker == 0]
    held, pending = mine[:1], mine[1:]
    answer(pool, [request for request in requests if request.group.worker == 1])
    answer(pool, pending)
    wait_until(lambda: pool.queue.waiting() == 3)  # worker 1 both groups, worker 0 one: nobody takes them for now
    victim = pool.pids()[0]
    os.kill(victim, signal.SIGKILL)

    failures: list[Failure] = []
    wait_until(lambda: failures.extend(pool.find_failed()) or failures)
    assert [(failure.worker, failure.exit_code) for failure in failures] == [(0, -signal.SIGKILL)]
    assert pool.find_failed() == []
    assert pool.restart_failed() == 0, "a predictor still holds a request of the dead process"
    answer(pool, held)  # nobody is there to hear it
    assert pool.restart_failed() == 1
    assert pool.restart_failed() == 0
    assert pool.pids()[0] != victim

    heard = take_groups(pool, 4)
    assert sorted((request.group.number, request.incarnation) for request in heard) == [(0, 1), (1, 1), (2, 0), (3, 0)]
    assert pool.slots.flags[:2].tolist() == [FIRST, FIRST]
    # The new life plays other games: its seeds differ from the first life's, and from each other's.
    assert pool.slots.frames[:2].tolist() == [[0.0, 65_537.0], [0.0, 65_538.0]]
    answer(pool, heard)
    assert len(take_groups(pool, 4)) == 4
    assert pool.find_failed() == []


def test_an_answer_to_a_former_life_does_not_reach_the_next(make_pool: MakePool, wait_until: WaitUntil) -> None:
    pool = make_pool("toys:Ledger-v0", agents=1, workers=1)
    pool.start()
    stale = take(pool)
    os.kill(pool.pids()[0], signal.SIGKILL)
    wait_until(pool.find_failed)
    pool.queue.done(stale)
    assert pool.restart_failed() == 1
    fresh = take(pool)
    pool.reply(stale)
    pool.slots.actions[0] = 1
    ready, _, _ = select.select([pool.queue._read_fd], [], [], 0.3)
    assert not ready, "the new process stepped on an answer meant for the old one"
    answer(pool, fresh)
    take(pool)
    assert pool.slots.frames[0, 0] == 1.0


def test_what_an_environment_raised_is_in_the_last_words(make_pool: MakePool, wait_until: WaitUntil) -> None:
    pool = make_pool("toys:Broken-v0", agents=2, workers=2)
    pool.start()
    answer(pool, take_groups(pool, 2))
    answer(pool, take_groups(pool, 2))
    failures: list[Failure] = []
    wait_until(lambda: failures.extend(pool.find_failed()) or len(failures) == 2)
    for failure in failures:
        assert failure.exit_code == 1
        assert failure.started
        assert failure.last_words.startswith("Traceback")
        assert failure.last_words.endswith("RuntimeError: the wheel came off")
    # The next life's last words are its own.
    assert pool.restart_failed() == 2
    answer(pool, take_groups(pool, 2))
    answer(pool, take_groups(pool, 2))
    failures.clear()
    wait_until(lambda: failures.extend(pool.find_failed()) or len(failures) == 2)
    assert [failure.last_words.count("Traceback") for failure in failures] == [1, 1]


def test_a_process_that_died_before_its_first_step_is_known(make_pool: MakePool, wait_until: WaitUntil) -> None:
    pool = make_pool("toys:Ledger-v0", agents=1, workers=1)
    failures: list[Failure] = []
    pool.start()
    os.kill(pool.pids()[0], signal.SIGKILL)
    wait_until(lambda: failures.extend(pool.find_failed()) or failures)
    assert (failures[0].started, failures[0].incarnation) == (False, 0)
    pool.restart_failed()
    take(pool)
    os.kill(pool.pids()[0], signal.SIGKILL)
    wait_until(lambda: failures.extend(pool.find_failed()) or len(failures) == 2)
    assert (failures[1].started, failures[1].incarnation) == (True, 1)


def test_a_dead_process_does_not_stop_the_others_from_being_answered(
    make_pool: MakePool, wait_until: WaitUntil
) -> None:
    pool = make_pool("toys:Ledger-v0", agents=2, workers=2)
    pool.start()
    requests = take_groups(pool, 2)
    victim = pool.pids()[0]
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: not is_alive(victim))
    answer(pool, requests)  # to a broken pipe and to a living process
    assert [request.group.worker for request in take(pool)] == [1]


OWNER = """
import json, sys
from pathlib import Path
from ga3c import envs
from ga3c.agents.pool import AgentPool
from ga3c.config import EnvConfig

config = EnvConfig()
spec = envs.describe(sys.argv[1], config, raw_screens=False)
pool = AgentPool(spec, config, agents=2, workers=2, max_agents=2, seed=0, log_folder=Path(sys.argv[2]))
pool.start()
waiting = []
while len(waiting) < 2:
    waiting += pool.queue.take()
if len(sys.argv) > 3:
    pool.reply(waiting)
print(json.dumps(pool.pids()), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("busy", [False, True], ids=["waiting for actions", "inside a step that never ends"])
def test_processes_die_with_a_server_that_was_killed(tmp_path: Path, wait_until: WaitUntil, busy: bool) -> None:
    command: list[Any] = [sys.executable, "-c", OWNER, "toys:Sleeper-v0", str(tmp_path), *(["reply"] if busy else [])]
    owner = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        assert owner.stdout is not None
        pids = json.loads(owner.stdout.readline())
        assert len(pids) == 2
        assert all(is_alive(pid) for pid in pids)
    finally:
        owner.kill()
        owner.wait()
        for pipe in (owner.stdin, owner.stdout):
            assert pipe is not None
            pipe.close()
    wait_until(lambda: not any(is_alive(pid) for pid in pids))
    assert all(log.read_text() == "" for log in tmp_path.glob("*.log"))


def test_a_process_that_hangs_is_told_once(make_pool: MakePool, wait_until: WaitUntil) -> None:
    pool = make_pool("toys:Sleeper-v0", agents=2, workers=1)
    pool.start()
    assert pool.find_silent(30.0) == []
    requests = take_groups(pool, 2)
    assert pool.find_silent(0.0) == []  # it waits for us, not we for it
    answer(pool, requests)
    wait_until(lambda: pool.find_silent(0.01) == [0])
    assert pool.find_silent(0.01) == []
    assert pool.find_failed() == []


def test_a_process_that_hangs_is_killed_and_says_where(make_pool: MakePool, wait_until: WaitUntil) -> None:
    pool = make_pool("toys:Sleeper-v0", agents=2, workers=2)
    pool.start()
    answer(pool, [request for request in take_groups(pool, 2) if request.group.worker == 1])
    failures: list[Failure] = []
    wait_until(lambda: pool.end_hung(0.05) or failures.extend(pool.find_failed()) or failures)
    (failure,) = failures
    assert (failure.worker, failure.exit_code, failure.started) == (1, -signal.SIGKILL, True)
    assert failure.hang is not None
    assert failure.hang.seconds > 0.05
    assert not failure.hang.stopped
    assert re.fullmatch(r".*toys\.py:\d+ in step", stacks.innermost(failure.hang.stack)[0])
    assert pool.restart_failed() == 1
    assert take_groups(pool, 1)[0].group.worker == 1
    wait_until(lambda: pool.end_hung(0.01) == [] and pool._has_started(1))
    assert pool.find_failed() == [], "neither owes a step: one was not answered, the other plays anew"


def test_a_process_that_is_stopped_is_killed(make_pool: MakePool, wait_until: WaitUntil) -> None:
    pool = make_pool("toys:Ledger-v0", agents=1, workers=1)
    pool.start()
    requests = take(pool)
    os.kill(pool.pids()[0], signal.SIGSTOP)
    answer(pool, requests)
    failures: list[Failure] = []
    wait_until(lambda: pool.end_hung(0.05) or failures.extend(pool.find_failed()) or failures)
    assert failures[0].hang is not None
    assert failures[0].hang.stopped
    assert failures[0].hang.stack == ""


def test_limits_of_one_prediction(make_pool: MakePool) -> None:
    assert make_pool("toys:Countdown-v0", agents=6, workers=1, max_agents=64).max_agents == 6
    assert make_pool("toys:Countdown-v0", agents=6, workers=1, max_agents=4).max_agents == 4
    assert make_pool("toys:Countdown-v0", agents=6, workers=1, max_agents=1).max_agents == 3, "a group is never split"


def test_slots_of_a_pool_start_empty(make_pool: MakePool) -> None:
    pool = make_pool("toys:Countdown-v0", agents=3, workers=2)
    assert pool.slots.frames.shape == (3, 4)
    arrays = {name: value for name, value in vars(pool.slots).items() if isinstance(value, np.ndarray)}
    assert arrays.pop("resumed_ns").all(), "all may play from now on"
    for name in ("playing", "asking"):
        assert arrays.pop(name).tolist() == [1, 1, 1, 0], "all take part; the second process has one group"
    assert not any(map(np.any, arrays.values()))


def test_a_process_goes_on_anew_only_after_all_its_agents_had_paused(make_pool: MakePool) -> None:
    pool = make_pool("toys:Countdown-v0", agents=4, workers=2)
    first = pool.slots.resumed_ns.copy()
    pool.play(3)
    pool.play(1)
    assert (pool.slots.resumed_ns == first).all()
    pool.play(4)
    assert pool.slots.resumed_ns[0] == first[0], "one of its agents played on"
    assert pool.slots.resumed_ns[1] > first[1]
