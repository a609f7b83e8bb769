"""Who plays an evaluation: the same games in this process and in others, and nothing left of them."""

import os
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from saved_runs import save_run

from ga3c import machine
from ga3c.agents.flags import FIRST
from ga3c.agents.performer import shares
from ga3c.config import Config, EnvConfig
from ga3c.errors import RunFailed
from ga3c.run import evaluate, players
from ga3c.run.players import OwnPlayers, PlayerProcesses
from ga3c.run.trained import Trained, load

WaitUntil = Callable[..., None]
EPISODES = 7


@pytest.fixture
def breakout(tmp_path: Path) -> Trained:
    """Training would clip its rewards and end episodes with lives; games end after a few steps."""
    env = EnvConfig(clip_rewards=True, life_loss=True, max_frames=120, sticky=0.25)
    return load(save_run(tmp_path / "run", Config("ALE/Breakout-v5", env=env)), "last", torch.device("cpu"))


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files are made."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def play(trained: Trained, monkeypatch: pytest.MonkeyPatch, processes: int) -> tuple[list[Any], list[int]]:
    """The episodes, and the steps that were told, with so many processes; 0: in this process."""
    made = (lambda *args: PlayerProcesses(*args, processes)) if processes else OwnPlayers
    monkeypatch.setattr(players, "make", made)
    monkeypatch.setattr(evaluate, "MOST_ENVIRONMENTS", 4)
    monkeypatch.setattr(evaluate, "_TOLD_STEPS", 10)
    told: list[int] = []
    ended: list[evaluate.Played] = []
    played = evaluate.play(trained, EPISODES, "sample", 5, ended.append, told.append)
    assert sorted(ended, key=lambda one: one.episode) == list(played)
    return [(one.episode, one.score, one.length) for one in played], told


def test_the_same_seed_gives_the_same_games_however_many_processes_there_are(
    breakout: Trained, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = play(breakout, monkeypatch, 0)
    assert [episode for episode, _, _ in alone[0]] == list(range(1, EPISODES + 1))
    assert {length for _, _, length in alone[0]} == {30}
    for processes in (1, 3):
        assert play(breakout, monkeypatch, processes) == alone
    assert not list(temporary.iterdir())


def test_a_player_rests_after_its_share(breakout: Trained) -> None:
    """Two players in one group: one plays two episodes, the other one."""
    assert shares(3, 2) == [[1, 3], [2]]
    playing = PlayerProcesses(breakout, 5, 2, 3, 1)
    both, first = np.arange(2), np.arange(1)
    try:
        for _ in range(31):
            playing.step(both)
        rested = playing.slots.frames[1].copy()
        assert playing.slots.lengths.tolist() == [30, 30]
        playing.step(first)
        assert playing.slots.flags[0] == FIRST
        for _ in range(30):
            playing.step(first)
        assert np.array_equal(playing.slots.frames[1], rested)
    finally:
        playing.close()


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (
            signal.SIGKILL,
            r"^A process that played episodes ended with signal 9; the evaluation is not complete, run it",
        ),
        (signal.SIGSTOP, r"^A process that played episodes made no step for \d+ s; the evaluation is not complete"),
    ],
)
def test_a_process_that_ends_or_hangs_ends_the_evaluation_with_a_sentence(
    breakout: Trained, temporary: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, said: str
) -> None:
    if number == signal.SIGSTOP:
        monkeypatch.setattr(players, "_STEP_SECONDS", 1.0)
    playing = PlayerProcesses(breakout, 5, 2, 4, 2)
    pids = playing._pool.pids()
    try:
        playing.step(np.arange(2))
        os.kill(pids[0], number)
        with pytest.raises(RunFailed, match=said) as raised:
            playing.step(np.arange(2))
        assert "\n" not in str(raised.value)
    finally:
        playing.close()
    assert not any(is_alive(pid) for pid in pids)
    assert not list(temporary.iterdir())


def test_nothing_is_left_of_an_evaluation_that_is_interrupted(
    breakout: Trained, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids: list[int] = []

    def make(*args: Any) -> PlayerProcesses:
        playing = PlayerProcesses(*args, 2)
        pids.extend(playing._pool.pids())
        return playing

    def interrupt(_: evaluate.Played) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(players, "make", make)
    with pytest.raises(KeyboardInterrupt):
        evaluate.play(breakout, EPISODES, "sample", 5, interrupt, lambda steps: None)
    assert len(pids) == 2
    assert not any(is_alive(pid) for pid in pids)
    assert not list(temporary.iterdir())


def test_games_of_atari_use_all_cores_and_other_environments_one(
    breakout: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(players, "PlayerProcesses", lambda *args: asked.append(args[-1]))
    monkeypatch.setattr(machine, "num_cores", lambda: 3)
    for count in (2, 16):
        players.make(breakout, 5, count, 30)
    assert asked == [2, 3]
    cartpole = load(save_run(tmp_path / "cartpole", Config("CartPole-v1")), "last", torch.device("cpu"))
    assert isinstance(players.make(cartpole, 5, 16, 30), OwnPlayers)
    assert isinstance(players.make(breakout, 5, 1, 30), OwnPlayers)
    monkeypatch.setattr(machine, "num_cores", lambda: 1)
    assert isinstance(players.make(breakout, 5, 2, 30), OwnPlayers)
    assert asked == [2, 3]
