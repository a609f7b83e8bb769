"""Settings as TOML, which `config.toml` in a run's folder holds."""

import dataclasses
import json
import tomllib
from collections.abc import Mapping
from typing import Any

from ga3c.config.names import checked
from ga3c.config.sections import Config
from ga3c.errors import UserError


def to_toml(config: Config) -> str:
    """The config as TOML: plain values first, then a table per section."""
    head, tables = [], []
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        if isinstance(value, Mapping):
            rows = [f"{_toml_key(name)} = {_toml_value(part)}" for name, part in value.items()]
            tables.append("\n".join([f"[{item.name}]", *rows]))
        else:
            head.append(f"{item.name} = {_toml_value(value)}")
    return "\n\n".join(["\n".join(head), *tables]) + "\n"


def from_toml(tables: dict[str, Any]) -> Config:
    """The inverse of `to_toml`, for what `tomllib` parsed. Unknown names are an error, missing ones take defaults."""
    config: Config = _build(Config, tables)
    return config


def _build(cls: type, values: dict[str, Any]) -> Any:
    known = {f.name: f for f in dataclasses.fields(cls)}
    for name in values:
        if name not in known:
            raise UserError(f"config.toml holds {name!r}, which this version of ga3c does not know.")
    parts: dict[str, Any] = {}
    for name, value in values.items():
        kind = known[name].type
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            parts[name] = _build(kind, value)
        else:
            parts[name] = checked(name, kind, value)
    return cls(**parts)


def check_env_args(env_args: Mapping[str, Any]) -> None:
    """Refuses arguments that `config.toml` cannot hold."""
    for name, value in env_args.items():
        try:
            tomllib.loads(f"value = {_toml_value(value)}")
        except (TypeError, tomllib.TOMLDecodeError) as error:
            raise UserError(
                f"The environment's argument {name} is {value!r}, but must be a text, a number, true, false, or a list "
                "of these; for anything else, pass a function that makes the environment."
            ) from error


def _toml_key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else _toml_value(name)


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON and TOML escape alike, but for the pairs of surrogates that JSON makes of characters beyond 16 bits.
        return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return float.__repr__(value)
    raise TypeError(f"{value!r} has no place in TOML")
