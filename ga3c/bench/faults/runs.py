"""Faults of whole runs: the server is killed at a file event, the disk is full, slow or read-only for a while, the
power is cut, or nobody reads the output. Then the run resumes."""

import contextlib
import fcntl
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

from ga3c.bench.faults import truth as truths
from ga3c.bench.faults import witness
from ga3c.bench.faults.layer import Plan
from ga3c.bench.faults.testbed import MORE_STEPS, Case, says
from ga3c.bench.faults.zygote import Ended
from ga3c.run.saver import RETRY_SECONDS

_SPOKEN = {"full": "No space left", "read-only": "Read-only"}
_LONG = 10**9
_PIPE = 4096


def kill(case: Case) -> None:
    """Kills the server at one of its file events."""
    name = _begin(case)
    plan = Plan(
        str(case.folder), "kill", at=case.chance.randint(1, case.bed.events[name]),
        when=case.chance.choice(("before", "half", "after")),
    )  # fmt: skip
    ended = case.run(name, plan)
    case.truth.add(ended.testimony)
    _go_on(case)


def cut(case: Case) -> None:
    """Cuts the power at a file event: the run goes on from what the disk holds."""
    name = _begin(case)
    image = case.work / "image"
    plan = Plan(
        str(case.folder), "power", at=case.chance.randint(1, case.bed.events[name]),
        image=str(image), model=case.chance.choice(("journal", "strict")), seed=case.chance.randrange(2**31),
    )  # fmt: skip
    ended = case.run(name, plan)
    case.truth.add(ended.testimony)
    if image.exists():
        shutil.rmtree(case.folder)
        shutil.move(image, case.folder)
    _go_on(case)


def disk(case: Case) -> None:
    """The disk is full, slow or read-only for a number of file events, and then as before."""
    act, chance = case.fault.kind, case.chance
    name = _begin(case)
    events = chance.randint(1, 4) if act == "slow" else chance.choice((1, 2, 5, 20, 60))
    plan = Plan(
        str(case.folder), act, at=chance.randint(1, case.bed.events[name]),  # type: ignore[arg-type]
        events=events, seconds=chance.uniform(0.05, 0.5),
    )  # fmt: skip
    steps = 3 * MORE_STEPS if name == "train" else case.bed.limit_steps
    ended = case.run(name, plan, steps, RETRY_SECONDS)  # for which the last checkpoint is tried
    steps_seen = {row[0] for row in ended.testimony.rows}
    started, ended_by = len(steps_seen) > 1, plan.at + events  # before its first step a run may refuse to begin
    recovered = ended.events > ended_by
    case.check(
        ended.code == 0 or not started or not recovered or gave_up(ended),
        f"a disk that was {act} for {events} file events ended the run for good: {ended.output[-200:]!r}",
    )
    if ended.refused and not ended.hung:
        case.check(says(ended, _SPOKEN[act]), f"nothing was said of the disk that was {act}")
    if ended.code == 0 and recovered:
        case.check_run(ended)
    else:
        case.truth.add(ended.testimony)
    if case.folder.exists():
        _go_on(case)


def gave_up(ended: Ended) -> bool:
    """Whether a run tried to write its last checkpoint for as long as it promises, and said that it could not. The
    disk counts as recovered by the number of its file events, which are few while a run waits."""
    return ended.seconds >= RETRY_SECONDS and says(ended, "The last checkpoint could not be written", "Make room there")


def output(case: Case) -> None:
    """Nobody reads the output, or its reader ends. The run must not wait for it."""
    case.use_base()
    kind = case.fault.kind
    stops = kind == "stalled-stop"
    with contextlib.closing(_Pipe(case.work / "pipe")) as pipe:
        words = case.words("resume", _LONG if stops else case.bed.limit_steps)
        job = case.job(*words, stdout=str(pipe.path))
        pid = case.bed.zygote.start(job)
        if kind == "closed":
            _until((Path(job.folder) / "witness").exists, case.limit("resume"))  # it has opened the pipe
            pipe.leave()
        if stops:
            _until(lambda: len(witness.read(Path(job.folder) / "witness").rows) >= 3, case.limit("resume"))
            os.kill(pid, signal.SIGTERM)
        ended = case.bed.zygote.wait(job, pid, case.limit("resume"))
    case.look_at(ended, "`ga3c resume`")
    case.check(ended.code == 0, f"the run ended with {ended.code}")
    if ended.code == 0:
        case.check_run(ended)
    else:
        case.truth.add(ended.testimony)
    _go_on(case)


def _begin(case: Case) -> str:
    """A new run in an empty folder, or a resumed one."""
    if case.chance.random() < 0.3:
        case.folder.mkdir()
        return "train"
    case.use_base()
    return "resume"


def _go_on(case: Case) -> None:
    """After a fault: the run resumes, or starts again where it has no checkpoint yet, and goes some steps further."""
    files = truths.checkpoints(case.folder)
    if not files:
        if case.truth.checkpoints:
            # The first checkpoint was being written. Without one there is nothing to resume.
            case.truth = truths.Truth()
        refused = case.run("resume")
        case.check(refused.code == 2, f"a run without a checkpoint resumed with exit code {refused.code}")
        case.truth = truths.Truth()
        ended = case.run("train")
        case.check(ended.code == 0, f"the run does not start again: {ended.output[-200:]!r}")
    else:
        ended = case.run("resume", steps=truths.steps_of(files[-1]) + MORE_STEPS)
        case.check(ended.code == 0, f"the run does not resume: {ended.output[-200:]!r}")
        if ended.testimony.resumed:
            newest, used = files[-1], ended.testimony.resumed[-1]
            case.check(
                used == truths.steps_of(newest) or says(ended, newest.name),
                f"the run resumed from step {used} instead of {newest.name} in silence",
            )
    if ended.code == 0:
        case.check_run(ended)


class _Pipe:
    """A named pipe that is full and that nobody reads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        self._reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self._writer = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        fcntl.fcntl(self._writer, fcntl.F_SETPIPE_SZ, _PIPE)
        os.write(self._writer, bytes(_PIPE))

    def leave(self) -> None:
        """The reader goes: whoever writes now gets an error."""
        os.close(self._reader)
        self._reader = -1

    def close(self) -> None:
        os.close(self._writer)
        if self._reader >= 0:
            os.close(self._reader)


def _until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
