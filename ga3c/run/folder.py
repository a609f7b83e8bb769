"""A run's folder: config.toml, checkpoints, metrics.csv, episodes.csv, events.jsonl, status.json, TensorBoard's files,
the agents' logs, tuning.csv of a run that tunes itself, and trace.json of a run with --profile."""

import fcntl
import itertools
import os
import time
import tomllib
from pathlib import Path

from ga3c.config import Config, from_toml, to_toml
from ga3c.errors import UserError
from ga3c.files import replacing
from ga3c.run import checkpoint

_RECORDS = (
    "metrics.csv", "episodes.csv", "tuning.csv", "events.jsonl", "status.json", "wandb.id", "mlflow.id",
)  # fmt: skip
"""Files that a run killed before its first checkpoint may have left, which a new run in its folder replaces."""


class RunFolder:
    """The paths of a run, its configuration on disk, and the lock that one process holds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.tensorboard = path / "tensorboard"
        self.events = path / "events.jsonl"
        self.status = path / "status.json"
        self.logs = path / "logs"
        self.trace = path / "trace.json"
        self.tuning = path / "tuning.csv"
        self._config = path / "config.toml"

    @staticmethod
    def of(path: Path) -> "RunFolder":
        """The folder itself, or that of a checkpoint file."""
        return RunFolder(path.parent.parent if path.is_file() else path)

    @staticmethod
    def default(config: Config) -> Path:
        """runs/ENV/DATE_seedN under the current folder; the seed separates runs that start together."""
        name = config.env_id.replace("/", "-").replace(":", "-")
        path = Path("runs") / name / time.strftime(f"%Y-%m-%d_%H-%M-%S_seed{config.run.seed}")
        others = (path.with_name(f"{path.name}-{number}") for number in itertools.count(2))
        return next(one for one in itertools.chain([path], others) if not one.exists())

    def check_new(self) -> None:
        """Refuses a folder that holds a run with a checkpoint, or that cannot be written."""
        if checkpoint.list_last(self.checkpoints):
            raise UserError(
                f"{self.path} already holds a run; continue it with `ga3c resume {self.path}`, or choose another --out."
            )
        parent = next(p for p in (self.path, *self.path.absolute().parents) if p.exists())
        if not parent.is_dir() or not os.access(parent, os.W_OK):
            raise UserError(f"{parent} is not a folder that can be written to; choose another --out.")

    def create(self, config: Config) -> None:
        """Makes the folder, locks it and writes the configuration."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"{self.path} cannot be made: {error.strerror}; choose another --out.") from error
        self.lock()
        try:
            self.check_new()
            for name in _RECORDS:
                (self.path / name).unlink(missing_ok=True)
            self.write_config(config)
        except BaseException:
            self.unlock()
            raise

    def lock(self) -> None:
        """Keeps other processes from writing here; the kernel releases the lock when this process ends."""
        self._lock = open(self.path / ".lock", "w", encoding="ascii")  # noqa: SIM115  (held to the end)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise UserError(f"{self.path} is in use by another ga3c process.") from error

    def unlock(self) -> None:
        """Lets other processes, and another run of this one, write here again."""
        self._lock.close()

    def write_config(self, config: Config) -> None:
        with replacing(self._config) as temporary:
            temporary.write_text(to_toml(config), encoding="utf-8")

    def read_config(self) -> Config:
        if not self._config.is_file():
            raise UserError(f"{self.path} holds no run: there is no config.toml in it.")
        try:
            return from_toml(tomllib.loads(self._config.read_text(encoding="utf-8")))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, TypeError) as error:
            raise UserError(f"{self._config} is damaged: {error}.") from error

    def last_checkpoint(self) -> Path:
        paths = checkpoint.list_last(self.checkpoints)
        if not paths:
            raise UserError(f"{self.path} holds no checkpoint: the run ended before its first one; start it again.")
        return paths[-1]

    def best_checkpoint(self) -> Path:
        path = checkpoint.best_path(self.checkpoints)
        return path if path.exists() else self.last_checkpoint()
