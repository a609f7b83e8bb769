"""The dependencies of this package, and their installed versions."""

import importlib.metadata
import platform
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# `packaging` is imported where it is used, since it may be missing like any other dependency.

_LEFT_OUT = ("dev", "docs")
"""The extras that only developers of this package need."""


@dataclass(frozen=True)
class Package:
    """One dependency."""

    name: str
    wanted: str
    """The range of versions, as in pyproject.toml."""
    installed: str | None
    fits: bool
    """Whether it is installed with a version in the range."""
    extra: str = ""
    """The extra that it belongs to; empty for a dependency that is always needed."""


@dataclass(frozen=True)
class Ranges:
    """All dependencies, and the range of Python versions."""

    packages: tuple[Package, ...]
    python: str
    python_fits: bool


def read_ranges() -> Ranges:
    """Reads pyproject.toml in a checkout, and else the metadata of the installed package."""
    from packaging.specifiers import SpecifierSet

    project = Path(__file__).parents[2] / "pyproject.toml"
    if project.is_file():
        table = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
        needed = [("", text) for text in table["dependencies"]]
        needed += [(extra, text) for extra, texts in table["optional-dependencies"].items() for text in texts]
        python = table["requires-python"]
    else:
        needed = list(_installed_requirements())
        python = (importlib.metadata.metadata("ga3c").get_all("Requires-Python") or [""])[0]
    packages = tuple(_look_up(text, extra) for extra, text in needed if extra not in _LEFT_OUT)
    return Ranges(packages, python, platform.python_version() in SpecifierSet(python, prereleases=True))


def _installed_requirements() -> Iterator[tuple[str, str]]:
    """Each requirement with its extra, which the metadata has as a marker: `matplotlib>=3.8; extra == "bench"`."""
    from packaging.requirements import Requirement

    extras = importlib.metadata.metadata("ga3c").get_all("Provides-Extra") or []
    for text in importlib.metadata.requires("ga3c") or []:
        marker = Requirement(text).marker
        found = [e for e in extras if marker is not None and marker.evaluate({"extra": e})]
        always = marker is None or marker.evaluate({"extra": ""})
        yield from [("", text)] if always else [(extra, text) for extra in found]


def _look_up(text: str, extra: str) -> Package:
    from packaging.requirements import Requirement

    requirement = Requirement(text)
    try:
        installed = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        installed = None
    fits = installed is not None and requirement.specifier.contains(installed, prereleases=True)
    return Package(requirement.name, str(requirement.specifier), installed, fits, extra)
