"""A run served in the browser by a process of its own: how it begins, how it ends, and what its failure does."""

import contextlib
import http.client
import importlib.util
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from reports import make_run
from runs import ROOT, command, is_alive, wait_for
from snapshots import make_snapshot

from ga3c import cli
from ga3c.metrics.sinks.base import Sink
from ga3c.run import listening, serving
from ga3c.run.reporter import Reporter
from ga3c.run.serving import Serving, ServingSink


def status(address: str, path: str = "/") -> int:
    """What a request with the token of an address is answered with; it waits until the server has begun."""
    place = urlsplit(address)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
    try:
        connection.request("GET", f"{path}?{place.query}")
        return connection.getresponse().status
    finally:
        connection.close()


def is_served(address: str) -> bool:
    try:
        return status(address) == 303
    except OSError:
        return False


def pid_of(room: Serving) -> int:
    return room._process.pid


def test_a_run_is_served_until_it_is_closed(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", rows=3)
    with serving.serve(run) as room:
        assert status(room.address) == 303
        assert status(room.address, "/api/runs") == 401  # the token counts at the page's address alone
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}", room.address)
        assert room.failure == ""
        pid = pid_of(room)
        assert os.getpriority(os.PRIO_PROCESS, pid) >= min(19, os.getpriority(os.PRIO_PROCESS, 0) + 10)
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
        assert room.address.partition("token=")[2].encode() not in arguments
        assert "token" not in repr(room)
    assert not is_alive(pid)
    assert not is_served(room.address)


def test_it_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", rows=3)
    code = (
        "import sys, time; from pathlib import Path; from ga3c.run import serving\n"
        "room = serving.serve(Path(sys.argv[1])); print(room.address, room._process.pid, flush=True); time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, run], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout is not None
        address, pid = parent.stdout.readline().split()
        assert is_served(address)
    finally:
        parent.kill()
        parent.wait()
    wait_for(lambda: not is_alive(int(pid)), "the end of the process")


class Told(Sink):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def event(self, event: Any) -> None:
        self.texts.append(event.text)


def test_a_control_room_that_fails_is_told_of_once_and_ends_nothing(tmp_path: Path) -> None:
    room, told = serving.serve(make_run(tmp_path / "run", rows=3)), Told()
    reporter = Reporter([ServingSink(room), told])
    reporter.write(make_snapshot(seconds=1.0), [])
    assert told.texts == []
    os.kill(pid_of(room), signal.SIGKILL)
    wait_for(lambda: room.failure != "", "the end of the process")
    for second in (2.0, 3.0):
        reporter.write(make_snapshot(seconds=second), [])
    assert told.texts == [
        "The control room failed (OSError: it ended with exit code -9) and is left out from now on; the run goes on."
    ]
    reporter.close()
    room.close()


@pytest.mark.parametrize("words", [["web", "."], ["train", "CartPole-v1", "--web"], ["resume", "RUN", "--web"]])
def test_without_the_packages_a_sentence_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "uvicorn" else find(name))
    monkeypatch.chdir(tmp_path)
    assert cli.main([word.replace("RUN", str(tmp_path)) for word in words]) == 2
    assert 'pip install "ga3c[web]"' in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_port_in_use_is_told_of_before_a_run_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with contextlib.closing(listening.listen(port=0)) as listener:
        assert cli.main(["train", "CartPole-v1", "--web", "--web-port", str(listener.port)]) == 2
        assert f"{listener.port} is in use" in capsys.readouterr().err
    assert cli.main(["train", "CartPole-v1", "--web", "--web-port", "70000"]) == 2
    assert "--web-port is 70000" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_command_serves_folders_until_it_is_interrupted(tmp_path: Path) -> None:
    """At once, while a page listens."""
    make_run(tmp_path / "a", rows=3)
    make_run(tmp_path / "b", rows=3)
    words = command("web", tmp_path, "--port", 0, "--web-readonly")
    process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("2 runs under ")
        address = urlsplit(process.stdout.readline())
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
        cookie = f"ga3c-{address.port}={address.query.partition('=')[2]}"
        connection.request("GET", "/api/stream", headers={"Cookie": cookie})
        answer = connection.getresponse()
        assert answer.readline() == b"event: runs\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
        connection.close()
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, errors) == (0, "")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["/no/such/folder"], "is no folder"),
        ([".", "--host", "no.such.name.invalid"], "--host"),
        ([".", "--port", "-1"], "--port is -1"),
    ],
)
def test_what_cannot_be_served_is_refused_in_a_sentence(
    capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    assert cli.main(["web", *words]) == 2
    assert told in capsys.readouterr().err
