"""The documents: every link leads somewhere, docs/commands.md is what the parser says, and the README is short."""

import re
import runpy
from pathlib import Path

import pytest

import ga3c

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(ROOT.glob("results/*/README.md")),
]
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to a page's headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def dead_links(page: Path) -> list[str]:
    """Relative links of a page whose file or anchor is not there."""
    dead = []
    for link in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8"))):
        path, _, anchor = link.partition("#")
        if "://" in link or link.startswith("mailto:"):
            continue
        target = (page.parent / path).resolve() if path else page
        is_there = target.exists() and (not anchor or (target.is_file() and anchor in anchors(target)))
        if not is_there:
            dead.append(link)
    return dead


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page: Path) -> None:
    assert dead_links(page) == []


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A title\n[a](#a-title) [b](#other) [c](none.md) `[d](x.md)` [e](https://example.org)\n")
    assert dead_links(page) == ["#other", "none.md"]


def test_commands_page_is_what_the_parser_says() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_commands.py"))
    message = "docs/commands.md differs from the parser: run `python docs/make_commands.py`"
    assert made["PAGE"].read_text(encoding="utf-8") == made["page"](), message


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_architecture_names_files_that_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:[a-z0-9_]+/)*[a-z0-9_]+\.py)`", text))
    missing = [name for name in named if not (ROOT / "ga3c" / name).exists() and not (ROOT / name).exists()]
    assert len(named) > 30
    assert not missing


def walk(title: str) -> list[tuple[str, str]]:
    """The file and the function, if one is named, at the head of each numbered step of a walk."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = text.partition(f"### {title}\n")[2].partition("\n#")[0]
    return re.findall(r"^\d\. (?:Back: )?`([\w/]+\.py)`(?: or `[\w/]+\.py`)?(?: `([\w.]+)`)?", section, re.MULTILINE)


@pytest.mark.parametrize(
    ("title", "steps", "most"), [("A step", 8, 8), ("An update", 6, 6), ("A checkpoint", 5, 6), ("A flag", 6, 6)]
)
def test_walks_are_short_and_name_functions_that_exist(title: str, steps: int, most: int) -> None:
    found = walk(title)
    assert len(found) == steps, "each numbered step begins with a file"
    assert len({file for file, _ in found}) <= most
    for file, name in found:
        *classes, function = name.split(".")
        text = (ROOT / "ga3c" / file).read_text(encoding="utf-8")
        assert not function or f"def {function}(" in text, f"{file} {name}"
        assert all(f"class {one}" in text for one in classes), f"{file} {name}"


def test_the_paper_in_code_names_functions_that_exist() -> None:
    """A name after a link to a file, such as `Agent.step`, is in that file: its class and its function."""
    text = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    named = re.findall(r"\]\(\.\./(ga3c/[\w/]+\.py)\) `([\w.]+)`", text)
    assert len(named) > 20
    for file, name in named:
        source = (ROOT / file).read_text(encoding="utf-8")
        for part in name.split("."):
            assert re.search(rf"(?:def|class) {part}\b", source), f"{file} {name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_blocks_have_flags_that_exist(page: Path) -> None:
    """Of the records in results/, whose flags are those of their time, only the commands."""
    known = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    for line in "".join(blocks).replace("\\\n", " ").splitlines():
        command, _, rest = line.partition("ga3c ")[2].partition("#")[0].partition(" ")
        if not line.startswith("ga3c "):
            continue
        assert f"`ga3c {command}`" in known or command == "bench", line
        flags = [] if "results" in page.parts else re.findall(r"--(?:no-)?([a-z][a-z0-9-]*)", rest)
        assert [flag for flag in flags if f"`--{flag}`" not in known] == [], line


def test_the_page_of_the_api_has_all_public_names() -> None:
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    named = re.findall(r"^::: ga3c\.(\w+)$", text, re.MULTILINE)
    assert sorted(named) == sorted(ga3c.__all__)


def test_every_test_that_the_promises_name_exists() -> None:
    text = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", text)
    assert named
    for file, name in named:
        path = ROOT / "tests" / file
        assert path.is_file(), file
        assert not name or f"def {name}(" in path.read_text(encoding="utf-8"), f"{file}::{name}"
