"""The account of time: its percentiles are right, its parts add up, and a killed process does not corrupt it."""

import dataclasses
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest
from engines import Engine
from numpy.typing import NDArray
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # type: ignore[import-untyped]

from ga3c import cli
from ga3c.bench import harness
from ga3c.bench.harness import Measurement
from ga3c.config import Config, LearnConfig
from ga3c.engine.timing import PredictionTimes
from ga3c.metrics import account
from ga3c.metrics.account import CELLS, OF_AGENTS, OF_TRAINERS, PARTS, STEP, Account, AgentTimes, Histogram, spread
from ga3c.metrics.sinks.csv import CsvSink, read_metrics
from ga3c.metrics.sinks.tensorboard import TAGS, TensorBoardSink
from ga3c.run import session, settings
from ga3c.run.folder import RunFolder
from ga3c.run.server import Server

WaitUntil = Callable[..., None]
MakeEngine = Callable[..., Engine]
Cells = NDArray[np.int64]
AGENTS, WORKERS = 6, 2
BUCKET = 1 / 16
"""The width of a bucket relative to its lowest time, at most."""


def counted(times: Sequence[int], count: int = 1) -> Cells:
    cells = np.zeros(CELLS, np.int64)
    histogram = Histogram(cells)
    for nanoseconds in times:
        histogram.add(nanoseconds, count)
    return cells


# -- histograms -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["lognormal", "uniform", "two humps", "one value"])
@pytest.mark.parametrize("count", [1, 7])
def test_percentiles_are_those_of_numpy_to_a_bucket(name: str, count: int) -> None:
    random = np.random.default_rng(3)
    times = {
        "lognormal": random.lognormal(13.0, 1.5, 20_000),
        "uniform": random.uniform(1_000.0, 9_000_000.0, 20_000),
        "two humps": np.concatenate([random.normal(3e5, 1e4, 9_000), random.normal(2e7, 1e6, 1_000)]),
        "one value": np.full(100, 350_000.0),
    }[name].astype(np.int64)
    found = spread(counted(times.tolist(), count))
    assert found.mean == pytest.approx(times.mean() / 1e6, rel=1e-9)
    for value, percentile in zip(found[1:], (50, 95, 99), strict=True):
        assert value == pytest.approx(np.percentile(times, percentile) / 1e6, rel=BUCKET)


def test_every_time_falls_into_the_bucket_that_holds_it() -> None:
    near = [2**power + offset for power in range(41) for offset in (-1, 0, 1)]
    for nanoseconds in [*range(70), *near, *np.random.default_rng(1).integers(0, 2**40, 1000).tolist()]:
        kept = min(nanoseconds, 2**40 - 1)
        (bucket,) = np.flatnonzero(counted([nanoseconds])[:-1])
        low, high = account._EDGES[bucket : bucket + 2]
        assert low <= kept < high
        assert high - low <= max(1.0, BUCKET * low)


def test_times_that_cannot_be_are_counted_at_the_ends() -> None:
    assert spread(counted([-5, -(2**70)])) == (0.0, 0.0, 0.0, 0.0)
    assert spread(counted([2**70])).p50 == pytest.approx(2**40 / 1e6, rel=BUCKET)
    assert all(map(math.isnan, spread(np.zeros(CELLS, np.int64))))


def test_a_reader_takes_what_came_since_it_last_did() -> None:
    agents = np.zeros((3, len(OF_AGENTS), CELLS), np.int64)
    book = Account(agents)
    (first,), (second,) = book.histograms(["update_device"]), book.histograms(["update_device"])
    first.add(2_000_000)
    second.add(4_000_000)
    Histogram(agents[2, 0]).add(7_000_000, 5)
    times = book.take()
    assert times["update_device"].mean == 3.0
    assert times[OF_AGENTS[0]].mean == 7.0
    assert math.isnan(times["update_waiting"].p50)
    second.add(8_000_000)
    assert book.take()["update_device"].mean == 8.0
    assert all(math.isnan(figure) for part in book.take().values() for figure in part)


def test_what_threads_count_while_one_reads_is_all_there(in_threads: Callable[..., list[threading.Thread]]) -> None:
    book, each = Account(np.zeros((1, len(OF_AGENTS), CELLS), np.int64)), 5_000

    def count(number: int) -> None:
        histograms = book.histograms(OF_TRAINERS)
        for nanoseconds in range(each):
            for histogram in histograms:
                histogram.add(nanoseconds, number + 1)

    started, last = in_threads(3, count), book.totals()
    while any(thread.is_alive() for thread in started):
        last, before = book.totals(), last
        assert (last >= before).all()
    rows = book.totals()[[PARTS.index(part) for part in OF_TRAINERS]]
    assert (rows[:, :-1].sum(axis=1) == 6 * each).all()
    assert (rows[:, -1] == 6 * sum(range(each))).all()


@pytest.mark.parametrize(
    ("free", "returning", "turn"), [(50, 30, 0), (100, 30, 0), (125, 5, 25)], ids=["asleep", "just free", "busy"]
)
def test_the_wait_of_an_agent_is_divided_without_rest(
    monkeypatch: pytest.MonkeyPatch, free: int, returning: int, turn: int
) -> None:
    cells, posted = np.zeros((len(OF_AGENTS), CELLS), np.int64), np.array([0, 0, 10, 10])
    times = AgentTimes(cells, posted, taken_ns=np.array([0, 40]), ready_ns=np.array([0, 100]))
    monkeypatch.setattr(time, "monotonic_ns", lambda: 130)
    times.begin(group=1, agent=2, count=2)
    posted[2:] = 150
    assert times.end(agent=2, count=2, free=free) == 150
    sums = dict(zip(OF_AGENTS, (cells[:, -1] // 2).tolist(), strict=True))
    assert sums == {
        "agent_stepping": 20, "agent_waiting": 120, "prediction_queueing": 30, "prediction_returning": returning,
        "agent_turn": turn,
    }  # fmt: skip
    assert (cells[:, :-1].sum(axis=1) == 2).all()


def test_a_request_counts_for_as_many_as_made_it_and_a_step_for_as_many_as_stepped() -> None:
    cells, posted = np.zeros((len(OF_AGENTS), CELLS), np.int64), np.zeros(4, np.int64)
    times = AgentTimes(cells, posted, taken_ns=np.zeros(1, np.int64), ready_ns=np.zeros(1, np.int64))
    times.begin(group=0, agent=0, count=4)
    times.end(agent=0, count=1, free=0)  # the other three pause
    counted = dict(zip(OF_AGENTS, cells[:, :-1].sum(axis=1).tolist(), strict=True))
    assert counted == dict.fromkeys(OF_AGENTS, 4) | {"agent_stepping": 1}


def test_a_device_with_a_clock_of_its_own_says_when_it_was_done() -> None:
    def stamps(device_ns: int) -> tuple[int, list[int], list[int]]:
        lane = SimpleNamespace(captures=True, timed=lambda: device_ns)
        times: Any = SimpleNamespace(
            _lane=lane, _begin=90, _blocked=10, _launched=150, _done=400, _taken_ns=[0, 0], _ready_ns=[0, 0]
        )
        request: Any = SimpleNamespace(group=SimpleNamespace(number=1))
        PredictionTimes._stamp(times, [request])
        return times._ready, times._taken_ns, times._ready_ns

    assert stamps(200) == (350, [0, 100], [0, 350])
    assert stamps(999) == (400, [0, 100], [0, 400]), "clocks differ: it was not done after it was seen to be"


# -- real runs --------------------------------------------------------------------------------------------------------


def count_of(totals: Cells, part: str) -> int:
    return int(totals[PARTS.index(part), :-1].sum())


def nanoseconds(totals: Cells, *parts: str) -> int:
    return sum(int(totals[PARTS.index(part), -1]) for part in parts)


def all_wait(engine: Engine) -> bool:
    """Whether every group has stepped since it was last answered."""
    slots, groups = engine.pool.slots, engine.pool.groups
    return all(slots.posted_ns[group.start] > slots.ready_ns[group.number] for group in groups)


def begin(engine: Engine, wait_until: WaitUntil) -> NDArray[np.int64]:
    """Starts a run and returns the time of each agent's first request."""
    engine.pool.start()
    wait_until(lambda: (engine.pool.slots.posted_ns > 0).all())
    first = engine.pool.slots.posted_ns.copy()
    for thread in (*engine.predictors, *engine.trainers):
        thread.start()
    return first


def test_the_parts_of_a_step_add_up_to_its_wall_time(make_engine: MakeEngine, wait_until: WaitUntil) -> None:
    learn = LearnConfig(rollout=5, batch_rollouts=4)
    engine = make_engine("CartPole-v1", learn, AGENTS, WORKERS, predictors=2, trainers=2, account=True)
    book = engine.stats.account
    assert book is not None
    first = begin(engine, wait_until)
    started = time.monotonic_ns()
    wait_until(lambda: count_of(book.totals(), "agent_stepping") > 1500)
    engine.stop()
    trained = time.monotonic_ns() - started
    wait_until(lambda: all_wait(engine))
    wall = int((engine.pool.slots.posted_ns - first).sum())
    # The last step of a group is counted just after its request.
    wait_until(lambda: count_of(book.totals(), "agent_stepping") == count_of(book.totals(), "prediction_device"))
    totals = book.totals()
    assert len({count_of(totals, part) for part in (*STEP, "agent_waiting")}) == 1, "each of a step's parts is counted"
    assert nanoseconds(totals, *STEP) == pytest.approx(wall, rel=0.05)
    assert nanoseconds(totals, "agent_stepping", "agent_waiting") == pytest.approx(wall, rel=0.05)
    assert all(nanoseconds(totals, part) > 0 for part in STEP if part != "agent_turn")
    assert count_of(totals, "update_device") == engine.stats.snapshot()[0].updates
    # A trainer's last wait, for rollouts that never came, is not counted.
    assert 0.5 * trained < nanoseconds(totals, *OF_TRAINERS) / 2 < 1.05 * trained


def test_a_process_that_is_killed_and_started_anew_spoils_nothing(
    make_engine: MakeEngine, wait_until: WaitUntil
) -> None:
    learn = LearnConfig(rollout=5, batch_rollouts=4)
    engine = make_engine("toys:Countdown-v0", learn, agents=4, workers=2, account=True)
    book, slots = engine.stats.account, engine.pool.slots
    assert book is not None

    def stepped(worker: int) -> int:
        return int(slots.account[worker, 0, :-1].sum())

    def go_on(*workers: int) -> None:
        goal = [stepped(worker) + 100 for worker in workers]
        wait_until(lambda: all(stepped(worker) > least for worker, least in zip(workers, goal, strict=True)))

    first = begin(engine, wait_until)
    started = time.monotonic_ns()
    for _ in range(2):
        go_on(0)
        before = book.totals()
        os.kill(engine.pool.pids()[0], signal.SIGKILL)
        wait_until(engine.pool.find_failed)
        wait_until(engine.pool.restart_failed)
        assert (book.totals() >= before).all()
    go_on(0, 1)
    engine.stop()
    wait_until(lambda: all_wait(engine))
    wall = slots.posted_ns - first
    # A surviving process has all of its time on account once its last step is counted, just after its request.
    wait_until(lambda: slots.account[1, :2, -1].sum() == pytest.approx(wall[2:].sum(), rel=0.05))
    elapsed = time.monotonic_ns() - started + int(first.max() - first.min())
    ends = account._EDGES[1:][(slots.account[:, :, :-1] > 0).any(axis=(0, 1))]
    assert ends.max() <= (1 + BUCKET) * elapsed, "a time of another life was counted"
    assert slots.account[0, :2, -1].sum() < wall[:2].sum(), "what lies between two lives is nobody's"
    counts = slots.account[0, :, :-1].sum(axis=1)
    assert counts.max() - counts.min() <= 2 * 2, "each life may have left one step of one group half counted"


def build(
    folder: Path, device: Literal["cpu", "cuda"] = "cpu", keeps_account: bool = True, env_id: str = "CartPole-v1"
) -> Server:
    config = settings.preset_config(env_id, "fast", device)
    engine = dataclasses.replace(
        config.engine, device=device, agents=AGENTS, workers=WORKERS, torch_threads=1, account=keeps_account
    )
    run = dataclasses.replace(config.run, steps=3_000 if device == "cpu" else 10_000)
    folder.mkdir()
    return session.build(dataclasses.replace(config, engine=engine, run=run), RunFolder(folder), start=0)


@pytest.mark.parametrize("keeps_account", [True, False], ids=["kept", "not kept"])
def test_the_account_is_on_record_where_it_is_kept(tmp_path: Path, keeps_account: bool) -> None:
    folder = tmp_path / "run"
    server = build(folder, keeps_account=keeps_account)
    sinks = CsvSink(folder), TensorBoardSink(folder / "events")
    server.run(sinks)
    for sink in sinks:
        sink.close()
    rows = [row for row in read_metrics(folder) if row["pps"] > 0 and row["tps"] > 0]
    assert rows
    known = {name for name in account.COLUMNS if not math.isnan(rows[-1][name])}
    assert known == (set(account.COLUMNS) if keeps_account else set())
    events = EventAccumulator(str(folder / "events"))
    events.Reload()
    tags = set(events.Tags()["scalars"])
    assert TAGS["pps"] in tags
    assert {name for name in account.COLUMNS if TAGS[name] in tags} == known
    for part in PARTS if keeps_account else ():
        p50, p95, p99 = (rows[-1][f"{part}_{figure}_ms"] for figure in ("p50", "p95", "p99"))
        assert 0.0 <= p50 <= p95 <= p99 < 60_000.0


@pytest.mark.gpu
@pytest.mark.parametrize("env_id", ["CartPole-v1", "ALE/Pong-v5"])
def test_the_account_of_a_gpu_adds_up(tmp_path: Path, env_id: str) -> None:
    folder = tmp_path / "run"
    server, sink = build(folder, "cuda", env_id=env_id), CsvSink(folder)
    server.run([sink])
    sink.close()
    assert server.stats.account is not None
    totals = server.stats.account.totals()
    whole = nanoseconds(totals, "agent_stepping", "agent_waiting")
    assert nanoseconds(totals, *STEP) == pytest.approx(whole, rel=0.05)
    row = [row for row in read_metrics(folder) if row["pps"] > 0 and row["tps"] > 0][-1]
    for part in ("prediction_device", "prediction_copying", "update_device", "update_overhead"):
        assert row[f"{part}_p50_ms"] > 0.0
    assert math.isnan(row["update_gathering_p50_ms"]), "it is part of the graph"
    assert 0.0 <= row["gpu_utilisation"] <= 1.0
    assert row["gpu_memory_mb"] > 100


# -- what it costs ----------------------------------------------------------------------------------------------------


def test_the_bench_measures_both_in_turn(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    asked: list[bool] = []

    def measure(config: Config, seconds: float, train: bool, on_left: Any) -> Measurement:
        asked.append(config.engine.account)
        zeros = dict.fromkeys((f.name for f in dataclasses.fields(Measurement)), 0)
        speed = (990.0 if config.engine.account else 1000.0) + 100.0 * (len(asked) // 2)
        return Measurement(**zeros | {"pps": speed, "tps": speed / 5})  # type: ignore[arg-type]

    monkeypatch.setattr(harness, "measure", measure)
    words = ("bench", "account", "--env", "CartPole-v1", "--device", "cpu", "--repeats", "3", "--out", str(tmp_path))
    cli.main(words)
    assert asked == [True, False, False, True, True, False]
    out = capsys.readouterr().out
    assert "with / without" in out
    assert "PPS" in out
    assert (tmp_path / "account.json").exists()


def test_adding_a_time_costs_a_fraction_of_a_microsecond() -> None:
    histogram, rounds = Histogram(np.zeros(CELLS, np.int64)), 20_000

    def seconds() -> float:
        start = time.thread_time()
        for _ in range(rounds):
            histogram.add(350_000, 8)
        return time.thread_time() - start

    # The limit is ten times the usual cost, for slow or busy machines.
    assert min(seconds() for _ in range(5)) / rounds < 4e-6
