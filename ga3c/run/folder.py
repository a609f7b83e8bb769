"""A run's folder: config.toml, checkpoints, metrics.csv, episodes.csv, events.jsonl, status.json, TensorBoard's files,
the agents' logs, tuning.csv of a run that tunes itself, and trace.json of a run with --profile."""

import contextlib
import errno
import fcntl
import itertools
import os
import re
import stat
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ga3c.config import Config, UnknownSetting, from_toml, to_toml
from ga3c.config.file import LARGEST
from ga3c.errors import UserError
from ga3c.files import make_folder, read_file, replacing, unused
from ga3c.run import checkpoint, control_client

_RECORDS = (
    "metrics.csv", "episodes.csv", "seal.json", "tuning.csv", "events.jsonl", "status.json", "wandb.id", "mlflow.id",
)  # fmt: skip
"""Files that a run killed before its first checkpoint may have left, which a new run in its folder replaces."""
_FIRST_LINES = {"metrics.csv": 2, "episodes.csv": 1, "tuning.csv": 1}
"""Lines that such a run has written at most: the names of the columns, and the record with which it begins."""


class FoundConfig(NamedTuple):
    """A run's configuration, and where it was found."""

    config: Config
    source: Path
    """config.toml, or the checkpoint that has the copy."""
    trouble: str = ""
    """What is wrong with config.toml where the copy is used in its place; a sentence without its end."""


class RunFolder:
    """The paths of a run, its configuration on disk, and the lock that one process holds."""

    def __init__(self, path: Path, file: Path | None = None) -> None:
        """`file` is the checkpoint that a person named instead of the folder."""
        self.path = path
        self.file = file
        self.config = path / "config.toml"
        self.checkpoints = path / "checkpoints"
        self.tensorboard = path / "tensorboard"
        self.events = path / "events.jsonl"
        self.status = path / "status.json"
        self.logs = path / "logs"
        self.trace = path / "trace.json"
        self.tuning = path / "tuning.csv"

    @staticmethod
    def of(path: Path) -> "RunFolder":
        """The folder itself, or that of a checkpoint file."""
        return RunFolder(path.parent.parent, path) if os.path.isfile(path) else RunFolder(path)

    @staticmethod
    def default(config: Config) -> Path:
        """runs/ENV/DATE_seedN under the current folder; the seed separates runs that start together."""
        name = config.env_id.replace("/", "-").replace(":", "-")
        return unused(Path("runs") / name / time.strftime(f"%Y-%m-%d_%H-%M-%S_seed{config.run.seed}"))

    # -- a new run ----------------------------------------------------------------------------------------------------

    def check_new(self) -> None:
        """Refuses a folder that holds a run with a checkpoint, or anything that is not a run's, or that cannot be
        written."""
        try:
            self._check_new()
        except OSError as error:
            raise UserError(f"{self.path} cannot be used: {error.strerror}; choose another --out.") from error

    def _check_new(self) -> None:
        if not self.path.exists() and self.path.is_symlink():
            raise UserError(f"{self.path} is a symbolic link to nowhere; remove it, or choose another --out.")
        if checkpoint.list_last(self.checkpoints):
            raise UserError(
                f"{self.path} already holds a run; continue it with `ga3c resume {self.path}`, or choose another --out."
            )
        parent = next(p for p in (self.path, *self.path.absolute().parents) if p.exists())
        if not parent.is_dir() or not os.access(parent, os.W_OK):
            raise UserError(f"{parent} is not a folder that can be written to; choose another --out.")
        if parent == self.path and any(self.path.iterdir()) and not self._is_begun():
            raise UserError(
                f"{self.path} is not empty and holds no run of ga3c, so nothing is written there; choose another --out."
            )
        if self._has_record():
            raise UserError(
                f"{self.path} holds the record of a run whose checkpoints are missing, so nothing is written there; "
                "choose another --out."
            )

    def _is_begun(self) -> bool:
        """Whether a run that was killed before its first checkpoint left this folder: it wrote its configuration before
        everything else, or nothing but its lock."""
        try:
            text = read_file(self.config, LARGEST).decode()
            return {"env_id", "run", "engine"} <= set(tomllib.loads(text))
        except FileNotFoundError:
            return all(path.name == ".lock" or path.name.startswith(".config.toml.") for path in self.path.iterdir())
        except (OSError, ValueError, RecursionError):
            return False

    def _has_record(self) -> bool:
        """Whether the tables have more than a run writes before its first checkpoint: a run that went further left
        them, and its checkpoints were removed, or were left out of a copy."""
        for name, most in _FIRST_LINES.items():
            with contextlib.suppress(FileNotFoundError), (self.path / name).open("rb") as file:
                if any(True for _ in itertools.islice(file, most, None)):
                    return True
        return False

    def create(self, config: Config) -> None:
        """Makes the folder, locks it and writes the configuration."""
        try:
            self.check_new()
            make_folder(self.path)
            self._create(config)
        except OSError as error:
            raise UserError(f"{self.path} cannot be made: {error.strerror}; choose another --out.") from error

    def _create(self, config: Config) -> None:
        self.lock()
        try:
            self.check_new()
            for name in _RECORDS:
                (self.path / name).unlink(missing_ok=True)
            self.write_config(config)
        except BaseException:
            self.unlock()
            raise

    # -- the lock -----------------------------------------------------------------------------------------------------

    def claim(self) -> None:
        """Locks the folder of a run that is there already."""
        if not os.path.lexists(self.config) and not os.path.isdir(self.checkpoints):
            raise UserError(_no_run(self.path))
        self.lock()

    def lock(self) -> None:
        """Keeps other processes from writing here; the kernel releases the lock when this process ends."""
        self._check_plain()
        path = self.path / ".lock"
        try:
            # Not truncated, no link followed, no pipe waited for: the folder may be a stranger's.
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            self._lock = os.open(path, flags, 0o666)
        except OSError as error:
            raise UserError(f"{path} cannot be opened ({error.strerror}), so the run cannot be locked.") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            if error.errno == errno.EWOULDBLOCK:
                raise UserError(f"{self.path} is in use by another ga3c process.") from error
            raise UserError(f"{path} cannot be locked: {error.strerror}.") from error
        self._drop_unfinished()

    def _drop_unfinished(self) -> None:
        """Removes what a killed process was about to move into place."""
        names = "|".join(map(re.escape, ("config.toml", "trace.json", *_RECORDS)))
        for name in os.listdir(self.path):
            if re.fullmatch(rf"\.({names})\.[0-9]+\.[0-9]+", name):
                (self.path / name).unlink(missing_ok=True)

    def unlock(self) -> None:
        """Lets other processes, and another run of this one, write here again."""
        os.close(self._lock)

    def _check_plain(self) -> None:
        """Refuses a folder where a link or a pipe stands in the place of a file: a run would write through it."""
        try:
            for folder in (self.path, self.checkpoints, self.logs, self.tensorboard):
                for path in folder.iterdir() if folder.is_dir() else ():
                    mode = path.lstat().st_mode
                    if stat.S_ISSOCK(mode) and path == self.path / control_client.NAME:
                        continue  # a run that was killed left it, and the next one removes it
                    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                        kind = "a symbolic link" if stat.S_ISLNK(mode) else "not a plain file"
                        raise UserError(f"{path} is {kind}, and a run writes to plain files only; move it elsewhere.")
        except OSError as error:
            raise UserError(f"{self.path} cannot be read: {error.strerror}.") from error

    # -- the configuration --------------------------------------------------------------------------------------------

    def write_config(self, config: Config) -> None:
        with replacing(self.config) as temporary:
            temporary.write_text(to_toml(config), encoding="utf-8")

    def read_config(self) -> Config:
        """The run's configuration: config.toml, or its copy in a checkpoint where config.toml is missing or damaged."""
        return self.find_config().config

    def find_config(self) -> FoundConfig:
        """The same, with where it was found. A configuration that is whole, but of another version, is refused."""
        try:
            text = read_file(self.config, LARGEST).decode()
            return FoundConfig(from_toml(text, str(self.config)), self.config)
        except UnknownSetting:
            raise
        except PermissionError as error:
            raise UserError(f"{self.config} cannot be read: {error.strerror}.") from error
        except (FileNotFoundError, NotADirectoryError):
            trouble, sentence = f"{self.config} is missing", _no_run(self.file or self.path)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            trouble = f"{self.config} cannot be used: {reason}"
            sentence = f"{trouble}."
        except UserError as error:
            trouble, sentence = str(error).rstrip("."), str(error)
        copy = next(self._copies(), None)
        if copy is None:
            raise UserError(sentence)
        return copy._replace(trouble=trouble)

    def _copies(self) -> Iterator[FoundConfig]:
        """The configurations in checkpoints that can be read, the newest first."""
        paths = [*reversed(checkpoint.list_last(self.checkpoints)), checkpoint.best_path(self.checkpoints)]
        for path in [self.file] if self.file else paths:
            try:
                yield FoundConfig(from_toml(checkpoint.load(path).config, f"The copy in {path}"), path)
            except UserError:
                continue

    # -- checkpoints --------------------------------------------------------------------------------------------------

    def last_checkpoint(self) -> Path:
        return self.list_checkpoints()[-1]

    def list_checkpoints(self) -> list[Path]:
        """The regular checkpoints, oldest first; at least one."""
        paths = checkpoint.list_last(self.checkpoints)
        if not paths:
            raise UserError(f"{self.path} holds no checkpoint: the run ended before its first one; start it again.")
        return paths


def _no_run(path: Path) -> str:
    if os.path.isfile(path):
        return f"{path} is no checkpoint of a run."
    return f"{path} holds no run: there is no config.toml in it."
