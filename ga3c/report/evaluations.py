"""Evaluations that were kept in a run's folder: what `ga3c eval --json` prints, and what a model card rests on."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ga3c.metrics.text import count, number
from ga3c.report import chart
from ga3c.report.chart import Line
from ga3c.report.content import Troubles, json_of
from ga3c.report.markup import Markup, element, facts, section

_MOST_FILES = 10
_LARGEST = 64 * 2**20
_SIZE = chart.Size(360, 130)


@dataclass(frozen=True)
class Evaluation:
    """Raw scores of whole episodes, and how they were played."""

    file: str
    checkpoint: str
    policy: str
    rules: str
    seed: str
    scores: tuple[float, ...]
    lengths: tuple[float, ...]


def read_evaluations(folder: Path, troubles: Troubles) -> list[Evaluation]:
    found: list[Evaluation] = []
    for path in sorted(folder.glob("eval*.json"))[:_MOST_FILES]:
        one = troubles.guard(path, _read, _LARGEST)
        found += [one] if one is not None else []
    return found


def _read(path: Path) -> Evaluation:
    report: Any = json_of(path)
    if not isinstance(report, dict) or not isinstance(report.get("protocol"), dict):
        raise ValueError("it is no evaluation")
    scores, lengths = (tuple(map(float, report[name])) for name in ("scores", "lengths"))
    if not scores or not all(map(math.isfinite, (*scores, *lengths))):
        raise ValueError("it has no scores")
    protocol = report["protocol"]
    named = Path(str(report.get("checkpoint", ""))).name
    return Evaluation(
        path.name, named, str(report.get("policy", "")), str(protocol.get("name", "")), str(protocol.get("seed", "")),
        scores, lengths,
    )  # fmt: skip


def show(evaluations: Sequence[Evaluation]) -> Markup:
    """Each evaluation: its figures, and its scores as dots."""
    return section("Evaluation", *(element("div", _facts(one), _dots(one), class_="beside") for one in evaluations))


def _facts(one: Evaluation) -> Markup:
    scores = one.scores
    return facts(
        [
            ("mean score", f"{statistics.fmean(scores):,.2f} over {count(len(scores), 'episode')}"),
            ("standard deviation", f"{statistics.pstdev(scores):,.2f}"),
            ("lowest and highest", f"{min(scores):,.2f} and {max(scores):,.2f}"),
            ("mean length", f"{statistics.fmean(one.lengths):,.1f} agent steps" if one.lengths else ""),
            ("protocol", one.rules),
            ("actions", {"sample": "sampled", "greedy": "the most probable"}.get(one.policy, one.policy)),
            ("seed", one.seed),
            ("checkpoint", one.checkpoint),
            ("file", one.file),
        ]
    )


def _dots(one: Evaluation) -> Markup:
    order = np.arange(1.0, len(one.scores) + 1)
    lines = [Line(order, np.array(one.scores), "scores", kind="dots")]
    mean = statistics.fmean(one.scores)
    ends = np.array([1.0, len(one.scores)])
    lines.append(Line(ends, np.array([mean, mean]), "mean", look=1))
    svg = chart.draw(lines, "Scores of the evaluation", "episode", _SIZE)
    return chart.figure("Score of each episode", f"mean {number(mean)}", svg, [("episode", "c0 dot"), ("mean", "c1")])
