"""The evaluation that a card tells of: one that lies in the run's folder, or a new one, which is then kept there."""

import json
import math
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ga3c.files import read_file, replacing
from ga3c.metrics.strict_json import from_json
from ga3c.run import evaluate as evaluating
from ga3c.run import protocols
from ga3c.run.folder import RunFolder
from ga3c.run.trained import Trained, Which

NAME = "evaluation.json"
"""The file in a run's folder, with what `ga3c eval --json` prints."""
_LARGEST = 64 * 2**20


@dataclass(frozen=True)
class Scores:
    """Raw scores of whole episodes, and how they were played."""

    scores: tuple[float, ...]
    lengths: tuple[int, ...]
    """Agent steps of each episode."""
    rules: str
    """The protocol in a few words."""
    seed: int

    @property
    def mean(self) -> float:
        return statistics.fmean(self.scores)

    @property
    def deviation(self) -> float:
        return statistics.pstdev(self.scores)


def of(run: Path, trained: Trained, which: Which, episodes: int) -> Scores:
    """The scores of a checkpoint over at least so many episodes, with sampled actions under the training's rules."""
    path = RunFolder.of(run).path / NAME
    found = kept(path, trained, episodes)
    if found is None:
        report = evaluating.evaluate(run, episodes, checkpoint=which, device="cpu").as_dict()
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(report | {"checkpoint": trained.path.name}) + "\n", encoding="utf-8")
        found = _read(report)
    return found


def kept(path: Path, trained: Trained, episodes: int) -> Scores | None:
    """The scores in a file, if they are of this checkpoint and as many as wanted."""
    try:
        report = from_json(read_file(path, _LARGEST))
        config = trained.config
        same = (
            report["env"] == config.env_id
            and report["steps"] == trained.steps
            and Path(report["checkpoint"]).name == trained.path.name
            and report["policy"] == "sample"
            and report["protocol"]["name"] == protocols.name(config.env, trained.spec.source == "atari")
        )
        found = _read(report) if same else None
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return found if found is not None and len(found.scores) >= episodes else None


def _read(report: dict[str, Any]) -> Scores:
    scores, lengths = tuple(map(float, report["scores"])), tuple(map(int, report["lengths"]))
    if not scores or len(scores) != len(lengths) or not all(map(math.isfinite, scores)):
        raise ValueError("an evaluation without scores")
    return Scores(scores, lengths, str(report["protocol"]["name"]), int(report["protocol"]["seed"]))
