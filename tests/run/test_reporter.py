"""The reporter: no sink ends a run, and people are told once of each that fails."""

from collections.abc import Callable
from pathlib import Path

import pytest
from snapshots import make_snapshot

from ga3c.metrics.events import Event
from ga3c.metrics.sinks.base import Sink
from ga3c.metrics.sinks.events import EventsSink, read_events
from ga3c.metrics.sinks.tensorboard import TensorBoardSink
from ga3c.run.reporter import Reporter


class Heard(Sink):
    """Keeps the texts of events."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def event(self, event: Event) -> None:
        self.texts.append(event.text)


class Raising(Sink):
    """Raises in the methods that it is told to."""

    def __init__(self, error: BaseException | None, *methods: str) -> None:
        self.error = error
        self.calls = 0
        for method in methods:
            setattr(self, method, self._fail)

    def _fail(self, *_: object) -> None:
        self.calls += 1
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize("methods", [("write",), ("write", "event"), ("write", "sync"), ("sync",)])
def test_a_sink_without_room_is_kept_and_told_of_once(methods: tuple[str, ...]) -> None:
    raising, heard = Raising(OSError("full"), *methods), Heard()
    raising.name = "metrics.csv"
    reporter = Reporter([raising, heard])
    for _ in range(3):
        reporter.write(make_snapshot(1), [])
        reporter.tell("note", "in between")
        reporter.sync()
    warnings = [text for text in heard.texts if text != "in between"]
    assert warnings == ["metrics.csv cannot be written (OSError: full); it is tried again, and the run goes on."]
    raising.error = None
    reporter.write(make_snapshot(2), [])
    reporter.sync()
    reporter.write(make_snapshot(3), [])
    assert heard.texts[-1] == "metrics.csv writes again; nothing is missing."
    assert sum("writes again" in text for text in heard.texts) == 1
    raising.error = OSError("full again")
    reporter.write(make_snapshot(4), [])
    reporter.sync()
    assert "full again" in heard.texts[-1]
    reporter.close()


@pytest.mark.parametrize("method", ["write", "event", "sync", "close"])
@pytest.mark.parametrize("error", [ValueError("a bug"), MemoryError("no room"), SystemExit("now"), OSError("gone")])
def test_a_sink_that_fails_otherwise_is_left_out(method: str, error: BaseException) -> None:
    raising, heard = Raising(error, method), Heard()
    raising.retries = False
    reporter = Reporter([raising, heard])
    for _ in range(2):
        reporter.write(make_snapshot(1), [])
        reporter.tell("note", "in between")
        reporter.sync()
    reporter.close()
    assert raising.calls == 1
    (warning,) = [text for text in heard.texts if text != "in between"]
    assert f"({type(error).__name__}: {error})" in warning
    if method != "close":
        assert warning.endswith("is left out from now on; the run goes on.")
        assert ("Traceback" in warning) == (not isinstance(error, OSError))


def test_what_a_sink_had_to_give_up_is_told() -> None:
    class Forgets(Raising):
        lost = 12  # type: ignore[assignment]

    sink, heard = Forgets(OSError("full"), "write"), Heard()
    reporter = Reporter([sink, heard])
    reporter.write(make_snapshot(1), [])
    sink.error = None
    reporter.write(make_snapshot(1), [])
    assert heard.texts[-1] == "Forgets writes again; 12 records from before could not be kept."


def test_nothing_is_missing_after_a_full_disk(tmp_path: Path, small_files: Callable[[int], None]) -> None:
    path, heard = tmp_path / "events.jsonl", Heard()
    reporter = Reporter([EventsSink(path), TensorBoardSink(tmp_path / "tensorboard"), heard])
    reporter.tell("start", "It begins.")
    small_files(200)
    for number in range(3):
        reporter.tell("note", f"note {number}")
        reporter.write(make_snapshot(number), [])
    small_files(1 << 30)
    reporter.write(make_snapshot(3), [])
    reporter.close()
    texts = [event["text"] for event in read_events(path)]
    assert [text for text in texts if text.startswith("note")] == ["note 0", "note 1", "note 2"]
    for name in ("events.jsonl", "TensorBoard's event file"):
        assert sum(text.startswith(f"{name} cannot be written (OSError: [Errno 27]") for text in texts) == 1
        assert texts.count(f"{name} writes again; nothing is missing.") == 1
