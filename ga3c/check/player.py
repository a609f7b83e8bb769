"""The process that plays an environment at random and tells what it saw; `gathering.py` starts it."""

import dataclasses
import faulthandler
import math
import os
import sys
import tempfile
import time
from typing import Any

import gymnasium
import numpy as np

from ga3c import envs
from ga3c.check import probes
from ga3c.check.evidence import Failure, Method, Play
from ga3c.check.observing import Misfits, Observer
from ga3c.check.subject import Subject, actions_of, draw
from ga3c.config import EnvConfig
from ga3c.envs import gym, own, trial
from ga3c.envs.examiner import Tell, serve
from ga3c.envs.guard import failed
from ga3c.envs.trial import brief
from ga3c.errors import UserError

MOST_STEPS = 12_000
_MOST_FAILURES = 5
_NUMPY_STEP = 5
_LOOK_EVERY = 256
"""Steps between looks at what was printed."""


def play(subject: Subject, seconds: float, output: "Output") -> Play:
    """Plays for some seconds, or for `MOST_STEPS` steps."""
    player = _Player(subject, output)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and player.play.steps < MOST_STEPS and player.goes_on:
        player.step()
    return player.ended()


class _Player:
    def __init__(self, subject: Subject, output: "Output") -> None:
        self.play = Play()
        self._env_id = subject.env_id
        self._env = subject.make()
        self._env.action_space.seed(1)
        self._misfits = Misfits()
        self._observer = Observer(self._env.observation_space, self._misfits)
        self._output = output
        output.taken()  # what is printed once, while it is made, fills no log
        self._failures: dict[tuple[Method, str], Failure] = {}
        self._info: Any = {}
        self._last: tuple[Any, Any] | None = None
        """The last observation that is an array, and a copy of it."""
        self._length = 0
        self._return = 0.0
        self._takes_seed = True
        self._raised = 0
        self._reset(seed=1)

    @property
    def goes_on(self) -> bool:
        return self._raised < _MOST_FAILURES

    def ended(self) -> Play:
        found = self.play
        self._take_printed("step")
        found.longest = max([found.longest, self._length, *found.lengths])
        found.observations, found.numbers = self._observer.count, self._observer.numbers
        found.misfits, found.failures = self._misfits.all, list(self._failures.values())
        self._env.close()
        return found

    def _reset(self, seed: int | None = None) -> None:
        found = self.play
        self._take_printed("step")
        begin = time.perf_counter()
        try:
            given = self._env.reset(seed=seed) if self._takes_seed else self._env.reset()
        except Exception as error:
            if isinstance(error, TypeError) and "'seed'" in str(error) and self._takes_seed:
                self._takes_seed = False
                self._misfits.add("reset", "reset", "takes no seed")
                self._reset()
                return
            self._fail("reset", error)
            return
        finally:
            found.reset_seconds += time.perf_counter() - begin
            self._take_printed("reset")
        found.resets += 1
        found.longest = max(found.longest, self._length)
        self._length, self._return, self._last = 0, 0.0, None
        observation: Any = given
        if isinstance(given, tuple) and len(given) == 2 and not _is_tuple_space(self._env, given):
            observation, self._info = given
            self._look_at_info("reset", self._info)
        else:
            self._info = {}
            self._misfits.add("reset", "reset", f"returned {brief(given)}")
        self._observer.see("reset", observation)

    def step(self) -> None:
        found = self.play
        action = draw(self._env.action_space, self._info)
        begin = time.perf_counter()
        try:
            given: Any = self._env.step(action)
        except Exception as error:
            self._fail("step", error)
            self._reset()
            return
        finally:
            found.step_seconds += time.perf_counter() - begin
        found.steps += 1
        if not isinstance(given, tuple) or len(given) not in (4, _NUMPY_STEP):
            self._misfits.add("step", "step", f"returned {brief(given)}")
            self._reset()
            return
        if len(given) == _NUMPY_STEP:
            observation, reward, terminated, truncated, self._info = given
        else:
            self._misfits.add("step", "step", f"returned {brief(given)}")
            observation, reward, terminated, self._info = given
            truncated = False
        self._look_at_info("step", self._info)
        self._length += 1
        self._add_reward(reward)
        self._observer.see("step", observation)
        self._look_for_reuse(observation)
        flags = [self._flag(name, value) for name, value in (("terminated", terminated), ("truncated", truncated))]
        if found.steps % _LOOK_EVERY == 0:
            self._take_printed("step")
        if any(flags):
            found.lengths.append(self._length)
            found.returns.append(self._return)
            found.truncated += flags[1]
            self._reset()

    def _add_reward(self, reward: Any) -> None:
        found = self.play
        try:
            number = float(reward)
        except (TypeError, ValueError):
            self._misfits.add("reward", "step", f"gave {brief(reward)} as a reward")
            return
        if not math.isfinite(number):
            self._misfits.add("not-finite", "step", f"a reward of {number}", "reward")
            return
        first = found.rewards == 0
        found.rewards += 1
        found.least_reward = number if first else min(found.least_reward, number)
        found.largest_reward = number if first else max(found.largest_reward, number)
        found.zero_rewards += number == 0.0
        if number:
            found.smallest_reward = min(found.smallest_reward or math.inf, abs(number))
        self._return += number

    def _look_at_info(self, method: Method, info: Any) -> None:
        if not isinstance(info, dict):
            self._misfits.add("info", method, f"returned {brief(info)} as info")

    def _flag(self, name: str, value: Any) -> bool:
        if not isinstance(value, bool | np.bool_ | int | np.integer):
            self._misfits.add("flags", "step", f"returned {brief(value)} as {name}", name)
        try:
            return bool(value)
        except ValueError:  # an array of several
            return True

    def _look_for_reuse(self, observation: Any) -> None:
        """Whether the last observation changed when this one was made."""
        if self._last is not None and not np.array_equal(self._last[0], self._last[1], equal_nan=True):
            self.play.reused = True
        is_array = isinstance(observation, np.ndarray) and observation.dtype.kind in "biuf"
        self._last = (observation, observation.copy()) if is_array else None

    def _fail(self, method: Method, error: Exception) -> None:
        self._raised += 1
        if isinstance(error, ValueError) and "values to unpack (expected " in str(error):
            # Gymnasium's own wrappers fail like this on results of the old API.
            self._misfits.add(method, method, "returned another number of values")
            return
        text = str(failed(self._env_id, method, error))
        self._failures.setdefault((method, text), Failure(method, text, 0)).count += 1

    def _take_printed(self, method: Method) -> None:
        lines, first = self._output.taken()
        if method == "step":
            self.play.lines_in_steps += lines
        else:
            self.play.lines_in_resets += lines
        self.play.line = self.play.line or first


def _is_tuple_space(env: gymnasium.Env[Any, Any], given: Any) -> bool:
    """Whether two values are an observation alone, of a Tuple space of two parts."""
    space = env.observation_space
    return isinstance(space, gymnasium.spaces.Tuple) and len(space.spaces) == len(given) and space.contains(given)


class Output:
    """What this process prints, on both descriptors, taken from time to time."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  (for as long as this process lives)
        faulthandler.enable(os.dup(2), all_threads=False)  # a crash still shows its line to the parent
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for descriptor in (1, 2):
            os.dup2(self._file.fileno(), descriptor)

    def taken(self) -> tuple[int, str]:
        """How many lines were printed since the last call, and the first of them."""
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        size = os.fstat(self._file.fileno()).st_size
        if not size:
            return 0, ""
        text = os.pread(self._file.fileno(), size, 0)
        self._file.seek(0)
        self._file.truncate()
        return text.count(b"\n") or 1, text.partition(b"\n")[0].decode(errors="replace")[:200]


def _check(task: dict[str, Any], tell: Tell) -> None:
    """Makes the environment, has it tried as before a run, plays it, and asks the probes."""
    subject = Subject(task["env_id"], task["env_args"], tuple(task["wraps"]))
    tell(doing="make", method="the import")
    own.receive(task["env_pickle"])
    is_atari = subject.game is not None
    tell(doing="make", method="its constructor")
    env = subject.make()
    limit = env.spec.max_episode_steps if env.spec is not None else None
    tell(is_atari=is_atari, time_limit=limit, actions=[dataclasses.asdict(a) for a in actions_of(env.action_space)])
    tell(doing="try", method="the trial before a run")
    try:
        if is_atari:  # which takes neither wrappers nor most arguments
            envs.describe(subject.env_id, EnvConfig(wrap=subject.wraps), False, subject.env_args)
        else:
            tell(notes=list(gym.described(subject.env_id, env).notes))
        trial.check(subject.env_id, env, lambda method: tell(doing="try", method=method))
    except UserError as error:
        tell(refusal=error.command_text)
    env.close()
    tell(doing="play", method="reset or step")
    output = Output()
    tell(play=dataclasses.asdict(play(subject, task["seconds"], output)))
    for name, probe in (
        ("seeding", probes.seeding),
        ("over_resets", probes.over_resets),
        ("over_instances", probes.over_instances),
    ):
        tell(doing=name, method="reset or step")
        try:
            tell(**{name: dataclasses.asdict(probe(subject, task["seconds"]))})
        except Exception:
            # What raises was found while it was played.
            tell(**{name: None})
        output.taken()
    tell(closed=True)


if __name__ == "__main__":
    serve(_check)
