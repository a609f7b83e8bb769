"""Benchmarks: the use of the machine is counted, warm-up is left out, nothing counts twice, and a sweep continues."""

import dataclasses
import importlib
import importlib.util
import json
import math
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bench_support import NO_PLOT, measurement, rows_of, snapshot
from specs import vector_spec

from ga3c import cli, machine
from ga3c.bench import BENCHMARKS, harness, record, scaling, throughput, usage
from ga3c.bench.ceiling import Ceiling, Size
from ga3c.bench.harness import Collector, Discarder, Watched
from ga3c.bench.ledger import Ledger
from ga3c.bench.measurement import means
from ga3c.bench.usage import Usage
from ga3c.config import Config, EngineConfig
from ga3c.engine import device
from ga3c.engine.lane import Lane
from ga3c.engine.store import ExperienceStore
from ga3c.engine.training_queue import TrainingQueue
from ga3c.machine import nvml
from ga3c.metrics.stats import Gauges, Stats

Threads = Callable[..., list[threading.Thread]]
WaitUntil = Callable[..., None]
PARTS = ("cpu_agents", "cpu_predictors", "cpu_trainers", "cpu_rest", "lag", "wait_ms", "update_ms")


# -- what is used -----------------------------------------------------------------------------------------------------


def test_a_busy_thread_is_told_from_an_idle_one_and_from_the_rest(in_threads: Threads, wait_until: WaitUntil) -> None:
    go_on, own = threading.Event(), [0.0, 0.0]

    def work(number: int) -> None:
        while not go_on.is_set():
            if number:
                go_on.wait(0.01)
            own[number] = time.thread_time()

    busy, idle = in_threads(2, work)
    told = [own[0]]
    before = usage.read([], [busy], [idle])
    told.append(own[0])
    idle_before = own[1]
    wait_until(lambda: own[0] - told[0] > 0.4)
    told.append(own[0])
    after = usage.read([], [busy], [idle])
    told.append(own[0])
    idle_used = own[1] - idle_before
    go_on.set()
    elapsed = after.at - before.at
    cores = after.since(before)
    # The kernel counts in ticks of 10 ms, and the threads go on while they are read.
    least, most = told[2] - told[1], told[3] - told[0]
    assert least - 0.04 < cores.predictors * elapsed < most + 0.04
    assert cores.trainers * elapsed < idle_used + 0.04 < least
    assert cores.rest * elapsed < least
    assert math.isnan(cores.agents)
    assert after.rss_server_mb > 50


def test_processes_are_counted_by_what_each_used_and_one_that_is_gone_by_nothing() -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    child = subprocess.Popen([sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    used = usage.read([child.pid, 2**30], [], [])
    child.communicate(b"\n")
    assert list(used.agents) == [child.pid]
    assert 0.28 <= used.agents[child.pid] < 0.6
    assert 3 < used.rss_agents_mb < 100


def test_a_process_that_was_replaced_counts_from_its_own_start() -> None:
    def at_time(at: float, agents: dict[int, float]) -> Usage:
        return Usage(at, agents, predictors=at, trainers=0.0, server=2 * at, rss_agents_mb=1.0, rss_server_mb=1.0)

    cores = at_time(14.0, {1: 7.0, 3: 2.0}).since(at_time(10.0, {1: 5.0, 2: 9.0}))
    assert dataclasses.astuple(cores) == (1.0, 1.0, 0.0, 1.0)


@pytest.mark.parametrize(
    ("files", "share"),
    [
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n"}, math.inf),
        ({"cpu/cpu.cfs_quota_us": "400000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 4.0),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, math.inf),
        ({"cpu.max": "?\n"}, math.inf),
        ({}, math.inf),
    ],
)
def test_a_containers_share_of_time(tmp_path: Path, files: dict[str, str], share: float) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert machine.core_quota(tmp_path) == share


def test_cores_are_no_more_than_the_share_of_time_is_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    there = machine.num_cores()
    for share, cores in ((0.2, 1), (0.5 + there, there), (math.inf, there), (1.0, 1)):
        monkeypatch.setattr(machine, "core_quota", lambda share=share: share)
        assert machine.num_cores() == cores


def test_the_machine_in_words_and_as_json() -> None:
    about = machine.describe()
    assert about["cores"] == len(os.sched_getaffinity(0))
    assert str(about["torch"]).startswith(torch.__version__.split("+")[0])
    assert json.loads(record.to_json(about)) == about
    assert f"{about['cores']} cores" in machine.summary(about)
    assert "\n" not in machine.summary(about)


def test_no_gpu_is_found_by_an_identity_that_none_has() -> None:
    assert nvml.find("GPU-00000000-0000-0000-0000-000000000000") is None
    assert device.find_gpu(torch.device("cpu")) is None


@pytest.mark.gpu
def test_the_gpu_behind_cuda_is_seen() -> None:
    gpu = device.find_gpu(torch.device("cuda", 0))
    assert gpu is not None
    held = torch.zeros(2**28, device="cuda")
    sample = gpu.sample()
    assert sample is not None
    assert 0.0 <= sample.utilisation <= 1.0
    assert held.nbytes / 2**20 <= sample.memory_mb <= (gpu.total_memory_mb or 0.0)


# -- steady state -----------------------------------------------------------------------------------------------------


class Run:
    """A collector with a clock that the test moves, and predictions and updates at a given rate."""

    def __init__(self, seconds: float, needs_updates: bool = True) -> None:
        self.stopped: list[str] = []
        self.left: list[float] = []
        self.readings = 0
        self.now = 0.0
        self.updates = 0
        self.steps = 0
        self.all_act = True
        watched = Watched(needs_updates, lambda: self.all_act, self.read_usage, None, self.stopped.append)
        self.collector = Collector(seconds, watched, self.left.append)

    def read_usage(self) -> Usage:
        self.readings += 1
        return Usage(self.now, {1: 2 * self.now}, self.now, 0.0, self.now, 10.0, 20.0)

    def live(self, pps: int, tps: int, length: float = 1.0, **values: float) -> None:
        self.now += length
        self.updates += round(tps * length)
        self.steps += round(pps * length)
        counted = {"updates": self.updates, "steps": self.steps, "frames": 4 * self.steps}
        values = {"prediction_batch": 10.0, "lag": 1.0 if tps else math.nan} | values
        self.collector.write(snapshot(self.now, pps=pps, tps=tps, **counted, **values), [])


def test_the_warm_up_is_left_out_and_nothing_counts_twice() -> None:
    run = Run(seconds=4.0)
    run.collector.write(snapshot(0.0), [])
    for _ in range(3):
        run.live(pps=900, tps=0)  # environments start, nothing is trained yet
    run.live(pps=800, tps=70)
    run.live(pps=700, tps=60)  # the warm-up's second is over with this one
    assert run.readings == 1
    for pps, tps in ((100, 10), (200, 20), (100, 10), (200, 20)):
        assert run.collector.measurement is None
        run.live(pps, tps)
    measured = run.collector.measurement
    assert measured is not None
    assert (measured.seconds, measured.pps, measured.tps, measured.frames_per_second) == (4.0, 150.0, 15.0, 600.0)
    assert (measured.cpu_agents, measured.cpu_predictors, measured.cpu_rest) == (2.0, 1.0, 0.0)
    assert math.isnan(measured.gpu_utilisation)
    assert run.left == sorted(run.left, reverse=True)
    run.live(pps=5000, tps=500)  # the record that a run makes of its end
    assert run.collector.measurement is measured
    assert run.stopped == ["Measured."]
    assert run.readings == 2


def test_acting_alone_waits_for_no_update() -> None:
    run = Run(seconds=1.0, needs_updates=False)
    for _ in range(3):
        run.live(pps=300, tps=0)
    measured = run.collector.measurement
    assert measured is not None
    assert (measured.pps, measured.tps) == (300.0, 0.0)
    assert math.isnan(measured.lag)


def test_nothing_counts_before_the_last_agent_is_at_work() -> None:
    run = Run(seconds=2.0)
    run.all_act = False
    for _ in range(9):
        run.live(pps=100, tps=20)
    assert run.readings == 0
    run.all_act = True
    for pps in (400, 300, 200, 200):
        run.live(pps, tps=40)
    measured = run.collector.measurement
    assert measured is not None
    assert (measured.pps, measured.seconds) == (200.0, 2.0)


def test_a_run_in_which_nothing_flows_is_given_up() -> None:
    run = Run(seconds=1.0)
    for _ in range(200):
        run.live(pps=0, tps=0)
    assert run.stopped == ["The run did not reach steady state."]
    assert run.collector.stuck


def test_means_count_by_what_they_are_of() -> None:
    taken = [
        snapshot(12.0, pps=100, prediction_batch=10, wait_ms=1, updates=30, lag=2, update_ms=8, trainer_training=0.25),
        snapshot(13.0, pps=600, prediction_batch=30, wait_ms=8, updates=40, lag=6, update_ms=4, trainer_training=1.0),
        snapshot(14.0, pps=0, prediction_batch=math.nan, wait_ms=math.nan, updates=40, lag=math.nan,
                 update_ms=math.nan, trainer_training=math.nan, lag_max=math.nan),
    ]  # fmt: skip
    got = means(snapshot(10.0), taken)
    assert (got.seconds, got.pps, got.tps) == (4.0, 200.0, 10.0)
    assert got.prediction_batch == pytest.approx(800 / 40)
    assert got.wait_ms == pytest.approx((200 * 1 + 600 * 8) / 800)
    assert (got.lag, got.update_ms) == (pytest.approx((30 * 2 + 10 * 6) / 40), pytest.approx((30 * 8 + 10 * 4) / 40))
    assert got.trainer_training == pytest.approx((2 * 0.25 + 1 * 1.0) / 3)


@pytest.mark.parametrize("batch", [1, 3])
def test_the_discarder_gives_every_block_back(in_threads: Threads, wait_until: WaitUntil, batch: int) -> None:
    spec = vector_spec(3)
    agents, spare, per_thread = 6, 8, 2000
    store = ExperienceStore(spec, agents, 1, spare, 0.9, torch.device("cpu"))
    queue = TrainingQueue(2 * batch, batch)
    stats = Stats(1, lambda steps, seconds: 0.0, lambda: Gauges(0, 0, 0, 0, 0, 0, 0))
    discarder = Discarder(queue, store, Lane(torch.device("cpu"), 0), stats)
    discarder.prepare()
    discarder.start()
    put = [0, 0]

    def act(number: int) -> None:
        mine = np.arange(3) + 3 * number
        for _ in range(per_thread):
            finished = store.place(mine, np.zeros(3, np.uint8)).finished
            assert queue.put(finished)
            put[number] += len(finished)

    for thread in in_threads(2, act):
        thread.join(30)
    assert sum(put) == 2 * 3 * (per_thread - 1)  # a rollout is complete with the frame after it
    wait_until(lambda: store.free == spare - len(queue) and len(queue) == sum(put) % batch)
    assert len(set(store._free)) == store.free
    queue.close()
    discarder.join(10)
    assert not discarder.is_alive()


# -- the commands -----------------------------------------------------------------------------------------------------


def all_finite(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(all_finite, value.values()))
    if isinstance(value, list):
        return all(map(all_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


@pytest.mark.slow
def test_throughput_as_one_json_object(tmp_path: Path, temporary: Path, capfd: pytest.CaptureFixture[str]) -> None:
    flags = ["--env", "ALE/Pong-v5", "--seconds", "1", "--agents", "4", "--rollout", "5", "--device", "cpu"]
    assert cli.main(["bench", "throughput", *flags, "--json", "--out", str(tmp_path)]) == 0
    found = json.loads(capfd.readouterr().out)
    assert all_finite(found)
    for name in ("ceiling_pps", "acting_pps", "training_pps", "tps", "prediction_batch", "wait_ms", "update_ms"):
        assert found[name] > 0, name
    assert found["ratio"] == pytest.approx(found["training_pps"] / found["ceiling_pps"], rel=1e-3)
    assert found["acting_ratio"] == pytest.approx(found["acting_pps"] / found["ceiling_pps"], rel=1e-3)
    assert found["lag"] >= 0
    assert found["gpu_utilisation"] is None
    assert set(found["cpu"]) == {"agents", "predictors", "trainers", "rest"}
    assert found["cpu"]["trainers"] > 0
    assert found["rss_mb"] > 100
    assert found["machine"]["cores"] == len(os.sched_getaffinity(0))
    assert found["config"]["engine"]["agents"] == 4
    assert found["config"]["learn"]["rollout"] == 5
    assert found["seconds"] == 1.0
    assert json.loads((tmp_path / "throughput.json").read_text()) == found
    rows = rows_of(tmp_path / "throughput.csv")
    assert [(row["phase"], row["repeat"]) for row in rows] == [("ceiling", "1"), ("acting", "1"), ("training", "1")]
    assert float(rows[2]["pps"]) == found["training_pps"]
    assert rows[0]["tps"] == ""
    assert rows[1]["update_ms"] == ""
    assert not list(temporary.iterdir())


def test_throughput_measures_its_phases_in_turn(
    measures: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a ceiling of 1,000 steps per second in the first repeat and 2,000 in the second."""
    closed: list[str] = []

    class Steppers:
        expected, problem, repeats = 1.0, None, 0

        def __init__(self, *_: object) -> None:
            pass

        def __enter__(self) -> "Steppers":
            return self

        def __exit__(self, *_: object) -> None:
            self.close()

        def measure(self, on_left: Callable[[float], None]) -> Ceiling:
            self.repeats += 1
            return Ceiling(1000.0 * self.repeats, 1.5, 1.0, Size(8, 4, 1))

        def close(self) -> None:
            closed.append(f"after {len(asked)}")

    monkeypatch.setattr(throughput, "Steppers", Steppers)
    asked = measures(lambda config: measurement(100.0 * len(asked), rss_server_mb=300.0, rss_agents_mb=200.0))
    flags = ["bench", "throughput", "--env", "CartPole-v1", "--device", "cpu", "--seconds", "1", "--repeats", "2"]
    assert cli.main([*flags, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert closed[0] == "after 2", "the stepping processes end before the last measurement of acting"
    assert [(trial["phase"], trial["repeat"]) for trial in found["trials"]] == [
        (phase, repeat) for repeat in (1, 2) for phase in ("ceiling", "acting", "training")
    ]
    assert (found["ceiling_pps"], found["acting_pps"], found["training_pps"]) == (1500.0, 200.0, 300.0)
    assert found["spread"]["ratio"] == [0.2, 0.2]
    assert (found["rss_mb"], found["ceiling"]["pps"]) == (500.0, 2000.0)
    assert cli.main(flags) == 0
    assert "frames/s" in capsys.readouterr().out


def test_a_sweep_goes_on_where_it_was_stopped(measures: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    asked = measures(lambda config: measurement(100.0 * config.engine.agents, **dict.fromkeys(PARTS, 1.0)))
    flags = ["--env", "CartPole-v1", "--seconds", "0.5", "--device", "cpu", "--axes", "agents", "--out", str(tmp_path)]
    assert cli.main(["bench", "scaling", *flags, "--agents", "2", "--no-plot"]) == 0
    first = (tmp_path / "scaling.csv").read_text()
    assert len(first.splitlines()) == 2
    assert not (tmp_path / "scaling.png").exists()
    # What was torn by a crash is no point.
    (tmp_path / "scaling.csv").write_text(first + "0123456789ab,CartPole-v1,fa")
    capfd.readouterr()

    assert cli.main(["bench", "scaling", *flags, "--agents", "2", "4", "--json", *NO_PLOT]) == 0
    output = capfd.readouterr()
    assert "1 of 2 measurements are already in" in output.err
    kept = (tmp_path / "scaling.csv").read_text().splitlines()
    assert kept[:2] == first.splitlines()
    assert len(kept) == 3
    found = json.loads(output.out)
    assert all_finite(found)
    assert [point["value"] for point in found["axes"]["agents"]] == [2, 4]
    assert all(point["pps"] > 0 and point["tps"] > 0 for point in found["axes"]["agents"])
    assert json.loads((tmp_path / "scaling.json").read_text()) == found
    if not NO_PLOT:
        assert (tmp_path / "scaling.png").read_bytes().startswith(b"\x89PNG")

    before = (tmp_path / "scaling.csv").read_text()
    assert cli.main(["bench", "scaling", *flags, "--agents", "4", "2", "--no-plot"]) == 0
    assert (tmp_path / "scaling.csv").read_text() == before
    assert "2 of 2 measurements are already in" in capfd.readouterr().err
    assert [config.engine.agents for config in asked] == [2, 4]


def test_a_point_is_the_same_only_with_all_its_settings() -> None:
    def keys(**changes: Any) -> list[str]:
        args = scaling.ScalingArguments(env_id="CartPole-v1", device="cpu", agents=(2, 4), **changes)
        ledger = Ledger(None, args.seconds)
        return [ledger.key(point) for point in scaling.plan(args).points]

    assert keys() == keys()
    assert len(set(keys())) == len(keys())
    assert not set(keys()) & set(keys(seconds=9.0))
    assert not set(keys()) & set(keys(preset="paper"))


def test_a_point_of_a_run_with_more_room_is_another() -> None:
    keys = {Ledger(None, 2.0, room).key(Config()) for room in (0, 32, 64)}
    assert len(keys) == 3


def test_rows_with_other_columns_are_kept(tmp_path: Path) -> None:
    path, config, figures = tmp_path / "points.csv", Config(), measurement(7.0)
    old = {"key": "0123456789ab", "env": "ALE/Pong-v5", "speed": "12.5"}
    record.write_csv(path, tuple(old), [old])
    Ledger(path, 2.0).add(config, figures)
    again = Ledger(path, 2.0)
    assert again.find(config) == figures
    again.add(config, figures, repeat=2)
    rows = record.read_csv(path)
    assert [row["speed"] for row in rows] == ["12.5", "", ""]
    assert rows[0]["key"] == old["key"]


def test_nothing_is_left_of_a_server_that_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    systems: list[weakref.ref[Any]] = []

    def measure(server: Any, *_: object) -> str:
        systems.append(weakref.ref(server.system))
        server.system.stop(0.0)
        return "measured"

    monkeypatch.setattr(harness, "_measure", measure)
    engine = EngineConfig(device="cpu", agents=2, workers=1)
    assert harness.measure(Config("CartPole-v1", engine=engine), 1.0) == "measured"  # type: ignore[comparison-overlap]
    assert systems[0]() is None


def test_the_benchmarks_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["bench"], ["bench", "--help"]):
        assert cli.main(words) == 0
        listed = capsys.readouterr().out
        assert "throughput" in listed
        assert "scaling" in listed


@pytest.mark.parametrize("name", BENCHMARKS)
def test_without_out_no_benchmark_writes_where_results_are_committed(name: str) -> None:
    module = importlib.import_module(
        f"ga3c.bench.{name}.command" if name in ("faults", "peers") else f"ga3c.bench.{name}"
    )
    kinds = [kind for label, kind in vars(module).items() if label.endswith("Arguments")]
    fields = [item for kind in kinds for item in dataclasses.fields(kind) if item.name == "out"]
    for item in fields:
        out = item.default if item.default_factory is dataclasses.MISSING else item.default_factory()
        assert out is None or out.parts[0] in ("bench", "runs"), "git ignores these"
    assert fields or name in ("account", "throughput"), "those that write nothing"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["througput"], "did you mean throughput?"),
        (["nothing-like-it"], "there are throughput, scaling"),
        (["throughput", "--env", "Pong"], "did you mean ALE/Pong-v5"),
        (["throughput", "--agents", "4", "--workers", "5"], "--workers is 5"),
        (["throughput", "--agents", "0"], "--agents is 0"),
        (["throughput", "--net", "mlp"], "--net is mlp"),
        (["throughput", "--seconds", "0"], "--seconds is 0"),
        (["throughput", "--repeats", "0"], "--repeats is 0"),
        (["throughput", "--out", "/dev/null/results"], "--out is /dev/null/results"),
        (["scaling", "--seconds", "nan"], "--seconds is nan"),
        (["scaling", "--nets", "small:2"], "--nets holds 'small:2'"),
        (["scaling", "--nets", "large:9"], "--stride is 9"),
        (["scaling", "--workers", "0"], "--workers is 0"),
        (["scaling", "--axes"], "--axes is empty"),
        (["account", "--no-account"], "--no-account must be left out"),
        (["scaling", "--agents", "0"], "--agents is 0"),
        (["scaling", "--env", "CartPole-v1", "--nets", "small"], "--net is small"),
    ],
)
def test_bad_input_is_one_sentence(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", *words]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.startswith("ga3c: ")
    assert len(error.strip().splitlines()) == 1


def test_a_damaged_file_of_measurements_is_told_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "latency.csv").write_bytes(b"\xff\xfe\x00")
    assert cli.main(["bench", "latency", "--device", "cpu", "--out", str(tmp_path)]) == 2
    assert f"{tmp_path / 'latency.csv'} is damaged or cannot be read" in capsys.readouterr().err


def test_a_plot_without_matplotlib_is_refused_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert cli.main(["bench", "scaling", "--out", str(tmp_path / "out")]) == 2
    assert 'pip install "ga3c[bench]", or give --no-plot' in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
