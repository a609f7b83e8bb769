import io

from snapshots import PREDICTORS_BUSY, TRAINERS_BUSY, make_snapshot, make_unknown

from ga3c.metrics.events import Event
from ga3c.view.plain import PlainSink


def test_plain_prints_every_ten_seconds_and_the_last() -> None:
    stream = io.StringIO()
    sink = PlainSink(stream, names_bottleneck=False)
    for second in range(1, 25):
        sink.write(make_snapshot(seconds=second + 0.2), [])
    sink.event(Event("note", "checkpoint saved"))
    sink.close()
    starts = [line.split("  ")[0] if line[0] != " " else line.split()[0] for line in stream.getvalue().splitlines()]
    assert starts == ["1", "10", "20", "checkpoint saved", "24"]


def test_how_a_run_ended_is_the_last_that_is_printed() -> None:
    stream = io.StringIO()
    sink = PlainSink(stream)
    sink.write(make_snapshot(seconds=0.0), [])
    sink.write(make_snapshot(seconds=3.0), [])
    sink.event(Event("stop", "The run is complete."))
    sink.close()
    assert [line.split()[0] for line in stream.getvalue().splitlines()] == ["0", "3", "The"]


def test_plain_line_reads_well() -> None:
    stream = io.StringIO()
    sink = PlainSink(stream)
    facts = {"score": -18.42, "best_score": -17.9, "pps": 4310.2, "tps": 215.4, "lag": 1.2, "entropy": 1.61}
    counts = {"prediction_queue": 12, "training_queue": 3, "restarts": 2, "gpu_utilisation": 0.84}
    snapshot = make_snapshot(1_200_000, seconds=120.0, progress=0.129, seconds_left=840.0, **facts, **counts)
    sink.write(snapshot, [])
    assert stream.getvalue() == (
        "   120 s  1.2M steps  score -18.4 (best -17.9)  4,310 PPS  215 TPS  lag 1.2  entropy 1.61  queues 12/3"
        "  GPU 84%  restarts 2  12% done, 14 min left\n"
    )


def test_plain_names_the_bottleneck_when_it_has_become_another() -> None:
    stream = io.StringIO()
    sink = PlainSink(stream)
    for second in range(1, 61):
        sink.write(make_snapshot(seconds=float(second), **PREDICTORS_BUSY if second <= 30 else TRAINERS_BUSY), [])
    told = [line.strip() for line in stream.getvalue().splitlines() if " PPS" not in line]
    assert told == [
        "agents wait 71% of the time for predictions: raise --predictors or --agents",
        "training holds predictors back 60% of the time: raise --trainers or --batch-rollouts",
    ]


def test_plain_line_of_unknown_values() -> None:
    stream = io.StringIO()
    PlainSink(stream).write(make_unknown(), [])
    assert "score - (best -)" in stream.getvalue()
    assert "nan" not in stream.getvalue()
    assert "done" not in stream.getvalue()


def test_plain_survives_what_its_stream_cannot_encode() -> None:
    buffer = io.BytesIO()
    stream = io.TextIOWrapper(buffer, encoding="ascii")
    PlainSink(stream).event(Event("note", "saved to /tmp/été"))
    assert buffer.getvalue() == b"saved to /tmp/?t?\n"
