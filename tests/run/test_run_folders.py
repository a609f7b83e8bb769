"""A run's folder over its life: trained, killed, resumed, extended, evaluated and damaged in any order. Nothing ends
in a traceback, and nothing changes weights, settings or the record in silence."""

import dataclasses
import tempfile
import warnings
from pathlib import Path

import pytest
import torch
from damage import Damage, damages
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from saved_runs import save_run
from snapshots import make_snapshot
from torch import Tensor

from ga3c.config import Config, RunConfig, changed, differences, to_toml
from ga3c.errors import UserError
from ga3c.metrics.sinks.csv import CsvSink, read_metrics
from ga3c.metrics.snapshot import Counters
from ga3c.run import checkpoint, saved, session, trained
from ga3c.run import settings as presets
from ga3c.run.checkpoint import Checkpoint
from ga3c.run.folder import RunFolder

CPU = torch.device("cpu")


def cartpole() -> Config:
    config = presets.preset_config("CartPole-v1", "fast", "cpu")
    engine = dataclasses.replace(config.engine, device="cpu", agents=2, workers=1)
    return dataclasses.replace(config, engine=engine, run=RunConfig(steps=10**9, keep=3))


CONFIG = cartpole()
MEMORY = Path("/dev/shm")
"""A disk that others keep busy takes long to sync, of which these tests do much."""


class Folders(RuleBasedStateMachine):
    """A run, and beside it what it should have: the weights of each checkpoint, its limits, the rows of its record."""

    @initialize()
    def start(self) -> None:
        self.place = tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None)
        self.folder = RunFolder(save_run(Path(self.place.name) / "run", CONFIG, steps=0))
        self.weights = {0: checkpoint.load(self.folder.last_checkpoint()).tensors}
        self.config = CONFIG
        self.rows: list[int] = []
        self.is_damaged = False

    def teardown(self) -> None:
        self.place.cleanup()

    @rule(saves=st.integers(0, 2), rows_after=st.integers(0, 3))
    def resume_and_kill(self, saves: int, rows_after: int) -> None:
        """A run goes on, saves checkpoints, and is killed with rows that no checkpoint covers."""
        self._go_on(saves, rows_after)

    @rule(more=st.integers(1, 10**6))
    def extend(self, more: int) -> None:
        self._go_on(1, 0, steps=10**9 + more)

    @rule(minutes=st.floats(10.0, 1e6))
    def extend_by_time(self, minutes: float) -> None:
        self._go_on(1, 0, minutes=minutes)

    @rule()
    def evaluate(self) -> None:
        before = self._contents()
        newest = self._newest()
        try:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                policy = trained.load(self.folder.path, "last", CPU)
        except UserError:
            assert self.is_damaged
        else:
            self._check(policy.config, policy.steps, newest, [str(one.message) for one in told], limits_are_told=False)
            for name, parameter in policy.network.named_parameters():
                assert torch.equal(parameter, self.weights[policy.steps][f"network.{name}"]), name
        assert self._contents() == before, "an evaluation changes nothing"

    @rule()
    def start_again(self) -> None:
        """There is a run already, damaged or not: it is refused and stays as it is."""
        if checkpoint.list_last(self.folder.checkpoints):
            before = self._contents()
            with pytest.raises(UserError, match="already holds a run"):
                RunFolder(self.folder.path).create(CONFIG)
            assert self._contents() == before

    @rule(number=st.integers(0, 3), damage=st.none() | damages)
    def damage(self, number: int, damage: Damage | None) -> None:
        """One of the last checkpoints or config.toml changes or goes away."""
        files = [self.folder.config, *reversed(checkpoint.list_last(self.folder.checkpoints))]
        file = files[number % len(files)]
        if not file.exists():
            return
        before = file.read_bytes()
        if damage is None:
            file.unlink()
        else:
            damage.apply_to(file)
        self.is_damaged |= damage is None or file.read_bytes() != before

    def _go_on(self, saves: int, rows_after: int, steps: int | None = None, minutes: float | None = None) -> None:
        newest, before = self._newest(), self._contents()
        try:
            run = session.go_on(self.folder.path, steps, minutes)
        except UserError:
            assert self.is_damaged
            assert self._contents() == before, "what is refused is left as it is"
            self._repair()
            return
        try:
            told = [text for _, text in run.server.notices]
            new = {"steps": steps, "minutes": 0.0} if steps else {"steps": 0, "minutes": minutes} if minutes else {}
            self.config = changed(self.config, new)
            self._check(run.config, run.steps, newest, told, limits_are_told=True)
            self._train(run, saves, rows_after)
        finally:
            run.server.system.stop(0.0)
            run.run_folder.unlock()
        self.is_damaged &= any(not _is_whole(path) for path in checkpoint.list_last(self.folder.checkpoints))

    def _check(self, config: Config, steps: int, newest: int, told: list[str], limits_are_told: bool) -> None:
        other = differences(config, to_toml(self.config))
        assert set(other) <= set(saved.CHANGEABLE), "settings stay as they were"
        assert not other or told or not limits_are_told
        assert steps == newest or any("is used instead" in text for text in told), "older weights are told of"

    def _train(self, run: session.Run, saves: int, rows_after: int) -> None:
        state = run.server.system.model.state()
        assert all(torch.equal(tensor, self.weights[run.steps][name]) for name, tensor in state.items())
        self.rows = [row for row in self.rows if row <= run.steps]
        assert [int(row["steps"]) for row in read_metrics(self.folder.path)] == self.rows
        self.config = run.config
        sink, steps = CsvSink(self.folder.path), run.steps
        for _ in range(saves):
            steps += 100
            self._record(sink, steps)
            self._save(steps, {name: tensor + 0.5 for name, tensor in state.items()})
        for _ in range(rows_after):
            steps += 10
            self._record(sink, steps)
        sink.close()

    def _record(self, sink: CsvSink, steps: int) -> None:
        sink.write(make_snapshot(steps, seconds=steps / 10), [])
        self.rows.append(steps)

    def _save(self, steps: int, state: dict[str, Tensor]) -> None:
        self.weights[steps] = state
        one = Checkpoint(state, Counters(steps=steps, seconds=steps / 10), 1.0, 2.0, to_toml(self.config))
        checkpoint.save(checkpoint.path_for(self.folder.checkpoints, steps), one)
        checkpoint.prune(self.folder.checkpoints, 3)

    def _repair(self) -> None:
        """As the sentences advise: without config.toml the checkpoint's settings hold; else the run is trained anew."""
        self.folder.config.unlink(missing_ok=True)
        try:
            saved.read(self.folder)
        except UserError:
            self.place.cleanup()
            self.start()

    def _newest(self) -> int:
        paths = checkpoint.list_last(self.folder.checkpoints)
        return max((int(path.stem.removeprefix("step-")) for path in paths), default=-1)

    def _contents(self) -> dict[str, bytes]:
        files = (path for path in self.folder.path.rglob("*") if path.is_file())
        return {path.name: path.read_bytes() for path in files}


def _is_whole(path: Path) -> bool:
    try:
        checkpoint.load(path)
    except UserError:
        return False
    return True


@pytest.mark.parametrize(
    ("examples", "steps"), [(5, 8), pytest.param(200, 30, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])]
)
def test_a_folder_survives_any_life(examples: int, steps: int) -> None:
    quiet = list(HealthCheck)
    exact = settings(derandomize=True, deadline=None, database=None, suppress_health_check=quiet)
    run_state_machine_as_test(Folders, settings=settings(exact, max_examples=examples, stateful_step_count=steps))
