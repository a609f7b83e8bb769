"""Output that nobody reads: the run does not wait for it, and what was left out is told."""

import errno
import io
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO, cast

import pytest
from snapshots import make_snapshot

from ga3c.metrics.events import Event
from ga3c.view import output as outputs
from ga3c.view.output import Output, Shown
from ga3c.view.plain import PlainSink


class Pipe:
    """A pipe in the place of standard output."""

    def __init__(self) -> None:
        self.read_fd, write_fd = os.pipe()
        self.stream = os.fdopen(write_fd, "w", encoding="utf-8")

    def fill(self) -> int:
        """Fills the pipe to the last byte and returns how many it took."""
        fd, taken = self.stream.fileno(), 0
        os.set_blocking(fd, False)
        for size in (4096, 1):
            try:
                while True:
                    taken += os.write(fd, b"x" * size)
            except BlockingIOError:
                pass
        os.set_blocking(fd, True)
        return taken

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size and (more := os.read(self.read_fd, size - len(data))):
            data += more
        return data


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipe]:
    made = Pipe()
    monkeypatch.setattr(sys, "__stdout__", made.stream)
    monkeypatch.setattr(outputs, "_PATIENCE_SECONDS", 0.2)
    yield made
    made.stream.close()


def _outputs() -> int:
    return sum(thread.name == "output" for thread in threading.enumerate())


def test_a_reader_that_stops_holds_nothing_up(pipe: Pipe, wait_until: Callable[..., None]) -> None:
    taken = pipe.fill()
    output = Output(pipe.stream)
    sink = Shown(PlainSink(cast(TextIO, output)), output, "line")
    lines = [f"{number} " + "long " * 200 for number in range(400)]
    for text in lines:
        sink.event(Event("note", text))
    assert output.take_left_out() == 0, "nothing is told before the terminal takes something again"
    assert pipe.read(taken) == b"x" * taken
    shown = []
    with os.fdopen(pipe.read_fd, encoding="utf-8") as reader:
        while not shown or not shown[-1].endswith("did not take them."):
            sink.event(Event("note", "again"))
            shown.append(reader.readline().rstrip("\n"))
        whole = [line for line in shown[:-1] if line != "again"]
        assert whole == lines[: len(whole)], "lines are shown whole and in order"
        missing = int(shown[-1].split()[0])
        assert missing >= len(lines) - len(whole) > 0
        sink.close()
    assert _outputs() == 0


def test_an_output_closes_although_nobody_reads(pipe: Pipe) -> None:
    pipe.fill()
    output = Output(pipe.stream)
    output.write("never seen\n")
    output.close()
    output.close()
    output.write("never queued\n")
    assert _outputs() == 0
    os.close(pipe.read_fd)


def test_a_view_ends_when_its_reader_has_gone(pipe: Pipe, wait_until: Callable[..., None]) -> None:
    output = Output(pipe.stream)
    sink = Shown(PlainSink(cast(TextIO, output)), output, "line")
    os.close(pipe.read_fd)
    sink.event(Event("note", "a line"))
    wait_until(lambda: output._failure is not None)
    with pytest.raises(BrokenPipeError):
        sink.write(make_snapshot(1), [])
    assert _outputs() == 0
    assert not sink.retries


def test_another_stream_gets_what_it_can_encode() -> None:
    buffer = io.BytesIO()
    output = Output(io.TextIOWrapper(buffer, encoding="ascii"))
    output.write("saved to /tmp/été\n")
    output.close()
    assert buffer.getvalue() == b"saved to /tmp/?t?\n"
    assert _outputs() == 0


def test_a_file_on_a_full_disk_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait_until: Callable[..., None]
) -> None:
    write, full = os.write, [True]

    def refuse(fd: int, data: bytes) -> int:
        if full[0] and fd == stream.fileno():
            full[0] = False
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, data)

    with open(tmp_path / "log", "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "__stdout__", stream)
        monkeypatch.setattr(os, "write", refuse)
        output = Output(stream)
        output.write("a line\n")
        wait_until(lambda: not output._queue)
        output.close()
    assert not full[0]
    assert (tmp_path / "log").read_text() == "a line\n"
