"""Learners and whole A3C systems, for tests."""

from typing import Any

import torch

from ga3c import envs, nets
from ga3c.a3c import placements
from ga3c.a3c.learner import Learner
from ga3c.a3c.shared import Board, SharedModel
from ga3c.agents.agent import Agent
from ga3c.agents.slots import SlotPlan, Slots
from ga3c.config import GPU_SYSTEMS, Config, EngineConfig, EnvConfig, LearnConfig, NetConfig, RunConfig, SystemName
from ga3c.engine.lane import Lane
from ga3c.envs.seeding import environment_seed, lane_seed

CPU = torch.device("cpu")


def learn_config(**changes: Any) -> LearnConfig:
    settings: dict[str, Any] = {
        "discount": 0.8, "rollout": 5, "correction": "none", "reduction": "mean", "entropy_weight": 0.0,
        "entropy_weight_end": 0.0, "optimiser": "adam", "learning_rate": 3e-3, "optimiser_epsilon": 1e-5,
    }  # fmt: skip
    return LearnConfig(**(settings | changes))


def config_for(env_id: str, system: SystemName, learn: LearnConfig, agents: int, **run: Any) -> Config:
    return Config(
        env_id=env_id,
        env=EnvConfig(clip_rewards=False),
        net=NetConfig(init="orthogonal"),
        learn=learn,
        engine=EngineConfig(system=system, device="cuda" if system in GPU_SYSTEMS else "cpu", agents=agents),
        run=RunConfig(**run),
    )


def learner_of(config: Config, seed: int) -> tuple[Learner, SharedModel]:
    """A learner in this process, seeded as the first of a system is, around weights from torch's generator."""
    spec = envs.describe(config.env_id, config.env, raw_screens=False)
    plan = SlotPlan.of(spec, agents=1, workers=1)
    slots = Slots(bytearray(plan.size), plan)
    model = SharedModel(nets.build(spec, config.net), config.learn, CPU)
    board = Board(bytearray(Board.size(1, model.size)), 1)
    board.rates[:] = config.learn.learning_rate, config.learn.entropy_weight
    model.publish(board, board.model)
    model.attach(board, board.model, 0)
    environment = envs.make(config.env_id, config.env, False, environment_seed(seed, 0), masked=spec.action.masked)
    agent = Agent(environment, slots, 0, clip_rewards=config.env.clip_rewards, life_loss=config.env.life_loss)
    placement = placements.place("a3c-cpu", model, Lane(CPU, lane_seed(seed, 0)), config.learn)
    learner = Learner(
        index=0, agent=agent, spec=spec, slots=slots, board=board, placement=placement, config=config.learn,
        tell=lambda told: None,
    )  # fmt: skip
    return learner, model
