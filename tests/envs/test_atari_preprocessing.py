"""Whole episodes beside Gymnasium's AtariPreprocessing, with its own resets: frames, rewards, ends and lives."""

import itertools
from collections.abc import Sequence

import gymnasium
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ga3c import envs
from ga3c.config import EnvConfig
from ga3c.engine.preprocess import ScreenPreprocessor
from ga3c.envs import atari
from ga3c.envs.spec import Transition

pytest.importorskip("cv2")

NOOPS = 30
TEN = (  # Not Qbert, whose restored starts are a frame late: see test_envs_atari.py.
    "Amidar",
    "BeamRider",
    "Boxing",
    "DemonAttack",
    "Freeway",
    "MsPacman",
    "Pong",
    "NameThisGame",
    "Seaquest",
    "SpaceInvaders",
)


class Scripted:
    """Stands for the random numbers of an environment: a reset and a number of no-ops that a test has chosen."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def integers(self, most: int) -> int:
        number = self.numbers.pop(0)
        assert number < most
        return number


class Ours:
    """The environment of an agent, whose frames are made on the agents' side or on the device's."""

    def __init__(self, env_id: str, on_device: bool) -> None:
        config = EnvConfig(noop_max=NOOPS)
        spec = envs.describe(env_id, config, raw_screens=on_device)
        self.script = Scripted()
        self._env = envs.make(env_id, config, raw_screens=on_device, seed=1)
        self._env._random = self.script  # type: ignore[attr-defined]
        self._out = np.zeros(spec.frame_shape, np.uint8)
        self._preprocess = ScreenPreprocessor(spec, torch.device("cpu")) if on_device else None

    @property
    def frame(self) -> NDArray[np.int64]:
        if self._preprocess is None:
            return self._out.astype(np.int64)
        return self._preprocess(torch.from_numpy(self._out)[None])[0].numpy().astype(np.int64)

    def reset(self, reset: int, noops: int) -> None:
        self.script.numbers = [reset, noops]
        self._env.reset(self._out)

    def step(self, action: int) -> Transition:
        return self._env.step(action, self._out)


def compare(game: str, begin_after: Sequence[int]) -> set[bytes]:
    """Plays whole episodes with random actions, each after one of Gymnasium's resets, of which only the first is given
    a seed. Returns the states of the console's memory after those resets."""
    env_id = f"ALE/{game}-v5"
    plain = gymnasium.make(env_id, frameskip=1, repeat_action_probability=0.0)
    theirs = gymnasium.wrappers.AtariPreprocessing(plain, noop_max=NOOPS)
    both = [Ours(env_id, on_device) for on_device in (False, True)]
    random, memories = np.random.default_rng(5), set()
    for reset in range(max(begin_after) + 1):
        frame, info = theirs.reset(seed=None if reset else 7)
        if reset in begin_after:
            memory, frames = after_reset(env_id, reset)
            noops = theirs.unwrapped.ale.getEpisodeFrameNumber() - frames  # type: ignore[attr-defined]
            for ours in both:
                ours.reset(reset, noops)
                assert np.abs(ours.frame - frame).max() <= 1, (game, reset, noops)
            memories.add(memory)
            assert play(theirs, both, info["lives"], random) > 20
    return memories


def play(theirs: gymnasium.Env, both: Sequence[Ours], lives: int, random: np.random.Generator) -> int:
    """Plays to the end of an episode. Returns its steps."""
    for step in itertools.count(1):
        action = int(random.integers(theirs.action_space.n))  # type: ignore[attr-defined]
        frame, reward, terminated, truncated, info = theirs.step(action)
        for ours in both:
            expected = Transition(reward, terminated, truncated, info["lives"] < lives)
            assert ours.step(action) == expected, step
            # At its end Gymnasium shows an older screen, we the last one; nobody acts on either.
            assert terminated or np.abs(ours.frame - frame).max() <= 1, step
        lives = info["lives"]
        if terminated or truncated:
            return step
    raise AssertionError


def after_reset(env_id: str, reset: int) -> tuple[bytes, int]:
    """The console's memory after the resets of an emulator that does nothing else, and the frames that the last of them
    took: some games are set to their mode with a few."""
    ale = atari._load(atari.game_of(gymnasium.spec(env_id).kwargs), seed=9)
    for _ in range(reset + 1):
        ale.reset_game()
    return ale.getRAM().tobytes(), ale.getEpisodeFrameNumber()


@pytest.mark.timeout(100)
def test_whole_episodes_are_those_of_gymnasium_in_two_games() -> None:
    assert len(compare("Breakout", (0, 1))) == 1
    assert len(compare("Frostbite", (0, 2))) == 2, "the console's timer had two values"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("game", TEN)
def test_whole_episodes_are_those_of_gymnasium(game: str) -> None:
    compare(game, (0, 2, 5))
