"""The ceiling: how fast this machine steps environments with random actions and no network.

For Atari it is ale-py's own C++ `AtariVectorEnv` with the same preprocessing: frame skip, 84 x 84 greys, stacked
frames. For other environments it is Gymnasium's plain environment, in one process per core. It runs in processes of its
own, without torch, so that it leaves neither threads nor memory behind for the next measurement.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any

import numpy as np

from ga3c import envs
from ga3c.agents.worker import die_with_parent
from ga3c.config import Config, EnvConfig
from ga3c.envs import catalog

_SIZES = ((4, 2), (8, 2), (16, 2), (4, 1))
"""Environments per core, and the number of parts in which they answer: with 1 a step waits for all, with 2 for the half
that is ready first."""
_LEAST_SECONDS = 1.0
"""Seconds for one size. With less time, fewer sizes are tried."""
_WARM_UP = 0.5
_MAKING = 0.1
"""Seconds that it takes to make one emulator, for the time left that people are shown."""
_ACTIONS_DRAWN = 64


@dataclass(frozen=True)
class Size:
    """One way to step environments."""

    envs: int
    """Environments in all processes together."""
    batch: int
    """Environments that answer at a time. The others step meanwhile."""
    processes: int


@dataclass(frozen=True)
class Ceiling:
    """The fastest of the sizes that were tried."""

    pps: float
    """Steps per second, with the same number of frames per step as an agent's."""
    cpu: float
    """CPU cores in use."""
    seconds: float
    size: Size


@dataclass(frozen=True)
class StepperTask:
    """The task of a stepping process, as JSON on its command line."""

    env_id: str
    env: EnvConfig
    env_args: Mapping[str, Any]
    envs: int
    batch: int
    threads: int

    @staticmethod
    def from_json(text: str) -> "StepperTask":
        values: dict[str, Any] = json.loads(text)
        values["env"] = EnvConfig(**values["env"] | {"wrap": tuple(values["env"]["wrap"])})
        return StepperTask(**values)


class Steppers:
    """The stepping processes of all sizes. They sleep until they are asked to step, so that all are made only once:
    it takes longer to make a hundred emulators than to measure them."""

    def __init__(self, config: Config, cores: int, seconds: float) -> None:
        """`seconds` is the time of a measurement, over all sizes."""
        self.problem: str | None = None
        """Why the ceiling cannot be measured; None if it can."""
        is_atari = _is_atari(config.env_id, config.env, config.env_args)
        per_core = _SIZES[: max(1, int(seconds / _LEAST_SECONDS))] if is_atari else ()
        sizes = [Size(n * cores, n * cores // parts, processes=1) for n, parts in per_core]
        # A Python process steps one environment at a time, so each core gets one.
        sizes = sizes or [Size(cores, cores, processes=cores)]
        self._processes = [(size, [_start(config, size, cores) for _ in range(size.processes)]) for size in sizes]
        self._stretch = seconds / len(sizes)
        self._making = _MAKING * max(size.envs for size in sizes) if is_atari else 1.0

    def __enter__(self) -> "Steppers":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def expected(self) -> float:
        """Seconds that the next measurement takes, with the time to make the emulators."""
        return self._making + (self._stretch + _WARM_UP) * len(self._processes)

    def measure(self, on_left: Callable[[float], None] = lambda left: None) -> Ceiling | None:
        """Measures the sizes in turn and returns the fastest; None if one of them failed."""
        self._wait_until_made()
        found: list[Ceiling] = []
        for number, (size, processes) in enumerate(self._processes):
            on_left((self._stretch + _WARM_UP) * (len(self._processes) - number))
            for process in processes:
                _tell(process, str(self._stretch))
            answers = [self._hear(process) for process in processes]
            if self.problem is None:
                pps, cpu = (sum(answer[name] for answer in answers) for name in ("pps", "cpu"))
                found.append(Ceiling(pps, cpu, self._stretch, size))
        return max(found, key=lambda ceiling: ceiling.pps, default=None) if self.problem is None else None

    def close(self) -> None:
        """Kills the processes, which have nothing to save."""
        for process in (process for _, processes in self._processes for process in processes):
            process.kill()
            process.communicate()
        self._processes = []

    def _wait_until_made(self) -> None:
        """Waits for all processes, since one that still makes emulators would slow down the others."""
        if self._making:
            for process in (process for _, processes in self._processes for process in processes):
                self._hear(process)
            self._making = 0.0

    def _hear(self, process: "subprocess.Popen[str]") -> dict[str, float]:
        assert process.stdout is not None
        line = process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"problem": "the stepping process ended"}
        self.problem = self.problem or answer.get("problem")
        return answer


def _is_atari(env_id: str, env: EnvConfig, env_args: Mapping[str, Any]) -> bool:
    return envs.describe(env_id, env, raw_screens=False, env_args=env_args).source == "atari"


def _start(config: Config, size: Size, cores: int) -> "subprocess.Popen[str]":
    each = (size.envs // size.processes, size.batch // size.processes)
    task = StepperTask(config.env_id, config.env, config.env_args, *each, threads=cores)
    # The child must find the same modules as this process, also those in the current folder.
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "ga3c.bench.ceiling", json.dumps(asdict(task))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
        start_new_session=True,  # Ctrl-C goes to the parent, which then kills it
    )


def _tell(process: "subprocess.Popen[str]", line: str) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # the process has ended, which `_hear` reports
        print(line, file=process.stdin, flush=True)


# -- the stepping process ---------------------------------------------------------------------------------------------


def step_atari(task: StepperTask) -> Callable[[], int]:
    """Makes the emulators. Returns a function that steps a batch of them and returns the number of steps."""
    from ale_py.vector_env import AtariVectorEnv

    from ga3c.envs import atari

    config = task.env
    game = atari.game_of(catalog.find(task.env_id).kwargs).name
    environment = AtariVectorEnv(
        game, task.envs, batch_size=task.batch, num_threads=task.threads, frameskip=config.frame_skip,
        stack_num=config.stack, noop_max=config.noop_max, repeat_action_probability=config.sticky,
        full_action_space=config.full_actions, max_num_frames_per_episode=config.max_frames,
        episodic_life=config.life_loss,
    )  # fmt: skip
    actions = len(environment.ale.get_action_set())
    drawn = np.random.default_rng(1).integers(actions, size=(_ACTIONS_DRAWN, task.batch))
    turn = 0

    def step() -> int:
        nonlocal turn
        turn += 1
        environment.step(drawn[turn % _ACTIONS_DRAWN])
        return task.batch

    environment.reset()
    for _ in range(4 * task.envs // task.batch):
        step()  # reset() returns with the first batch, while the others are still being reset
    return step


def step_gym(task: StepperTask) -> Callable[[], int]:
    """The same with one plain Gymnasium environment."""
    import gymnasium

    from ga3c.envs import gym

    environment = gym.construct(task.env_id, catalog.find(task.env_id), task.env_args, task.env.wrap)
    space = environment.action_space
    space.seed(1)
    drawn = [space.sample() for _ in range(_ACTIONS_DRAWN)]
    if isinstance(space, gymnasium.spaces.Discrete):
        drawn = [int(action) for action in drawn]
    environment.reset(seed=os.getpid())

    def step() -> int:
        for action in drawn:
            _, _, terminated, truncated, _ = environment.step(action)
            if terminated or truncated:
                environment.reset()
        return _ACTIONS_DRAWN

    return step


def run(step: Callable[[], int], seconds: float) -> dict[str, float]:
    begin, cpu, steps, elapsed = time.monotonic(), time.process_time(), 0, 0.0
    while elapsed < seconds:
        steps += step()
        elapsed = time.monotonic() - begin
    return {"pps": steps / elapsed, "cpu": (time.process_time() - cpu) / elapsed}


def main() -> None:
    die_with_parent()
    task = StepperTask.from_json(sys.argv[1])
    try:
        is_atari = _is_atari(task.env_id, task.env, task.env_args)
        step = step_atari(task) if is_atari else step_gym(task)
        print(json.dumps({}), flush=True)
        for line in sys.stdin:
            run(step, _WARM_UP)
            print(json.dumps(run(step, float(line))), flush=True)
    except Exception as error:
        # Whatever failed (ale-py has no such class, the environment raises), there is no ceiling.
        print(json.dumps({"problem": f"{type(error).__name__}: {error}"}), flush=True)


if __name__ == "__main__":
    main()
