"""A training session: from settings to a server with its folder and sinks, for a new run and for a resumed one."""

import dataclasses
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from rich.console import Console

from ga3c import checkpoint, device, envs, presets
from ga3c.config import Config, DeviceName, EnvConfig
from ga3c.envs.spec import EnvSpec
from ga3c.errors import RunFailed, UserError
from ga3c.runfolder import RunFolder
from ga3c.server import Server
from ga3c.sinks.base import Sink
from ga3c.sinks.csv import CsvSink, read_episodes, read_metrics, trim
from ga3c.sinks.live import Dashboard, LiveSink
from ga3c.sinks.plain import PlainSink
from ga3c.sinks.tensorboard import TensorBoardSink
from ga3c.stats import WINDOW

Ui = Literal["auto", "live", "plain", "none"]


def base_config(env_id: str, preset: presets.Preset, device_name: str) -> Config:
    """The preset's settings for an environment and a device."""
    where = device.choose(device_name)
    spec = envs.describe(env_id, EnvConfig(), raw_screens=False)
    return presets.base(preset, spec, on_cuda=where.type == "cuda")


def describe(config: Config) -> EnvSpec:
    """The environment as this run sees it: raw screens go to a GPU, and a CPU gets them preprocessed."""
    on_cuda = device.choose(config.engine.device).type == "cuda"
    return envs.describe(config.env_id, config.env, raw_screens=on_cuda)


def train(config: Config, out: Path | None, ui: Ui) -> None:
    """A new run. Nothing is written before everything that can be wrong has been looked at."""
    folder = RunFolder(out or RunFolder.default(config.env_id))
    folder.check_new()
    spec = describe(config)
    server = Server(config, spec, folder)
    folder.create(config)
    sinks = _sinks(config, folder, ui, purge_step=None)
    _run(server, sinks)


def resume(path: Path, steps: int | None, minutes: float | None, device_name: DeviceName | None, ui: Ui) -> None:
    """Goes on with a run. A new limit or device becomes part of its configuration."""
    folder = RunFolder(path)
    config = folder.read_config()
    run = dataclasses.replace(
        config.run,
        steps=config.run.steps if steps is None else steps,
        minutes=config.run.minutes if minutes is None else minutes,
    )
    engine = dataclasses.replace(config.engine, device=device_name or config.engine.device)
    config = dataclasses.replace(config, run=run, engine=engine)
    saved_path = folder.last_checkpoint()
    saved = checkpoint.load(saved_path)
    counters = saved.counters
    if config.progress(counters.steps, counters.seconds) >= 1.0:
        raise UserError(
            f"{path} is complete: {counters.steps:,} steps in {counters.seconds / 60:.1f} minutes; "
            "give --steps or --minutes to go further."
        )
    server = Server(config, describe(config), folder)
    trim(path, counters.steps)
    try:
        server.resume(saved, read_episodes(path, last=WINDOW))
    except ValueError as error:
        raise UserError(f"The checkpoint {saved_path} cannot be used: {error}.") from error
    folder.write_config(config)
    _run(server, _sinks(config, folder, ui, purge_step=counters.steps))


def _run(server: Server, sinks: Sequence[Sink]) -> None:
    try:
        server.run(sinks)
    except OSError as error:
        raise RunFailed(f"The run stopped because the system refused something it needs: {error}.") from error
    finally:
        for sink in sinks:
            sink.close()


def _sinks(config: Config, folder: RunFolder, ui: Ui, purge_step: int | None) -> list[Sink]:
    sinks: list[Sink] = [CsvSink(folder.path), TensorBoardSink(folder.events, purge_step)]
    if ui == "auto":
        ui = "live" if sys.stdout.isatty() and os.environ.get("TERM") != "dumb" else "plain"
    if ui == "live":
        where = device.choose(config.engine.device).type
        history = [(row["steps"], row["score"]) for row in read_metrics(folder.path)]
        facts = (f"preset {config.preset}", f"net {config.net.net}", f"on {where}", f"seed {config.run.seed}")
        sinks.append(LiveSink(Console(), Dashboard(config.env_id, facts, str(folder.path), history)))
    elif ui == "plain":
        sinks.append(PlainSink(sys.stdout))
    return sinks
