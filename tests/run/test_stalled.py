"""Whole runs whose output nobody reads: they record, stop in order and end."""

import contextlib
import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from runs import ROOT, agent_processes, command, is_alive, last_counters, rows, wait_for

pytestmark = pytest.mark.timeout(120)


def _fill(fd: int) -> None:
    os.set_blocking(fd, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(fd, b"x" * 64)
    os.set_blocking(fd, True)


@contextlib.contextmanager
def _stalled(folder: Path, ui: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A run whose standard output is full: a pipe, or for the live view a terminal."""
    read_fd, write_fd = pty.openpty() if ui == "live" else os.pipe()
    _fill(write_fd)
    words = ("--agents", 4, "--workers", 1, "--tune", "off", "--device", "cpu", "--ui", ui, "--out", folder)
    process = subprocess.Popen(
        command("train", "CartPole-v1", *words), cwd=ROOT, stdout=write_fd, stderr=subprocess.STDOUT,
        start_new_session=True, env=os.environ | {"TERM": "xterm"},
    )  # fmt: skip
    os.close(write_fd)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        os.close(read_fd)


@pytest.mark.slow
def test_a_run_whose_output_nobody_reads_goes_on_and_stops_in_order(tmp_path: Path) -> None:
    plain, live = tmp_path / "plain", tmp_path / "live"
    with _stalled(plain, "plain") as first, _stalled(live, "live") as second:
        runs = ((first, plain), (second, live))
        agents = []
        for process, folder in runs:
            wait_for(lambda folder=folder: len(rows(folder)) > 1, "training")  # type: ignore[misc]
            (killed,) = agent_processes(process.pid)
            os.kill(killed, signal.SIGKILL)
            wait_for(lambda folder=folder: int(rows(folder)[-1]["restarts"]) == 1, "a restart")  # type: ignore[misc]
            agents += [killed, *agent_processes(process.pid)]
            process.send_signal(signal.SIGTERM)
        assert len(agents) == 4
        for process, folder in runs:
            assert process.wait(60) == 0
            assert last_counters(folder).steps == int(rows(folder)[-1]["steps"]) > 0
        assert not any(map(is_alive, agents))
