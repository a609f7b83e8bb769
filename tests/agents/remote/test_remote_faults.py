"""Hosts that are killed, cut off and damaged while a run trains: only rollouts that were begun are lost."""

import dataclasses
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hosts import Cable, Hosts, workers

from ga3c import envs
from ga3c.agents.remote.gateway import Gateway
from ga3c.agents.remote.squeezing import has_lz4
from ga3c.bench.conservation import Episodes, conserved
from ga3c.bench.faults import agents
from ga3c.bench.faults.audit import Audit
from ga3c.bench.live import LiveRun
from ga3c.engine.ga3c import Ga3c

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
WaitUntil = Callable[..., None]


class RemoteRun:
    """A run of `Clockwork` on two hosts behind a cable, every transition of which is checked."""

    def __init__(self, folder: Path) -> None:
        self.gateway = Gateway("127.0.0.1", (1, 1))
        self.cable = Cable(self.gateway.port)
        config = agents.config_for(1, workers=2)
        compress: Any = "delta-lz4" if has_lz4() else "none"
        self.config = dataclasses.replace(config, engine=dataclasses.replace(config.engine, compress=compress))
        spec = envs.describe(self.config.env_id, self.config.env, raw_screens=False)
        self.system = Ga3c(self.config, spec, folder, gateway=self.gateway)
        self.audit = Audit(self.system.store, self.config.learn.discount)
        self.live = LiveRun(self.system, None)
        self.live.mends = True
        self.episodes = Episodes()
        self.states: list[str] = []
        self.texts: list[str] = []
        self.system.start()
        self.hosts = Hosts(self.gateway, self.cable.port)
        for _ in range(2):
            self.hosts.add()

    def look(self) -> Any:
        snapshot = self.live.look(self.episodes, after=0.02)
        for event in self.system.take_events():
            self.states.append(event.details.get("state", ""))
            self.texts.append(event.text)
        return snapshot

    def until(self, condition: Callable[[], Any], seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"it did not come true in time; events: {self.texts}"
            self.look()

    def until_all_step(self) -> None:
        now = time.monotonic_ns()
        self.until(lambda: (self.system.pool.slots.posted_ns > now).all())

    def check(self) -> None:
        """Nothing is lost but what had begun, and nothing comes twice."""
        self.until_all_step()
        self.until(lambda: self.audit.count > 100)
        for check in conserved(self.system, self.config, self.look, self.episodes, self.live.restarts):
            assert check.holds, f"{check.what}: {check.found}"
        assert not self.audit.wrong, self.audit.example
        assert self.audit.gaps() == ""

    def stop(self) -> None:
        self.system.stop(5.0)
        self.cable.close()
        self.hosts.close()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RemoteRun]:
    one = RemoteRun(tmp_path)
    yield one
    one.stop()


def test_killed_hosts_and_processes_cost_only_what_had_begun(run: RemoteRun) -> None:
    run.until_all_step()
    for victim in range(2):
        os.kill(workers(run.hosts.processes[victim].pid)[0], signal.SIGKILL)
        run.until(lambda before=run.live.restarts: run.live.restarts > before)
        run.until_all_step()
    run.hosts.processes[0].kill()
    run.until(lambda: "lost" in run.states)
    run.hosts.add()
    run.check()
    assert run.states == ["joined", "joined", "lost", "joined"]


def test_cut_and_damaged_links_cost_only_what_had_begun(run: RemoteRun) -> None:
    chance = random.Random(1)
    for number in range(6):
        run.until_all_step()
        lost = run.states.count("lost")
        if number % 2:
            run.cable.cut()
        else:
            run.cable.damage(chance.randrange(1000))
        run.until(lambda lost=lost: run.states.count("lost") > lost)
    run.check()


def test_a_link_that_is_out_for_ten_seconds_goes_on(run: RemoteRun) -> None:
    run.until_all_step()
    restarts, steps = run.live.restarts, run.system.stats.steps
    run.cable.hold()
    end = time.monotonic() + 10
    run.until(lambda: time.monotonic() > end)
    run.cable.release()
    run.until_all_step()
    assert run.system.stats.steps > steps
    assert run.live.restarts == restarts
    assert run.states == ["joined", "joined"]
    run.check()
