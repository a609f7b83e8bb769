"""The public Python API: train, resume, evaluate, load. The command line calls the same functions."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ga3c import envs, nets, zoo
from ga3c.config import Config, DeviceName, PresetName, Ui
from ga3c.config.names import checked
from ga3c.engine import device as devices
from ga3c.errors import Ga3cError, UserError
from ga3c.metrics.events import Event, Kind
from ga3c.metrics.sinks.base import Sink
from ga3c.run import evaluate as evaluating
from ga3c.run import listening, serving, session, settings
from ga3c.run import trust as trusting
from ga3c.run.evaluate import Evaluation, Played
from ga3c.run.folder import RunFolder
from ga3c.run.listening import Listener
from ga3c.run.policy import Policy
from ga3c.run.protocols import Protocol
from ga3c.run.serving import Serving, ServingSink
from ga3c.run.session import Run
from ga3c.run.trained import ActionChoice, check_request
from ga3c.view import crowd, terminal

Env = str | type | Callable[..., Any]
"""A Gymnasium id (or MODULE:ID), an environment class, or a function that makes an environment."""
Wrapper = str | type | Callable[[Any], Any]
"""MODULE:NAME or MODULE:NAME(key=value), a `gymnasium.Wrapper` class, or a function from environment to environment."""


def train(
    env: Env | None = None,
    *,
    preset: PresetName | None = None,
    config: str | Path | None = None,
    out: str | Path | None = None,
    env_args: Mapping[str, Any] | None = None,
    wrap: Sequence[Wrapper] | None = None,
    callbacks: Sequence[Any] = (),
    ui: Ui = "auto",
    web: bool = False,
    web_port: int | None = None,
    web_readonly: bool = False,
    **chosen: Any,
) -> Run:
    """Trains an agent and returns the run when it has ended.

    Args:
        env: A Gymnasium id, an environment class, or a function that makes an environment; ALE/Pong-v5 unless given.
        preset: `fast` (the default), or `paper` for the settings of the GA3C paper and its code.
        config: A file of settings, such as a run's config.toml. Arguments replace what it says.
        out: The run's folder; runs/ENV/DATE unless given.
        env_args: Keyword arguments for `gymnasium.make`, or for the class or function.
        wrap: Wrappers around each environment, the innermost first.
        callbacks: Objects with any of the methods of `ga3c.Callback`.
        ui: `live`, `plain`, `none`, or `auto`: live on a terminal, else plain lines.
        web: Open the run in the browser while it trains, at an address that is printed; `run.serve()` does the same at
            any time.
        web_port: The port of that address; 8300 or the next one that is free unless given.
        web_readonly: Pages cannot change the run.
        **chosen: Any setting by its name: steps, minutes, seed, agents, learning_rate and so on; docs/commands.md and
            `ga3c train --help` list them. `net` may also be a module class, or a function that makes a module.

    Without steps or minutes the run has the preset's length. Ctrl-C ends it with a checkpoint, and `train` returns.
    """
    with _for_python(), devices.restored_settings(), _listening(web, web_port) as listener:
        checked("ui", Ui, ui)
        checked("preset", PresetName, preset or Config.preset)
        env_id = None if env is None else envs.identify(env)
        if "net" in chosen:
            chosen["net"] = nets.named(chosen["net"])
        if wrap is not None:
            chosen["wrap"] = envs.identify_wraps(wrap)
        file = settings.read(None if config is None else Path(config), env_id, chosen.get("wrap"), chosen.get("net"))
        resolved = settings.resolve(env_id, preset, chosen, env_args=env_args, file=file)
        run = session.begin(resolved, None if out is None else _path("--out", out))
        crowd.note(resolved.engine.room)
        run.train(*_sinks(run, ui, listener, web_readonly), callbacks=callbacks)
        return run


def resume(
    folder: str | Path,
    *,
    steps: int | None = None,
    minutes: float | None = None,
    device: DeviceName | None = None,
    env: Env | None = None,
    wrap: Sequence[Wrapper] | None = None,
    callbacks: Sequence[Any] = (),
    ui: Ui = "auto",
    web: bool = False,
    web_port: int | None = None,
    web_readonly: bool = False,
    trust: bool = False,
) -> Run:
    """Continues a run from its last checkpoint and returns it when it has ended. `steps` and `minutes` are new limits
    for the whole run; `web`, `web_port` and `web_readonly` are as for `train`. A run of a class or function that cannot
    be imported by name needs it again as `env`, and of such wrappers as `wrap`. Only with `trust`, or if `env` and
    `wrap` are given, is a module imported, or a function of an installed package called, that the run's folder
    names."""
    with _for_python(), devices.restored_settings(), _listening(web, web_port) as listener:
        checked("ui", Ui, ui)
        _bind(folder, env, wrap, trust)
        run = session.go_on(Path(folder), steps, minutes, device)
        run.train(*_sinks(run, ui, listener, web_readonly), callbacks=callbacks)
        return run


def evaluate(
    folder: str | Path,
    episodes: int = 30,
    *,
    policy: ActionChoice = "sample",
    checkpoint: str | int | Path = "last",
    seed: int = 1000,
    device: DeviceName = "auto",
    protocol: Protocol = "trained",
    env: Env | None = None,
    wrap: Sequence[Wrapper] | None = None,
    trust: bool = False,
    on_episode: Callable[[Played], None] = lambda played: None,
    on_steps: Callable[[int], None] = lambda steps: None,
) -> Evaluation:
    """Plays whole episodes with a trained agent and returns their raw scores: `evaluate(...).mean`. `folder` is that of
    a run, or the name of a trained agent; `checkpoint` is last, best, a number of steps or a file; `env`, `wrap` and
    `trust` are as for `resume`. `on_steps` is told now and then how many steps were played."""
    with _for_python(), devices.restored_settings():
        checked("policy", ActionChoice, policy)
        checked("protocol", Protocol, protocol)
        folder = zoo.resolve(folder)
        _bind(folder, env, wrap, trust)
        return evaluating.evaluate(
            folder,
            episodes,
            policy=policy,
            checkpoint=checkpoint,
            seed=seed,
            device=device,
            protocol=protocol,
            on_episode=on_episode,
            on_steps=on_steps,
        )


def load(
    path: str | Path,
    *,
    checkpoint: str | int | Path = "last",
    device: DeviceName = "auto",
    policy: ActionChoice = "sample",
    seed: int = 1000,
    env: Env | None = None,
    wrap: Sequence[Wrapper] | None = None,
    trust: bool = False,
) -> Policy:
    """A trained policy, from a run's folder, from one of its checkpoint files, or of a trained agent by its name;
    `env`, `wrap` and `trust` are as for `resume`."""
    with _for_python(), devices.restored_settings():
        checked("policy", ActionChoice, policy)
        check_request(1, seed)
        path = zoo.resolve(path)
        _bind(path, env, wrap, trust)
        return Policy.load(path, checkpoint, devices.choose(device), policy, seed)


@contextlib.contextmanager
def _listening(web: bool, port: int | None) -> Iterator[Listener | None]:
    """A port for the control room of a run that is about to begin: a port that is taken is told of before that."""
    if not web:
        yield None
        return
    serving.check_packages()
    with contextlib.closing(listening.listen(port=port, flag="--web-port")) as listener:
        yield listener


def _sinks(run: Run, ui: Ui, listener: Listener | None, readonly: bool) -> list[Sink]:
    """What shows the run: on the terminal, and in the browser where there is a listener."""
    views = terminal.sinks(ui, run.config, run.run_folder)
    if listener is None:
        return views
    kind: Kind = "warning" if ui == "none" else "note"  # nothing less is shown then, and nobody could guess the address
    try:
        room = Serving(run.folder, listener, readonly)
    except OSError as error:
        told = Event("warning", f"The control room cannot be started, and the run goes on without it: {error}.")
        rooms: list[Sink] = []
    else:
        told = Event(kind, f"The control room of this run:\n{room.address}")
        rooms = [ServingSink(room)]
    for view in views:
        view.event(told)
    return [*rooms, *views]


def _bind(path: str | Path, env: Env | None, wrap: Sequence[Wrapper] | None, trust: bool) -> None:
    """Takes `env` and `wrap` for those of the run in a folder; of what is not given, checks that its module may be
    imported."""
    run = RunFolder.of(_path("The run's folder", path))
    config = run.read_config()
    if env is not None:
        envs.bind(config.env_id, env)
    if wrap is not None:
        envs.bind_wraps(config.env.wrap, wrap)
    env_id, wraps = "" if env is not None else config.env_id, () if wrap is not None else config.env.wrap
    trusting.settle(env_id, wraps, config.net.net, run.path, trust)


def _path(name: str, given: str | Path) -> Path:
    if not str(given):  # `Path("")` would be the current folder
        raise UserError(f"{name} is empty, but must be a path.")
    return Path(given)


@contextlib.contextmanager
def _for_python() -> Iterator[None]:
    """Errors speak of arguments instead of flags."""
    try:
        yield
    except Ga3cError as error:
        raise error.for_python() from error.__cause__
