"""The machine of faults: it repeats a fault, sees what is wrong, and finds nothing wrong with runs that hold."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from bench_support import NO_PLOT, rows_of

from ga3c import cli
from ga3c.bench.faults import agents, clockwork, damage, fault, runner, runs, testbed, truth, witness
from ga3c.bench.faults.audit import Audit
from ga3c.bench.faults.clockwork import Clockwork, Control
from ga3c.bench.faults.disk_image import Disk
from ga3c.bench.faults.layer import Plan
from ga3c.bench.faults.zygote import TOKEN, Ended, Job, Zygote
from ga3c.engine.store import Rollouts
from ga3c.errors import UserError

pytestmark = pytest.mark.timeout(600)

# -- whole: faults against real runs ----------------------------------------------------------------------------------


def do_faults(count: int, out: Path, jobs: int) -> None:
    words = ["bench", "faults", "--count", str(count), "--jobs", str(jobs)]
    code = cli.main([*words, "--out", str(out), *NO_PLOT])
    result = json.loads((out / "faults.json").read_text())
    assert result["failures"] == []
    assert code == 0
    assert result["faults"] == result["held"] == len(rows_of(out / "faults.csv")) == count


def test_twenty_faults_are_held(tmp_path: Path) -> None:
    do_faults(20, tmp_path, 2)


@pytest.mark.slow
def test_two_hundred_faults_are_held(tmp_path: Path) -> None:
    do_faults(200, tmp_path, 2)


# -- faults -----------------------------------------------------------------------------------------------------------


def test_a_fault_is_repeated_by_its_seed_and_number() -> None:
    kinds = fault.chosen(())
    many = [fault.pick(1, number, kinds) for number in range(300)]
    assert {one.family for one in many} == set(fault.FAMILIES)
    again = fault.pick(1, 77, kinds)
    assert again == many[77]
    assert again.chance.random() == many[77].chance.random()
    alone = fault.pick(1, 77, [many[77].name])
    assert alone == many[77]
    assert alone.repeat.endswith(f"--seed 1 --first 77 --count 1 --kinds {alone.name}")
    assert [one for group in runner.plan(1, 10, 40, kinds) for one in group].count(many[20]) == 1


def test_kinds_are_families_or_single_kinds() -> None:
    assert fault.chosen(("server", "disk-full")) == ["server-kill", "disk-full"]
    with pytest.raises(ValueError, match="earthquake"):
        fault.chosen(("earthquake",))
    assert cli.main(["bench", "faults", "--kinds", "earthquake"]) == 2


# -- what is wrong is seen --------------------------------------------------------------------------------------------


def played(env: Clockwork, seed: int, steps: int) -> Rollouts:
    """A rollout of an environment as the store would hold it, with truncated episodes left out."""
    seen, actions, rewards, discounts, learn = [env.reset(seed=seed)[0]], [], [], [], []
    for step in range(steps):
        observation, pay, terminated, truncated, _ = env.step(step % 3)
        seen.append(env.reset()[0] if terminated else observation)
        for values, value in (
            (actions, step % 3),
            (rewards, pay),
            (discounts, 0.0 if terminated else 0.99),
            (learn, 1),
        ):
            values.append(value)
        if truncated:
            seen.append(env.reset()[0])
            for values in (actions, rewards, discounts, learn):
                values.append(0)
    return Rollouts(
        torch.tensor(np.stack(seen))[None], torch.tensor(actions)[None], torch.zeros(1, len(actions)),
        torch.tensor(rewards, dtype=torch.float32)[None], torch.tensor(discounts, dtype=torch.float32)[None],
        torch.tensor(learn, dtype=torch.float32)[None],
    )  # fmt: skip


def audited(*batches: Rollouts) -> Audit:
    waiting = iter(batches)
    store: Any = SimpleNamespace(gather=lambda blocks: next(waiting))
    audit = Audit(store, 0.99)
    for _ in batches:
        store.gather(torch.zeros(1))
    return audit


def test_the_audit_passes_what_environments_did_and_nothing_else() -> None:
    env = Clockwork()
    right = played(env, 123_456_789, 60)
    audit = audited(right)
    assert (audit.wrong, audit.gaps(), audit.count) == (0, "", 60)
    for name, value in (("rewards", 9.0), ("discounts", 0.5), ("actions", 7)):
        changed = getattr(right, name).clone()
        changed[0, 4] = value
        assert audited(right._replace(**{name: changed})).wrong == 1, name
    observations = right.observations.clone()
    observations[0, 5] = float("nan")
    assert audited(right._replace(observations=observations)).wrong == 2, "the steps to it and from it"
    assert "twice" in audited(right, right).gaps()
    learn = right.learn.clone()
    learn[0, 3] = 0
    assert "1 steps are missing" in audited(right._replace(learn=learn)).gaps()


def test_an_environment_fails_when_it_is_told_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(clockwork.CONTROL, str(tmp_path / "control"))
    env, control = Clockwork(), Control(tmp_path / "control")
    env.reset(seed=5)
    control.order(os.getpid() + 1, "raise")
    env.step(0)
    assert not control.is_taken(), "it is for another process"
    control.order(os.getpid(), "raise")
    with pytest.raises(RuntimeError, match="on purpose"):
        env.step(0)
    assert control.is_taken()
    control.order(os.getpid(), "nan-reward")
    assert np.isnan(env.step(0)[1])
    control.order(os.getpid(), "nan-observation")
    assert np.isnan(env.step(0)[0]).all()
    assert env.step(0)[1] == clockwork.reward(5, 5)


def test_a_record_with_a_gap_a_double_or_another_order_is_seen(tmp_path: Path) -> None:
    life = witness.Testimony(rows=[(0, 0.0), (10, 1.0), (20, 2.0)], episodes=[(7, 1), (15, 2)])
    known = truth.Truth()
    known.add(life)
    metrics, episodes = tmp_path / "metrics.csv", tmp_path / "episodes.csv"
    episodes.write_text("number,steps\n1,7\n2,15\n")
    rows = ["0,0", "1,10", "2,20"]
    for lines, differs in (
        (rows, False), (rows[:2], True), ([*rows, rows[2]], True), ([rows[0], rows[2], rows[1]], True),
        ([*rows[:2], "?"], True),
    ):  # fmt: skip
        metrics.write_text("\n".join(["seconds,steps", *lines]) + "\n")
        assert bool(known.record_differs(tmp_path)) == differs, lines
    known.add(witness.Testimony(rows=[(12, 1.1)], resumed=[10], resumed_at=(1.0, 1)))
    assert known.rows == {"metrics.csv": [(0, 0.0), (10, 1.0), (12, 1.1)], "episodes.csv": [(7, 1)]}


def test_weights_and_settings_that_are_not_the_run_s_are_seen() -> None:
    known = truth.Truth(checkpoints={10: [{"a": "1", "b": "2"}]}, config={"run": {"steps": 5, "seed": 1}})
    assert known.loaded_wrong(witness.Testimony(loaded=[{"a": "1"}], resumed=[10])) == []
    assert "no checkpoint" in known.loaded_wrong(witness.Testimony(loaded=[{"a": "9"}]))[0]
    assert "as those of step 30" in known.loaded_wrong(witness.Testimony(loaded=[{"a": "1"}], resumed=[30]))[0]
    assert known.settings_changed(witness.Testimony(configs=[{"run": {"steps": 9, "seed": 1}}])) == []
    assert known.settings_changed(witness.Testimony(configs=[{"run": {"steps": 5, "seed": 2}}])) == ["run.seed"]


def test_processes_that_hang_print_tracebacks_or_are_left_are_seen(
    tmp_path: Path, wait_until: Callable[..., None]
) -> None:
    bed = testbed.TestBed(tmp_path / "bed")
    try:
        case = bed.case(fault.Fault(1, 1, "server", "kill"))
        asleep = Job(str(tmp_path / "asleep"), function="time:sleep", arguments=None, token=case.token)
        ended = bed.zygote.run(asleep, 20.0)
        case.look_at(ended, "it")
        assert any("traceback" in text for text in case.broken), "sleep was called without its argument"
        case.broken.clear()
        hanging = Job(str(tmp_path / "hanging"), function="signal:pause", arguments={}, token=case.token)
        ended = bed.zygote.run(hanging, 0.5)
        assert ended.hung
        case.look_at(ended, "it")
        assert any("it hung" in text for text in case.broken)
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env={TOKEN: case.token})
        # A process has its environment a moment after `Popen` has returned.
        wait_until(lambda: testbed.orphans(case.token, 0.0) == [str(child.pid)])
        child.communicate(b"\n")
        assert testbed.orphans(case.token) == []
    finally:
        bed.close()


# -- the disk ---------------------------------------------------------------------------------------------------------


def image_of(disk: Disk, path: Path) -> dict[str, bytes]:
    disk.write_image(path)
    return testbed.contents(path)


@pytest.mark.parametrize("model", ["journal", "strict"])
def test_a_power_cut_leaves_what_was_synced(tmp_path: Path, model: Any) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "old").write_bytes(b"old")
    disk = Disk(folder, model, seed=1)
    (folder / ".new").write_bytes(b"new")
    for kind, path in (("create", ".new"), ("write", ".new"), ("sync", ".new")):
        disk.note(kind, str(folder / path))
    (folder / ".new").rename(folder / "old")
    disk.note("rename", str(folder / ".new"), str(folder / "old"))
    disk.note("sync", str(folder))
    assert image_of(disk, tmp_path / "after") == {"old": b"new"}
    with (folder / "old").open("ab") as file:
        file.write(b"er and longer")
    disk.note("write", str(folder / "old"))
    left = [image_of(disk, tmp_path / f"torn-{n}")["old"] for n in range(20)]
    assert all(one.startswith(b"new") for one in left), "what was synced stays"
    assert len(set(left)) > 2, "the rest is lost, torn or zeros"


def test_a_name_that_was_not_synced_may_be_lost(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "config").write_bytes(b"old")
    disk = Disk(folder, "strict", seed=1)
    (folder / ".config").write_bytes(b"new")
    disk.note("create", str(folder / ".config"))
    (folder / ".config").rename(folder / "config")
    disk.note("rename", str(folder / ".config"), str(folder / "config"))
    assert image_of(disk, tmp_path / "strict") == {"config": b"old"}


LAYERED = """
import os, sys
from pathlib import Path
def main(folder):
    folder = Path(folder)
    for number in range(4):
        try:
            temporary = folder / f".{number}"
            folder.mkdir(exist_ok=True)
            with open(temporary, "w") as file:
                file.write("line\\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, folder / str(number))
        except OSError as error:
            print("refused", error.errno)
"""


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Any:
    modules = tmp_path_factory.mktemp("modules")
    (modules / "layered.py").write_text(LAYERED)
    before = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(modules), *sys.path])
    with Zygote() as one:
        yield one
    os.environ["PYTHONPATH"] = before


@pytest.mark.parametrize(
    ("plan", "code", "files", "says"),
    [
        ({}, 0, 4, ""),
        ({"act": "kill", "at": 6}, -9, 1, ""),
        ({"act": "kill", "at": 6, "when": "half"}, -9, 1, ""),
        ({"act": "kill", "at": 8, "when": "after"}, -9, 2, ""),
        ({"act": "full", "at": 2, "events": 1}, 0, 3, "refused 28"),
        ({"act": "read-only", "at": 4, "events": 2}, 0, 2, "refused 30"),
        ({"act": "slow", "at": 1, "events": 2, "seconds": 0.01}, 0, 4, ""),
    ],
)
def test_the_layer_acts_at_its_event(
    zygote: Zygote, tmp_path: Path, plan: dict[str, Any], code: int, files: int, says: str
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    job = Job(
        str(tmp_path / "job"), function="layered:main", arguments={"folder": str(folder)},
        plan=Plan(str(folder), **plan),
    )  # fmt: skip
    ended = zygote.run(job, 30.0)
    assert ended.code == code, ended.output
    assert len([path for path in folder.iterdir() if not path.name.startswith(".")]) == files
    assert says in ended.output
    if not plan:
        assert ended.events == 16, "four files, each created, written, synced and renamed; the folder is there already"
    if plan.get("when") == "half":
        assert (folder / ".1").read_text() == "li"


def test_damage_changes_what_it_says(tmp_path: Path) -> None:
    data, chance = bytes(range(256)) * 8, random.Random(3)
    assert damage._damaged("empty", data, chance) == b""
    assert data.startswith(damage._damaged("truncate", data, chance))
    assert damage._damaged("zero", data, chance).count(0) > 500
    flipped = damage._damaged("flip", data, chance)
    assert 0 < sum(a != b for a, b in zip(data, flipped, strict=True)) <= 20
    assert damage._damaged("random", data, chance) != data


def test_the_config_of_the_runs_can_be_resolved() -> None:
    config = agents.config_for(3)
    assert config.engine.restarts == 10**6
    assert config.learn.reuse == 1
    assert config.progress(10**9, 10**9) == 0.0


def test_arguments_that_make_no_sense_are_refused() -> None:
    from ga3c.bench.faults.command import FaultArguments

    for wrong in ({"count": 0}, {"minutes": -1.0}, {"first": -1}, {"jobs": -1}):
        with pytest.raises(UserError):
            FaultArguments(**wrong)  # type: ignore[arg-type]


def test_an_ended_process_says_what_people_were_told() -> None:
    ended = Ended(0, "the disk", 1.0, False, witness.Testimony(texts=["warning: metrics.csv is short"]), 0)
    assert testbed.says(ended, "metrics.csv", "short")
    assert not testbed.says(ended, "disk", "short"), "in one text"


def test_a_run_may_give_its_last_checkpoint_up_only_after_its_patience() -> None:
    said = "ga3c: The last checkpoint could not be written (Read-only file system). Make room there and go on"
    assert runs.gave_up(Ended(1, said, 10.5, False, witness.Testimony(), 99))
    assert not runs.gave_up(Ended(1, said, 9.0, False, witness.Testimony(), 99)), "too early"
    assert not runs.gave_up(Ended(1, "ga3c: The run stopped", 10.5, False, witness.Testimony(), 99))
