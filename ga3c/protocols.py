"""Protocols: the rules that a score was made under. Those of different ones do not compare, so each is shown with its
own.

`noop` is the paper's, by A3C and DQN: up to 30 no-ops before each episode, and an emulator without chance (Mnih et al.
2015). `sticky` is what is recommended for ALE since (Machado et al. 2018): the emulator repeats the last action with
probability 0.25, and the policy has all 18 actions. Actions are chosen when a policy is trained (`--full-actions`), so
that the action set is always that of the training."""

import dataclasses
from typing import Literal

from ga3c.config import EnvConfig

Protocol = Literal["trained", "noop", "sticky"]
NOOPS = 30
STICKY = 0.25
MAX_FRAMES = 108_000
"""30 minutes of play, in both."""


def applied(protocol: Protocol, env: EnvConfig) -> EnvConfig:
    """An environment under a protocol's rules, or as it was trained. Actions and frame skip stay the policy's."""
    if protocol == "noop":
        return dataclasses.replace(env, noop_max=NOOPS, sticky=0.0, max_frames=MAX_FRAMES)
    if protocol == "sticky":
        return dataclasses.replace(env, noop_max=0, sticky=STICKY, max_frames=MAX_FRAMES)
    return env


def name(env: EnvConfig, atari: bool) -> str:
    """The rules in a few words. The game's own action set is part of the paper's protocol, and all actions of today's;
    anything else is named."""
    if not atari:
        return "the environment's own rules"
    noops = "no-op starts" if env.noop_max == NOOPS else f"up to {env.noop_max} no-ops" if env.noop_max else ""
    if not env.sticky:
        return (noops or "no random starts") + (", full action set" if env.full_actions else "")
    sticky = "sticky actions" if env.sticky == STICKY else f"sticky actions {env.sticky:g}"
    actions = "full" if env.full_actions else "minimal"
    return f"{sticky}, {actions} action set" + (f", {noops}" if noops else "")


def short(env: EnvConfig, atari: bool) -> str:
    """The same in a word, for where a line has many figures; empty outside Atari."""
    if not atari:
        return ""
    return "sticky" if env.sticky else "no-op" if env.noop_max else "fixed-start"
