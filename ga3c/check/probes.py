"""Probes of an environment: does a seed repeat an episode, do two instances share state, does anything leak."""

import copy
import hashlib
import os
import pickle
import random
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np

from ga3c.check.evidence import Growth, Seeding
from ga3c.check.subject import Subject, draw

_STEPS = 200
"""Steps of a trajectory, over as many episodes as it takes."""
_SEED, _OTHER = 12_345, 54_321
_RESETS = 60
_WARM_UP = 20
_INSTANCES = 4


def seeding(subject: Subject, seconds: float) -> Seeding:
    """Compares trajectories with the same actions."""
    begin = time.monotonic()
    env = subject.make()
    before = _generators()
    first = list(_trajectory(env, _SEED, _STEPS, begin + seconds))
    drawn = [name for name, state in _generators().items() if state != before[name]]
    steps = len(first) - 1
    again, other = subject.make(), subject.make()
    found = Seeding(steps=steps, global_generators=drawn)
    found.new_instance = _difference(first, list(_trajectory(again, _SEED, steps)))
    found.used_instance = _difference(first, list(_trajectory(again, _SEED, steps)))
    found.other_seed = _difference(first, list(_trajectory(again, _OTHER, steps)))
    beside = _trajectory(other, _OTHER, steps, actions_seed=2)
    mine = []
    for answer in _trajectory(subject.make(), _SEED, steps):
        mine.append(answer)
        next(beside, None)
    found.beside_another = _difference(first, mine)
    for instance in (env, again, other):
        instance.close()
    return found


def over_resets(subject: Subject, seconds: float) -> Growth:
    """What grows over some resets."""
    env = subject.make()
    deadline = time.monotonic() + seconds
    before, times = _held(), 0
    for number in range(_RESETS):
        if time.monotonic() > deadline:
            break
        _, info = env.reset()
        env.step(draw(env.action_space, info))
        if number == _WARM_UP:
            before, times = _held(), 0
        times += 1
    found = _grown(before, times - 1)
    env.close()
    return found


def over_instances(subject: Subject, seconds: float) -> Growth:
    """What is left of instances that were closed."""
    deadline = time.monotonic() + seconds
    before, times = _held(), 0
    for number in range(_INSTANCES):
        env = subject.make()
        env.reset()
        env.close()
        del env
        if number == 0:
            before, times = _held(), 0
        else:
            times += 1
        if time.monotonic() > deadline:
            break
    return _grown(before, times)


def _trajectory(
    env: gymnasium.Env[Any, Any], seed: int, steps: int, deadline: float = float("inf"), actions_seed: int = 1
) -> Iterator[bytes]:
    """What an environment answers, as a digest of each answer. The first is that of the reset."""
    actions = copy.deepcopy(env.action_space)  # a class may have one for all its instances
    actions.seed(actions_seed)
    observation, info = env.reset(seed=seed)
    yield _digest(observation)
    for _ in range(steps):
        if time.monotonic() > deadline:
            return
        observation, reward, terminated, truncated, info = env.step(draw(actions, info))
        yield _digest((observation, reward, bool(terminated), bool(truncated)))
        if terminated or truncated:
            _, info = env.reset()


def _difference(first: list[bytes], second: list[bytes]) -> int | None:
    pairs = zip(first, second, strict=False)
    return next((place for place, (one, other) in enumerate(pairs) if one != other), None)


def _digest(value: Any) -> bytes:
    parts = hashlib.blake2b(digest_size=16)
    for part in _flat(value):
        parts.update(part)
    return parts.digest()


def _flat(value: Any) -> Iterator[bytes]:
    if isinstance(value, dict):
        for name in sorted(value, key=str):
            yield from _flat(value[name])
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _flat(part)
    elif isinstance(value, np.ndarray | np.generic | float | int):
        yield np.ascontiguousarray(value).tobytes()
    else:
        yield str(value).encode()


def _generators() -> dict[str, bytes]:
    """The states of the generators that the whole process shares."""
    states = (np.random.get_state(), random.getstate())
    return {name: pickle.dumps(state) for name, state in zip(("np.random", "random"), states, strict=True)}


def _held() -> Growth:
    """What this process holds now."""
    files = processes = 0
    if sys.platform == "linux":
        files = len(os.listdir("/proc/self/fd"))
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as children:
            processes = len(children.read().split())
    return Growth(0, _memory(), files, threading.active_count(), processes)


def _memory() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as sizes:
            return int(sizes.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _grown(before: Growth, times: int) -> Growth:
    now = _held()
    return Growth(
        times, now.memory - before.memory, now.files - before.files, now.threads - before.threads,
        now.processes - before.processes,
    )  # fmt: skip
