"""Where whole runs meet faults: folders copied from one that is in order, processes that are watched, and the
conditions that must hold for each of them."""

import os
import shutil
import time
from pathlib import Path
from typing import Any

from ga3c.bench.faults import truth as truths
from ga3c.bench.faults.fault import Fault
from ga3c.bench.faults.layer import Plan
from ga3c.bench.faults.truth import Truth
from ga3c.bench.faults.zygote import TOKEN, Ended, Job, Zygote
from ga3c.errors import RunFailed

HANG = 5.0
"""Seconds that a fault may hold a process up, beyond its normal time."""
_SLOWER = 8.0
"""How many times its normal time a process may take: other processes may use the cores meanwhile."""
SMALL = (
    "--agents", "4", "--workers", "1", "--predictors", "1", "--trainers", "1", "--device", "cpu",
    "--checkpoint-seconds", "0.2", "--ui", "plain", "--log", "csv",
)  # fmt: skip
_BASE = ("--steps", "4000", "--tune", "on", "--tune-seconds", "0.3", "--max-agents", "4")
MORE_STEPS = 800
"""Steps that a run is resumed for."""


class TestBed:
    """A run that is in order, its truth, and how long its commands take without a fault."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.zygote = Zygote()
        self.base = scratch / "base"
        self._cases = 0

    def prepare(self) -> None:
        """Trains the run, and measures commands without a fault."""
        job = Job(str(self.scratch / "train"), ("train", "CartPole-v1", "--out", str(self.base), *SMALL, *_BASE))
        made = self.zygote.run(job, 120.0)
        if made.code:
            raise RunFailed(f"The run that faults are tried on could not be trained:\n{made.output}")
        self.truth = truths.of_folder(self.base, made.testimony.configs[-1])
        self.steps = truths.steps_of(truths.checkpoints(self.base)[-1])
        self.limit_steps = self.steps + MORE_STEPS
        self.seconds, self.events = {"train": 1.0, "resume": 1.0, "eval": 1.0}, {"train": 40, "resume": 40}
        for name in ("resume", "train", "eval"):
            case = self.case(Fault(0, 0, "calibration", name))
            ended = case.run(name, Plan(str(case.folder))) if name != "eval" else case.eval()
            self.seconds[name], self.events[name] = ended.seconds, ended.events
            if case.broken or ended.code:
                raise RunFailed(f"`ga3c {name}` breaks a condition without any fault: {case.broken}\n{ended.output}")

    def share(self, other: "TestBed") -> None:
        """Takes what another test bed has prepared; the run itself must be copied."""
        self.truth, self.steps, self.limit_steps = other.truth, other.steps, other.limit_steps
        self.seconds, self.events = other.seconds, other.events

    def case(self, fault: Fault) -> "Case":
        self._cases += 1
        return Case(self, fault, self.scratch / f"case-{self._cases}")

    def close(self) -> None:
        self.zygote.__exit__(None, None, None)


class Case:
    """One fault: its folder, what its processes did, and the conditions that broke."""

    def __init__(self, bed: TestBed, fault: Fault, work: Path) -> None:
        self.bed = bed
        self.fault = fault
        self.chance = fault.chance
        self.work = work
        self.folder = work / "run"
        self.truth = Truth()
        self.broken: list[str] = []
        self.token = f"{os.getpid()}-{work.name}-{time.monotonic_ns()}"
        self._processes = 0
        work.mkdir(parents=True)

    def check(self, holds: bool, text: str) -> None:
        if not holds:
            self.broken.append(text)

    def use_base(self) -> None:
        """Begins with a copy of the run that is in order."""
        shutil.copytree(self.bed.base, self.folder, symlinks=True)
        self.truth = self.bed.truth.copy()

    # -- processes ----------------------------------------------------------------------------------------------------

    def job(self, *words: str, plan: Plan | None = None, stdout: str = "") -> Job:
        self._processes += 1
        folder = str(self.work / f"process-{self._processes}")
        return Job(folder, words, plan=plan, stdout=stdout, token=self.token)

    def words(self, name: str, steps: int | None = None) -> tuple[str, ...]:
        """The command that trains in the folder, resumes or evaluates the run."""
        if name == "train":
            out = ("--out", str(self.folder), "--steps", str(steps or MORE_STEPS), "--tune", "off")
            return ("train", "CartPole-v1", *SMALL, *out)
        if name == "resume":
            return ("resume", str(self.folder), "--steps", str(steps or self.bed.limit_steps), "--ui", "plain")
        return ("eval", str(self.folder), "--episodes", "1", "--device", "cpu")

    def limit(self, name: str) -> float:
        """Seconds after which a command hangs."""
        return HANG + _SLOWER * self.bed.seconds[name]

    def run(self, name: str, plan: Plan | None = None, steps: int | None = None, patience: float = 0.0) -> Ended:
        """Trains or resumes, and checks what must hold for any process. The record is checked by `check_run`. It
        counts as hanging `patience` seconds later than other commands, for a wait that it announces."""
        if name == "resume" and not self.folder.exists():
            self.use_base()
        ended = self.bed.zygote.run(self.job(*self.words(name, steps), plan=plan), self.limit(name) + patience)
        self.look_at(ended, f"`ga3c {name}`", killed=plan is not None and plan.act in ("kill", "power"))
        return ended

    def eval(self) -> Ended:
        if not self.folder.exists():
            self.use_base()
        before = contents(self.folder)
        ended = self.bed.zygote.run(self.job(*self.words("eval")), self.limit("eval"))
        self.look_at(ended, "`ga3c eval`")
        after = contents(self.folder)
        changed = sorted(name for name in before | after if before.get(name) != after.get(name))
        self.check(not changed, f"`ga3c eval` changed {', '.join(changed)}")
        return ended

    def look_at(self, ended: Ended, what: str, killed: bool = False) -> None:
        """The conditions for every process: it does not hang, ends with a sentence, loads and uses only what is the
        run's, and leaves no process behind."""
        if ended.hung:
            self.broken.append(f"{what} hung for more than {ended.seconds:.0f} s: {_where(ended.output)}")
        elif not killed or ended.code != -9:
            self.check(ended.code in (0, 1, 2), f"{what} ended with {ended.code}")
        self.check(
            "Traceback (most recent call last)" not in ended.output,
            f"{what} printed a traceback: {_last(ended.output)}",
        )
        if ended.code in (1, 2):
            self.check("ga3c: " in ended.output, f"{what} failed without a sentence: {_last(ended.output)}")
        self.broken += [f"{what}: {text}" for text in self.truth.loaded_wrong(ended.testimony)]
        changed = self.truth.settings_changed(ended.testimony)
        if changed and not says(ended, "config.toml"):
            self.broken.append(f"{what} used other settings in silence: {', '.join(changed)}")
        self.check(not (left := orphans(self.token)), f"{what} left the processes {left}")

    def check_run(self, ended: Ended, what: str = "the run") -> None:
        """The conditions for a run that went to its end: record, checkpoints and settings on disk are its own."""
        self.truth.add(ended.testimony)
        self.broken += [f"{what}: {text}" for text in self.truth.record_differs(self.folder)]
        self.check_files(what)

    def check_files(self, what: str) -> None:
        changed = truths.config_differs(self.folder, self.truth)
        self.check(not changed, f"{what}: config.toml holds other settings: {', '.join(changed)}")
        hidden = [path.name for path in (self.folder / "checkpoints").glob(".*")]
        self.check(not hidden, f"{what}: {', '.join(hidden)} was left behind")
        newest = truths.checkpoints(self.folder)[-1:]
        self.check(bool(newest), f"{what}: there is no checkpoint")


def says(ended: Ended, *words: str) -> bool:
    """Whether people were told something with all the words."""
    return any(all(word in text for word in words) for text in (ended.output, *ended.testimony.texts))


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def orphans(token: str, patience: float = HANG) -> list[str]:
    """Processes of a test that have not ended `patience` seconds after it."""
    deadline = time.monotonic() + patience
    while (found := _with(token)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def _with(token: str) -> list[str]:
    mark = f"{TOKEN}={token}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            state = (process / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
            if state != "Z" and mark in (process / "environ").read_bytes().split(b"\0"):
                found.append(process.name)
        except OSError:
            continue
    return found


def _last(output: str) -> str:
    return (output.strip().splitlines() or ["no output"])[-1][:200]


def _where(output: str) -> str:
    """The innermost frame of the main thread, in what a hanging process was made to show."""
    frames: list[str] = []
    shown: Any = output.partition("Current thread ")[2] or output.rpartition("Thread 0x")[2]
    frames = [line.strip() for line in shown.splitlines() if line.strip().startswith("File ")]
    return frames[0] if frames else "no stack"
