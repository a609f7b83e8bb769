"""What a disk holds after a power cut: nothing but what was synced is certain.

Contents of a file are durable once it was synced. Names (creations, renames, removals) are durable once their folder
was synced; with the model `journal`, as on ext4 and XFS, any sync makes all names so far durable, and the journal may
have written more of them by itself. Data that was not synced is lost, torn or zeros."""

import os
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


@dataclass(eq=False)
class _Content:
    """One file's data, whatever its name is."""

    synced: bytes = b""
    path: str = ""
    """Where it can be read now; empty after its removal."""
    changed: bool = False


@dataclass(eq=False)
class _Naming:
    """One change of names: some are removed, one may be set."""

    removed: tuple[str, ...]
    set: tuple[str, _Content] | None = None
    durable: bool = field(default=False)


class Disk:
    """Follows the events of a folder, and writes what a power cut would leave of it."""

    def __init__(self, folder: Path, model: Literal["journal", "strict"], seed: int) -> None:
        """What is in the folder now is durable."""
        self._folder = folder.absolute()
        self._model = model
        self._chance = random.Random(seed)
        paths = [path for path in self._folder.rglob("*") if path.is_file() and not path.is_symlink()]
        self._names = {str(path): _Content(path.read_bytes(), str(path)) for path in paths}
        self._at_first = dict(self._names)
        self._namings: list[_Naming] = []

    def note(self, kind: str, path: str, target: str = "") -> None:
        """Takes an event that has happened."""
        if kind == "sync":
            self._sync(path)
        elif kind == "create" and path not in self._names:
            self._names[path] = _Content(path=path, changed=True)
            self._namings.append(_Naming((), (path, self._names[path])))
        elif kind in ("create", "write", "truncate") and path in self._names:
            self._names[path].changed = True
        elif kind == "rename" and path in self._names:
            content = self._names.pop(path)
            if target in self._names:
                self._names[target].path = ""
            self._names[target], content.path = content, target
            self._namings.append(_Naming((path,), (target, content)))
        elif kind == "remove" and path in self._names:
            self._names.pop(path).path = ""
            self._namings.append(_Naming((path,)))

    def _sync(self, path: str) -> None:
        content = self._names.get(path)
        if content is not None:
            content.synced, content.changed = Path(path).read_bytes(), False
        for naming in self._namings:
            creates = naming.set is not None and naming.set[1] is content and not naming.removed
            naming.durable |= self._model == "journal" or creates or self._is_in(naming, path)

    def _is_in(self, naming: _Naming, folder: str) -> bool:
        names = [*naming.removed, *([naming.set[0]] if naming.set is not None else [])]
        return any(os.path.dirname(name) == folder for name in names)

    def write_image(self, image: Path) -> None:
        """Writes what would be left to another folder."""
        names = dict(self._at_first)
        more = 0
        if self._model == "journal":
            more = self._chance.randint(0, sum(not naming.durable for naming in self._namings))
        for naming in self._namings:
            if not naming.durable:
                more -= 1
                if more < 0:
                    continue
            for name in naming.removed:
                names.pop(name, None)
            if naming.set is not None:
                names[naming.set[0]] = naming.set[1]
        for name, content in names.items():
            path = image / os.path.relpath(name, self._folder)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self._left_of(content))

    def _left_of(self, content: _Content) -> bytes:
        """The data of a file after the cut."""
        fate = self._chance.choice(("lost", "torn", "zeros"))
        if not content.changed or not content.path or fate == "lost":
            return content.synced
        now = Path(content.path).read_bytes()
        if not now.startswith(content.synced):
            return content.synced if fate == "torn" else now
        new = len(now) - len(content.synced)
        if fate == "zeros":
            return content.synced + bytes(new)
        return now[: len(content.synced) + self._chance.randint(0, new)]
