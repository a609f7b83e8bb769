"""The Python code of tutorials and how-to pages runs, block after block, in a folder of its own. Runs are cut short."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (\w+\.py)\n")
OTHERS = ("stable_baselines3",)
"""Packages that are no dependency: blocks that import one are left out where it is missing."""


def blocks(page: Path) -> list[str]:
    return _BLOCK.findall(page.read_text(encoding="utf-8"))


PAGES = [
    page
    for folder in ("docs", "docs/tutorials", "docs/howto")
    for page in sorted((ROOT / folder).glob("*.md"))
    if blocks(page) and (folder != "docs" or page.name == "start.md")
]


def write_program(page: Path, folder: Path) -> Path:
    """Writes a page's program. A block that begins with a comment such as `# my_envs.py` is a file of that name."""
    program = []
    for block in blocks(page):
        if named := _FILE.match(block):
            (folder / named[1]).write_text(block, encoding="utf-8")
        elif all(find_spec(name) or name not in block for name in OTHERS):
            program.append(block)
    path = folder / "program.py"
    path.write_text("\n".join(program), encoding="utf-8")
    return path


def test_a_page_becomes_a_program_and_its_files(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\n# own.py\nx = 1\n```\ntext\n```sh\nls\n```\n```python\nimport own\n```\n")
    assert write_program(page, tmp_path).read_text() == "import own\n"
    assert (tmp_path / "own.py").read_text() == "# own.py\nx = 1\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_compiles(page: Path, tmp_path: Path) -> None:
    compile(write_program(page, tmp_path).read_text(encoding="utf-8"), str(page), "exec")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    program = write_program(page, tmp_path)
    paths = os.pathsep.join([str(tmp_path), str(ROOT), str(ROOT / "tests")])
    done = subprocess.run(
        [sys.executable, "-m", "short_runs", str(program)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=540,
        check=False,
    )
    assert done.returncode == 0, done.stdout
