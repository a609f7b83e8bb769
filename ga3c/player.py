"""The player: a run's network, taken from a checkpoint, that looks at frames and acts; nothing is learned here."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ga3c import checkpoint, envs, nets
from ga3c.config import Config
from ga3c.envs.spec import Environment, EnvSpec
from ga3c.errors import UserError
from ga3c.model import Model
from ga3c.nets import Network
from ga3c.runfolder import RunFolder

Policy = Literal["sample", "greedy"]
Which = Literal["last", "best"]


@dataclass(frozen=True)
class Trained:
    """What a run has learned so far, ready to act."""

    config: Config
    spec: EnvSpec
    network: Network
    device: torch.device
    path: Path
    """The checkpoint it comes from."""
    steps: int
    """Agent steps of training behind it."""

    def environment(self, seed: int, index: int, *, render: bool = False) -> Environment:
        """The run's environment, seeded apart from others with another `index`."""
        own_seed = (seed * 1_000_003 + index) % 2**31
        return envs.make(self.config.env_id, self.config.env, self.spec.raw_screens, own_seed, render=render)


def load(folder: Path, which: Which, device: torch.device) -> Trained:
    """Reads a run's configuration and one of its checkpoints; a UserError says what is wrong with them."""
    run = RunFolder(folder)
    config = run.read_config()
    path = run.best_checkpoint() if which == "best" else run.last_checkpoint()
    saved = checkpoint.load(path)
    # A few environments in this process: their frames are made on the CPU whatever the device is.
    spec = envs.describe(config.env_id, config.env, raw_screens=False)
    model = Model(nets.build(spec, config.net), config.learn, device)
    try:
        model.load(saved.tensors, saved.counters.updates)
    except ValueError as error:
        raise UserError(f"The checkpoint {path} cannot be used: {error}.") from error
    return Trained(config, spec, model.reader(), device, path, saved.counters.steps)


class Player:
    """Acts for several environments at once: stacks the frames of each as training did, and asks the network."""

    def __init__(self, trained: Trained, count: int, policy: Policy, seed: int) -> None:
        spec = trained.spec
        self._network = trained.network
        self._device = trained.device
        self._observation_shape = spec.observation_shape
        self._greedy = policy == "greedy"
        self._generator = torch.Generator(trained.device).manual_seed(seed)
        self._stacks = np.zeros((count, spec.stack, *spec.frame_shape), spec.frame_dtype)  # [N, S, *frame]
        self._states = trained.network.first_state(count)

    def observe(self, rows: NDArray[np.int64], frames: NDArray[Any], first: NDArray[np.bool_]) -> NDArray[Any]:
        """Observations [n, *observation] of the environments `rows`, given their new frames [n, *frame]. Where an
        episode is younger than the stack, its first frame stands for those before it."""
        stacks = self._stacks[rows]
        stacks[:, :-1] = stacks[:, 1:]
        stacks[:, -1] = frames
        stacks[first] = frames[first][:, None]
        self._stacks[rows] = stacks
        return stacks.reshape(len(rows), *self._observation_shape)

    @torch.inference_mode()
    def act(self, rows: NDArray[np.int64], frames: NDArray[Any], first: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Actions [n] of the environments `rows`; `first` marks frames that begin an episode."""
        observations = torch.from_numpy(self.observe(rows, frames, first)).to(self._device)
        state = self._recall(rows, first)
        parameters, _, state = self._network.step(observations, state)
        if self._states is not None and state is not None:
            self._states[rows] = state
        head = self._network.head
        actions = head.greedy(parameters) if self._greedy else head.sample(parameters, self._generator)[0]
        chosen: NDArray[np.int64] = actions.cpu().numpy()
        return chosen

    def _recall(self, rows: NDArray[np.int64], first: NDArray[np.bool_]) -> Tensor | None:
        """What a recurrent network remembers of the environments `rows`; nothing where an episode begins."""
        if self._states is None:
            return None
        self._states[rows[first]] = 0.0
        return self._states[rows]


def check_request(episodes: int, seed: int) -> None:
    """Refuses what no player can do."""
    if episodes < 1:
        raise UserError(f"--episodes is {episodes}, but must be 1 or more.")
    if not 0 <= seed < 2**31:
        raise UserError(f"--seed is {seed}, but must be between 0 and {2**31 - 1}.")


@contextlib.contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Inside it, one torch operation uses so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
