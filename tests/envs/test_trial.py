"""The trial before a run: every common mistake of an environment is one sentence."""

import re
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from ga3c.envs import trial
from ga3c.errors import UserError


class Tried(gymnasium.Env[Any, Any]):
    """Returns what it is given."""

    action_space = spaces.Discrete(2)

    def __init__(self, space: spaces.Space[Any], reset: Any = None, step: Any = None) -> None:
        self.observation_space = space
        self._reset, self._step = reset, step
        self.calls: list[str] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.calls.append(f"reset {seed}")
        return (self.observation_space.sample(), {}) if self._reset is None else self._reset

    def step(self, action: Any) -> Any:
        self.calls.append("step")
        return (self.observation_space.sample(), 1.0, False, False, {}) if self._step is None else self._step


THREE = spaces.Box(0.0, 1.0, (3,))
BYTES = spaces.Box(0, 255, (2, 2), np.uint8)
PAIR = spaces.Dict(a=THREE, b=spaces.Discrete(4))
ZEROS = np.zeros(3, np.float32)


def after(observation: Any, reward: Any = 1.0, terminated: Any = False) -> dict[str, Any]:
    return {"step": (observation, reward, terminated, False, {})}


def test_a_trial_resets_twice_and_seeds_once() -> None:
    env = Tried(THREE)
    assert trial.check("X", env) == ([], False)
    assert env.calls == [f"reset {trial.SEED}", *["step"] * 3, "reset None", *["step"] * 2]
    ending = Tried(THREE, **after(ZEROS, terminated=True))
    trial.check("X", ending)
    assert "".join(call[0] for call in ending.calls) == "rsrsrsr" + "rsrsr", "an episode that is over begins again"


@pytest.mark.parametrize(
    ("space", "returns", "says"),
    [
        (THREE, {"reset": ZEROS}, "reset returned an array of the shape [3]; reset must return (observation, info)"),
        (THREE, {"reset": (ZEROS, 1)}, "reset returned a tuple of 2 values; reset must return"),
        (THREE, {"step": (ZEROS, 1.0, False, {})}, "step returned a tuple of 4 values; step must return ("),
        (THREE, {"reset": (0.5, {})}, "reset gave an observation of the shape [] (a single number), but its obse"),
        (THREE, after(np.zeros(2)), "step gave an observation of the shape [2], but its observation_space has [3]"),
        (THREE, after([0.1, [0.2], 0.3]), "step gave an observation that is [0.1, [0.2], 0.3], but its observation"),
        (THREE, after(["a", "b", "c"]), "step gave an observation of the dtype <U1, but its observation_space has"),
        (THREE, after(np.array([0, np.nan, 0])), "step gave an observation that is not finite"),
        (THREE, after(ZEROS, np.nan), "gave a reward of nan; rewards must be finite"),
        (THREE, after(ZEROS, None), "gave None as a reward, which must be a number"),
        (THREE, after(ZEROS, 1e39), "gave a reward of 1e+39, too large for float32; scale it to about 1"),
        (THREE, after(ZEROS, 1.0, np.zeros(2, bool)), "step returned an array of the shape [2] as terminated"),
        (BYTES, after(np.full((2, 2), 0.5)), "of the dtype float64, but its observation_space has uint8"),
        (BYTES, after(np.full((2, 2), 300)), "numbers from 300 to 300, but its observation_space has bytes"),
        (spaces.MultiDiscrete([2, 2]), after(np.ones(2)), "which is not in MultiDiscrete([2 2])"),
        (THREE, after(np.full(3, 1e300)), "gave an observation that cannot be packed: ValueError: the environment"),
        (spaces.Discrete(4), after(1.5), "an observation of 1.5, which is not in Discrete(4)"),
        (PAIR, after({"a": ZEROS}), "an observation that is a dict with the keys ['a'], but its observation_space has"),
        (PAIR, after({"a": np.zeros(1), "b": 1}), "an observation['a'] of the shape [1], but its observation"),
        (PAIR, after({"a": ZEROS, "b": 4}), "an observation['b'] of 4, which is not in Discrete(4)"),
        (spaces.Tuple((THREE,)), after((ZEROS, 1)), "is a tuple of 2 values, but its observation_space has 1 parts"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:overflow")
def test_what_cannot_be_trained_on_is_a_sentence(space: spaces.Space[Any], returns: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match="^Some-v0.*" + re.escape(says)):
        trial.check("Some-v0", Tried(space, **returns))


def test_the_old_api_is_recognised_behind_wrappers_too() -> None:
    env = gymnasium.wrappers.TimeLimit(Tried(THREE, step=(ZEROS, 1.0, False, {})), 10)
    with pytest.raises(UserError, match=r"step must return \(observation, reward, terminated, truncated, info\)"):
        trial.check("X", env)

    class Unseeded(Tried):
        def reset(self) -> Any:  # type: ignore[override]
            return ZEROS

    with pytest.raises(UserError, match="its reset takes no seed; reset must return"):
        trial.check("X", Unseeded(THREE))


def test_what_is_doubtful_is_noted() -> None:
    notes, _ = trial.check("Some-v0", Tried(THREE, **after(ZEROS + 7, 1e30)))
    assert len(notes) == 2
    assert notes[0].startswith("Some-v0: its observations have numbers from 7 to 7, outside the bounds of its obs")
    assert notes[1].startswith("Some-v0 gives rewards of up to 1e+30; scale them to about 1")


def test_an_environment_that_raises_is_told_with_its_line() -> None:
    class Raising(Tried):
        def step(self, action: Any) -> Any:
            return np.zeros(3)[int("7")]

    with pytest.raises(
        UserError, match=r"^X failed in step: IndexError: index 7 .* \(.*test_trial.py, line \d+, in step"
    ):
        trial.check("X", Raising(THREE))
