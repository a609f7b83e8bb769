"""wandb and MLflow, offline: what the sinks log is read back from what the packages wrote."""

import json
import math
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from snapshots import make_snapshot

from ga3c.errors import UserError
from ga3c.metrics import sinks
from ga3c.metrics.events import Event
from ga3c.metrics.sinks import mlflow as mlflow_sink
from ga3c.metrics.sinks.base import RunFacts, Sink

SETTINGS = {"env_id": "ALE/Pong-v5", "learn.rollout": 5, "learn.normalise": False}
STOP = Event("stop", "The run is complete.", {"complete": True})


def make(name: str, folder: Path, purge_step: int | None = None, **settings: Any) -> Sink:
    (sink,) = sinks.make([name], RunFacts("pong", folder, folder / "tb", SETTINGS | settings, purge_step=purge_step))
    return sink


# -- Weights & Biases -------------------------------------------------------------------------------------------------


@pytest.fixture
def _wandb_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")


def wandb_records(path: Path) -> Iterator[Any]:
    """The records of a .wandb file: blocks of 32 KiB, each with chunks of checksum, length, kind and content."""
    from wandb.proto.wandb_internal_pb2 import Record  # type: ignore[import-not-found,unused-ignore]

    content, block, place, parts = path.read_bytes(), 32 * 1024, 7, b""
    while place + 7 <= len(content):
        if block - place % block < 7:
            place += block - place % block
            continue
        _, length, kind = struct.unpack_from("<IHB", content, place)
        parts += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last part
            record = Record()
            record.ParseFromString(parts)
            yield record
            parts = b""


def wandb_run(folder: Path) -> tuple[dict[str, Any], dict[int, dict[str, Any]], dict[str, Any], str]:
    """Config, history by step, summary and id of the last run that the folder has."""
    path = max(folder.glob("wandb/offline-run-*/*.wandb"), key=lambda path: path.stat().st_ctime_ns)
    deadline = time.monotonic() + 60.0
    while not (records := list(wandb_records(path))) or not records[-1].HasField("exit"):
        assert time.monotonic() < deadline, "wandb's service writes the file, and has not finished it"
        time.sleep(0.01)
    config: dict[str, Any] = {}
    summary: dict[str, Any] = {}
    history: dict[int, dict[str, Any]] = {}
    run_id = ""
    for record in records:
        kind = record.WhichOneof("record_type")
        if kind == "run":
            run_id = record.run.run_id
            config |= {item.key: json.loads(item.value_json) for item in record.run.config.update}
        elif kind == "history":
            items = {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
            history.setdefault(record.history.step.num, {}).update(items)
        elif kind == "summary":
            summary |= {i.key or i.nested_key[0]: json.loads(i.value_json) for i in record.summary.update}
    return config, history, summary, run_id


@pytest.mark.usefixtures("_wandb_offline")
def test_wandb_has_every_number_at_its_step_and_resumes_under_the_same_id(tmp_path: Path) -> None:
    sink = make("wandb", tmp_path)
    sink.event(Event("start", "Training Pong."))
    first, second = make_snapshot(100, score=math.nan), make_snapshot(250, score=-20.5)
    sink.write(first, [])
    sink.write(second, [])
    sink.event(STOP)
    sink.close()
    config, history, summary, run_id = wandb_run(tmp_path)
    assert {name: config[name] for name in SETTINGS} == SETTINGS
    assert list(history) == [100, 250]
    assert "score" not in history[100]
    assert history[250]["score"] == -20.5
    for name, value in second.numbers().items():
        assert history[250][name] == pytest.approx(value), name
    assert summary["event/start"] == "Training Pong."
    assert summary["event/stop"] == "The run is complete."
    assert (tmp_path / "wandb.id").read_text().strip() == run_id
    time.sleep(1.0)  # wandb names the folder of a run by the second and its id
    sink = make("wandb", tmp_path, purge_step=250, **{"run.steps": 900})
    sink.write(make_snapshot(300), [])
    sink.close()
    config, history, _, resumed_id = wandb_run(tmp_path)
    assert resumed_id == run_id
    assert config["run.steps"] == 900
    assert list(history) == [300]
    make("wandb", tmp_path).close()
    assert wandb_run(tmp_path)[3] != run_id, "a new run in the same folder is another run"


@pytest.mark.usefixtures("_wandb_offline")
def test_wandb_that_cannot_start_is_an_error_for_people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_PROJECT", "a/b")
    with pytest.raises(UserError, match=r"wandb cannot start a run: .*leave wandb out of --log"):
        make("wandb", tmp_path)


@pytest.mark.usefixtures("_wandb_offline")
def test_what_wandb_raises_drops_the_sink_and_not_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import wandb  # type: ignore[import-not-found,unused-ignore]

    def fail(*_: Any, **__: Any) -> None:
        raise wandb.errors.CommError("the service is gone")

    sink: Any = make("wandb", tmp_path)
    monkeypatch.setattr(sink._run, "log", fail)
    with pytest.raises(OSError, match="CommError: the service is gone"):
        sink.write(make_snapshot(1), [])
    sink.close()


# -- MLflow -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One database for all tests: to create its tables takes a second."""
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow') / 'mlflow.db'}"


@pytest.fixture
def client(database: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A client of a local store, which needs no server."""
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    pytest.importorskip("sqlalchemy")
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", database)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "test")
    return mlflow.MlflowClient()


def history(client: Any, run_id: str, name: str) -> list[tuple[int, float]]:
    return [(metric.step, metric.value) for metric in client.get_metric_history(run_id, name)]


@pytest.mark.slow
def test_mlflow_has_every_number_at_its_step_and_resumes_under_the_same_id(tmp_path: Path, client: Any) -> None:
    folder = tmp_path / "run"
    sink = make("mlflow", folder)
    sink.event(Event("start", "Training Pong."))
    first, last = make_snapshot(100, seconds=1.0, score=math.nan), make_snapshot(250, seconds=2.0, score=-20.5)
    sink.write(first, [])
    sink.write(last, [])
    sink.event(STOP)
    sink.close()
    run_id = (folder / "mlflow.id").read_text().strip()
    run = client.get_run(run_id)
    assert (run.info.run_name, run.info.status) == ("pong", "FINISHED")
    assert client.get_experiment(run.info.experiment_id).name == "test"
    assert run.data.params == {name: str(value) for name, value in SETTINGS.items()}
    assert (run.data.tags["event.start"], run.data.tags["event.stop"]) == ("Training Pong.", "The run is complete.")
    for name, value in last.numbers().items():
        assert history(client, run_id, name)[-1] == (250, pytest.approx(value)), name
    assert history(client, run_id, "score") == [(250, -20.5)]
    sink = make("mlflow", folder, purge_step=250, **{"run.steps": 900})
    assert client.get_run(run_id).info.status == "RUNNING"
    sink.write(make_snapshot(300), [])
    sink.close()
    assert (folder / "mlflow.id").read_text().strip() == run_id
    assert history(client, run_id, "pps")[-1][0] == 300
    assert client.get_run(run_id).info.status == "FAILED", "it ended without a stop event"


@pytest.mark.slow
def test_mlflow_takes_a_snapshot_every_ten_seconds_and_the_last(tmp_path: Path, client: Any) -> None:
    sink: Any = make("mlflow", tmp_path)
    for second in range(25):
        sink.write(make_snapshot(100 * second, seconds=float(second)), [])
        while not all(call.done() for call in sink._under_way):
            pass
    sink.close()
    run_id = (tmp_path / "mlflow.id").read_text().strip()
    assert [steps for steps, _ in history(client, run_id, "pps")] == [0, 1_000, 2_000, 2_400]


def test_mlflow_without_its_store_is_an_error_for_people(
    tmp_path: Path, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nowhere://")
    with pytest.raises(UserError, match=r"MLflow cannot start a run: .*leave mlflow out of --log"):
        make("mlflow", tmp_path)


def test_what_mlflow_raises_drops_the_sink_and_not_the_run(tmp_path: Path, client: Any) -> None:
    sink: Any = make("mlflow", tmp_path)
    client.delete_run(sink._run_id)
    sink.write(make_snapshot(1), [])
    while not all(call.done() for call in sink._under_way):
        pass
    with pytest.raises(OSError, match="deleted"):
        sink.write(make_snapshot(2), [])
    sink.close()
    assert isinstance(sink, mlflow_sink.MlflowSink)
