"""The state of a run as the control socket tells it: what runs, and what can be steered."""

import os
from typing import Any

from ga3c.learn.schedules import RATES
from ga3c.run.server import Server
from ga3c.tune.tuner import Setting
from ga3c.tune.tuning import Tunable
from ga3c.version import __version__


def state_of(server: Server) -> dict[str, Any]:
    """Any thread may call it: all of it is read, and nothing is computed."""
    system, steering, memory = server.system, server.steering, server.system.gallery
    agents = server.config.engine.agents
    setting, space = Setting(agents, agents, agents), None  # of A3C, where each agent predicts and trains
    if isinstance(system, Tunable):
        setting = system.setting
        space = dict(zip(Setting._fields, system.space.levels, strict=True))
    return {
        "version": __version__,
        "env": server.config.env_id,
        "pid": os.getpid(),
        "paused": steering.paused,
        "tuning": steering.tunes,
        "setting": setting._asdict(),
        "space": space,
        "rates": dict(zip(RATES, system.rates(), strict=True)),
        "held": system.rates.held,
        "profile": server.config.run.profile,
        "gallery": None if memory is None else {"places": len(memory.gallery), "bytes": memory.gallery.place_size},
    }
