"""How flags become settings: the preset's values for an environment and a device, and over them what was typed."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypeVar, get_args

import tyro

from ga3c.config import EngineConfig, NetConfig, TuneName

STYLE = (tyro.conf.OmitArgPrefixes,)


class Settings(Protocol):
    """Arguments that describe a run. Any of the sections of `Config` may be among their fields, by the same name."""

    @property
    def env_id(self) -> str: ...
    @property
    def preset(self) -> Literal["fast", "paper"]: ...
    @property
    def engine(self) -> EngineConfig: ...


Arguments = TypeVar("Arguments", bound=Settings)


def spelled_out(arguments: Sequence[str]) -> list[str]:
    """The same words, with `--tune` alone as `--tune on`."""
    words = list(arguments)
    for place in reversed([n for n, word in enumerate(words) if word == "--tune"]):
        if "".join(words[place + 1 : place + 2]) not in get_args(TuneName):
            words.insert(place + 1, "on")
    return words


def has_typed(arguments: Sequence[str], *names: str) -> bool:
    """Whether one of the flags is among the words."""
    flags = {f"--{name.replace('_', '-')}" for name in names}
    return any(word.partition("=")[0].replace("_", "-") in flags for word in arguments)


def parse(
    kind: type[Arguments],
    arguments: Sequence[str],
    prog: str,
    adjust: Callable[[Arguments, Arguments], Arguments] = lambda first, defaults: defaults,
) -> Arguments:
    """Reads the flags twice: first for those that decide the defaults, then over those defaults. A run that tunes
    itself has room for as many agents as the preset has, unless it says otherwise.

    `adjust` may change the defaults, given what was typed."""
    from ga3c import session  # torch takes seconds, which the other commands need not wait for

    arguments = spelled_out(arguments)
    flags = [a for a in arguments if a not in ("-h", "--help")]
    first = tyro.cli(kind, args=flags, prog=prog, config=STYLE)
    named = getattr(first, "net", None)
    net = named.net if isinstance(named, NetConfig) else "auto"
    base = session.base_config(first.env_id, first.preset, first.engine.device, first.engine.system, net)
    of_kind: Any = kind  # a dataclass, which a protocol cannot say
    shared = {f.name for f in dataclasses.fields(of_kind)} & {f.name for f in dataclasses.fields(base)}
    defaults = kind(**{name: getattr(base, name) for name in shared})
    args = tyro.cli(kind, args=list(arguments), default=adjust(first, defaults), prog=prog, config=STYLE)
    engine = args.engine
    if engine.system != "ga3c" or engine.tune != "on" or engine.max_agents:
        return args
    of_args: Any = args
    engine = dataclasses.replace(engine, max_agents=max(base.engine.agents, engine.agents))
    with_room: Arguments = dataclasses.replace(of_args, engine=engine)
    return with_room
