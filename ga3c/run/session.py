"""A run as an object: begun or continued, trained, watched and changed while it trains, and read afterwards."""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from ga3c import envs
from ga3c.a3c.system import A3c
from ga3c.cluster import crew
from ga3c.config import GPU_SYSTEMS, Config, DeviceName, EngineConfig
from ga3c.engine import device
from ga3c.engine.ga3c import Ga3c
from ga3c.envs import own, wrapping
from ga3c.envs.spec import EnvSpec
from ga3c.errors import RunFailed, UserError
from ga3c.metrics import sinks
from ga3c.metrics.settings import flat
from ga3c.metrics.sinks.base import RunFacts, Sink
from ga3c.metrics.sinks.csv import read_columns, read_episodes, shortfall, trim
from ga3c.metrics.snapshot import AVERAGED_EPISODES, Episode
from ga3c.run import limits, protocols, requests, saved, serving
from ga3c.run.callbacks import callback_sinks
from ga3c.run.commands import Pause, Resume, TakeCheckpoint
from ga3c.run.control_sink import ControlSink
from ga3c.run.folder import RunFolder
from ga3c.run.saved import Saved
from ga3c.run.server import Server
from ga3c.run.serving import Serving
from ga3c.tune import tuning


class Run:
    """A training run. Its folder and settings; while it trains, also its progress and ways to change it."""

    def __init__(self, server: Server, folder: RunFolder, resumed_at: int | None = None) -> None:
        """`resumed_at` is the number of steps that a resumed run has behind it; None for a new run."""
        self.server = server
        self.run_folder = folder
        self._resumed_at = resumed_at

    def train(self, *more: Sink, callbacks: Sequence[Any] = ()) -> None:
        """Trains to the end, with the sinks that every run has, more sinks, and callbacks."""
        begun = False
        try:
            with self.server.signals():
                called = callback_sinks(callbacks, self)
                files, begun = self._open_files(), True
                self.server.run([*files, *self._control(), *more, *called])
        finally:
            if not begun:
                sinks.close(more)
            self.run_folder.unlock()

    def _open_files(self) -> list[Sink]:
        try:
            return self._files()
        except OSError as error:
            raise RunFailed(
                f"The files of {self.folder} cannot be written, so the run did not begin: {error}."
            ) from error

    def _control(self) -> list[Sink]:
        """The control socket. A run goes on without it where there can be none."""
        try:
            return [ControlSink.open(self.folder, self.server)]
        except (OSError, RuntimeError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            text = f"This run cannot be steered from outside: {self.folder} takes no control socket ({reason})."
            self.server.notices.append(("note", text))
            return []

    def _files(self) -> list[Sink]:
        """The sinks that every run has, and those that `log` names."""
        folder, config = self.run_folder, self.config
        facts = RunFacts(
            name=f"{config.env_id} {folder.path.name}",
            folder=folder.path,
            tensorboard=folder.tensorboard,
            settings=flat(dataclasses.asdict(config)),
            rules=protocols.name(config.env, envs.is_atari(config.env_id)),
            purge_step=self._resumed_at,
        )
        return sinks.make(log_names(config.run.log), facts, folder.events, folder.status)

    # -- what it is and how far it is ---------------------------------------------------------------------------------

    @property
    def folder(self) -> Path:
        return self.run_folder.path

    @property
    def config(self) -> Config:
        return self.server.config

    @property
    def score(self) -> float:
        """Mean raw score of the last 100 episodes of training; NaN before the first."""
        return self.server.last.score if self.server.last else math.nan

    @property
    def steps(self) -> int:
        """Agent steps so far."""
        return self.server.stats.steps

    @property
    def complete(self) -> bool:
        """Whether the run reached its limit of steps or minutes."""
        return self.server.complete

    @property
    def reason(self) -> str:
        """Why the run ended; empty while it goes on."""
        return self.server.reason

    def metrics(self) -> dict[str, NDArray[np.float64]]:
        """The record of the run by column: seconds, steps, score, pps, tps and the other columns of metrics.csv. It has
        a value for about every second, later fewer. `pandas.DataFrame(run.metrics())` is a table of it."""
        return {name: np.array(values) for name, values in read_columns(self.folder).items()}

    def episodes(self) -> list[Episode]:
        """The episodes of training, with their raw scores: all of the first million, then fewer."""
        return read_episodes(self.folder)

    # -- while it goes on; any thread may call these ------------------------------------------------------------------

    def stop(self, reason: str = "Stopped by the program.") -> None:
        """Ends the run soon, with a checkpoint."""
        self.server.stop(reason)

    def checkpoint(self) -> None:
        """Writes a checkpoint soon."""
        self.server.commands.put(TakeCheckpoint())

    def serve(self, *, host: str = "127.0.0.1", port: int | None = None, readonly: bool = False) -> Serving:
        """Opens the run in the browser: `address` of what it returns is where. That is a process of its own, which ends
        with `close()`, and with this program at the latest; the run may go on or be over. Unless a port is named, it is
        8300 or the next one that is free. With `readonly` pages cannot change the run."""
        try:
            return serving.serve(self.folder, host, port, readonly)
        except UserError as error:
            raise error.for_python() from error.__cause__

    def pause(self) -> None:
        """Lets the run rest soon, until `resume`. A pause is no training time, and nothing is lost by it."""
        self.server.commands.put(Pause())

    def resume(self) -> None:
        """Ends a pause soon."""
        self.server.commands.put(Resume())

    @property
    def paused(self) -> bool:
        return self.server.steering.paused

    def set(
        self,
        *,
        agents: int | None = None,
        predictors: int | None = None,
        trainers: int | None = None,
        learning_rate: float | Literal["schedule"] | None = None,
        entropy_weight: float | Literal["schedule"] | None = None,
        tuning: bool | None = None,
    ) -> None:
        """Changes numbers, rates or tuning within a tenth of a second. Numbers that are set end tuning. A rate that is
        set holds from then on, whatever its schedule, until it is set to "schedule". What is set also holds after the
        run is resumed."""
        asked = {
            "agents": agents, "predictors": predictors, "trainers": trainers, "learning_rate": learning_rate,
            "entropy_weight": entropy_weight, "tuning": tuning,
        }  # fmt: skip
        asked = {name: value for name, value in asked.items() if value is not None}
        if not asked:
            return
        try:
            changes = requests.changes(self.server.system, self.config.engine, asked)
        except UserError as error:
            raise error.for_python() from None
        self.server.commands.put(*changes)


def log_names(text: str) -> list[str]:
    """The sinks that `--log` names."""
    return [name for name in text.replace(" ", "").split(",") if name]


def begin(config: Config, path: Path | None = None) -> Run:
    """A new run. Nothing is written before all settings are checked."""
    sinks.check(log_names(config.run.log))
    own.pickled(config.env_id, *wrapping.factory_ids(config.env.wrap))  # refuses what agent processes cannot receive
    folder = RunFolder(path or RunFolder.default(config))
    folder.check_new()
    server = build(config, folder, start=0)
    folder.create(config)
    return Run(server, folder)


def go_on(
    path: Path, steps: int | None = None, minutes: float | None = None, device_name: DeviceName | None = None
) -> Run:
    """A run from its last checkpoint. A new limit or device becomes part of its configuration."""
    folder = RunFolder(path)
    folder.claim()
    try:
        found = saved.read(folder)
        config = limits.renewed(found.config, steps, minutes, device_name)
        limits.check_unfinished(config, found.checkpoint.counters, path)
        server = _resumed(config, folder, found)
    except OSError as error:
        folder.unlock()
        raise UserError(f"{path} cannot be written to, so the run cannot go on: {error}.") from error
    except BaseException:
        folder.unlock()
        raise
    return Run(server, folder, found.checkpoint.counters.steps)


def _resumed(config: Config, folder: RunFolder, found: Saved) -> Server:
    """The server of a run that continues from a checkpoint. Damaged files and later rows of its records are set aside,
    and told of when the run begins."""
    counters, path = found.checkpoint.counters, folder.path
    server = build(config, folder, start=counters.steps)
    recent = read_episodes(path, last=AVERAGED_EPISODES, steps=counters.steps)
    try:
        server.resume(found.checkpoint, recent)
    except ValueError as error:
        raise UserError(f"The checkpoint {found.path} cannot be used: {error}.") from error
    warnings = [*found.notices, *saved.set_damaged_aside(found, folder)]
    steered = found.checkpoint.steered
    held = [] if steered is None else [name for name, value in steered.held.items() if value is not None]
    notes = [*saved.changed_limits(found), *limits.consequences(found.trained_under, config, counters, held)]
    dropped = [*trim(path, counters.steps, counters.seconds), *tuning.trim(folder.tuning, counters.steps)]
    if "csv" in log_names(config.run.log):
        warnings += shortfall(path, counters)
    folder.write_config(config)
    server.notices += [*(("warning", text) for text in warnings), *(("note", text) for text in [*notes, *dropped])]
    return server


def build(config: Config, folder: RunFolder, start: int) -> Server:
    """The server with all its parts, for a run with `start` steps behind it. GA3C sends raw screens to a GPU; on the
    CPU, with A3C, and on other machines, whose network carries less, the agents preprocess them."""
    central, on_cuda = config.engine.system == "ga3c", _device(config.engine).type == "cuda"
    raw_screens = central and on_cuda and not config.engine.cluster
    spec = envs.describe(config.env_id, config.env, raw_screens=raw_screens, env_args=config.env_args)
    rules = protocols.name(config.env, spec.source == "atari")
    try:
        if not central:
            return Server(config, A3c(config, spec, folder.logs, start), folder, rules=rules, notes=spec.notes)
        system = _ga3c(config, spec, folder, start)
        tuned = tuning.start(system, config, folder.tuning, start)
        return Server(config, system, folder, tuned, rules, spec.notes)
    except (OSError, MemoryError, RuntimeError) as error:
        if type(error) is RuntimeError and "thread" not in str(error):
            raise  # only a thread that the system refuses is a matter of the machine
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        less = "fewer --agents or less --delay" if config.engine.delay else "fewer --agents"
        raise UserError(f"This machine cannot hold such a run ({reason}); use {less}.") from error


def _ga3c(config: Config, spec: EnvSpec, folder: RunFolder, start: int) -> Ga3c:
    gateway = crew.gateway_for(config, folder.logs / "ray.log")
    try:
        return Ga3c(config, spec, folder.logs, start, gateway)
    except BaseException:
        if gateway is not None:
            gateway.close(0.0)
        raise


def _device(engine: EngineConfig) -> torch.device:
    """The device of the models; a UserError says that the machine does not have it."""
    if engine.system in GPU_SYSTEMS and not torch.cuda.is_available():
        raise UserError(
            f"--system {engine.system} keeps its models on a GPU, but torch sees no CUDA device here; "
            "use --system a3c-cpu or a3c-threads."
        )
    return device.choose(engine.device)
