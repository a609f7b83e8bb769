"""The settings of a run under dotted names, as trackers and pictures show them: `learn.rollout`."""

from collections.abc import Mapping
from typing import Any

Settings = dict[str, Any]


def flat(tables: Mapping[str, Any], prefix: str = "") -> Settings:
    """The values of nested tables, each under the names of its tables and its own, joined by dots."""
    settings: Settings = {}
    for name, value in tables.items():
        settings |= flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return settings
