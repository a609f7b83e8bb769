"""Settings by their names alone, across the sections of `Config`."""

import dataclasses
import numbers
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

from ga3c.config import synonyms
from ga3c.config.sections import (
    A_NET,
    Config,
    EngineConfig,
    EnvConfig,
    LearnConfig,
    NetConfig,
    NetName,
    RunConfig,
    require,
)
from ga3c.errors import UserError

SECTIONS = ("env", "net", "learn", "engine", "run")
"""The sections of `Config`. No two sections have a setting of the same name."""


def setting_names() -> dict[str, str]:
    """The section of every setting, by the setting's name."""
    return {item.name: section for section in SECTIONS for item in dataclasses.fields(_SECTION_TYPES[section])}


def kind_of(name: str) -> Any:
    """The type of a setting."""
    return {item.name: item.type for item in dataclasses.fields(_SECTION_TYPES[setting_names()[name]])}[name]


def by_name(config: Config) -> dict[str, Any]:
    """Every setting by its name alone."""
    return {name: getattr(getattr(config, section), name) for name, section in setting_names().items()}


def validated(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by their names, each with the type of its setting; a UserError names an unknown one or a wrong type."""
    known = setting_names()
    values = {}
    for name, value in settings.items():
        if name not in known:
            near = synonyms.suggest(name, known)
            hint = f"; did you mean {' or '.join(near)}?" if near else "."
            raise UserError(f"There is no setting {name!r}{hint}")
        values[name] = checked(name, kind_of(name), value)
    return values


def changed(config: Config, settings: Mapping[str, Any]) -> Config:
    """The same run with other settings, given by their names; a UserError names an unknown one or a wrong value."""
    sections: dict[str, dict[str, Any]] = {}
    for name, value in validated(settings).items():
        sections.setdefault(setting_names()[name], {})[name] = value
    parts = {section: dataclasses.replace(getattr(config, section), **values) for section, values in sections.items()}
    return dataclasses.replace(config, **parts)


_SECTION_TYPES: dict[str, Any] = {
    "env": EnvConfig,
    "net": NetConfig,
    "learn": LearnConfig,
    "engine": EngineConfig,
    "run": RunConfig,
}


def checked(name: str, kind: Any, value: Any) -> Any:
    """A setting's value, if it has the setting's type."""
    if get_origin(kind) is Literal:
        choices = get_args(kind)
        require(value in choices, name, value, f"one of {', '.join(choices)}")
    elif kind is NetName:
        require(type(value) is str, name, value, A_NET)
    elif kind is int:  # numbers of numpy are numbers too, and True is none
        require(isinstance(value, numbers.Integral) and not isinstance(value, bool), name, value, "a whole number")
        return int(value)
    elif kind is float:
        require(isinstance(value, numbers.Real) and not isinstance(value, bool), name, value, "a number")
        return float(value)
    elif kind is bool:
        require(isinstance(value, bool), name, value, "true or false")
    elif kind is str:
        require(type(value) is str, name, value, "a text")
    elif kind == tuple[str, ...]:
        texts = isinstance(value, list | tuple) and all(type(part) is str for part in value)
        require(texts, name, value, "a list of texts")
        return tuple(value)
    elif get_origin(kind) is Mapping:
        require(isinstance(value, Mapping), name, value, "a table")
    return value
