import math
from collections.abc import Callable
from pathlib import Path

import pytest
from snapshots import make_snapshot
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # type: ignore[import-untyped]
from tensorboard.plugins.hparams import api_pb2, metadata  # type: ignore[import-untyped]

from ga3c.metrics.events import Event
from ga3c.metrics.sinks.tensorboard import SETTINGS_TAG, TAGS, TensorBoardSink
from ga3c.metrics.snapshot import METRICS


def _scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    events = EventAccumulator(str(folder))
    events.Reload()
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_tensorboard_has_every_field(tmp_path: Path) -> None:
    unshown = {"steps", "progress", "seconds_left"}
    assert set(TAGS) | unshown == set(METRICS)
    sink = TensorBoardSink(tmp_path)
    snapshot = make_snapshot(5_000)
    sink.write(snapshot, [])
    sink.close()
    scalars = _scalars(tmp_path)
    for name, tag in TAGS.items():
        ((step, value),) = scalars[tag]
        assert step == 5_000
        assert value == pytest.approx(snapshot.numbers()[name], rel=1e-6)
    assert len(scalars) == len(TAGS), "two of them have one name"
    assert "prediction times/queueing p95 ms" in scalars


def test_tensorboard_names_the_rules_of_a_score(tmp_path: Path) -> None:
    sink = TensorBoardSink(tmp_path, rules="no-op starts")
    sink.write(make_snapshot(1), [])
    sink.close()
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    described = {tag: metadata.summary_description for tag, metadata in events.summary_metadata.items()}
    text = "Raw scores, no-op starts"
    assert described == {TAGS["score"]: text, TAGS["best_score"]: text}


def test_tensorboard_skips_nan(tmp_path: Path) -> None:
    sink = TensorBoardSink(tmp_path)
    sink.write(make_snapshot(1, score=math.nan), [])
    sink.write(make_snapshot(2, score=0.5), [])
    sink.close()
    assert _scalars(tmp_path)[TAGS["score"]] == [(2, 0.5)]


def test_tensorboard_drops_what_a_resume_repeats(tmp_path: Path) -> None:
    first = TensorBoardSink(tmp_path)
    for steps in (100, 200, 300):
        first.write(make_snapshot(steps, pps=1.0), [])
    first.close()
    second = TensorBoardSink(tmp_path, purge_step=200)
    second.write(make_snapshot(250, pps=2.0), [])
    second.close()
    assert _scalars(tmp_path)[TAGS["pps"]] == [(100, 1.0), (200, 1.0), (250, 2.0)]


def test_tensorboard_shows_the_settings_as_a_table_of_text(tmp_path: Path) -> None:
    TensorBoardSink(tmp_path, settings={"env_id": "ALE/Pong-v5", "learn.rollout": 5}).close()
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert SETTINGS_TAG in events.Tags()["tensors"]
    assert events.summary_metadata[SETTINGS_TAG].plugin_data.plugin_name == "text"
    (event,) = events.Tensors(SETTINGS_TAG)
    (text,) = event.tensor_proto.string_val
    assert text.decode().splitlines()[2:] == ["| env_id | ALE/Pong-v5 |", "| learn.rollout | 5 |"]


def test_tensorboard_has_the_settings_as_hyperparameters(tmp_path: Path) -> None:
    settings = {"env_id": "ALE/Pong-v5", "learn.rollout": 5, "learn.rate": 0.5, "engine.account": True}
    sink = TensorBoardSink(tmp_path, settings=settings)
    sink.event(Event("stop", details={"complete": True}))
    sink.close()
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    content = events.summary_metadata[metadata.SESSION_START_INFO_TAG].plugin_data.content
    shown = metadata.parse_session_start_info_plugin_data(content).hparams
    assert {name: getattr(value, value.WhichOneof("kind")) for name, value in shown.items()} == settings
    content = events.summary_metadata[metadata.EXPERIMENT_TAG].plugin_data.content
    experiment = metadata.parse_experiment_plugin_data(content)
    assert {info.name for info in experiment.hparam_infos} == set(settings)
    assert experiment.metric_infos[0].name.tag == TAGS["score"]
    content = events.summary_metadata[metadata.SESSION_END_INFO_TAG].plugin_data.content
    assert metadata.parse_session_end_info_plugin_data(content).status == api_pb2.STATUS_SUCCESS


def test_tensorboard_has_fewer_points_of_an_old_run_but_always_the_one_of_a_checkpoint(tmp_path: Path) -> None:
    sink = TensorBoardSink(tmp_path)

    def go_on(start: int, seconds: int) -> None:
        for second in range(start, start + seconds):
            sink.write(make_snapshot(second, seconds=float(second), score=1.0), [])

    go_on(36_000, 95)
    sink.sync()
    sink.sync()
    go_on(36_095, 3)
    sink.close()
    steps = [step for step, _ in _scalars(tmp_path)[TAGS["score"]]]
    assert steps == [*range(36_000, 36_095, 11), 36_094, 36_097]


def test_tensorboard_misses_nothing_after_a_full_disk(tmp_path: Path, small_files: Callable[[int], None]) -> None:
    sink = TensorBoardSink(tmp_path)
    sink.write(make_snapshot(1, score=1.0), [])
    (path,) = tmp_path.iterdir()
    small_files(path.stat().st_size + 100)
    for steps in range(2, 40):
        with pytest.raises(OSError, match="File too large"):
            sink.write(make_snapshot(steps, score=float(steps)), [])
    small_files(1 << 30)
    sink.write(make_snapshot(40, score=40.0), [])
    sink.sync()
    sink.close()
    assert _scalars(tmp_path)[TAGS["score"]] == [(steps, float(steps)) for steps in range(1, 41)]
    assert sink.lost == 0
