"""Shared fixtures: one torch thread, waiting for conditions, and the parts of a run over toy environments."""

import os

# Before numpy is imported, as the command line does it: OpenBLAS threads that wait for one another slow the tuner down.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from engines import Engine

from ga3c import envs, nets
from ga3c.agents.pool import AgentPool
from ga3c.config import EnvConfig, LearnConfig, NetConfig, NetName
from ga3c.engine.device import restored_settings
from ga3c.engine.frames import SharedFrames
from ga3c.engine.lane import Lane
from ga3c.engine.model import Model
from ga3c.engine.predictor import Predictor
from ga3c.engine.store import ExperienceStore
from ga3c.engine.trainer import Trainer
from ga3c.engine.training_queue import TrainingQueue
from ga3c.envs.spec import EnvSpec
from ga3c.learn.schedules import Rates
from ga3c.metrics.account import Account
from ga3c.metrics.stats import Gauges, Stats

CPU = torch.device("cpu")
sys.path.insert(0, str(Path(__file__).parent))  # so that this process and its workers find `toys`

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell in the background starts programs that ignore Ctrl-C, and so would the runs that the tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="no CUDA device here"))


@pytest.fixture(autouse=True, scope="session")
def _one_torch_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(1)


@pytest.fixture(autouse=True)
def _torch_as_it_was() -> Iterator[None]:
    """A run in this process sets torch up for itself, which must not change what the next test computes."""
    with restored_settings():
        yield


@pytest.fixture
def full_precision(_torch_as_it_was: None) -> None:
    """Turns TensorFloat-32 off, for comparisons between CPU and GPU."""
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False


@pytest.fixture
def wait_until() -> Callable[..., None]:
    """Waits for a condition, not for a time; fails when it does not come."""

    def wait(condition: Callable[[], Any], seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "the condition did not come true in time"
            time.sleep(0.002)

    return wait


@pytest.fixture
def small_files() -> Iterator[Callable[[int], None]]:
    """Limits how large a file of this process may grow: a write beyond it fails, as on a full disk."""
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    signal.signal(signal.SIGXFSZ, handler)


@pytest.fixture
def in_threads() -> Iterator[Callable[..., list[threading.Thread]]]:
    """Starts a function in several threads, each with its number; what a thread raises fails the test."""
    errors: list[BaseException] = []
    threads: list[threading.Thread] = []

    def start(count: int, function: Callable[[int], object]) -> list[threading.Thread]:
        def guarded(number: int) -> None:
            try:
                function(number)
            except BaseException as error:
                errors.append(error)
                raise

        started = [threading.Thread(target=guarded, args=(n,), daemon=True) for n in range(count)]
        threads.extend(started)
        for thread in started:
            thread.start()
        return started

    yield start
    deadline = time.monotonic() + (2.0 if errors else 60.0)  # other threads may wait for one that broke
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    assert not errors, errors
    assert not any(thread.is_alive() for thread in threads), "a thread did not end"


@pytest.fixture
def make_pool(tmp_path: Path) -> Iterator[Callable[..., AgentPool]]:
    """Builds pools of agents over an environment, and ends their processes after the test."""
    pools: list[AgentPool] = []

    def make(
        env_id: str,
        agents: int = 4,
        workers: int = 2,
        max_agents: int = 64,
        spec: EnvSpec | None = None,
        account: bool = False,
    ) -> AgentPool:
        config = EnvConfig(clip_rewards=False)
        spec = spec or envs.describe(env_id, config, raw_screens=False)
        # With seed 0 the environment of agent n is seeded with n.
        logs = tmp_path / f"logs-{len(pools)}"
        pool = AgentPool(
            spec, config, agents=agents, workers=workers, max_agents=max_agents, seed=0, log_folder=logs,
            account=account,
        )  # fmt: skip
        pools.append(pool)
        stop = pool.stop

        def stop_once(patience: float) -> None:
            pools.remove(pool)
            stop(patience)

        pool.stop = stop_once  # type: ignore[method-assign]
        return pool

    yield make
    for pool in pools.copy():
        pool.stop(0.0)


@pytest.fixture(scope="session")
def pong_frames() -> tuple[EnvSpec, Any, Any]:
    """A stretch of Pong as two environments in lockstep show it: raw screens [N, 2, 210, 160] and greys [N, 84, 84]."""
    config, random = EnvConfig(), np.random.default_rng(3)
    spec = envs.describe("ALE/Pong-v5", config, raw_screens=True)
    raw_env, grey_env = (envs.make("ALE/Pong-v5", config, raw, seed=3) for raw in (True, False))
    raw, grey = np.zeros((151, *spec.frame_shape), np.uint8), np.zeros((151, 84, 84), np.uint8)
    raw_env.reset(raw[0])
    grey_env.reset(grey[0])
    for step in range(1, 151):
        action = random.integers(spec.action.num)
        assert raw_env.step(action, raw[step]) == grey_env.step(action, grey[step])
    return spec, raw, grey


NO_GAUGES = Gauges(0, 0, 0, 0, 0, 0, 0)


@pytest.fixture
def make_engine(make_pool: Callable[..., AgentPool]) -> Iterator[Callable[..., Engine]]:
    engines: list[Engine] = []

    def make(
        env_id: str,
        learn: LearnConfig,
        agents: int = 4,
        workers: int = 2,
        predictors: int = 1,
        trainers: int = 1,
        net: NetName = "auto",
        account: bool = False,
    ) -> Engine:
        pool = make_pool(env_id, agents, workers, account=account)
        model = Model(nets.build(pool.spec, NetConfig(net, init="orthogonal")), learn, CPU)
        queue = TrainingQueue(4 * learn.batch_rollouts, learn.batch_rollouts)
        kept = learn.reuse_window if learn.reuse > 1 else 0
        spare = queue.capacity + (max(1, trainers) + 1) * (learn.batch_rollouts + kept) + pool.max_agents
        size = model.network.state_size
        store = ExperienceStore(pool.spec, agents, learn.rollout, spare, learn.discount, CPU, size)
        frames = SharedFrames(pool.slots.frames, CPU)
        masks = None if pool.slots.masks is None else SharedFrames(pool.slots.masks, CPU)
        stats = Stats(1, lambda steps, seconds: 0.0, lambda: NO_GAUGES)
        stats.account = Account(pool.slots.account) if account else None
        rates = Rates(learn, lambda: 0.0)
        engine = Engine(
            pool, queue, store, model, stats,
            [
                Predictor(
                    n, pool=pool, frames=frames, training_queue=queue, store=store, model=model, lane=Lane(CPU, n),
                    stats=stats, masks=masks,
                )
                for n in range(predictors)
            ],
            [
                Trainer(
                    n, queue=queue, store=store, model=model, lane=Lane(CPU, 500 + n), stats=stats, config=learn,
                    rates=rates,
                )
                for n in range(trainers)
            ],
        )  # fmt: skip
        engines.append(engine)
        return engine

    yield make
    for engine in engines:
        engine.stop()
        assert engine.stats.failure is None, engine.stats.failure
