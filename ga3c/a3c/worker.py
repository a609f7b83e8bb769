"""One learner, wherever it runs: how it is made from a task, and the process that does nothing else."""

import contextlib
import dataclasses
import json
import mmap
import os
import sys
import tomllib
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ga3c import device, envs, nets
from ga3c.a3c import ipc, placements
from ga3c.a3c.learner import Learner
from ga3c.a3c.reports import Tell, send
from ga3c.a3c.shared import Board, SharedModel
from ga3c.agents.agent import Agent
from ga3c.agents.slots import Slots
from ga3c.agents.worker import die_with_parent
from ga3c.config import Config, from_toml, to_toml
from ga3c.envs.spec import EnvSpec


@dataclass(frozen=True)
class Task:
    """Everything a learner is told; a process has it as JSON on its command line."""

    config: Config
    spec: EnvSpec
    learner: int
    incarnation: int
    seed: int
    spans: int
    """How many are kept of what it did (0: it is not traced)."""
    slots_fd: int
    board_fd: int
    report_fd: int
    gpu_handle: str = ""
    """Of the memory in which a GPU holds the shared model; empty where it lies on the board."""

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self) | {"config": to_toml(self.config)})

    @staticmethod
    def from_json(text: str) -> "Task":
        values: dict[str, Any] = json.loads(text)
        spec = values["spec"]
        shapes = {name: tuple(spec[name]) for name in ("frame_shape", "observation_shape")}
        values["spec"] = EnvSpec(**(spec | shapes))
        values["config"] = from_toml(tomllib.loads(values["config"]))
        return Task(**values)


def run(task: Task, slots: Slots, board: Board, memory: Tensor, tell: Tell) -> None:
    """Learns until the board says stop; the shared model lies in `memory`."""
    config = task.config
    # The same seeds as GA3C's agent and first predictor. Each incarnation plays other games than the one before.
    own_seed = (task.seed * 1_000_003 + task.incarnation * 65_537 + task.learner) % 2**31
    lane_seed = task.seed * 1000 + task.incarnation * 65_537_000 + task.learner
    environment = envs.make(config.env_id, config.env, task.spec.raw_screens, own_seed)
    agent = Agent(environment, slots, task.learner, config.env.clip_rewards, config.env.life_loss)
    try:
        model = SharedModel(nets.build(task.spec, config.net), config.learn, memory.device)
        model.attach(board, memory, task.learner)
        lane = device.Lane(device.choose(config.engine.device), lane_seed)
        placement = placements.place(config.engine.system, model, lane, config.learn)
        Learner(task.learner, agent, task.spec, slots, board, placement, config.learn, tell).run()
        placement.close()
    finally:
        agent.close()


def main() -> None:
    die_with_parent()
    task = Task.from_json(sys.argv[1])
    engine, net = task.config.engine, task.config.net
    where = device.choose(engine.device)
    device.prepare(where, engine.torch_threads or 1, task.seed, tf32=net.precision != "fp32")
    layout = (engine.agents, engine.agents, task.spec.frame_shape, task.spec.frame_dtype, task.spans)
    slots = Slots(mmap.mmap(task.slots_fd, 0), *layout)
    board = Board(mmap.mmap(task.board_fd, 0), engine.agents)
    memory = ipc.attach(task.gpu_handle, where) if task.gpu_handle else board.model
    # A server that is gone shows as a broken pipe: no traceback for that.
    with contextlib.suppress(BrokenPipeError):
        run(task, slots, board, memory, lambda reports: send(task.report_fd, reports))
    os._exit(0)  # taking torch down bit by bit would take longer than the server waits for


if __name__ == "__main__":
    main()
