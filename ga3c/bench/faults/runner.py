"""The machine of faults: does faults by number, several at once, and collects what became of each."""

import json
import queue
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ga3c.bench.faults import clockwork, damage, runs
from ga3c.bench.faults import truth as truths
from ga3c.bench.faults.fault import Fault, Verdict, pick
from ga3c.bench.faults.testbed import Case, TestBed
from ga3c.bench.faults.zygote import Ended, Job

SESSION = 25
"""The most faults of agents in one run."""
_PATIENCE = 10.0
"""Seconds for each of these faults. A run that takes longer counts as hanging."""

Group = list[Fault]
"""Faults that share a run, or a single fault."""


def plan(seed: int, first: int, count: int, kinds: list[str]) -> list[Group]:
    """`count` faults from number `first` on, in groups."""
    faults = [pick(seed, number, kinds) for number in range(first, first + count)]
    agents = [fault for fault in faults if fault.family == "agents"]
    others = [[fault] for fault in faults if fault.family != "agents"]
    sessions = [agents[n : n + SESSION] for n in range(0, len(agents), SESSION)]
    # Sessions are spread evenly between the others, so that a run that ends early has met all families.
    every = max(1, len(others) // max(1, len(sessions)))
    mixed: list[Group] = []
    for place, one in enumerate(others):
        if place % every == 0 and sessions:
            mixed.append(sessions.pop(0))
        mixed.append(one)
    return mixed + sessions


class Machine:
    """Does groups of faults in several threads, each with a test bed of its own over the same run."""

    def __init__(self, scratch: Path, jobs: int) -> None:
        self._beds = [TestBed(scratch / f"bed-{number}") for number in range(jobs)]
        self._stopped = threading.Event()

    def prepare(self, needs_runs: bool) -> None:
        """Trains the run that faults are tried on, where there are such faults."""
        if not needs_runs:
            return
        first, *others = self._beds
        first.prepare()
        for bed in others:
            shutil.copytree(first.base, bed.base)
            bed.share(first)

    def run(self, work: Sequence[Group], on_verdict: Callable[[Verdict], None], until: float) -> None:
        """Does the groups; calls `on_verdict` in this thread. Ends early at `until` (`time.monotonic`)."""
        waiting: queue.SimpleQueue[Group] = queue.SimpleQueue()
        done: queue.SimpleQueue[Verdict | BaseException | None] = queue.SimpleQueue()
        for group in work:
            waiting.put(group)

        def serve(bed: TestBed) -> None:
            try:
                while not self._stopped.is_set() and time.monotonic() < until:
                    for verdict in do(bed, waiting.get_nowait()):
                        done.put(verdict)
            except queue.Empty:
                pass
            except BaseException as error:
                done.put(error)
            finally:
                done.put(None)

        threads = [threading.Thread(target=serve, args=(bed,), name="faults") for bed in self._beds]
        for thread in threads:
            thread.start()
        try:
            left = len(threads)
            while left:
                one = done.get()
                if one is None:
                    left -= 1
                elif isinstance(one, BaseException):
                    raise one
                else:
                    on_verdict(one)
        finally:
            self._stopped.set()
            for thread in threads:
                thread.join()

    def close(self) -> None:
        for bed in self._beds:
            bed.close()


def do(bed: TestBed, group: Group) -> list[Verdict]:
    """Does a group of faults and returns what became of each."""
    begin = time.monotonic()
    case = bed.case(group[0])
    try:
        if group[0].family == "agents":
            return _session(case, group)
        _KINDS[group[0].family](case)
        return [Verdict(group[0], tuple(case.broken), time.monotonic() - begin)]
    except Exception as error:  # what a fault has left may be anything
        text = f"the conditions could not be checked: {type(error).__name__}: {error}"
        return [Verdict(fault, (*case.broken, text), time.monotonic() - begin) for fault in group]
    finally:
        damage.clean(case.work)


def _session(case: Case, group: Group) -> list[Verdict]:
    """Does faults of agents in one run. Conditions that break at its end count as broken by its last fault."""
    report, begin = case.work / "report", time.monotonic()
    faults = [[fault.kind, f"{fault.seed}/{fault.number}/{fault.name}"] for fault in group]
    told = {
        "folder": str(case.folder), "control": str(case.work / "control"), "seed": group[0].seed + group[0].number,
        "faults": faults, "report": str(report),
    }  # fmt: skip
    job = Job(
        str(case.work / "process"), function="ga3c.bench.faults.agents:run", arguments=told, token=case.token,
        variables={clockwork.CONTROL: str(case.work / "control")},
    )  # fmt: skip
    ended = case.bed.zygote.run(job, 60.0 + 2 * _PATIENCE * len(group))
    found: dict[str, Any] = {"faults": [], "end": ["the run ended early"]}
    if report.exists():
        found = json.loads(report.read_text())
    case.broken += found["end"]
    case.check(ended.code == 0, f"the run ended with {ended.code}: {ended.output[-300:]!r}")
    case.look_at(ended, "the run")
    if case.folder.exists():
        case.check_run(ended)
        _resume_session(case, ended)
    shared = (time.monotonic() - begin - sum(seconds for _, seconds in found["faults"])) / len(group)
    verdicts = [
        Verdict(fault, tuple(broken), seconds + shared)
        for fault, (broken, seconds) in zip(group, found["faults"], strict=False)
    ]
    verdicts += [Verdict(fault, ("it could not be done",), shared) for fault in group[len(verdicts) :]]
    if case.broken:
        first, last = group[0].number, group[-1].number
        about = f"after faults {first} to {last}: " if first != last else ""
        broken = (*verdicts[-1].broken, *(about + text for text in case.broken))
        verdicts[-1] = Verdict(group[-1], broken, verdicts[-1].seconds)
    return verdicts


def _resume_session(case: Case, ended: Ended) -> None:
    steps = (ended.testimony.rows[-1][0] if ended.testimony.rows else 0) + 200
    job = Job(
        str(case.work / "resume"), function="ga3c.bench.faults.agents:go_on",
        arguments={"folder": str(case.folder), "steps": steps}, token=case.token,
    )  # fmt: skip
    again = case.bed.zygote.run(job, 60.0)
    case.look_at(again, "the resumed run")
    case.check(again.code == 0, f"the run does not resume: {again.output[-300:]!r}")
    if again.code == 0:
        files = truths.checkpoints(case.folder)
        case.check(bool(files), "the resumed run has no checkpoint")
        case.check_run(again, "the resumed run")


_KINDS: dict[str, Callable[[Case], None]] = {
    "damage": damage.damage,
    "server": runs.kill,
    "disk": runs.disk,
    "power": runs.cut,
    "output": runs.output,
}
