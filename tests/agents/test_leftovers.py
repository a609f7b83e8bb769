"""Processes that environments start, in sessions of their own: they end with their agent process and with the run,
also where the server is killed."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import runs
from runs import is_alive
from test_pool import answer, take_groups

from ga3c import envs
from ga3c.agents import leftovers
from ga3c.agents.guardian import Guardian
from ga3c.agents.pool import AgentPool
from ga3c.config import EnvConfig

pytestmark = pytest.mark.skipif(
    not leftovers.can_sweep(), reason="this system does not show the environment of processes"
)
WaitUntil = Callable[..., None]


@pytest.fixture
def children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[int]]]:
    """The processes that `toys:Parent-v0` has started, oldest first; none of them is left after the test."""
    folder = tmp_path / "children"
    folder.mkdir()
    monkeypatch.setenv("TOYS_CHILDREN", str(folder))

    def pids() -> list[int]:
        return [int(path.name) for path in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)]

    yield pids
    for pid in pids():
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)


def sleeper(mark: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(["sleep", "3600"], env=os.environ | {leftovers.VARIABLE: mark}, start_new_session=True)


def test_only_what_is_marked_is_killed(wait_until: WaitUntil) -> None:
    guardian = Guardian()
    lives = [guardian.mark(1, 0), guardian.mark(1, 1), guardian.mark(11, 0), "another:1:0:"]
    processes = [*map(sleeper, lives), subprocess.Popen(["sleep", "3600"])]
    try:
        guardian.sweep(1, 0)
        assert processes[0].wait(20) == -signal.SIGKILL
        assert [process.poll() for process in processes[1:]] == [None] * 4
        guardian.close()
        assert [process.wait(20) for process in processes[1:3]] == [-signal.SIGKILL] * 2
        assert [process.poll() for process in processes[3:]] == [None] * 2, "those of others"
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_what_a_run_left_behind_is_killed_even_if_its_guardian_was(wait_until: WaitUntil) -> None:
    guardian = Guardian()
    process = sleeper(guardian.mark(0, 0))
    assert guardian._process is not None
    guardian._process.kill()
    guardian.close()
    assert process.wait(20) == -signal.SIGKILL


def test_a_signal_to_all_processes_of_a_job_does_not_end_the_guardian(wait_until: WaitUntil) -> None:
    guardian = Guardian()
    process = sleeper(guardian.mark(0, 0))
    watching = guardian._process
    assert watching is not None
    wait_until(lambda: _ignores(watching.pid, signal.SIGUSR1))  # the last of them
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        watching.send_signal(number)
    guardian.close()
    assert process.wait(20) == -signal.SIGKILL
    assert watching.returncode == 0


def _ignores(pid: int, number: signal.Signals) -> bool:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    ignored = next(int(line.split()[1], 16) for line in lines if line.startswith("SigIgn"))
    return bool(ignored >> (number - 1) & 1)


def test_they_end_with_their_agent_process_and_with_the_run(
    make_pool: Callable[..., AgentPool], children: Callable[[], list[int]], wait_until: WaitUntil
) -> None:
    # Described by another, so that only agent processes make it.
    spec = envs.describe("toys:Countdown-v0", EnvConfig(), raw_screens=False)
    pool = make_pool("", spec=dataclasses.replace(spec, id="toys:Parent-v0"), agents=2, workers=2)
    pool.start()
    requests = take_groups(pool, 2)
    wait_until(lambda: len(children()) == 2)
    mine = children()
    os.kill(pool.pids()[0], signal.SIGKILL)
    wait_until(pool.find_failed)
    wait_until(lambda: sum(map(is_alive, mine)) == 1)  # the other process plays on with its own
    pool.queue.done(requests)
    assert pool.restart_failed() == 1
    answer(pool, [request for request in requests if request.group.worker == 1])
    take_groups(pool, 2)
    wait_until(lambda: len(children()) == 3)
    pool.stop(10.0)
    wait_until(lambda: not any(map(is_alive, children())))


OWNER = """
import dataclasses, json, sys, time
from pathlib import Path
from ga3c import envs
from ga3c.agents.pool import AgentPool
from ga3c.config import EnvConfig

config = EnvConfig()
spec = envs.describe("toys:Countdown-v0", config, raw_screens=False)
spec = dataclasses.replace(spec, id=sys.argv[1])
pool = AgentPool(spec, config, agents=2, workers=2, max_agents=2, seed=0, log_folder=Path(sys.argv[2]))
pool.start()
print(json.dumps(pool.pids()), flush=True)
time.sleep(3600)
"""


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Callable[[str], tuple["subprocess.Popen[bytes]", list[int]]]]:
    """Starts a server of two agent processes, and returns it and their ids as soon as they are started."""
    started: list[subprocess.Popen[bytes]] = []

    def start(env_id: str) -> tuple["subprocess.Popen[bytes]", list[int]]:
        command = [sys.executable, "-c", OWNER, env_id, str(tmp_path)]
        path = {"PYTHONPATH": os.pathsep.join(sys.path)}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | path)
        started.append(process)
        assert process.stdout is not None
        return process, json.loads(process.stdout.readline())

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_they_end_with_a_server_that_was_killed(
    owner: Callable[[str], tuple["subprocess.Popen[bytes]", list[int]]],
    children: Callable[[], list[int]],
    wait_until: WaitUntil,
) -> None:
    server, agents = owner("toys:Parent-v0")
    wait_until(lambda: len(children()) == 2)
    guardians = [pid for pid in _children_of(server.pid) if runs.is_guardian(pid)]
    assert len(guardians) == 1
    server.kill()
    wait_until(lambda: not any(map(is_alive, [*children(), *agents, *guardians])))


def test_agents_end_with_a_server_that_was_killed_before_they_asked_to_be_told(
    owner: Callable[[str], tuple["subprocess.Popen[bytes]", list[int]]], wait_until: WaitUntil
) -> None:
    server, agents = owner("toys:Countdown-v0")
    for pid in agents:
        os.kill(pid, signal.SIGSTOP)  # they are still being started: Python alone takes longer than this
    server.kill()
    wait_until(lambda: not any(map(is_alive, agents)))


def test_an_agent_whose_server_died_before_it_asked_to_be_told_ends_at_once(tmp_path: Path) -> None:
    """Without a guardian too: it asks for its parent after it has asked to be told."""
    script = "from ga3c.agents.worker import die_with_parent; die_with_parent(1); print('it goes on')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, timeout=50)
    assert done.stdout == b""


def _children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
