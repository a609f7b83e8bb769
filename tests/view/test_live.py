import io
import re
from typing import Any

import pytest
from rich.console import Console
from snapshots import PREDICTORS_BUSY, make_snapshot, make_unknown

from ga3c.metrics import account
from ga3c.metrics.events import Event
from ga3c.metrics.sinks.base import Sink
from ga3c.metrics.snapshot import Snapshot
from ga3c.view.dashboard import Dashboard
from ga3c.view.live import LiveSink
from ga3c.view.plain import PlainSink

FACTS = ["fast preset", "small network", "NVIDIA H200"]


def _print(dashboard: Dashboard, width: int, height: int, encoding: str = "utf-8") -> list[str]:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=stream, width=width, height=height, force_terminal=True, color_system=None)
    console.print(dashboard)
    stream.seek(0)
    return stream.read().splitlines()


def _dashboard(*snapshots: Snapshot) -> Dashboard:
    dashboard = Dashboard("ALE/Pong-v5", FACTS, "runs/pong-1")
    for snapshot in snapshots:
        dashboard.update(snapshot)
    for i in range(6):
        dashboard.message(f"message {i} " + "long " * 60)
    return dashboard


SIZES = [(80, 24), (100, 32), (120, 40), (200, 60)]


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_live_view_shows_the_facts(width: int, height: int, encoding: str) -> None:
    known = {"score": -18.4, "best_score": -17.9, "pps": 43_100.0, "tps": 8_620.0, "lag": 6.42, "lag_max": 31.0}
    more = {"entropy": 1.61, "progress": 0.42, "seconds": 754.0, "seconds_left": 840.0, "predictor_blocked": 0.07}
    runs = [make_snapshot(1_000 * i, **known | more | {"score": -21.0 + i / 20, "restarts": 5}) for i in range(52)]
    runs.append(make_snapshot(52_000, **known, **more, restarts=5, agents=240, predictors=1, trainers=4))
    lines = _print(_dashboard(*runs), width, height, encoding)
    text = "\n".join(lines)
    assert len(lines) <= height - 1
    assert max(map(len, lines)) <= width
    for fact in ["ALE/Pong-v5", *FACTS, "runs/pong-1", "42%", "0:12:34 elapsed", "14 min left", "52k steps"]:
        assert fact in text
    for fact in ["Score -18.4", "best -17.9", "43.1k", "8,620", "6.42 (31)", "1.61", "5 restarts", "held back   7%"]:
        assert fact in text
    for fact in ["240 agents", "1 predictor ", "4 trainers", "Prediction queue", "-20 ", "message 5", "message 2"]:
        assert fact in text
    assert "message 1" not in text
    assert text.isascii() == (encoding == "ascii")


def test_live_view_names_the_bottleneck_as_far_as_there_is_room() -> None:
    def title(width: int, restarts: int = 0) -> str:
        lines = _print(_dashboard(make_snapshot(**PREDICTORS_BUSY, restarts=restarts)), width, 24)
        return next(line for line in lines if "Where the time goes" in line)

    what = "Where the time goes · agents wait 71% of the time for predictions"
    assert title(120).startswith(f"{what}: raise --predictors or --agents ")
    assert title(80).startswith(f"{what} ")
    assert "agents wait" not in title(60)
    assert "5 restarts of agent processes " in title(80, restarts=5)


def test_live_view_names_no_bottleneck_where_nobody_waits_for_another() -> None:
    dashboard = Dashboard("ALE/Pong-v5", FACTS, "runs/1", names_bottleneck=False)
    dashboard.update(make_snapshot(**PREDICTORS_BUSY))
    assert "agents wait" not in "\n".join(_print(dashboard, 120, 40))


def test_live_view_shows_the_account_of_time_where_there_is_room() -> None:
    times = dict(account.UNKNOWN) | {"prediction_queueing": account.Spread(1.0, 0.123, 4.56, 7.89)}

    def view(width: int, height: int, **changes: Any) -> str:
        return "\n".join(_print(_dashboard(make_snapshot(**changes)), width, height))

    for width, height in ((80, 48), (120, 48), (200, 60)):
        text = view(width, height, times=times)
        assert "Account of time" in text
        assert re.search(r"  in the queue +0\.123 +4\.56 +7\.89 ", text)
        assert re.search(r"p50 +p95 +p99 +An update +p50 +p95 +p99 ", text)
        assert re.search(r"  for its turn +- +- +- ", text)
    small = dict(account.UNKNOWN) | {"update_overhead": account.Spread(1.0, 0.00057, 0.00715, 12345.6)}
    assert re.search(r"overhead +<0\.001 +0\.007 +12\.3k ", view(80, 48, times=small)), "figures never touch"
    assert "Account of time" not in view(120, 48, times=account.UNKNOWN), "nobody keeps it"
    assert "Account of time" not in view(80, 24, times=times)
    assert "Account of time" not in view(70, 60, times=times)


def test_live_view_shows_the_gpu_where_there_is_one() -> None:
    used = make_snapshot(**PREDICTORS_BUSY, gpu_utilisation=0.954, gpu_memory_mb=2_100.0)
    text = "\n".join(_print(_dashboard(used), 160, 40))
    assert re.search(r"GPU +95%  2\.05 GB", text)
    assert "the GPU is in use 95% of the time, so choose a smaller --net" in text
    assert "GPU  " not in "\n".join(_print(_dashboard(make_unknown()), 160, 40))


@pytest.mark.parametrize(("width", "height"), [(12, 40), (40, 10), (60, 18), *SIZES])
def test_live_view_of_unknown_values(width: int, height: int) -> None:
    lines = _print(_dashboard(make_unknown()), width, height)
    text = "\n".join(lines)
    assert max(map(len, lines)) <= width
    assert "nan" not in text.lower()
    if width >= 80:
        assert "0:00:00 elapsed" in text
        assert len(lines) <= height - 1
        assert "Score -" in text
        assert "no episode has ended yet" in text


def test_a_value_is_never_cut_on_a_narrow_terminal() -> None:
    text = "\n".join(_print(_dashboard(make_snapshot(prediction_queue=1_234)), 60, 20))
    assert "1,234" in text


def test_live_view_before_the_first_snapshot() -> None:
    lines = _print(Dashboard("CartPole-v1", [], "runs/" + "deep/" * 40), 80, 24)
    assert "starting" in "\n".join(lines)
    assert max(map(len, lines)) <= 80


def test_live_view_of_a_resumed_run_shows_its_past() -> None:
    dashboard = Dashboard("ALE/Pong-v5", FACTS, "runs/pong-1", history=[(1_000.0, -21.0), (2_000.0, -20.0)])
    dashboard.update(make_snapshot(3_000_000, score=20.0))
    assert " 1,000 " in "\n".join(_print(dashboard, 80, 24))


def test_scores_are_shown_with_their_protocol() -> None:
    snapshot, stream = make_snapshot(3_000, score=20.0), io.StringIO()
    dashboard = Dashboard("ALE/Pong-v5", FACTS, "runs/pong-1", rules="sticky")
    dashboard.update(snapshot)
    assert "Sticky score 20" in "\n".join(_print(dashboard, 80, 24))
    PlainSink(stream, rules="no-op").write(snapshot, [])
    assert "  no-op score 20 (best" in stream.getvalue()


def test_live_sink_leaves_its_last_view() -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=80, height=24, force_terminal=True, legacy_windows=False)
    sink: Sink = LiveSink(console, Dashboard("ALE/Pong-v5", FACTS, "runs/pong-1"))
    sink.event(Event("note", "240 agents are ready"))
    sink.write(make_snapshot(1_000, score=-20.0), [])
    console.width = 100
    sink.write(make_snapshot(2_000, score=-19.5), [])
    sink.close()
    text = stream.getvalue()
    assert "240 agents are ready" in text
    assert "\x1b[2J" in text  # the resize cleared the screen
    assert "\x1b[?1049h" not in text  # never the alternate screen
    assert text.endswith("\x1b[?25h")  # the cursor is back
    assert "-19.5" in text


def test_live_sink_tells_the_end_of_a_run_whole_and_under_the_view() -> None:
    stream = io.StringIO()
    sink: Sink = LiveSink(
        Console(file=stream, width=80, height=24, force_terminal=True), Dashboard("Env-v0", [], "runs/1")
    )
    sink.event(Event("stop", "The run is complete. Next: " + "a long path " * 10 + "end."))
    sink.close()
    said = stream.getvalue().rsplit("\x1b[?25h", 1)[1].split()
    assert said[:4] == ["The", "run", "is", "complete."]
    assert said[-1] == "end."


def test_live_sink_shows_a_traceback_whole() -> None:
    stream = io.StringIO()
    sink: Sink = LiveSink(
        Console(file=stream, width=80, height=24, force_terminal=True), Dashboard("Env-v0", [], "runs/1")
    )
    sink.event(
        Event("note", 'Traceback (most recent call last):\n  File "env.py", line 3, in step\nValueError: no more')
    )
    sink.close()
    assert 'File "env.py", line 3, in step' in stream.getvalue()
    assert stream.getvalue().count("ValueError: no more") >= 2  # above the view, and as its latest message


def test_a_live_sink_that_showed_nothing_closes_quietly() -> None:
    stream = io.StringIO()
    LiveSink(Console(file=stream, force_terminal=True), Dashboard("CartPole-v1", [], "runs/1")).close()
    assert stream.getvalue() == ""
