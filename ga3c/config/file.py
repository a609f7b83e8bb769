"""A file of settings for `ga3c train --config`: any part of what a run's `config.toml` holds, in the same tables."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from ga3c.config import synonyms
from ga3c.config.names import SECTIONS, checked, setting_names, validated
from ga3c.config.sections import PresetName
from ga3c.config.toml import read_env_args, write_toml
from ga3c.errors import UserError
from ga3c.files import read_file

LARGEST = 2**20
"""Bytes beyond which a file of settings is not read."""
_HEAD = ("env_id", "preset", "env_args")


@dataclass(frozen=True)
class SettingsFile:
    """What a file of settings chooses. What it does not name is left to the preset."""

    path: Path
    env_id: str | None = None
    preset: PresetName | None = None
    env_args: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The settings by their names."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads a file. A UserError names what is unknown or has the wrong type."""
        try:
            return cls(path, **_chosen(tomllib.loads(read_file(path, LARGEST).decode())))
        except OSError as error:
            reason = f"{path} is a folder; name a file" if path.is_dir() else f"{path} cannot be read: {error.strerror}"
            raise UserError(f"--config: {reason}.") from error
        except (UserError, ValueError, TypeError, OverflowError, RecursionError) as error:
            raise UserError(f"--config: {path} cannot be used: {str(error).rstrip('.')}.") from error

    def to_toml(self) -> str:
        """The inverse of `read`."""
        head = {"env_id": self.env_id, "preset": self.preset}
        tables = {
            section: {
                name: self.settings[name]
                for name, own in setting_names().items()
                if own == section and name in self.settings
            }
            for section in SECTIONS
        }
        parts = {
            **{name: value for name, value in head.items() if value is not None},
            **tables,
            "env_args": self.env_args,
        }
        return write_toml({name: value for name, value in parts.items() if value})


def _chosen(tables: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a SettingsFile, from the content of a file."""
    settings: dict[str, Any] = {}
    for name, value in tables.items():
        if name not in (*_HEAD, *SECTIONS):
            raise UserError(_unknown(name, "", (*_HEAD, *SECTIONS)))
        if name in SECTIONS:
            settings |= validated(_in_section(name, value))
    head: dict[str, Any] = {name: tables[name] for name in _HEAD if name in tables}
    for name, kind in {"env_id": str, "preset": PresetName, "env_args": Mapping[str, Any]}.items():
        if name in head:
            checked(name, kind, head[name])
    if "env_args" in head:
        head["env_args"] = read_env_args(head["env_args"])
    return {**head, "settings": settings}


def _in_section(section: str, values: Any) -> dict[str, Any]:
    """The settings of a table. Refuses what belongs elsewhere, or nowhere."""
    if not isinstance(values, dict):
        raise UserError(f"{section} is {values!r}, but must be the table [{section}]")
    for name in values:
        if setting_names().get(name) != section:
            raise UserError(_unknown(name, f" in [{section}]", [n for n, s in setting_names().items() if s == section]))
    return values


def _unknown(name: str, where: str, known: "list[str] | tuple[str, ...]") -> str:
    text = f"it holds {name!r}{where}, "
    if name in setting_names():
        return f"{text}which belongs in the table [{setting_names()[name]}]"
    near = synonyms.suggest(name, known) or synonyms.suggest(name, setting_names())
    meant = [one if one in known else f"{one} in [{setting_names()[one]}]" for one in near]
    return f"{text}which is no setting" + (f"; did you mean {' or '.join(meant)}?" if meant else "")
