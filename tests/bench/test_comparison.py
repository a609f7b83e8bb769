"""GA3C compared with A3C: derived figures, the tables next to the paper's and the slides', and the commands."""

import json
import math
import os
import signal
from pathlib import Path
from typing import Any, get_args

import pytest
import runs
from bench_support import MACHINE, NO_PLOT, measurement, printed, rows_of, table_cells

from ga3c import cli
from ga3c.bench import cells, comparison, placements, table2
from ga3c.bench.comparison import Entry, Measured
from ga3c.bench.ledger import Ledger
from ga3c.bench.measurement import Measurement
from ga3c.config import GPU_SYSTEMS, Config, EngineConfig, NetConfig, SystemName
from ga3c.errors import RunFailed

pytestmark = pytest.mark.timeout(180)


def measured(system: SystemName, *pps: float, row: str = "", agents: int = 16, **values: float) -> Measured:
    engine = EngineConfig(system=system, device="auto" if system == "ga3c" else "cpu", agents=agents)
    entry = Entry(row or system, Config(net=NetConfig(net="small"), engine=engine), frames_per_step=4)
    return Measured(entry, tuple(measurement(rate, **values) for rate in pps))


def about(**values: Any) -> dict[str, Any]:
    args = comparison.ComparisonArguments(seconds=10.0, repeats=values.pop("repeats", 1))
    entry = Entry("ga3c", Config(preset="paper"), 4)
    return comparison.about(args, entry) | {"machine": MACHINE, "failed": {}} | values


# -- what is derived --------------------------------------------------------------------------------------------------


def test_hours_per_million_steps() -> None:
    assert placements.hours_per_million(1e6 / 3600) == pytest.approx(1.0)
    # The slides' fastest placement, in the unit of the paper.
    assert placements.hours_per_million(555.6) == pytest.approx(0.5, rel=1e-3)
    assert math.isnan(placements.hours_per_million(0.0))
    figures = placements.figures(measured("a3c-cpu", 100.0, 300.0))
    # A step is an action, not one of the four frames that it is repeated for.
    assert figures["trials"]["hours_per_million_steps"] == pytest.approx([1e4 / 3600, 1e4 / 3600 / 3])
    assert figures["hours_per_million_steps"] == pytest.approx(1e4 / 3600 * 2 / 3)
    assert figures["spread"]["pps"] == [100.0, 300.0]


def test_the_speed_up_is_the_quotient_of_the_means() -> None:
    row = table2.figures(measured("a3c-cpu", 100.0, 300.0), measured("ga3c", 800.0, 1200.0, agents=360), "small")
    assert (row["a3c_pps"], row["ga3c_pps"], row["speed_up"]) == (200.0, 1000.0, 5.0)
    assert row["spread"]["speed_up"] == [4.0, 8.0]  # of repeats in which both were measured one after the other
    assert (row["a3c_agents"], row["ga3c_agents"]) == (16, 360)
    assert math.isnan(table2.figures(None, measured("ga3c", 5.0), "small")["speed_up"])
    assert math.isnan(table2.figures(measured("a3c-cpu", 0.0), measured("ga3c", 5.0), "small")["speed_up"])


def test_the_paper_is_quoted_with_quotients_that_fit_its_columns() -> None:
    for row in (*table2.PAPER.values(), *table2.PAPER_SECOND.values()):
        assert row.ga3c_pps / row.a3c_pps == pytest.approx(row.speed_up, abs=0.5)


def test_cores_are_those_of_all_parts_that_there_are() -> None:
    parts = {"cpu_agents": 3.0, "cpu_predictors": 0.0, "cpu_trainers": 0.0, "cpu_rest": 0.25}
    assert measurement(1.0, **parts).cores == 3.25
    # Threads of the server have no processes of their own.
    assert measurement(1.0, **parts | {"cpu_agents": math.nan}).cores == 0.25


def test_the_fastest_of_several_numbers_of_agents_is_told() -> None:
    several = [measured("a3c-cpu", *pps, agents=n) for n, pps in ((8, (5.0, 6.0)), (16, (9.0, 7.0)), (32, (7.0, 8.0)))]
    best = comparison.fastest([*several, measured("ga3c", 3.0)])
    assert {system: one.entry.config.engine.agents for (_, system), one in best.items()} == {"a3c-cpu": 16, "ga3c": 16}


def test_a_mean_says_how_far_apart_its_values_were() -> None:
    assert cells.mean_cell([90.0, 100.0, 116.0]) == "102 ±13%"
    assert cells.mean_cell([90.0]) == "90"
    assert cells.mean_cell([math.nan]) == "-"
    assert cells.mean_cell([]) == "-"


def test_only_systems_on_a_gpu_need_cuda() -> None:
    assert {system for system in get_args(SystemName) if system not in GPU_SYSTEMS} == {
        "ga3c", "a3c-cpu", "a3c-threads",
    }  # fmt: skip


# -- what people see --------------------------------------------------------------------------------------------------


def placements_result(**values: Any) -> dict[str, Any]:
    found = (
        measured("ga3c", 36000.0, 38000.0, agents=360, cpu_agents=14.0, gpu_utilisation=0.82),
        measured("a3c-cpu", 2600.0, 2600.0, cpu_agents=15.9),
    )
    systems = {one.entry.row: placements.figures(one) for one in found}
    skipped = {"a3c-gpu-shared": "needs CUDA"}
    slides = {name: told._asdict() for name, told in placements.SLIDES.items()}
    return about(repeats=2, net="small", systems=systems, slides=slides, skipped=skipped) | values


def test_placements_beside_the_slides() -> None:
    head, *rows = table_cells(printed(placements.show, placements_result()))
    assert head == ["system", "agents", "PPS", "TPS", "h/M", "slides", "cores", "GPU"]
    assert rows == [
        ["ga3c", "360", "37k ±3%", "7,400", "0.00751", "-", "14", "82%"],
        ["a3c-cpu", "16", "2,600 ±0%", "520", "0.107", "6 to 7", "15.9", "-"],
        ["a3c-gpu-shared", "", "needs CUDA", "", "", "0.6*", "", ""],
    ]


def table2_result() -> dict[str, Any]:
    nets = {"small": (2000.0, 36000.0), "large:1": (50.0, 17000.0), "nature": (900.0, 30000.0)}
    rows = [
        {"net": net, **table2.figures(measured("a3c-cpu", slow), measured("ga3c", fast, agents=360), net)}
        for net, (slow, fast) in nets.items()
    ]
    return about(rows=rows)


def test_table_2_beside_the_paper() -> None:
    head, *rows = table_cells(printed(table2.show, table2_result()))
    assert head == ["net", "A3C", "GA3C", "speed-up", "paper: A3C", "GA3C", "speed-up"]
    assert rows == [
        ["small", "2,000", "36k", "18x", "352", "1,361", "4x"],
        ["large:1", "50", "17k", "340x", "11", "490", "45x"],
        ["nature", "900", "30k", "33.3x", "-", "-", "-"],
    ]


@pytest.mark.skipif(bool(NO_PLOT), reason="no matplotlib here")
def test_both_are_drawn_with_what_is_missing_left_out(tmp_path: Path) -> None:
    failed = {"net": "large:2", **table2.figures(None, measured("ga3c", 5.0), "large:2")}
    for plot, result in (
        (placements.plot, placements_result()),
        (table2.plot, table2_result()),
        (table2.plot, table2_result() | {"rows": [*table2_result()["rows"], failed]}),
    ):
        plot(result, tmp_path / "plot.png")
        assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


# -- measuring in turn ------------------------------------------------------------------------------------------------


def test_settings_are_measured_in_turn_and_one_that_fails_costs_no_other(measures: Any) -> None:
    def answer(config: Config) -> Measurement:
        if config.engine.system == "a3c-threads":
            raise RunFailed("It broke.")
        return measurement(10.0 * len(asked))

    asked = measures(answer)
    settings = [measured(system).entry for system in ("ga3c", "a3c-threads", "a3c-cpu")]
    found, failed = comparison.measure(settings, Ledger(None, 1.0), 3)
    order = [config.engine.system for config in asked]
    assert order == ["ga3c", "a3c-threads", "a3c-cpu", *["ga3c", "a3c-cpu"] * 2]
    assert [one.values("pps") for one in found] == [[10.0, 40.0, 60.0], [30.0, 50.0, 70.0]]
    assert failed == {"a3c-threads, 16 agents": "It broke."}


def test_a_comparison_that_was_stopped_goes_on_where_it_was(measures: Any, tmp_path: Path) -> None:
    def stopped(config: Config) -> Measurement:
        if len(asked) == 4:
            raise KeyboardInterrupt
        return measurement(10.0 * len(asked))

    asked = measures(stopped)
    settings = [measured(system).entry for system in ("ga3c", "a3c-cpu")]
    with pytest.raises(KeyboardInterrupt):
        comparison.measure(settings, Ledger(tmp_path / "x.csv", 1.0), 3)
    asked = measures(lambda config: measurement(1000.0 * len(asked)))
    found, failed = comparison.measure(settings, Ledger(tmp_path / "x.csv", 1.0), 3)
    assert [config.engine.system for config in asked] == ["a3c-cpu", "ga3c", "a3c-cpu"]
    assert [one.values("pps") for one in found] == [[10.0, 30.0, 2000.0], [20.0, 1000.0, 3000.0]]
    assert not failed
    asked = measures(lambda config: measurement(1.0))
    comparison.measure(settings, Ledger(tmp_path / "x.csv", 2.0), 1)
    assert len(asked) == 2, "another time is another measurement"


def test_all_systems_have_the_same_settings_but_for_their_agents(measures: Any) -> None:
    asked = measures(lambda config: measurement(1.0))
    flags = ["--device", "cpu", "--agents", "8", "--trainers", "3", "--a3c-agents", "2", "5", "--precision", "bf16"]
    assert cli.main(["bench", "placements", *flags]) == 0
    told = [(c.engine.system, c.engine.agents) for c in asked if c.engine.system in ("ga3c", "a3c-cpu")]
    assert told == [("ga3c", 8), ("a3c-cpu", 2), ("a3c-cpu", 5)]
    assert asked[0].engine.trainers == 3
    assert len({(c.env_id, c.env, c.net, c.learn) for c in asked}) == 1
    assert (asked[0].net.net, asked[0].net.precision) == ("small", "bf16")
    assert (asked[0].learn.rollout, asked[0].learn.batch_rollouts) == (5, 1)


def test_a_speed_up_with_bfloat16_is_over_the_faster_a3c(measures: Any, capsys: pytest.CaptureFixture[str]) -> None:
    pps = {("a3c-cpu", "bf16"): 374.0, ("a3c-cpu", "tf32"): 500.0, ("ga3c", "bf16"): 24_000.0}
    asked = measures(lambda config: measurement(pps[config.engine.system, config.net.precision]))
    flags = ["--device", "cpu", "--nets", "large:1", "--precision", "bf16"]
    assert cli.main(["bench", "table2", *flags, "--json"]) == 0
    assert [(config.engine.system, config.net.precision) for config in asked] == list(pps)
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["speed_up"], row["a3c_config"]["net"]["precision"]) == (48.0, "tf32")
    assert cli.main(["bench", "table2", *flags]) == 0
    assert "precision: A3C tf32, GA3C bf16" in " ".join(capsys.readouterr().out.split())


def test_what_failed_is_told_after_the_others(measures: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def answer(config: Config) -> Measurement:
        if config.engine.system != "ga3c":
            raise RunFailed("It broke.")
        return measurement(700.0)

    measures(answer)
    flags = ["--device", "cpu", "--nets", "small", "--a3c-agents", "2", "--json"]
    assert cli.main(["bench", "table2", *flags]) == 1
    output = capsys.readouterr()
    (row,) = json.loads(output.out)["rows"]
    assert (row["ga3c_pps"], row["a3c_pps"], row["speed_up"]) == (700.0, None, None)
    assert output.err.splitlines()[-1] == "ga3c: small with a3c-cpu, 2 agents: could not be measured."


# -- the commands -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_placements_in_real_processes(tmp_path: Path, temporary: Path, capfd: pytest.CaptureFixture[str]) -> None:
    flags = ["--env", "CartPole-v1", "--net", "mlp", "--device", "cpu", "--seconds", "1", "--agents", "4"]
    assert (
        cli.main(["bench", "placements", *flags, "--a3c-agents", "2", "--json", "--out", str(tmp_path), *NO_PLOT]) == 0
    )
    found = json.loads(capfd.readouterr().out)
    here = [system for system in placements.SYSTEMS if system not in GPU_SYSTEMS]
    assert list(found["systems"]) == here
    assert found["skipped"] == {system: "needs CUDA" for system in placements.SYSTEMS if system in GPU_SYSTEMS}
    assert found["failed"] == {}
    for system, one in found["systems"].items():
        assert one["pps"] > 0
        # In the second measured, GA3C's trainers may fall behind or catch up by what its queue holds.
        waiting = one["config"]["engine"]["queue"] if system == "ga3c" else 0
        assert one["tps"] == pytest.approx(one["pps"] / 5, rel=0.5, abs=waiting)
        assert one["hours_per_million_steps"] == pytest.approx(1e6 / one["pps"] / 3600, rel=0.2)
        assert 0 < one["cores"] < 2 * os.cpu_count()
        assert (one["device"], one["gpu_utilisation"]) == ("cpu", None)
        assert one["agents"] == (4 if system == "ga3c" else 2)
        assert one["config"]["engine"]["system"] == system
        assert one["spread"]["pps"] == [one["pps"]] * 2
    assert found["slides"]["a3c-cpu"]["hours"] == [6.0, 7.0]
    assert (found["env"], found["net"], found["frames_per_step"]) == ("CartPole-v1", "mlp", 1)
    assert json.loads((tmp_path / "placements.json").read_text()) == found
    rows = rows_of(tmp_path / "placements.csv")
    assert [(row["system"], row["repeat"]) for row in rows] == [(system, "1") for system in here]
    assert float(rows[0]["pps"]) == found["systems"]["ga3c"]["pps"]
    assert (tmp_path / "placements.png").exists() != bool(NO_PLOT)
    assert not list(temporary.iterdir())


@pytest.mark.slow
def test_table_2_in_real_processes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    flags = ["--device", "cpu", "--seconds", "1", "--agents", "4", "--a3c-agents", "2", "--nets", "small"]
    assert cli.main(["bench", "table2", *flags, "--json", "--out", str(tmp_path), *NO_PLOT]) == 0
    found = json.loads(capfd.readouterr().out)
    assert (found["env"], found["preset"], found["rollout"]) == ("ALE/Pong-v5", "paper", 5)
    (row,) = found["rows"]
    assert row["a3c_pps"] > 0
    assert row["speed_up"] == pytest.approx(row["ga3c_pps"] / row["a3c_pps"], rel=1e-4)
    assert row["paper"] == {"a3c_pps": 352, "ga3c_pps": 1361, "speed_up": 4}
    assert row["paper_second_system"] == {"a3c_pps": 116, "ga3c_pps": 728, "speed_up": 6}
    assert row["a3c_config"]["net"] == row["ga3c_config"]["net"]
    assert json.loads((tmp_path / "table2.json").read_text()) == found
    assert [row["system"] for row in rows_of(tmp_path / "table2.csv")] == ["a3c-cpu", "ga3c"]
    assert (tmp_path / "table2.png").exists() != bool(NO_PLOT)


@pytest.mark.slow
def test_ctrl_c_leaves_no_process(tmp_path: Path) -> None:
    flags = ["--env", "CartPole-v1", "--net", "mlp", "--device", "cpu", "--systems", "a3c-cpu", "--a3c-agents", "2"]
    with runs.started("bench", "placements", *flags, "--seconds", 60) as bench:
        runs.wait_for(lambda: len(runs.agent_processes(bench.pid)) == 2, "the start of both learners")
        learners = runs.agent_processes(bench.pid)
        os.kill(bench.pid, signal.SIGINT)
        output, _ = bench.communicate(timeout=60)
    assert bench.returncode == 130
    assert output.splitlines()[-1] == "ga3c: Interrupted."
    assert not any(map(runs.is_alive, learners))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["placements", "--seconds", "0"], "--seconds is 0"),
        (["placements", "--repeats", "0"], "--repeats is 0"),
        (["placements", "--env", "Pong"], "did you mean ALE/Pong-v5"),
        (["placements", "--net", "mlp"], "--net is mlp"),
        (["placements", "--agents", "-1"], "--agents is -1"),
        (["placements", "--a3c-agents", "0"], "--a3c-agents is 0"),
        (["placements", "--a3c-agents", "2", "1000"], "--a3c-agents is 1000"),
        (["placements", "--stride", "7"], "--stride is 7"),
        (["placements", "--systems"], "--systems is empty"),
        (["placements", "--out", "/dev/null/results", "--no-plot"], "--out is /dev/null/results"),
        (["table2", "--nets", "small:2"], "--nets holds 'small:2'"),
        (["table2", "--nets"], "--nets is empty"),
        (["table2", "--env", "CartPole-v1"], "--net is small"),
        (["table2", "--seconds", "nan"], "--seconds is nan"),
        (["table2", "--predictors", "99"], "--predictors is 99"),
    ],
)
def test_bad_input_is_one_sentence(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", *words]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.startswith("ga3c: ")
    assert len(error.strip().splitlines()) == 1


def test_without_cuda_systems_that_need_it_are_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(placements, "GPU_SYSTEMS", placements.SYSTEMS)
    assert cli.main(["bench", "placements", "--device", "cpu", "--systems", "a3c-cpu"]) == 2
    assert "must name a system that works without CUDA" in capsys.readouterr().err


def test_without_cuda_systems_that_need_it_are_skipped(
    measures: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = measures(lambda config: measurement(100.0))
    monkeypatch.setattr(placements, "GPU_SYSTEMS", [name for name in placements.SYSTEMS if name != "ga3c"])
    assert cli.main(["bench", "placements", "--device", "cpu", "--json"]) == 0
    assert [config.engine.system for config in asked] == ["ga3c"]
    skipped = json.loads(capsys.readouterr().out)["skipped"]
    assert skipped == {system: "needs CUDA" for system in placements.SYSTEMS if system != "ga3c"}
