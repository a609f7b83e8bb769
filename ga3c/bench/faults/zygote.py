"""Processes under test, forked from one that has imported everything: a command starts in milliseconds instead of a
second, and each still has a process of its own, which may be killed."""

import atexit
import contextlib
import faulthandler
import importlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from ga3c.agents.worker import die_with_parent
from ga3c.bench.faults import layer, witness

TOKEN = "GA3C_FAULTS_TOKEN"
"""The environment variable by which processes are found that outlive their test."""


@dataclass(frozen=True)
class Job:
    """What a process does: a `ga3c` command, or a function of this package."""

    folder: str
    """Takes the output, the witness's notes and the count of file events."""
    words: tuple[str, ...] = ()
    """The command."""
    function: str = ""
    """MODULE:NAME, called with `arguments`."""
    arguments: dict[str, Any] | None = None
    plan: layer.Plan | None = None
    """The fault of its files."""
    stdout: str = ""
    """A named pipe to write to, instead of the file `output`."""
    token: str = ""
    variables: dict[str, str] | None = None


@dataclass(frozen=True)
class Ended:
    """How a process ended."""

    code: int
    """The exit code; the negative number of a signal."""
    output: str
    seconds: float
    hung: bool
    testimony: witness.Testimony
    events: int
    """File events, where a layer counted them to the end."""
    refused: int = 0
    """Those of them that the disk refused."""


class Zygote:
    """The process that forks the others, one at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import main; main()"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def __enter__(self) -> "Zygote":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()

    def start(self, job: Job) -> int:
        """Starts a process and returns its id."""
        Path(job.folder).mkdir(parents=True, exist_ok=True)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asdict(job)) + "\n")
        self._process.stdin.flush()
        return int(self._line(60.0))

    def wait(self, job: Job, pid: int, limit: float) -> Ended:
        """Waits for its end. A process that takes longer than `limit` seconds is made to show where it hangs, and then
        killed."""
        begin = time.monotonic()
        line = self._line(limit)
        hung = not line
        if hung:
            os.kill(pid, signal.SIGUSR2)
            time.sleep(0.3)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            line = self._line(60.0)
        folder = Path(job.folder)
        output = (folder / "output").read_text(encoding="utf-8", errors="replace")
        count = folder / "events"
        events, refused = map(int, count.read_text().split()) if count.exists() else (0, 0)
        testimony = witness.read(folder / "witness")
        return Ended(int(line), output, time.monotonic() - begin, hung, testimony, events, refused)

    def run(self, job: Job, limit: float) -> Ended:
        return self.wait(job, self.start(job), limit)

    def _line(self, seconds: float) -> str:
        """The next line of the process; empty if none comes."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], seconds)
        return self._process.stdout.readline() if ready else ""


def main() -> None:
    """Forks a process for each job on standard input, and prints its id and then its exit code."""
    for name in ("ga3c.cli", "ga3c.api", "ga3c.bench.faults.agents", "gymnasium.envs.classic_control"):
        importlib.import_module(name)
    die_with_parent()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    jobs = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    while line := jobs.readline():
        pid = os.fork()
        if not pid:
            jobs.close()
            answers.close()
            _become(json.loads(line))
        print(pid, file=answers, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), file=answers, flush=True)


def _become(job: dict[str, Any]) -> None:
    """In the new process: does the job and exits."""
    os.setsid()
    die_with_parent()
    folder = Path(job["folder"])
    output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    standard = os.open(job["stdout"], os.O_WRONLY) if job["stdout"] else output
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (standard, 1), (output, 2)):
        os.dup2(source, target)
    faulthandler.register(signal.SIGUSR2, all_threads=True)  # SIGUSR1 asks a run for a checkpoint
    os.environ.update({TOKEN: job["token"], **(job["variables"] or {})})
    witness.install(folder / "witness")
    if job["plan"]:
        watch = layer.install(layer.Plan(**job["plan"]))
        atexit.register(lambda: (folder / "events").write_text(f"{watch.count} {watch.refused}"))
    sys.exit(_work(job))


def _work(job: dict[str, Any]) -> int:
    if job["function"]:
        module, _, name = job["function"].partition(":")
        getattr(importlib.import_module(module), name)(**job["arguments"])
        return 0
    sys.argv = ["ga3c", *job["words"]]
    importlib.import_module("ga3c.__main__").run()
    return 0
