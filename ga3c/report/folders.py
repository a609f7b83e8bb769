"""The folders that a report is made of: which are runs, which are results, and how each is called."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from ga3c import zoo
from ga3c.errors import UserError
from ga3c.files import shortest_names
from ga3c.report import content, results

Kind = Literal["run", "results"]


class Found(NamedTuple):
    """A folder, what it is, and its name in the report."""

    folder: Path
    kind: Kind
    name: str


def find(named: Sequence[Path]) -> list[Found]:
    """Each folder once, in the order in which they were named. Refuses one that is neither."""
    if not named:
        raise UserError("No folder is named; give the folders of one or more runs, or of results of `ga3c bench`.")
    folders = list({folder.resolve(): folder for folder in map(zoo.resolve, named)}.values())
    kinds = [kind(folder) for folder in folders]
    return [Found(*each) for each in zip(folders, kinds, shortest_names(folders), strict=True)]


def kind(folder: Path) -> Kind:
    """What a folder is."""
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder; give the folder of a run or of results of `ga3c bench`.")
    if content.is_run(folder):
        return "run"
    if results.is_results(folder):
        return "results"
    below = sorted(path for path in folder.iterdir() if path.is_dir() and content.is_run(path))
    hint = f"; it contains folders of runs, so name those, such as {below[0]}" if below else ""
    raise UserError(f"{folder} holds neither a run nor results of `ga3c bench`{hint}.")
