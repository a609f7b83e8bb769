"""Evaluation protocols: the rules under which a score was reached. Scores of different protocols are not comparable,
so every score is shown with its protocol.

`noop` is the protocol of DQN, A3C and the GA3C paper: up to 30 no-ops before each episode, and a deterministic emulator
(Mnih et al. 2015). `sticky` is today's recommendation for ALE (Machado et al. 2018): the emulator repeats the last
action with probability 0.25, and the policy has all 18 actions. The action set is always that of the training, because
it is chosen there (`--full-actions`)."""

import dataclasses
from typing import Literal

from ga3c.config import EnvConfig

Protocol = Literal["trained", "noop", "sticky"]
NOOPS = 30
STICKY = 0.25
MAX_FRAMES = 108_000
"""30 minutes of play, in both protocols."""


def applied(protocol: Protocol, env: EnvConfig) -> EnvConfig:
    """The settings of an environment under a protocol. Action set and frame skip stay those of the training."""
    if protocol == "noop":
        return dataclasses.replace(env, noop_max=NOOPS, sticky=0.0, max_frames=MAX_FRAMES)
    if protocol == "sticky":
        return dataclasses.replace(env, noop_max=0, sticky=STICKY, max_frames=MAX_FRAMES)
    return env


def name(env: EnvConfig, atari: bool) -> str:
    """The rules in a few words. `noop` implies the game's own action set and `sticky` all 18 actions; another set is
    named."""
    if not atari:
        return "the environment's own rules"
    noops = "no-op starts" if env.noop_max == NOOPS else f"up to {env.noop_max} no-ops" if env.noop_max else ""
    if not env.sticky:
        return (noops or "no random starts") + (", full action set" if env.full_actions else "")
    sticky = "sticky actions" if env.sticky == STICKY else f"sticky actions {env.sticky:g}"
    actions = "full" if env.full_actions else "minimal"
    return f"{sticky}, {actions} action set" + (f", {noops}" if noops else "")


def short(env: EnvConfig, atari: bool) -> str:
    """The rules in one word, for lines with many figures; empty outside Atari."""
    if not atari:
        return ""
    return "sticky" if env.sticky else "no-op" if env.noop_max else "fixed-start"
