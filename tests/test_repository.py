"""The hook of the documentation site: where files of the repository are in the site, and what its pages may load."""

import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
HOOK: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "repository.py"))


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("README.md", "index.md"),
        ("docs/training.md", "training.md"),
        ("docs/tutorials/loss.md", "tutorials/loss.md"),
        ("results/table2/README.md", "results/table2/README.md"),
        ("results/table2", "results/table2/README.md"),
        ("results/table2/table2.png", "results/table2/table2.png"),
        ("CONTRIBUTING.md", "CONTRIBUTING.md"),
        ("ga3c/presets.py", "source/ga3c/presets.py.md"),
        ("LICENSE", "source/LICENSE.md"),
    ],
)
def test_each_file_has_a_place_in_the_site(path: str, uri: str) -> None:
    assert HOOK["place"](path) == uri


@pytest.mark.parametrize("page", ["README.md", "docs/speed.md", "docs/tutorials/loss.md", "results/table2/README.md"])
def test_a_page_of_the_site_is_made_of_its_file(page: str) -> None:
    assert HOOK["origin"](HOOK["place"](page)) == page


@pytest.mark.parametrize(
    ("page", "link", "there"),
    [
        ("docs/speed.md", "../results/table2/README.md", "results/table2/README.md"),
        ("docs/speed.md", "architecture.md#rooms", "architecture.md#rooms"),
        ("docs/tutorials/loss.md", "../../ga3c/learn/losses.py", "../source/ga3c/learn/losses.py.md"),
        ("docs/tutorials/loss.md", "../commands.md", "../commands.md"),
        ("README.md", "docs/architecture.md#the-a3c-systems", "architecture.md#the-a3c-systems"),
        ("results/table3/README.md", "../pong-fast", "../pong-fast/README.md"),
        ("results/figures/README.md", "../../docs/analysis.md", "../../analysis.md"),
        ("docs/speed.md", "https://example.org/a", "https://example.org/a"),
        ("docs/speed.md", "#here", "#here"),
        ("docs/speed.md", "missing.md", "missing.md"),
    ],
)
def test_links_hold_in_the_site(page: str, link: str, there: str) -> None:
    assert HOOK["relinked"](f"[a]({link}) and ![b]({link})", page) == f"[a]({there}) and ![b]({there})"


def test_links_in_code_stay() -> None:
    text = "`[a](../results/table2)`\n```\n[b](../results/table2)\n```\n"
    assert HOOK["relinked"](text, "docs/speed.md") == text


def test_what_pages_link_to_is_in_the_site() -> None:
    outside = HOOK["outside"]()
    assert {"README.md", "CONTRIBUTING.md", "results/table2/README.md", "ga3c/learn/losses.py"} <= set(outside)
    assert "results/table2/table2.png" in outside
    assert "ga3c/cli.py" not in outside
    assert not [path for path in outside if path.startswith("docs/")]


def test_what_a_page_loads_from_elsewhere_is_found() -> None:
    found = HOOK["loaded_from_elsewhere"](
        '<script src="https://a.example/x.js"></script><link rel="stylesheet" href="//b.example/x.css">'
        '<img alt="" src="https://c.example/x.png">'
    )
    assert [host for host in ("a.example", "b.example", "c.example") if any(host in text for text in found)] == [
        "a.example",
        "b.example",
        "c.example",
    ]
    own = '<script src="assets/x.js"></script><img src="a.png"><a href="https://arxiv.org/">paper</a>'
    assert HOOK["loaded_from_elsewhere"](own) == []
