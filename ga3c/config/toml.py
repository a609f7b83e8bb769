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
    """The config as TOML."""
    values: dict[str, Any] = {}
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        values[item.name] = value
    return write_toml(values)


def write_toml(values: Mapping[str, Any]) -> str:
    """Values and tables as TOML: plain values first, then the tables."""
    head, tables = [], []
    for name, value in values.items():
        if isinstance(value, Mapping):
            rows = [f"{_toml_key(key)} = {_toml_value(part)}" for key, part in value.items()]
            tables.append("\n".join([f"[{name}]", *rows]))
        else:
            head.append(f"{name} = {_toml_value(value)}")
    return "\n\n".join([*(["\n".join(head)] if head else []), *tables]) + "\n"


_LATER: Mapping[str, Mapping[str, Any]] = {
    "env": {"action_bounds": "clip", "action_masks": "off", "wrap": (), "vector": "off"},
    "net": {"normalise_observations": False, "layer_norm": False},
    "engine": {"cluster": "", "compress": "auto"},
    "run": {"gallery": "auto"},
}
"""Settings by table that configurations of earlier versions lack, with the values that describe what was done then."""


class UnknownSetting(UserError):
    """A configuration with a setting that this version does not have. Another version wrote it, or a person."""


def from_toml(text: str, source: str = "config.toml") -> Config:
    """The inverse of `to_toml`. Whatever is not exactly a configuration is a UserError: one that lacks settings is
    damaged, and defaults in their place would make another run of it. Only settings that came later may be missing.
    `source` names the text in errors."""
    try:
        config: Config = _build(Config, tomllib.loads(text), "")
        config = dataclasses.replace(config, env_args=read_env_args(config.env_args))
    except UnknownSetting as error:
        raise UnknownSetting(f"{source} {error}") from error
    except (UserError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise UserError(f"{source} cannot be used: {str(error).rstrip('.')}.") from error
    return config


def _build(cls: type, values: Any, table: str) -> Any:
    if not isinstance(values, dict):
        raise ValueError(f"{table} is {values!r}, but must be the table [{table}]")
    known = {f.name: f for f in dataclasses.fields(cls)}
    for name in values:
        if name not in known:
            raise UnknownSetting(f"holds {name!r}, which this version of ga3c does not know.")
    values = {**_LATER.get(table, {}), **values}
    missing = [name for name in known if name not in values]
    if missing:
        raise ValueError(_lacks(cls, missing, table))
    parts: dict[str, Any] = {}
    for name, value in values.items():
        kind = known[name].type
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            parts[name] = _build(kind, value, name)
        else:
            parts[name] = checked(name, kind, value)
    return cls(**parts)


def _lacks(cls: type, missing: list[str], table: str) -> str:
    """What is missing, and what to add to the file of an older version, which did not have the setting yet."""
    where = f" in [{table}]" if table else ""
    more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    lines = [f"{name} = {_toml_value(getattr(cls, name))}" for name in missing if hasattr(cls, name)]
    known = len(lines) == len(missing) <= 3
    hint = f"; if an older version of ga3c wrote it, add {' and '.join(lines)}{where}" if known else ""
    return f"it lacks {missing[0]}{more}{where}{hint}"


def differences(config: Config, text: str) -> dict[str, tuple[str, str]]:
    """The settings that another configuration has with other values, by name, with both values as in TOML.

    `text` is the other configuration. It may be of another version: settings that only one of the two has are left out,
    except arguments of the environment."""
    mine, other = _values(config), _flat(tomllib.loads(text))
    names = [name for name in {**mine, **other} if name.startswith("env_args.") or (name in mine and name in other)]
    pairs = {name: (mine.get(name, "nothing"), other.get(name, "nothing")) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _values(config: Config) -> dict[str, str]:
    return _flat(tomllib.loads(to_toml(config)))


def _flat(tables: dict[str, Any]) -> dict[str, str]:
    """Every setting by its name alone, as TOML has it."""
    values: dict[str, str] = {}
    for table, value in tables.items():
        prefix = "env_args." if table == "env_args" else ""
        parts = value.items() if isinstance(value, dict) else [(table, value)]
        values |= {f"{prefix}{name}": _toml_value(_without_none(part)) for name, part in parts}
    return values


_NONE = {"none": True}
"""The table that stands for None among the environment's arguments: TOML has no word for it."""


def check_env_args(env_args: Any) -> None:
    """Refuses arguments that `config.toml` cannot hold."""
    if not isinstance(env_args, Mapping):
        raise UserError(f"The environment's arguments are {env_args!r}, but must be a dictionary from names to values.")
    for name, value in env_args.items():
        try:
            tomllib.loads(f"value = {_toml_value(value)}")
        except (TypeError, tomllib.TOMLDecodeError) as error:
            raise UserError(
                f"The environment's argument {name} is {value!r}, but must be a text, a number, true, false, None, or "
                "a list or table of these; for anything else, pass a function that makes the environment."
            ) from error


def read_env_args(env_args: Any) -> dict[str, Any]:
    """The arguments of an environment as `config.toml` holds them."""
    check_env_args(_without_none(env_args) if isinstance(env_args, Mapping) else env_args)
    arguments: dict[str, Any] = _without_none(env_args)
    return arguments


def _without_none(value: Any) -> Any:
    """A value from TOML, with None where its sign stands."""
    if isinstance(value, list):
        return [_without_none(part) for part in value]
    if isinstance(value, Mapping):
        return None if value == _NONE else {name: _without_none(part) for name, part in value.items()}
    return value


def _toml_key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else _toml_value(name)


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON and TOML escape alike, but for the pairs of surrogates that JSON makes of characters beyond 16 bits.
        return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if value is None:
        return "{none = true}"
    if isinstance(value, Mapping) and value != _NONE and all(isinstance(name, str) for name in value):
        return "{" + ", ".join(f"{_toml_key(name)} = {_toml_value(part)}" for name, part in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return float.__repr__(value)
    raise TypeError(f"{value!r} has no place in TOML")
