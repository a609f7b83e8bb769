"""A run's folder: config.toml, metrics.csv, episodes.csv, TensorBoard events, logs and checkpoints."""

import os
import time
import tomllib
from pathlib import Path

from ga3c import checkpoint
from ga3c.config import Config, from_toml, to_toml
from ga3c.errors import UserError


class RunFolder:
    """The paths of a run, and its configuration on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.events = path / "tensorboard"
        self.logs = path / "logs"
        self._config = path / "config.toml"

    @staticmethod
    def default(env_id: str) -> Path:
        """runs/ENV/DATE under the current folder."""
        name = env_id.replace("/", "-").replace(":", "-")
        return Path("runs") / name / time.strftime("%Y-%m-%d_%H-%M-%S")

    def check_new(self) -> None:
        """A folder that holds a run, or that is no folder at all, is not written to."""
        if self._config.exists():
            raise UserError(
                f"{self.path} already holds a run; go on with `ga3c resume {self.path}`, or choose another --out."
            )
        if self.path.exists() and not self.path.is_dir():
            raise UserError(f"{self.path} is not a folder; choose another --out.")
        parent = next(p for p in (self.path, *self.path.absolute().parents) if p.exists())
        if not os.access(parent, os.W_OK):
            raise UserError(f"{parent} cannot be written to; choose another --out.")

    def create(self, config: Config) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        self.write_config(config)

    def write_config(self, config: Config) -> None:
        temporary = self._config.with_name(".config.toml")
        temporary.write_text(to_toml(config), encoding="utf-8")
        os.replace(temporary, self._config)

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
            raise UserError(
                f"{self.path} holds no checkpoint: the run ended before its first; start anew under another --out."
            )
        return paths[-1]

    def best_checkpoint(self) -> Path:
        path = checkpoint.best_path(self.checkpoints)
        return path if path.exists() else self.last_checkpoint()
