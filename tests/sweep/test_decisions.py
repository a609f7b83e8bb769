"""What a sweep decides: the value of a trial, which trials stop early, what is tried next, and what mattered."""

import dataclasses
import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ga3c.bench import published, record
from ga3c.config import SettingsFile
from ga3c.errors import UserError
from ga3c.sweep import outcome, picture, pruning, shares, study
from ga3c.sweep.plan import Plan, RunName
from ga3c.sweep.space import Choice, Range, Space
from ga3c.sweep.study import Past, State, Study
from ga3c.sweep.yardstick import Yardstick, game

CART, ACRO, PONG = RunName("CartPole-v1", 1), RunName("Acrobot-v1", 1), RunName("ALE/Pong-v5", 1)
SPACE: Space = {"learning_rate": Range(1e-4, 1e-2, log=True), "rollout": Choice((5, 8, 16))}


def plan(*env_ids: str, space: Space = SPACE, seeds: tuple[int, ...] = (1,)) -> Plan:
    return Plan(env_ids or ("CartPole-v1",), "fast", {"device": "cpu", "agents": 4}, space, 500, 0.0, seeds, cores=1)


def past(number: int, state: State = "complete", rate: float = 1e-3, **scores: float) -> Past:
    runs = {{"cart": CART, "acro": ACRO, "pong": PONG}[name]: score for name, score in scores.items()}
    curves = {run: {pruning.RUNGS: score} for run, score in runs.items()}
    return Past(number, state, {"learning_rate": rate, "rollout": 5}, curves, runs)


# -- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "score", "value"),
    [("Pong", -20.7, 0.0), ("pong", 14.6, 1.0), ("space_invaders", 148.0, 0.0), ("SpaceInvaders", 1668.7, 1.0)],
)
def test_random_play_is_0_and_human_play_is_1(name: str, score: float, value: float) -> None:
    scores = published.find(name)
    assert scores is not None
    assert scores.normalised(score) == pytest.approx(value)
    assert published.find("Chess") is None


def test_games_are_found_by_any_of_their_ids() -> None:
    assert (game("ALE/Pong-v5"), game("SpaceInvadersNoFrameskip-v4")) == ("pong", "space_invaders")
    assert game("CartPole-v1") is None
    assert game("toys:Countdown-v0") is None


def test_scores_are_rescaled_by_the_best_and_worst_seen_and_games_by_humans() -> None:
    pasts = [past(0, cart=20.0, acro=-500.0, pong=14.6), past(1, cart=220.0, acro=-100.0, pong=-20.7)]
    yardstick = Yardstick(("CartPole-v1", "Acrobot-v1", "ALE/Pong-v5"), pasts)
    assert yardstick.value(pasts[0]) == pytest.approx((0 + 0 + 1) / 3)
    assert yardstick.value(pasts[1]) == pytest.approx((1 + 1 + 0) / 3)
    assert yardstick.best(pasts) == pasts[1]
    assert yardstick.normalised("CartPole-v1", 120.0) == pytest.approx(0.5)
    assert yardstick.normalised("CartPole-v1", 999.0) == 1.0, "of a run that has not ended"
    assert yardstick.best([past(0, "pruned", cart=3.0)]) is None
    assert math.isnan(Yardstick(("CartPole-v1",), []).normalised("CartPole-v1", 3.0))


def test_seeds_of_one_environment_count_as_one() -> None:
    two = Past(0, "complete", {}, {}, {PONG: -20.7, RunName("ALE/Pong-v5", 2): 14.6, RunName("ALE/Boxing-v5", 1): 12.1})
    yardstick = Yardstick(("ALE/Pong-v5", "ALE/Boxing-v5"), [two])
    assert yardstick.value(two) == pytest.approx((0.5 + 1.0) / 2)


# -- stopping early ---------------------------------------------------------------------------------------------------


def curve(run: RunName, *scores: float) -> dict[RunName, dict[int, float]]:
    return {run: dict(enumerate(scores, 1))}


def test_a_trial_below_the_median_at_the_same_point_is_stopped() -> None:
    others = [curve(CART, 10.0, value, 100.0) for value in (20.0, 30.0, 40.0, 50.0, 60.0)]
    assert pruning.rank(curve(CART, 99.0, 35.0), others, 5) == pytest.approx(0.4)
    assert pruning.is_behind(curve(CART, 99.0, 35.0), others, 0.5, 5)
    assert not pruning.is_behind(curve(CART, 0.0, 45.0), others, 0.5, 5)
    assert not pruning.is_behind(curve(CART, 0.0, 35.0), others, 0.4, 5)
    assert not pruning.is_behind(curve(CART, 0.0, 0.0), others, 0.0, 5), "0 stops none"
    assert pruning.rank(curve(CART, 1.0, 40.0), others, 5) == pytest.approx(0.5), "equal is half ahead"


def test_nothing_is_stopped_before_there_is_something_to_compare_with() -> None:
    others = [curve(CART, 50.0, 50.0)] * 5
    assert pruning.rank(curve(CART, 0.0), others, 5) is None, "the first rung says nothing"
    assert pruning.rank(curve(CART, 0.0, 0.0), others, 6) is None, "too few others"
    assert pruning.rank(curve(CART, 0.0, 0.0, 0.0), others, 5) is None, "none is as far"
    assert pruning.rank({}, others, 5) is None


def test_several_environments_are_compared_by_ranks() -> None:
    """An environment with large scores does not outweigh the others, and runs may be at different points."""
    others = [{**curve(CART, 0.0, value), **curve(ACRO, -9e6, -9e6, -1e6 * value)} for value in (1.0, 2.0, 3.0, 4.0)]
    own = {**curve(CART, 0.0, 9.0), **curve(ACRO, 0.0, 0.0, -3.5e6)}
    assert pruning.rank(own, others, 4) == pytest.approx((1.0 + 0.25) / 2)
    assert not pruning.is_behind(own, others, 0.5, 4)


def test_trials_begin_with_different_environments() -> None:
    three = plan("CartPole-v1", "Acrobot-v1", "ALE/Pong-v5", seeds=(1, 2))
    firsts = [three.runs_of(number)[0].env_id for number in range(4)]
    assert firsts == ["CartPole-v1", "Acrobot-v1", "ALE/Pong-v5", "CartPole-v1"]
    assert all(sorted(three.runs_of(number)) == sorted(three.runs) for number in range(4))


# -- the file of trials -----------------------------------------------------------------------------------------------


def test_the_file_gives_trials_back_and_the_next_follows(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    first = Study(path, plan()).ask(SPACE, lambda _: math.nan, {"learning_rate": 2e-3, "rollout": 8})
    assert (first.number, first.state, dict(first.params)) == (0, "running", {"learning_rate": 2e-3, "rollout": 8})
    again = Study(path, plan())
    assert again.pasts() == [first], "a sweep that was killed has its trial"
    done = Past(0, "complete", first.params, {CART: {3: 1.5, 10: 2.5}}, {CART: 2.5})
    again.note(done, 0.5, 100)
    again.conclude(done, 0.5)
    failed = again.ask(SPACE, lambda _: 0.5, {})
    again.conclude(Past(1, "failed", failed.params, reason="it broke"), math.nan)
    stopped = again.ask(SPACE, lambda _: 0.5, {})
    again.note(Past(2, "running", stopped.params, {CART: {2: 1.0}}), math.nan, 20)
    again.conclude(Past(2, "pruned", stopped.params, {CART: {2: 1.0}}), math.nan)
    assert Study(path, plan()).pasts() == [
        done,
        Past(1, "failed", failed.params, reason="it broke"),
        Past(2, "pruned", stopped.params, {CART: {2: 1.0}}),
    ]


def test_the_file_of_another_sweep_is_refused(tmp_path: Path) -> None:
    Study(tmp_path / "study.db", plan())
    Study(tmp_path / "study.db", plan())
    with pytest.raises(UserError, match="holds a sweep with ENV CartPole-v1, not CartPole-v1 Acrobot-v1; use the same"):
        Study(tmp_path / "study.db", plan("CartPole-v1", "Acrobot-v1"))
    with pytest.raises(UserError, match=r"--search learning_rate=0.0001:0.01:log rollout=5,8,16, not rollout=5,8,16;"):
        Study(tmp_path / "study.db", plan(space={"rollout": SPACE["rollout"]}))
    (tmp_path / "other.db").write_bytes(b"not a database, but a text that is long enough to be read as one" * 20)
    with pytest.raises(UserError, match=r"other\.db cannot be used \(.*\); move it away, or choose another --out\."):
        Study(tmp_path / "other.db", plan())


def test_what_is_tried_next_is_near_what_was_good() -> None:
    """The value is the learning rate's distance to 1e-3 in magnitudes."""
    held: list[Past] = []

    def value(one: Past) -> float:
        return -abs(math.log10(one.params["learning_rate"]) + 3)

    for number in range(30):
        held.append(Past(number, "complete", study.propose(SPACE, held, value, {}), {}, {CART: 1.0}))
    values = [value(one) for one in held]
    assert sum(values[20:]) / 10 > sum(values[:10]) / 10 + 0.15
    shares_of = study.importance(SPACE, held, value)
    assert shares_of["learning_rate"] > 0.7
    assert sum(shares_of.values()) == pytest.approx(1.0)


def test_importance_waits_for_five_complete_trials() -> None:
    assert study.importance(SPACE, [past(n, cart=1.0) for n in range(4)], lambda _: 1.0) == {}
    equal = study.importance(SPACE, [past(n, rate=1e-3 * n, cart=1.0) for n in range(1, 7)], lambda _: 1.0)
    assert set(equal) == set(SPACE)


# -- the best as a file -----------------------------------------------------------------------------------------------


def test_the_file_of_one_environment_has_all_settings_and_of_several_what_they_share(tmp_path: Path) -> None:
    params = {"learning_rate": 2e-3, "rollout": 8}
    one = plan()
    config = one.config(CART, params)
    path = tmp_path / "best.toml"
    outcome.write_best(path, past(3, cart=1.0), 1.0, [config], one.fixed)
    found = SettingsFile.read(path)
    assert (found.env_id, found.preset, found.settings["learning_rate"]) == ("CartPole-v1", "fast", 2e-3)
    assert {"steps", "seed", "agents", "tune", "discount"} <= set(found.settings)
    assert "log" not in found.settings
    assert path.read_text().startswith("# Trial 3 of a sweep, value 1: CartPole-v1 (seed 1) 1\n")
    several = plan("CartPole-v1", "ALE/Pong-v5", seeds=(1, 2))
    outcome.write_best(path, past(3), 1.0, [several.config(run, params) for run in several.runs], several.fixed)
    found = SettingsFile.read(path)
    assert found.env_id is None
    assert (found.settings["rollout"], found.settings["agents"]) == (8, 4)
    assert not {"seed", "clip_rewards", "net", "trace_decay"} & set(found.settings)


@pytest.mark.parametrize("count", [0, 1, 6])
def test_a_result_becomes_a_table_a_picture_and_rows(tmp_path: Path, count: int) -> None:
    pasts = [past(n, rate=1e-3 * (n + 1), cart=10.0 * n) for n in range(count)]
    pasts += [past(count, "pruned", cart=2.0), Past(count + 1, "failed", {"learning_rate": 1e-4, "rollout": 16})]
    result = outcome.gather(plan(), pasts, tmp_path)
    console = Console(record=True, width=100, file=io.StringIO())
    outcome.show(result, console)
    text = console.export_text()
    assert f"{count} complete, 1 pruned, 1 failed." in text or (count == 0 and "Trials: 1 pruned, 1 failed." in text)
    assert ("learning_rate" in text) == (count > 0)
    assert ("importance of settings is told once five" in text) == (0 < count < 5)
    picture.draw(result, tmp_path / "sweep.png")
    assert (tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG")
    outcome.write_csv(tmp_path / "trials.csv", result)
    rows = record.read_csv(tmp_path / "trials.csv")
    assert [row["state"] for row in rows] == [one.state for one in pasts]
    assert rows[-1]["score CartPole-v1"] == ""
    best = json.loads(record.to_json(result))["best"]
    assert (best and best["number"]) == (count - 1 if count else None)


# -- cores ------------------------------------------------------------------------------------------------------------


def test_cores_are_divided_into_equal_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares.os, "sched_getaffinity", lambda _: set(range(2, 10)))
    monkeypatch.setattr(shares.machine, "num_cores", lambda: 8)
    assert shares.divide(2) == [frozenset({2, 3, 4, 5}), frozenset({6, 7, 8, 9})]
    assert shares.divide(3) == [frozenset({2, 3}), frozenset({4, 5}), frozenset({6, 7})]
    assert len(shares.divide(20)) == 20
    assert all(len(share) == 1 for share in shares.divide(20))
    assert shares.default_jobs() == 2
    monkeypatch.setattr(shares.machine, "num_cores", lambda: 4)  # a container's quota
    assert shares.divide(2) == [frozenset({2, 3}), frozenset({4, 5})]


def test_arguments_and_wrappers_of_environments_are_those_of_every_run() -> None:
    fixed: dict[str, Any] = {"wrap": ("gymnasium.wrappers:TimeLimit(max_episode_steps=5)",)}
    searched = Plan(("CartPole-v1",), "fast", fixed, {}, 100, 0.0, (1,), 1, {"max_episode_steps": 9})
    config = searched.config(searched.runs[0], {})
    assert config.env.wrap == fixed["wrap"]
    assert config.env_args == {"max_episode_steps": 9}
    best = outcome.common([config], Path("best.toml"), fixed)
    assert best.env_args == config.env_args
    assert best.settings["wrap"] == config.env.wrap
    assert searched.identity()["--env-args"] == config.env_args
    assert "--env-args" not in dataclasses.replace(searched, env_args={}).identity(), "sweeps of before go on"
