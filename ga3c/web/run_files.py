"""A run as its folder shows it: its state, its settings, and the files that a page may read. The folder may be a
stranger's, and damaged: what cannot be read is left out."""

import dataclasses
import functools
import json
import os
import re
import stat
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, Generic, TypeVar

from ga3c.config import Config
from ga3c.errors import UserError
from ga3c.machine import processes
from ga3c.metrics.settings import Settings, flat
from ga3c.metrics.sinks.status import read_status
from ga3c.report.content import LARGEST_TEXT, check_plain
from ga3c.view.curves import read_settings
from ga3c.web.answers import Refusal

_Found = TypeVar("_Found")
_LIVE = ("running", "paused")
_FRESH_SECONDS = 5.0
"""A run writes its state every second. One that has done so in the last seconds goes on, on whatever machine."""
_FIRST_EVENTS = 64 * 1024
_MOST_FILES = 1_000
_LOG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.log")
_VIDEO = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.(?:mp4|gif)")
_FIGURES = ("steps", "seconds", "progress", "score", "best_score", "pps", "tps")


class File(Generic[_Found]):
    """What a file holds, read again when the file has changed."""

    def __init__(self, path: Path, read: Callable[[Path], _Found | None], otherwise: _Found) -> None:
        self.path = path
        self._read = read
        self._otherwise = otherwise
        self._seen: tuple[int, ...] = ()
        self._found = otherwise

    def get(self) -> _Found:
        """What was found; `otherwise` where there is no such file, or it cannot be used."""
        try:
            check_plain(self.path, LARGEST_TEXT)
            about = self.path.stat()
            seen = about.st_mtime_ns, about.st_size, about.st_ino
            if seen != self._seen:
                found = self._read(self.path)
                self._seen, self._found = seen, self._otherwise if found is None else found
        except (OSError, UserError, ValueError, RecursionError):
            self._seen, self._found = (), self._otherwise
        return self._found


class RunFiles:
    """A run's folder."""

    def __init__(self, folder: Path, is_trusted: bool = False) -> None:
        """`is_trusted` says that the person who looks trains this run, so that its environment may be imported."""
        self.folder = folder
        self.id = identity(folder)
        self.name = folder.name
        self.is_trusted = is_trusted
        self._status: File[Mapping[str, Any]] = File(folder / "status.json", read_status, {})
        self._settings: File[Settings] = File(folder / "config.toml", lambda _: read_settings(folder), {})
        self._started = ""
        self._last_update: object = None
        self._updated_at = -float("inf")
        self._pid_here: object = None
        """The process of this machine that was last seen to train this run."""

    # -- the run in figures -------------------------------------------------------------------------------------------

    @property
    def status(self) -> Mapping[str, Any]:
        return self._status.get()

    @property
    def settings(self) -> Settings:
        """By dotted name; defaults where config.toml cannot be read."""
        return self._settings.get() or {**defaults(), "env_id": str(self.status.get("env") or "unknown")}

    def state(self) -> str:
        """running, paused, complete, stopped, failed or killed."""
        status = self.status
        told = status.get("state")
        if told in _LIVE:
            return str(told) if self._goes_on(status) else "killed"
        return str(told) if told in ("complete", "failed") else "stopped"

    @property
    def is_live(self) -> bool:
        return self.state() in _LIVE

    def _goes_on(self, status: Mapping[str, Any]) -> bool:
        """Whether the process is there that wrote this state; one on another machine shows itself by what it writes."""
        updated, pid, now = status.get("updated"), status.get("pid"), time.monotonic()
        if updated != self._last_update:
            age = time.time() - _moment(updated) if self._last_update is None else 0.0
            self._updated_at = now - max(0.0, age)
            self._last_update = updated
        is_alive = isinstance(pid, int) and pid > 0 and processes.holds(pid, self.folder / ".lock")
        self._pid_here = pid if is_alive else self._pid_here
        return is_alive or (pid != self._pid_here and now - self._updated_at < _FRESH_SECONDS)

    def row(self) -> dict[str, Any]:
        """The run in the list of runs."""
        status, settings, state = self.status, self.settings, self.state()
        figures = {name: _number(status.get(name)) for name in _FIGURES}
        return {
            "id": self.id,
            "name": self.name,
            "folder": _relative(self.folder),
            "env": str(settings["env_id"]),
            "state": state,
            **figures,
            "seconds_left": _number(status.get("seconds_left")) if state in _LIVE else None,
            "updated": status.get("updated"),
            "started": self.started(),
            "settings": {name: value for name, value in settings.items() if _differs(name, value)},
        }

    def started(self) -> str | None:
        """When the run began, by its first event."""
        if not self._started:
            for line in self.read_start("events.jsonl", _FIRST_EVENTS).splitlines()[:1]:
                try:
                    self._started = str(json.loads(line)["time"])
                except (ValueError, TypeError, KeyError, RecursionError):
                    continue
        return self._started or None

    # -- files --------------------------------------------------------------------------------------------------------

    def logs(self) -> list[str]:
        return _plain_files(self.folder / "logs", _LOG)

    def videos(self) -> dict[str, Path]:
        """Recordings by name: those that were made here, and the one of a model card."""
        found = {name: self.folder / name for name in _plain_files(self.folder, _VIDEO)}
        return found | {name: self.folder / "videos" / name for name in _plain_files(self.folder / "videos", _VIDEO)}

    def has(self, name: str) -> bool:
        """Whether a plain file of this name lies in the folder."""
        try:
            return stat.S_ISREG((self.folder / name).lstat().st_mode)
        except OSError:
            return False

    def log_end(self, name: str, most: int) -> bytes:
        """The end of a log."""
        if name not in self.logs():
            raise Refusal(404, "There is no such log.")
        return self._read(self.folder / "logs" / name, -most, most)

    def read_start(self, name: str, most: int) -> bytes:
        """The beginning of a file in the folder; empty if there is none."""
        return self._read(self.folder / name, 0, most)

    def read_from(self, name: str, start: int, most: int) -> bytes:
        """What a file in the folder has from an offset on, or from its end back where the offset is negative."""
        return self._read(self.folder / name, start, most)

    def size(self, name: str) -> int:
        """Bytes of a file in the folder; 0 if there is none."""
        try:
            about = (self.folder / name).lstat()
        except OSError:
            return 0
        return about.st_size if stat.S_ISREG(about.st_mode) else 0

    def _read(self, path: Path, start: int, most: int) -> bytes:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return b""
        try:
            about = os.fstat(descriptor)
            if not stat.S_ISREG(about.st_mode):
                return b""
            return os.pread(descriptor, most, max(0, about.st_size + start) if start < 0 else start)
        finally:
            os.close(descriptor)


def identity(folder: Path) -> str:
    """What pages call a run: nothing of its path."""
    return blake2b(os.fsencode(folder), digest_size=8).hexdigest()


@functools.cache
def defaults() -> Settings:
    """The settings that a run has unless others are chosen, as a file has them."""
    settings = flat(dataclasses.asdict(Config()))
    return {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}


def _differs(name: str, value: Any) -> bool:
    return (list(value) if isinstance(value, tuple) else value) != defaults().get(name)


def _plain_files(folder: Path, pattern: re.Pattern[str]) -> list[str]:
    """The names of plain files in a folder that is no link."""
    try:
        if folder.is_symlink():
            return []
        with os.scandir(folder) as entries:
            found = [e.name for e in entries if pattern.fullmatch(e.name) and e.is_file(follow_symlinks=False)]
    except OSError:
        return []
    return sorted(found)[:_MOST_FILES]


def _number(value: object) -> float | int | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _moment(time_: object) -> float:
    """Seconds since 1970; a time long ago where the text is none."""
    try:
        return datetime.fromisoformat(str(time_)).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0


def _relative(folder: Path) -> str:
    """The path as people in the current folder write it."""
    try:
        return str(folder.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(folder)
