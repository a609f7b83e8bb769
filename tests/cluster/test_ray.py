"""Runs on Ray nodes of this machine: they learn, survive killed hosts and nodes, and leave no process behind."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hosts import is_alive

from ga3c import errors
from ga3c.metrics.events import Event
from ga3c.metrics.sinks.base import Sink
from ga3c.run import session, settings

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray (extra [ray], 280 MB) is not installed"),
]
MARK = "GA3C_TEST_OF_RAY"


def marked(words: str = "") -> list[int]:
    """The processes that this test has started, of which the command line has these words."""
    token = f"{MARK}={os.environ[MARK]}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            named = words.encode() in (folder / "cmdline").read_bytes()
            if named and token in (folder / "environ").read_bytes() and is_alive(int(folder.name)):
                found.append(int(folder.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]


class Told(Sink):
    """What happens to hosts, with a function that is called at each record."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.at_record: Callable[[int], None] = lambda steps: None

    def event(self, event: Event) -> None:
        if event.kind in ("host", "warning"):
            self.events.append(event)

    def write(self, snapshot: Any, episodes: Any) -> None:
        self.at_record(snapshot.steps)

    @property
    def states(self) -> list[str]:
        return [state for event in self.events if (state := event.details.get("state"))]


@pytest.fixture(autouse=True)
def _no_orphans(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(MARK, str(time.monotonic_ns()))
    yield
    deadline = time.monotonic() + 15
    while (left := marked()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left, [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left]


def begin(folder: Path, **chosen: Any) -> session.Run:
    defaults = {"cluster": "local:2", "agents": 8, "device": "cpu", "tune": "off", "log": "csv", "seed": 1}
    return session.begin(settings.resolve("CartPole-v1", "fast", defaults | chosen), folder)


def test_two_nodes_learn_and_survive_kills(tmp_path: Path) -> None:
    run = begin(tmp_path / "run", steps=20_000)
    told = Told()
    victims = ["agents.remote.host", "raylet/raylet"]
    since = [0]

    def kill(steps: int) -> None:
        are_two = told.states.count("joined") - told.states.count("lost") == 2
        if not are_two or steps < since[0] + 3000 or not victims:
            return
        # The head has a raylet too, but no cores. The last one that was started is that of a node.
        os.kill(max(marked(victims.pop(0))), signal.SIGKILL)
        since[0] = steps

    told.at_record = kill
    run.train(told)
    assert not victims, "no steps were made after the first kill"
    assert run.complete
    assert run.score > 40, "a policy that does not learn reaches about 22"
    assert told.states == ["joined", "joined", "lost", "joined", "lost"], "no room is left for the lost node's host"
    events = [json.loads(line) for line in (tmp_path / "run" / "events.jsonl").read_text().splitlines()]
    assert [event["details"]["state"] for event in events if event["kind"] == "host"] == told.states


def test_a_run_that_is_killed_leaves_no_node(tmp_path: Path) -> None:
    words = ["train", "CartPole-v1", "--cluster", "local:1", "--agents", "4", "--device", "cpu", "--ui", "none"]
    command = [sys.executable, "-m", "ga3c", *words, "--out", str(tmp_path / "run"), "--minutes", "5"]
    server = subprocess.Popen(command)
    deadline = time.monotonic() + 120
    while not marked("agents.worker"):
        assert time.monotonic() < deadline
        assert server.poll() is None
        time.sleep(0.1)
    server.kill()
    server.wait()


def test_a_cluster_that_is_not_there_is_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(errors.UserError, match="The Ray cluster cannot be used"):
        begin(tmp_path / "run", cluster="127.0.0.1:1")
    assert not (tmp_path / "run").exists()
