"""A run's folder: config.toml, metrics.csv, episodes.csv, TensorBoard events, logs, checkpoints, tuning.csv where the
run tunes itself, and trace.json where one was asked for."""

import fcntl
import os
import time
import tomllib
from pathlib import Path

from ga3c import checkpoint
from ga3c.config import Config, from_toml, to_toml
from ga3c.errors import UserError
from ga3c.files import replacing


class RunFolder:
    """The paths of a run, its configuration on disk, and the right to write there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.events = path / "tensorboard"
        self.logs = path / "logs"
        self.trace = path / "trace.json"
        self.tuning = path / "tuning.csv"
        self._config = path / "config.toml"

    @staticmethod
    def default(config: Config) -> Path:
        """runs/ENV/DATE under the current folder; the seed tells runs apart that start together."""
        name = config.env_id.replace("/", "-").replace(":", "-")
        return Path("runs") / name / time.strftime(f"%Y-%m-%d_%H-%M-%S_seed{config.run.seed}")

    def check_new(self) -> None:
        """A folder that holds a run, or that cannot be written, is refused before anything is done."""
        # What a run leaves that was killed before its first checkpoint is nothing one could go on with.
        if checkpoint.list_last(self.checkpoints):
            raise UserError(
                f"{self.path} already holds a run; go on with `ga3c resume {self.path}`, or choose another --out."
            )
        parent = next(p for p in (self.path, *self.path.absolute().parents) if p.exists())
        if not parent.is_dir() or not os.access(parent, os.W_OK):
            raise UserError(f"{parent} is not a folder that can be written to; choose another --out.")

    def create(self, config: Config) -> None:
        """Makes the folder this process's own and writes its configuration."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"{self.path} cannot be made: {error.strerror}; choose another --out.") from error
        self.lock()
        self.check_new()
        for name in ("metrics.csv", "episodes.csv", "tuning.csv"):
            (self.path / name).unlink(missing_ok=True)
        self.write_config(config)

    def lock(self) -> None:
        """Keeps other processes from writing here while this one lives; the kernel lets go of it however it ends."""
        self._lock = open(self.path / ".lock", "w", encoding="ascii")  # noqa: SIM115  (held to the end)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UserError(f"{self.path} is in use by another ga3c process.") from error

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
            raise UserError(f"{self.path} holds no checkpoint: the run ended before its first; start it anew.")
        return paths[-1]

    def best_checkpoint(self) -> Path:
        path = checkpoint.best_path(self.checkpoints)
        return path if path.exists() else self.last_checkpoint()
