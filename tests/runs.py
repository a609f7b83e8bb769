"""Whole runs through the command line, for tests of several rooms: started, waited for, and read back."""

import contextlib
import csv
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ga3c import flags
from ga3c.cli import TrainArguments
from ga3c.config import Config
from ga3c.metrics.snapshot import Counters
from ga3c.run import checkpoint, settings
from ga3c.run.folder import RunFolder

ROOT = Path(__file__).parents[1]


def parse_train(words: list[str]) -> Config:
    """The settings of a run that the command line asks for."""
    args, chosen = flags.chosen(TrainArguments, words, "ga3c train", tunes=True)
    file = settings.read(args.config_file, args.env_id)
    return settings.resolve(args.env_id, args.preset, chosen, file=file)


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "ga3c", *map(str, words)]


def run(*words: object, timeout: float = 100) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command(*words), cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False)


@contextlib.contextmanager
def started(*words: object) -> Iterator["subprocess.Popen[str]"]:
    """A command in the background, gone with everything it started when the block ends."""
    process = subprocess.Popen(
        command(*words), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds} s"
        time.sleep(0.02)


def agent_processes(server: int) -> list[int]:
    """The agent processes that a server has started, by their parent; its guardian is none."""
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
        text = Path(f"/proc/{server}/task/{server}/children").read_text(encoding="ascii")
        return [int(pid) for pid in text.split() if not is_guardian(int(pid))]
    return []


def is_guardian(pid: int) -> bool:
    try:
        return b"leftovers.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def rows(folder: Path, name: str = "metrics.csv") -> list[dict[str, str]]:
    path = folder / name
    if not path.exists():
        return []
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def last_counters(folder: Path) -> Counters:
    return checkpoint.load(RunFolder(folder).last_checkpoint()).counters
