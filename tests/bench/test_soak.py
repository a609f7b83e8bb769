"""The soak test: a short one passes, and its checks find what they are made for."""

import json
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bench_support import NO_PLOT, rows_of

from ga3c import cli
from ga3c.bench import conservation, live, soak
from ga3c.engine.ga3c import Ga3c
from ga3c.errors import RunFailed

pytestmark = pytest.mark.timeout(120)
SMALL = ["--env", "CartPole-v1", "--device", "cpu", "--agents", "6", "--predictors", "3", "--trainers", "3"]
CLOCKWORK = "ga3c.bench.faults.clockwork:Clockwork"


@pytest.mark.slow
def test_a_short_soak_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_FIRST", 0.2)
    monkeypatch.setattr(soak, "_BETWEEN_CHECKS", 1.0)
    words = ["bench", "soak", *SMALL, "--minutes", "0.04", "--every", "0.1", "--out", str(tmp_path)]
    assert cli.main([*words, *NO_PLOT]) == 0
    result = json.loads((tmp_path / "soak.json").read_text())
    assert len(result["checks"]) == 12
    assert all(check["holds"] for check in result["checks"])
    rows = rows_of(tmp_path / "soak.csv")
    assert len(rows) == result["changes"] >= 2
    assert len({(row["agents"], row["predictors"], row["trainers"]) for row in rows}) >= 2
    assert NO_PLOT or (tmp_path / "soak.png").stat().st_size > 10_000


def test_a_short_soak_with_faults_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every transition is checked. Memory is not: processes that were just restarted are smaller than older ones."""
    monkeypatch.setattr(live, "_FIRST", 0.2)
    words = ["bench", "soak", *SMALL, "--env", CLOCKWORK, "--faults", "--minutes", "0.08", "--every", "0.5"]
    cli.main([*words, "--out", str(tmp_path), *NO_PLOT])
    checks = json.loads((tmp_path / "soak.json").read_text())["checks"]
    kept = [check for check in checks if "flat" not in check["what"]]
    assert len(kept) == 9
    assert [check for check in kept if not check["holds"]] == []
    assert int(rows_of(tmp_path / "soak.csv")[-1]["restarts"]) > 0


def test_who_is_stuck_is_told_and_what_is_missing_shows(
    monkeypatch: pytest.MonkeyPatch, wait_until: Callable[..., None]
) -> None:
    monkeypatch.setattr(live, "_FIRST", 0.1)
    monkeypatch.setattr(conservation, "_PATIENCE", 1.0)
    config = soak.plan(soak.SoakArguments(env_id="CartPole-v1", device="cpu", agents=4, predictors=1, trainers=1))
    episodes = conservation.Episodes()
    with live.running(config) as run:
        run.warm_up(episodes)
        assert conservation.find_stuck(run, episodes) == ""
        run.system.store.release([0])  # a block twice
        broken = {
            check.what.split(":")[0]
            for check in conservation.conserved(run.system, config, lambda: run.let_pass(0.0, episodes), episodes)
            if not check.holds
        }
        assert broken == {"blocks"}
    with live.running(config) as run:
        run.warm_up(episodes)
        pool, real = run.system.pool, run.system.pool.reply

        forgotten = []

        def forgetful(requests: Any) -> None:
            forgotten.extend(request for request in requests if not request.group.number)
            real([request for request in requests if request.group.number])

        monkeypatch.setattr(pool, "reply", forgetful)
        wait_until(lambda: forgotten)
        stuck = conservation.find_stuck(run, episodes)
        assert "agents [0] made no step" in stuck


def test_memory_that_grows_is_seen() -> None:
    def rows(growth: float) -> list[conservation.Sample]:
        return [{"rss_server_mb": 400.0 + growth * n, "rss_agents_mb": 100.0} for n in range(400)]

    assert [check.holds for check in conservation.flat(rows(0.0))] == [True, True]
    server, agents = conservation.flat(rows(0.5))
    assert not server.holds
    assert server.found == "475 MB, then 575 MB"
    assert agents.holds
    assert conservation.flat(rows(0.0)[:3]) == [], "too short to say"
    jump = [{"rss_server_mb": 100.0 if n < 50 else 400.0, "rss_agents_mb": float("nan")} for n in range(400)]
    assert [check.holds for check in conservation.flat(jump)] == [True], (
        "what threads take with their first work is no growth"
    )


def test_an_interrupt_is_noted_and_a_second_one_raised() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background has it ignored
    try:
        with soak._interrupts_noted() as interrupted:
            signal.raise_signal(signal.SIGINT)
            assert interrupted.is_set()
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_acting_ends_with_an_error_where_nobody_makes_room(in_threads: Callable[..., list[threading.Thread]]) -> None:
    room = threading.Event()
    predictors = in_threads(1, lambda _: room.wait(20.0))
    queue, stats = SimpleNamespace(close=lambda: None), SimpleNamespace(failure="trainer-0 failed")
    system: Any = SimpleNamespace(
        _changing=threading.Lock(), _predictor_seats=queue, pool=SimpleNamespace(queue=queue), predictors=predictors,
        stats=stats,
    )  # fmt: skip
    with pytest.raises(RunFailed, match="trainer-0 failed"):
        Ga3c.finish_acting(system)
    room.set()
