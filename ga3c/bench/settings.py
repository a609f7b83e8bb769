"""The settings of benchmarks: a preset for an environment and a device, with every automatic choice resolved."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ga3c import envs, nets
from ga3c.config import Config, DeviceName, NetConfig, PresetName, RunConfig, SystemName
from ga3c.engine import device
from ga3c.engine.numbers import workers_for
from ga3c.envs.spec import EnvSpec
from ga3c.run import settings


@dataclass(frozen=True)
class Base:
    """Settings, with the environment and the device that they are for."""

    config: Config
    spec: EnvSpec
    device: torch.device

    def resolved(self, config: Config) -> Config:
        """`config` as a record keeps it: automatic choices are replaced by their values, and the length of the run,
        which no measurement uses, is left out."""
        workers = config.engine.workers
        if config.engine.system == "ga3c":
            workers = workers_for(config.engine, self.device)
        device_name: DeviceName = "cuda" if self.device.type == "cuda" else "cpu"
        engine = dataclasses.replace(config.engine, workers=workers, device=device_name)
        net = dataclasses.replace(config.net, net=nets.chosen(self.spec, config.net))
        return dataclasses.replace(config, engine=engine, net=net, run=RunConfig(seed=config.run.seed))

    def check_net(self, net: NetConfig) -> None:
        """Refuses a network that does not suit the environment, before anything is measured."""
        with torch.device("meta"):
            nets.build(self.spec, net)


def base_of(config: Config) -> Base:
    where = device.choose(config.engine.device)
    spec = envs.describe(config.env_id, config.env, raw_screens=where.type == "cuda", env_args=config.env_args)
    return Base(config, spec, where)


def preset_base(
    env_id: str,
    preset: PresetName,
    device_name: DeviceName,
    system: SystemName = "ga3c",
    *,
    env_args: Mapping[str, Any] | None = None,
    wraps: tuple[str, ...] = (),
) -> Base:
    """A preset's settings. The device is `device_name`, except for systems whose name says where their models are."""
    config = settings.preset_config(env_id, preset, device_name, system, env_args=env_args, wraps=wraps)
    if config.engine.device == "auto":
        config = dataclasses.replace(config, engine=dataclasses.replace(config.engine, device=device_name))
    return base_of(config)
