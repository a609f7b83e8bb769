"""Policy lag on purpose: rollouts wait for the updates that --delay asks for, and the outcome is measured and kept."""

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bench_support import printed, rows_of, table_cells

from ga3c import cli
from ga3c.bench import lag, outcome
from ga3c.bench.lag import LagArguments
from ga3c.bench.outcome import Outcome
from ga3c.config import Config, DeviceName
from ga3c.errors import Diverged, RunFailed
from ga3c.metrics.snapshot import Episode
from ga3c.run import session

pytestmark = pytest.mark.timeout(120)
STEPS = 1000


def small(correction: Any, delay: int, **more: Any) -> Config:
    args = LagArguments(**{"device": "cpu", "steps": 2500, "agents": 8} | more)
    config = lag.configured(args, correction, delay, seed=1)
    return dataclasses.replace(config, engine=dataclasses.replace(config.engine, workers=1))


def ended(steps: int, score: float) -> Episode:
    return Episode(1, 0.0, steps, 0, score, 1)


# -- the outcome of a run ---------------------------------------------------------------------------------------------


def test_the_score_is_followed_by_tenths_of_the_steps() -> None:
    scores = outcome.by_stretch(
        [ended(1, 4.0), ended(99, 6.0), ended(100, 7.0), ended(999, 8.0), ended(1003, 10.0)], STEPS
    )
    assert scores[:2] == [5.0, 7.0]
    assert scores[-1] == 9.0, "what ends after the last step belongs to the end"
    assert all(math.isnan(score) for score in scores[2:-1])


@pytest.mark.parametrize(
    ("scores", "fell"),
    [([], 0.0), ([1.0, 2.0, 3.0], 0.0), ([1.0, 9.0, 4.0, 8.0], 5.0), ([5.0, 3.0, math.nan, 9.0, 8.0], 2.0)],
)
def test_a_fall_is_from_a_score_to_a_later_one(scores: list[float], fell: float) -> None:
    assert outcome.fall(scores) == fell


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_experience_is_as_old_as_was_asked_for(device: DeviceName) -> None:
    """The lag that trainers measure in a real run. The first rollouts wait for fewer updates, so the mean is lower."""
    delay = 20
    late = outcome.train(small("clipped-is", delay, device=device), lambda left: None)
    assert 0.5 * delay < late.lag < delay + 10
    assert delay <= late.lag_max
    assert late.score > 0
    assert late.diverged == 0


def test_weights_that_are_no_longer_finite_are_an_outcome() -> None:
    found = outcome.train(small("none", 0, learning_rate=1e30), lambda left: None)
    assert found.diverged == 1
    assert found.score > 0


def test_a_thread_that_failed_is_no_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_: object) -> None:
        raise Diverged("The weights are no longer finite.")

    server = SimpleNamespace(
        run=run, stop=None, stats=SimpleNamespace(failure="trainer-0 failed", diverged=False, progress=1.0)
    )
    monkeypatch.setattr(session, "build", lambda *_, **__: server)
    with pytest.raises(RunFailed, match="trainer-0 failed"):
        outcome.train(Config(), lambda left: None)


def test_nothing_but_the_correction_acts_against_lag() -> None:
    args = LagArguments(env_id="ALE/Pong-v5", device="cpu")
    one, other = (lag.configured(args, correction, 64, seed=2) for correction in ("none", "clipped-is"))
    assert dataclasses.replace(one.learn, correction="clipped-is") == other.learn
    assert (one.learn.reuse, one.learn.ratio_clip, one.learn.trace_decay) == (1, 0.0, 1.0)
    assert (one.engine, one.run, one.net, one.env) == (other.engine, other.run, other.net, other.env)
    assert (one.engine.delay, one.run.seed) == (64, 2)


def test_rollouts_are_used_again_where_asked_for_and_by_every_correction() -> None:
    args = LagArguments(env_id="ALE/Pong-v5", device="cpu", reuse=True)
    for correction in lag.CORRECTIONS:
        learn = lag.configured(args, correction, 64, seed=2).learn
        assert (learn.reuse, learn.ratio_clip, learn.trace_decay) == (3, 0.2, 0.95)


# -- the command ------------------------------------------------------------------------------------------------------

SMALL = ["--device", "cpu", "--seeds", "2", "--delays", "0", "64", "--correction", "none", "vtrace"]


@pytest.fixture
def trains(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Config]]:
    """Replaces training by a function. Returns the list of configs that are trained, which grows."""

    def replace(stop_at: int | None = None) -> list[Config]:
        asked: list[Config] = []

        def train(config: Config, on_left: Callable[[float], None]) -> Outcome:
            if len(asked) == stop_at:
                raise KeyboardInterrupt
            asked.append(config)
            on_left(3.0)
            bad = config.learn.correction == "none" and config.engine.delay > 0
            score = (20.0 if bad else 400.0) + config.run.seed
            return Outcome(score, 450.0, 30.0, config.engine.delay + 2.0, 99.0, 0.5, 9000.0, 200.0, 4.0, int(bad))

        monkeypatch.setattr(outcome, "train", train)
        return asked

    return replace


def test_each_run_is_on_file_at_once_and_none_is_trained_twice(
    tmp_path: Path, trains: Callable[..., list[Config]], capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    asked = trains(stop_at=3)
    assert cli.main(["bench", "lag", *SMALL, "--out", str(tmp_path)]) == 130
    assert len(asked) == len(rows_of(tmp_path / "lag.csv")) == 3
    told = " ".join(capsys.readouterr().out.split())
    assert "training score, the environment's own rules" in told, "what there is, is shown"
    again = trains()
    assert cli.main(["bench", "lag", *SMALL, "--out", str(tmp_path), "--json"]) == 0
    out, err = capsys.readouterr()
    assert "3 of 8 runs are already in" in err
    assert len(again) == 5
    assert not {(c.learn.correction, c.engine.delay, c.run.seed) for c in asked} & {
        (c.learn.correction, c.engine.delay, c.run.seed) for c in again
    }
    rows = rows_of(tmp_path / "lag.csv")
    assert {(row["correction"], row["delay"], row["seed"]) for row in rows} == {
        (correction, delay, seed) for correction in ("none", "vtrace") for delay in ("0", "64") for seed in ("1", "2")
    }
    result = json.loads(out)
    assert result == json.loads((tmp_path / "lag.json").read_text())
    places = {(row["correction"], row["delay"]): row for row in result["rows"]}
    bad, good = places["none", 64], places["vtrace", 64]
    assert (bad["score"], bad["spread"]["score"], bad["lag"]) == (21.5, [21.0, 22.0], 66.0)
    assert (bad["diverged"], good["diverged"]) == (2, 0)
    assert (tmp_path / "lag.png").stat().st_size > 10_000


def test_the_table_tells_lag_and_spread(
    trains: Callable[..., list[Config]], capsys: pytest.CaptureFixture[str]
) -> None:
    trains()
    assert cli.main(["bench", "lag", *SMALL]) == 0
    assert table_cells(capsys.readouterr().out)[1:] == [
        ["none", "2", "402 (401 to 402)", "30", "0.5", "2"],
        ["", "66", "21.5 (21 to 22)", "30", "0.5", "2, 2 diverged"],
        ["vtrace", "2", "402 (401 to 402)", "30", "0.5", "2"],
        ["", "66", "402 (401 to 402)", "30", "0.5", "2"],
    ]


def test_a_budget_without_room_trains_nothing(
    tmp_path: Path, trains: Callable[..., list[Config]], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = trains()
    assert cli.main(["bench", "lag", *SMALL, "--budget", "0.5", "--no-plot", "--out", str(tmp_path)]) == 0
    assert asked == []
    out, err = capsys.readouterr()
    assert "with 8 runs left" in err
    assert " 0" in out


def test_a_table_of_nothing_can_be_shown() -> None:
    row = lag.row_of("epsilon", 8, [None, None])
    about = {"env": "X", "protocol": "no-op starts", "preset": "fast", "steps": 1, "seeds": 2, "reuse": 1}
    assert "epsilon" in printed(lag.show, about | {"rows": [row], "machine": lag.machine.describe()})


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--seeds", "0"], "--seeds is 0"),
        (["--steps", "10"], "--steps is 10"),
        (["--budget", "-1"], "--budget is -1"),
        (["--delays", "-1"], "--delay is -1"),
    ],
)
def test_settings_that_make_no_sense(flags: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "lag", *flags]) == 2
    assert said in capsys.readouterr().err
