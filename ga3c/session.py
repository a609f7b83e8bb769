"""A training session: from settings to a server with its folder and sinks, for a new run and for a resumed one."""

import dataclasses
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console

from ga3c import checkpoint, device, envs, presets, protocols, tuning
from ga3c.a3c.system import A3c
from ga3c.config import GPU_SYSTEMS, Config, DeviceName, EngineConfig, EnvConfig, NetName, RunConfig, SystemName, Ui
from ga3c.engine import Ga3c
from ga3c.errors import UserError
from ga3c.runfolder import RunFolder
from ga3c.server import Server
from ga3c.sinks.base import Sink
from ga3c.sinks.csv import CsvSink, read_episodes, read_metrics, trim
from ga3c.sinks.live import Dashboard, LiveSink
from ga3c.sinks.plain import PlainSink
from ga3c.sinks.tensorboard import TensorBoardSink
from ga3c.stats import WINDOW


def base_config(
    env_id: str, preset: presets.Preset, device_name: str, system: SystemName = "ga3c", net: NetName = "auto"
) -> Config:
    """The preset's settings for an environment, a device, a system and a network."""
    spec = envs.describe(env_id, EnvConfig(), raw_screens=False)
    if system != "ga3c":
        # The same on a CPU and a GPU, so that the A3C systems differ in nothing but where their models live.
        return presets.for_a3c(presets.base(preset, spec, on_cuda=False, net=net), system)
    return presets.base(preset, spec, device.choose(device_name).type == "cuda", net)


def train(config: Config, out: Path | None, ui: Ui) -> None:
    """A new run."""
    begin(config, out or RunFolder.default(config)).run(ui)


def resume(path: Path, steps: int | None, minutes: float | None, device_name: DeviceName | None, ui: Ui) -> None:
    """Goes on with a run."""
    go_on(path, steps, minutes, device_name).run(ui)


@dataclass(frozen=True)
class Session:
    """A run that is ready to train."""

    server: Server
    folder: RunFolder
    purge_step: int | None
    """Steps that a resumed run has behind it; None for a new one."""

    def run(self, ui: Ui, *more: Sink) -> None:
        """Trains with the sinks that every run has, and more."""
        sinks = [*_sinks(self.server.config, self.folder, ui, self.purge_step), *more]
        try:
            self.server.run(sinks)
        finally:
            for sink in sinks:
                sink.close()


def begin(config: Config, path: Path) -> Session:
    """A new run. Nothing is written before everything that can be wrong has been looked at."""
    folder = RunFolder(path)
    folder.check_new()
    server = build(config, folder, start=0)
    folder.create(config)
    return Session(server, folder, None)


def go_on(
    path: Path, steps: int | None = None, minutes: float | None = None, device_name: DeviceName | None = None
) -> Session:
    """A run from where its last checkpoint left it. A new limit or device becomes part of its configuration."""
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
            f"to go further, raise the limit that is reached ({_limits(config.run)})."
        )
    folder.lock()
    server = build(config, folder, start=counters.steps)
    recent = [episode for episode in read_episodes(path) if episode.steps <= counters.steps][-WINDOW:]
    try:
        server.resume(saved, recent)
    except ValueError as error:
        raise UserError(f"The checkpoint {saved_path} cannot be used: {error}.") from error
    trim(path, counters.steps)
    tuning.trim(folder.tuning, counters.steps)
    folder.write_config(config)
    return Session(server, folder, counters.steps)


def build(config: Config, folder: RunFolder, start: int) -> Server:
    """The server with all its parts. GA3C sends raw screens to a GPU; where a CPU predicts, or one model for one agent,
    agents preprocess them."""
    central, on_cuda = config.engine.system == "ga3c", _device(config.engine).type == "cuda"
    spec = envs.describe(config.env_id, config.env, raw_screens=central and on_cuda)
    rules = protocols.name(config.env, spec.source == "atari")
    try:
        if not central:
            return Server(config, A3c(config, spec, folder.logs, start), folder, rules=rules)
        system = Ga3c(config, spec, folder.logs, start)
        return Server(config, system, folder, tuning.start(system, config, folder.tuning, start), rules)
    except (OSError, MemoryError, torch.cuda.OutOfMemoryError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        less = "fewer --agents or less --delay" if config.engine.delay else "fewer --agents"
        raise UserError(f"This machine cannot hold such a run ({reason}); use {less}.") from error


def _device(engine: EngineConfig) -> torch.device:
    """Where models live, or a word to who asks for what is not here."""
    if engine.system in GPU_SYSTEMS and not torch.cuda.is_available():
        raise UserError(
            f"--system {engine.system} keeps its models on a GPU, but torch sees no CUDA device here; "
            "use --system a3c-cpu or a3c-threads."
        )
    return device.choose(engine.device)


def _sinks(config: Config, folder: RunFolder, ui: Ui, purge_step: int | None) -> list[Sink]:
    atari = envs.is_atari(config.env_id)
    whole_rules, rules = protocols.name(config.env, atari), protocols.short(config.env, atari)
    sinks: list[Sink] = [CsvSink(folder.path), TensorBoardSink(folder.events, purge_step, whole_rules)]
    names_bottleneck = config.engine.system == "ga3c"  # no part of A3C waits for another
    if ui == "auto":
        ui = "live" if sys.stdout.isatty() and os.environ.get("TERM") != "dumb" else "plain"
    if ui == "live":
        where = device.choose(config.engine.device).type
        history = [(row["steps"], row["score"]) for row in read_metrics(folder.path)]
        facts = (
            config.engine.system,
            f"preset {config.preset}",
            f"net {config.net.net}",
            f"on {where}",
            f"seed {config.run.seed}",
        )
        dashboard = Dashboard(config.env_id, facts, str(folder.path), history, names_bottleneck, rules)
        sinks.append(LiveSink(Console(), dashboard))
    elif ui == "plain":
        sinks.append(PlainSink(sys.stdout, names_bottleneck, rules))
    return sinks


def _limits(run: RunConfig) -> str:
    """What ends a run, as flags."""
    steps, minutes = f"--steps {run.steps}", f"--minutes {run.minutes:g}"
    return f"{steps} or {minutes}" if run.steps and run.minutes else steps if run.steps else minutes
