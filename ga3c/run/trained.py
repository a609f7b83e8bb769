"""A trained network with what is needed to play: its settings, its environment, its device."""

import contextlib
import dataclasses
import numbers
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from ga3c import envs, nets
from ga3c.config import Config
from ga3c.engine.model import Model
from ga3c.envs.packing import Packer
from ga3c.envs.seeding import evaluation_seed
from ga3c.envs.spec import Environment, EnvSpec
from ga3c.errors import Ga3cWarning, UserError
from ga3c.nets import Network
from ga3c.run import checkpoint, saved
from ga3c.run.folder import RunFolder
from ga3c.run.saved import Saved

ActionChoice = Literal["sample", "greedy"]
Which = str | int | Path
"""A checkpoint of a run: `last`, `best`, its number of steps, its file's name, or the path of a file."""


@dataclass(frozen=True)
class Trained:
    """The network of a checkpoint, and what is needed to play with it."""

    config: Config
    spec: EnvSpec
    network: Network
    device: torch.device
    path: Path
    """The checkpoint."""
    steps: int
    """Agent steps of training before the checkpoint."""
    score: float
    """Mean raw score of the last episodes of training before the checkpoint; NaN before the first."""
    packer: Packer
    """Writes observations as frames."""

    def environment(self, seed: int, index: int, *, render: bool = False) -> Environment:
        """The run's environment. Each `index` has another seed."""
        own_seed = evaluation_seed(seed, index)
        return envs.make(
            self.config.env_id, self.config.env, self.spec.raw_screens, own_seed, self.config.env_args,
            render=render, guarded=True,
        )  # fmt: skip


def load(folder: Path, which: Which, device: torch.device, *, exact: bool = False) -> Trained:
    """Reads a run's configuration and one of its checkpoints; `folder` may be a checkpoint file itself. An `exact`
    network computes with 32 bits whatever the run's precision. A UserError says what is wrong with them."""
    found = read(folder, which)
    config, path = found.config, found.path
    # Environments that are played in this process make their frames on the CPU, whatever the device.
    spec = envs.describe(config.env_id, config.env, raw_screens=False, env_args=config.env_args)
    net = dataclasses.replace(config.net, precision="fp32") if exact else config.net
    model = Model(nets.build(spec, net), config.learn, device)
    try:
        model.load_weights(found.checkpoint.tensors)
    except ValueError as error:
        raise UserError(f"The checkpoint {path} cannot be used: {error}.") from error
    packer = envs.packer(config.env_id, config.env_args, config.env.wrap)
    done = found.checkpoint
    return Trained(config, spec, model.reader(), device, path, done.counters.steps, done.score, packer)


def read(folder: Path, which: Which) -> Saved:
    """A run's configuration and one of its checkpoints, with a warning for all that is damaged."""
    run = RunFolder.of(folder)
    if run.file is None and which not in ("last", "best"):
        run = RunFolder(run.path, choose(run, which))
    found = saved.read(run, which == "best")
    for notice in found.notices:
        warnings.warn(notice, Ga3cWarning, stacklevel=3)
    return found


def choose(run: RunFolder, which: Which) -> Path:
    """The file of a checkpoint, by its name or its number of steps. A UserError names those that there are."""
    text = str(which)
    if text.replace("_", "").isdecimal():
        paths = [checkpoint.path_for(run.checkpoints, int(text))]
    else:
        paths = [run.checkpoints / text, run.checkpoints / f"{text}.safetensors", Path(text)]
    for path in paths:
        if path.is_file():
            return path
    there = ", ".join(
        path.stem.removeprefix("step-").lstrip("0") or "0" for path in checkpoint.list_last(run.checkpoints)
    )
    raise UserError(
        f"--checkpoint is {text}, but must be one of last, best, the file of a checkpoint or its number of steps; "
        f"{run.path} has those of {there or 'none'}."
    )


def check_request(episodes: int, seed: int) -> None:
    """Refuses numbers that make no sense."""
    if not _is_whole(episodes) or episodes < 1:
        raise UserError(f"--episodes is {episodes}, but must be 1 or more.")
    if not _is_whole(seed) or not 0 <= seed < 2**31:
        raise UserError(f"--seed is {seed}, but must be between 0 and {2**31 - 1}.")


def _is_whole(value: Any) -> bool:
    return isinstance(value, numbers.Integral)


@contextlib.contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Within the context, a torch operation uses `count` threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
