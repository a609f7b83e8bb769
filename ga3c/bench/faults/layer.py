"""A layer over the files of one folder, for a process that is to meet a fault at a chosen file event: the process is
killed there, or the disk is full, slow or read-only for a number of events, or the power is cut.

The layer replaces the functions by which Python code changes files. It sees every creation, write, sync, rename and
removal inside the folder, and nothing else."""

import builtins
import errno
import io
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from ga3c.bench.faults.disk_image import Disk

Act = Literal["count", "kill", "full", "read-only", "slow", "power"]
Result = TypeVar("Result")


@dataclass(frozen=True)
class Plan:
    """What happens, and at which event."""

    folder: str
    """The folder that is watched."""
    act: Act = "count"
    at: int = 0
    """The number of the event, from 1."""
    events: int = 0
    """How many events the disk stays full, slow or read-only."""
    when: Literal["before", "half", "after"] = "before"
    """Where in the event a kill comes; half of a write is written."""
    seconds: float = 0.0
    """How long each event of a slow disk takes."""
    image: str = ""
    """The folder for what the disk holds after a power cut."""
    model: Literal["journal", "strict"] = "journal"
    """What a sync makes durable besides its file: all renames and creations so far, or those of a synced folder."""
    seed: int = 0
    """Seeds what becomes of data that was not synced."""


class Layer:
    """Counts the events of a folder and lets its plan act on them."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.count = 0
        self.refused = 0
        """Events that the disk refused because it was full or read-only."""
        self._folder = os.path.abspath(plan.folder)
        self._lock = threading.RLock()
        self._disk = Disk(Path(plan.folder), plan.model, plan.seed) if plan.act == "power" else None

    def concerns(self, path: Any) -> bool:
        """Whether a path, or what an open file refers to, is in the folder."""
        return _real(path).startswith(self._folder + os.sep)

    def event(self, kind: str, path: Any, perform: Callable[[], Result], target: Any = "", size: int = 0) -> Result:
        """Counts a change of a file and makes it. The plan may kill the process before or after, or let the disk refuse
        or delay the change."""
        with self._lock:
            self.count += 1
            due = self.count == self.plan.at
            if due and self.plan.act == "kill" and self.plan.when != "after":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.plan.at <= self.count < self.plan.at + self.plan.events:
                self._disturb(kind)
            result = perform()
            if self._disk is not None:
                self._disk.note(kind, _real(path), _real(target) if target else "")
                if due:
                    self._disk.write_image(Path(self.plan.image))
            if due and self.plan.act in ("kill", "power"):
                os.kill(os.getpid(), signal.SIGKILL)
            return result

    def is_halved(self) -> bool:
        """Whether the next event is a write of which only half is made before the kill."""
        return self.plan.act == "kill" and self.plan.when == "half" and self.count + 1 == self.plan.at

    def _disturb(self, kind: str) -> None:
        """Fails or delays an event while the disk is full, slow or read-only."""
        act = self.plan.act
        if act == "slow":
            time.sleep(self.plan.seconds)
        elif act == "full" and kind in ("write", "create", "mkdir"):
            self.refused += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        elif act == "read-only" and kind != "sync":
            self.refused += 1
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))


class _File(io.FileIO):
    """A file whose writes are events."""

    layer: Layer

    def write(self, data: Any, /) -> int:
        view = memoryview(data).cast("B")
        if self.layer.is_halved():
            super().write(view[: len(view) // 2])
        return int(self.layer.event("write", self.fileno(), lambda: super(_File, self).write(view) or 0))

    def truncate(self, size: int | None = None, /) -> int:
        return self.layer.event("truncate", self.fileno(), lambda: super(_File, self).truncate(size))


def install(plan: Plan) -> Layer:
    """Puts the layer under this process, for good."""
    layer = Layer(plan)
    kind = type("LayeredFile", (_File,), {"layer": layer})
    real_open = io.open

    def layered_open(
        file: Any, mode: str = "r", buffering: int = -1, encoding: str | None = None, errors: str | None = None,
        newline: str | None = None, closefd: bool = True, opener: Any = None,
    ) -> Any:  # fmt: skip
        if not set(mode) & set("wax+") or not layer.concerns(file):
            return real_open(file, mode, buffering, encoding, errors, newline, closefd, opener)
        raw_mode = mode.replace("b", "").replace("t", "")

        def create() -> Any:
            return kind(file, raw_mode, closefd=closefd, opener=opener)

        changes = not isinstance(file, int) and (set(mode) & set("wx") or not os.path.lexists(file))
        raw = layer.event("create", file, create) if changes else create()
        if buffering == 0:
            return raw
        buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        if "b" in mode:
            return buffered
        text = io.TextIOWrapper(buffered, encoding, errors, newline, line_buffering=buffering == 1)
        text.mode = mode  # type: ignore[misc]
        return text

    builtins.open = io.open = layered_open
    for name, kind_of_event in (("replace", "rename"), ("rename", "rename"), ("link", "link")):
        _hook_two(layer, name, kind_of_event)
    for name, kind_of_event in (("unlink", "remove"), ("remove", "remove"), ("mkdir", "mkdir"), ("rmdir", "rmdir")):
        _hook_one(layer, name, kind_of_event)
    for name in ("fsync", "fdatasync"):
        _hook_one(layer, name, "sync")
    for name in ("truncate", "ftruncate"):
        _hook_one(layer, name, "truncate")
    _hook_open(layer)
    _hook_write(layer)
    return layer


def _hook_one(layer: Layer, name: str, kind: str) -> None:
    real = getattr(os, name)

    def hooked(path: Any, *args: Any, **more: Any) -> Any:
        is_there = kind == "mkdir" and os.path.lexists(path)  # a disk in any state answers that; nothing changes
        if is_there or (not layer.concerns(path) and _real(path) != layer._folder):
            return real(path, *args, **more)
        return layer.event(kind, path, lambda: real(path, *args, **more))

    setattr(os, name, hooked)


def _hook_two(layer: Layer, name: str, kind: str) -> None:
    real = getattr(os, name)

    def hooked(source: Any, target: Any, *args: Any, **more: Any) -> Any:
        if not layer.concerns(target):
            return real(source, target, *args, **more)
        return layer.event(kind, source, lambda: real(source, target, *args, **more), target)

    setattr(os, name, hooked)


def _hook_open(layer: Layer) -> None:
    real = os.open

    def hooked(path: Any, flags: int, *args: Any, **more: Any) -> int:
        creates = flags & (os.O_CREAT | os.O_TRUNC) and not os.path.lexists(path)
        if not creates or not layer.concerns(path):
            return real(path, flags, *args, **more)
        return layer.event("create", path, lambda: real(path, flags, *args, **more))

    os.open = hooked


def _hook_write(layer: Layer) -> None:
    real = os.write

    def hooked(fd: int, data: Any, /) -> int:
        if not layer.concerns(fd):
            return real(fd, data)
        return layer.event("write", fd, lambda: real(fd, data))

    os.write = hooked


def _real(path: Any) -> str:
    """The absolute path of a file that is named or open."""
    if isinstance(path, int):
        try:
            return os.readlink(f"/proc/self/fd/{path}")
        except OSError:
            return ""
    return os.path.abspath(os.fsdecode(path))
