"""How the command line becomes settings: which flags were typed, and the preset's defaults for the others."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar, get_args

from ga3c.config import EngineConfig, PresetName, TuneName, setting_names
from ga3c.flags import keywords, parsing


class Settings(Protocol):
    """Arguments that describe a run. They may have any section of `Config` as a field of the same name."""

    @property
    def env_id(self) -> str | None: ...
    @property
    def preset(self) -> PresetName | None: ...
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


def typed(arguments: Sequence[str]) -> set[str]:
    """The settings whose flags are among the words."""
    flags = {word.partition("=")[0].replace("_", "-") for word in arguments if word.startswith("--")}
    dashed = {name: name.replace("_", "-") for name in setting_names()}
    return {name for name, flag in dashed.items() if f"--{flag}" in flags or f"--no-{flag}" in flags}


def chosen(
    kind: type[Arguments], arguments: Sequence[str], prog: str, *, tunes: bool
) -> tuple[Arguments, dict[str, Any]]:
    """The arguments as typed, and the settings among them by name. `--help` shows the preset's defaults and exits."""
    words = spelled_out(arguments)
    given = parsing.read(kind, [word for word in words if word not in ("-h", "--help")], prog)
    names = typed(words)
    values = {
        name: getattr(getattr(given, section), name)
        for name, section in setting_names().items()
        if name in names and hasattr(given, section)
    }
    if "-h" in words or "--help" in words:
        parsing.read(kind, words, prog, default=_resolved(given, values, tunes))
    return given, values


def parse(kind: type[Arguments], arguments: Sequence[str], prog: str) -> Arguments:
    """The arguments with every section of settings complete: what was typed, over the preset's defaults. The run does
    not tune itself unless that was typed."""
    given, values = chosen(kind, arguments, prog, tunes=False)
    return _resolved(given, values, tunes=False)


def _resolved(given: Arguments, values: dict[str, Any], tunes: bool) -> Arguments:
    from ga3c.run import settings  # imports torch, which takes seconds that a typo need not wait for

    of_given: Any = given  # a dataclass, which a protocol cannot say
    file = settings.read(getattr(of_given, "config_file", None), given.env_id, values.get("wrap"), values.get("net"))
    env_args = keywords.env_args(getattr(of_given, "env_args", ()))
    config = settings.resolve(given.env_id, given.preset, values, env_args=env_args, tunes=tunes, file=file)
    names = {item.name for item in dataclasses.fields(of_given)}
    shared = names & {item.name for item in dataclasses.fields(config)} - {"env_id", "preset", "env_args"}
    complete: Arguments = dataclasses.replace(of_given, **{name: getattr(config, name) for name in shared})
    return complete
