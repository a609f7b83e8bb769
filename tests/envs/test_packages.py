"""Environments that other packages register: when their module is named, or by entry points."""

from collections.abc import Iterator
from pathlib import Path

import gymnasium
import pytest

from ga3c import cli, envs
from ga3c.config import EnvConfig
from ga3c.envs import catalog
from ga3c.errors import Ga3cWarning, UserError

pytestmark = pytest.mark.timeout(120)
CODE = """
import gymnasium


def make():
    return gymnasium.make("CartPole-v1").unwrapped


def register():
    gymnasium.register("OddGrid-Empty-v0", "oddgrid:make", max_episode_steps=9)
    gymnasium.register("OddGrid-Full-v0", "oddgrid:make")


def fail():
    raise KeyError("no display")
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installed package that registers environments when it is asked to."""
    (tmp_path / "oddgrid.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for env_id in [one for one in gymnasium.registry if "OddGrid" in one]:
        del gymnasium.registry[env_id]


def add_entry_point(folder: Path, name: str, function: str) -> None:
    about = folder / "oddgrid-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: oddgrid\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[gymnasium.envs]\n{name} = oddgrid:{function}\n")


def test_ids_of_packages_with_an_entry_point_are_found(package: Path) -> None:
    add_entry_point(package, "__root__", "register")
    assert envs.describe("OddGrid-Empty-v0", EnvConfig(), raw_screens=False).frame_shape == (4,)
    assert "OddGrid-Empty-v0" not in gymnasium.registry, "the package was imported in another process"
    assert catalog.find("OddGrid-Empty-v0").id == "OddGrid-Empty-v0", "as agent processes find it"


def test_the_name_of_an_entry_point_is_the_namespace(package: Path) -> None:
    add_entry_point(package, "odd", "register")
    assert catalog.find("odd/OddGrid-Full-v0").id == "odd/OddGrid-Full-v0"


def test_a_package_that_fails_to_register_does_not_matter(package: Path) -> None:
    add_entry_point(package, "__root__", "fail")
    warned = pytest.warns(Ga3cWarning, match="oddgrid:fail could not register its environments: KeyError")
    with warned, pytest.raises(UserError):
        catalog.find("NoSuch-v0")
    assert catalog.find("CartPole-v1").id == "CartPole-v1"


def test_an_installed_package_is_named_where_its_name_begins_the_id(
    package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UserError, match="if the package oddgrid registers it, name it too: oddgrid:OddGrid-Empty-v0"):
        catalog.find("OddGrid-Empty-v0")
    assert cli.main(["envs", "OddGrid"]) == 2
    assert "`ga3c envs oddgrid:` imports the package oddgrid" in capsys.readouterr().err
    assert catalog.package_of("Test-v0") is None, "a module of Python's own"
    assert catalog.package_of("NoSuchPackage-v0") is None


def test_what_a_module_registers_is_listed_with_its_name(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (package / "oddgrid_envs.py").write_text("import oddgrid\n\noddgrid.register()\n")
    assert cli.main(["envs", "oddgrid_envs:full"]) == 0
    shown = capsys.readouterr().out
    assert "oddgrid_envs:OddGrid-Full-v0" in shown
    assert "Empty" not in shown
    assert cli.main(["envs", "no_such_module:"]) == 2
