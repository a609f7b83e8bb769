"""A predictor or trainer that fails, at any point of its work, ends the run with a sentence: nothing waits for it."""

import dataclasses
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from runs import is_alive

from ga3c.config import Config, RunConfig
from ga3c.engine.ga3c import Ga3c
from ga3c.errors import RunFailed
from ga3c.metrics.sinks.status import read_status
from ga3c.run import session, settings

Owner = Callable[[Ga3c], Any]
"""Finds the object that a call goes to."""


def predictor(system: Ga3c) -> Any:
    return system.predictors[0]


def trainer(system: Ga3c) -> Any:
    return system.trainers[0]


PREDICTOR: list[tuple[Owner, str]] = [
    (lambda s: predictor(s)._lane, "active"),
    (lambda s: s.pool.queue, "take"),
    (lambda s: s.store, "place"),
    (lambda s: predictor(s)._tables, "fitting"),
    (lambda s: s._frames, "select"),
    (lambda s: s.store, "write_results"),
    (lambda s: s.store, "observe"),
    (lambda s: predictor(s)._network, "step"),
    (lambda s: predictor(s)._network.head, "sample"),
    (lambda s: predictor(s)._lane, "finish"),
    (lambda s: s.pool.queue, "done"),
    (lambda s: s.pool, "reply"),
    (lambda s: s.training_queue, "put"),
    (lambda s: s.stats, "predicted"),
]
TRAINER: list[tuple[Owner, str]] = [
    (lambda s: trainer(s)._lane, "active"),
    (lambda s: s.training_queue, "take"),
    (trainer, "_batches_of_updates"),
    (trainer, "_rates"),
    (lambda s: s.store, "gather"),
    (lambda s: trainer(s)._network, "unroll"),
    (lambda s: s.model.optimiser, "step"),
    (lambda s: trainer(s)._lane, "finish"),
    (lambda s: s.store, "release"),
    (lambda s: s.model, "count_updates"),
    (lambda s: s.stats, "trained"),
]
QUICK = {("predictor-0", "active", False), ("trainer-0", "active", True), ("predictor-0", "put", False)}
"""The others are marked slow: each takes a run."""
CASES = [
    pytest.param(
        who, *case, lock_step, id=f"{who}-{case[1]}{'-in lock-step' if lock_step else ''}",
        marks=() if (who, case[1], lock_step) in QUICK else pytest.mark.slow,
    )
    for who, cases in (("predictor-0", PREDICTOR), ("trainer-0", TRAINER))
    for case in cases
    for lock_step in (False, True)
]  # fmt: skip


class Injected(BaseException):
    """Not even an `Exception`: whatever is raised ends the thread."""


def config_for(lock_step: bool) -> Config:
    chosen = {"deterministic": True} if lock_step else {"predictors": 1, "trainers": 1, "device": "cpu"}
    config = settings.resolve("CartPole-v1", "fast", {"agents": 2, "workers": 1, **chosen})
    # Each prediction completes rollouts, and each batch is one of them: the threads wait for one another all the time.
    learn = dataclasses.replace(config.learn, rollout=1, batch_rollouts=1)
    engine = dataclasses.replace(config.engine, queue=1)
    return dataclasses.replace(config, learn=learn, engine=engine, run=RunConfig(steps=10**9, log=""))


def inject(owner: Any, name: str, at: int) -> None:
    """Makes a method raise at its call number `at`."""
    original, calls = getattr(owner, name), []

    def failing(*args: Any, **settings: Any) -> Any:
        calls.append(1)
        if len(calls) >= at:
            raise Injected("by the test")
        return original(*args, **settings)

    setattr(owner, name, failing)


@pytest.mark.parametrize(("who", "owner", "name", "lock_step"), CASES)
def test_a_thread_that_fails_anywhere_ends_the_run(
    tmp_path: Path, who: str, owner: Owner, name: str, lock_step: bool
) -> None:
    before = set(threading.enumerate())
    run = session.begin(config_for(lock_step), tmp_path / "run")
    system: Any = run.server.system
    inject(owner(system), name, at=1 if name == "active" else 20)
    with pytest.raises(RunFailed) as failure:
        run.train()
    sentence, _, details = str(failure.value).partition("\n")
    assert sentence == f"{who} failed: test_thread_faults.Injected: by the test."
    assert details.startswith("Traceback")
    assert set(threading.enumerate()) <= before, "a thread is left"
    assert not system.pids(), "a process is left"
    assert run.run_folder.last_checkpoint().exists()


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has"), "(CUDA out of memory)"),
        (MemoryError(), "(MemoryError)"),
        (RuntimeError("CUDA error: an illegal instruction"), "failed: RuntimeError: CUDA error: an illegal instruct"),
    ],
)
def test_a_stage_that_cannot_be_prepared_ends_the_run(tmp_path: Path, error: Exception, sentence: str) -> None:
    """The agents run already."""
    before = set(threading.enumerate())
    run = session.begin(config_for(lock_step=False), tmp_path / "run")
    system: Any = run.server.system
    started = []

    def prepare() -> None:
        started.extend(system.pids())
        raise error

    trainer(system).prepare = prepare
    with pytest.raises(RunFailed) as failure:
        run.train()
    told = str(failure.value).partition("\n")[0]
    assert "trainer-0" in told
    assert sentence in told
    assert ("; use fewer --agents" in told) == (not isinstance(error, RuntimeError) or "memory" in sentence)
    assert len(started) == 1
    assert not any(map(is_alive, started)), "a process is left"
    assert set(threading.enumerate()) <= before, "a thread is left"
    assert run.run_folder.last_checkpoint().exists()
    status = read_status(run.folder / "status.json")
    assert status is not None
    assert status["state"] == "failed"


def refuse_to_start(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == name:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)


def test_a_thread_that_the_system_refuses_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(threading.enumerate())
    run = session.begin(config_for(lock_step=False), tmp_path / "run")
    refuse_to_start(monkeypatch, "trainer-0")
    with pytest.raises(
        RunFailed, match=r"^The system refused a thread that the run needs \(can't start new thread\); "
    ):
        run.train()
    assert set(threading.enumerate()) <= before
    assert not run.server.system.pids()
