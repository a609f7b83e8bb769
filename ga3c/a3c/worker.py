"""One learner, made from its task, and the process that runs it."""

import contextlib
import os
from dataclasses import dataclass

from torch import Tensor

from ga3c import envs, nets
from ga3c.a3c import ipc, placements
from ga3c.a3c.learner import Learner
from ga3c.a3c.reports import Tell, send
from ga3c.a3c.shared import Board, SharedModel
from ga3c.agents.agent import Agent
from ga3c.agents.slots import SlotPlan, Slots, map_memory
from ga3c.agents.stacks import answer_with_stack
from ga3c.agents.tasks import Task, ended_by_sentences
from ga3c.agents.worker import die_with_parent
from ga3c.config import Config
from ga3c.engine import device
from ga3c.engine.lane import Lane
from ga3c.envs import own
from ga3c.envs.seeding import environment_seed, lane_seed
from ga3c.envs.spec import EnvSpec


@dataclass(frozen=True, kw_only=True)
class LearnerTask(Task):
    """Everything a learner is told, in a process or in a thread."""

    config: Config
    spec: EnvSpec
    learner: int
    incarnation: int
    seed: int
    slots: SlotPlan
    slots_fd: int
    board_fd: int
    report_fd: int
    env_pickle: str = ""
    """The environment's class or function and those of its wrappers, where only the server knows them."""
    gpu_handle: str = ""
    """The handle of the GPU memory with the shared model; empty where the model is on the board."""

    MODULE = "ga3c.a3c.worker"

    @property
    def fds(self) -> tuple[int, ...]:
        return (self.slots_fd, self.board_fd, self.report_fd)


def run(task: LearnerTask, slots: Slots, board: Board, memory: Tensor, tell: Tell) -> None:
    """Learns until the board says stop. The shared model is in `memory`."""
    config = task.config
    own.receive(task.env_pickle)
    # The first learner has the seeds of GA3C's first agent and first predictor.
    seed = environment_seed(task.seed, task.learner, task.incarnation)
    spec = task.spec
    environment = envs.make(
        config.env_id, config.env, spec.raw_screens, seed, config.env_args, masked=spec.action.masked
    )
    agent = Agent(
        environment, slots, task.learner, clip_rewards=config.env.clip_rewards, life_loss=config.env.life_loss
    )
    try:
        model = SharedModel(nets.build(spec, config.net), config.learn, memory.device)
        model.attach(board, memory, task.learner)
        lane = Lane(device.choose(config.engine.device), lane_seed(task.seed, task.learner, task.incarnation))
        placement = placements.place(config.engine.system, model, lane, config.learn)
        learner = Learner(
            index=task.learner, agent=agent, spec=spec, slots=slots, board=board, placement=placement,
            config=config.learn, tell=tell,
        )  # fmt: skip
        learner.run()
        placement.close()
    finally:
        agent.close()


def main() -> None:
    task = LearnerTask.read()
    die_with_parent(task.server_pid)
    answer_with_stack(task.stack_fd)
    engine, net = task.config.engine, task.config.net
    where = device.choose(engine.device)
    device.prepare(where, engine.torch_threads or 1, task.seed, tf32=net.precision != "fp32")
    slots = Slots(map_memory(task.slots_fd), task.slots)
    board = Board(map_memory(task.board_fd), engine.agents)
    memory = ipc.attach(task.gpu_handle, where) if task.gpu_handle else board.model
    # If the server is dead, a report meets a broken pipe: no traceback for that.
    with contextlib.suppress(BrokenPipeError), ended_by_sentences():
        run(task, slots, board, memory, lambda reports: send(task.report_fd, reports))
    os._exit(0)  # an orderly end of torch takes longer than the server waits


if __name__ == "__main__":
    main()
