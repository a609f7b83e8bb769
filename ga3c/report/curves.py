"""The curves of one run: its score with the spread of its episodes, and everything else on record over time."""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from ga3c.metrics.snapshot import AVERAGED_EPISODES
from ga3c.metrics.text import number
from ga3c.report import chart
from ga3c.report.chart import Line, Numbers
from ga3c.report.markup import NOTHING, Markup, element, join, section, unique
from ga3c.report.record import RunRecord
from ga3c.view.curves import AXES, Against

_GROUPS = 80
"""Groups of neighbouring episodes of which the spread is drawn, at most."""
_LEAST_EPISODES = 8
"""Episodes in such a group, at least."""
_MOST_DOTS = 250
_NARROW = chart.Size(360, 240)


class Panel(NamedTuple):
    """One chart: its title, what it shows, and its columns with their labels."""

    title: str
    note: str
    columns: Sequence[tuple[str, str]]
    scale: float = 1.0
    from_zero: bool = True


PANELS = (
    Panel("PPS", "predictions per second", [("pps", "PPS")]),
    Panel("TPS", "updates per second", [("tps", "TPS")]),
    Panel("Policy lag", "updates", [("lag", "mean"), ("lag_max", "highest")]),
    Panel("Queues", "agents, rollouts", [("prediction_queue", "prediction"), ("training_queue", "training")]),
    Panel("Prediction batch", "agents in a prediction", [("prediction_batch", "agents")]),
    Panel("Episode length", f"agent steps, mean of {AVERAGED_EPISODES} episodes", [("episode_length", "steps")]),
    Panel("Entropy", "of the policy", [("entropy", "entropy")]),
    Panel("Value loss", "", [("value_loss", "value")]),
    Panel("Policy loss", "", [("policy_loss", "policy"), ("loss", "whole loss")], from_zero=False),
    Panel("Gradient norm", "before clipping", [("gradient_norm", "norm")]),
    Panel("Learning rate", "", [("learning_rate", "rate")]),
    Panel("Entropy weight", "", [("entropy_weight", "weight")]),
    Panel("Use of the machine", "%", [("core_utilisation", "cores"), ("gpu_utilisation", "GPU")], 100.0),
    Panel("GPU memory", "GiB in use", [("gpu_memory_mb", "GiB")], 1 / 1024),
    Panel("Agents", "at play", [("agents", "agents")]),
    Panel("Predictors and trainers", "at work", [("predictors", "predictors"), ("trainers", "trainers")]),
    Panel(
        "Where the time goes", "% of each stage's time",
        [
            ("agent_stepping", "agents step"), ("predictor_predicting", "predict"), ("predictor_blocked", "held back"),
            ("trainer_training", "train"),
        ],
        100.0,
    ),
)  # fmt: skip
_STEPPED = ("agents", "predictors", "trainers")
_CONSTANT = ("agents", "predictors", "trainers", "learning_rate", "entropy_weight", "gpu_memory_mb")
"""Columns of which a chart says nothing where they never change."""


def show_score(run: RunRecord) -> Markup:
    """The score over time, steps and frames, of which a reader chooses one; nothing without a score."""
    charts = [(name, _score(run, against)) for against, name in _AXES.items()]
    charts = [(name, drawn) for name, drawn in charts if drawn]
    if not charts:
        return NOTHING
    if run.frames_per_step == 1.0:
        charts = charts[:2]  # frames are steps
    group, parts = unique("x"), []
    for place, (name, _) in enumerate(charts):
        parts.append(
            element(
                "input", type="radio", name=group, id=f"{group}-{place}", class_=f"tab t{place}",
                checked="" if place == 0 else None,
            )
        )  # fmt: skip
        parts.append(element("label", name, for_=f"{group}-{place}", class_="tab"))
    parts += [element("div", drawn, class_=f"pane p{place}") for place, (_, drawn) in enumerate(charts)]
    return section("Score", element("div", *parts, class_="tabs"))


_AXES: dict[Against, str] = {"time": "over time", "steps": "over steps", "frames": "over frames"}


def _score(run: RunRecord, against: Against) -> Markup:
    axis, mean = AXES[against], f"mean of the last {AVERAGED_EPISODES}"
    x, y = run.curve("score", axis.column)
    if not len(x):
        return NOTHING
    at, scores = x_of(run, against), np.array([one.score for one in run.episodes])
    band, labels = spread(at, scores), [(mean, "c0")]
    every = max(1, math.ceil(len(scores) / _MOST_DOTS))
    if len(band.x):
        labels.append(("8 of 10 episodes", "c0 area"))
    if len(scores):
        shown = run.every * every
        labels.append(("single episodes" + (f", one in {shown}" if shown > 1 else ""), "c6 dot"))
    dots = Line(at[::every], scores[::every], "single episodes", look=6, kind="dots")
    lines, title = [band, dots, Line(x / axis.scale, y, mean)], f"Training score over {axis.title}"
    both = [
        element("div", chart.draw(lines, title, axis.title, size, most=most), class_=class_)
        for size, most, class_ in ((chart.WIDE, 400, "wide"), (_NARROW, 160, "narrow"))
    ]
    rules = f", {run.rules}" if run.rules else ""
    note = f"raw{rules}; last {number(float(y[-1]))}, highest {number(float(y.max()))}"
    return chart.figure("Training score", note, join(both), labels)


def x_of(run: RunRecord, against: Against) -> Numbers:
    """Where the episodes lie on an x axis."""
    axis = AXES[against]
    if against == "time":
        return np.array([one.seconds for one in run.episodes]) / axis.scale
    each = run.frames_per_step if against == "frames" else 1.0
    return np.array([float(one.steps) for one in run.episodes]) * (each / axis.scale)


def spread(at: Numbers, scores: Numbers) -> Line:
    """A band with 8 of 10 of the scores of neighbouring episodes; empty for few episodes."""
    groups = min(_GROUPS, len(scores) // _LEAST_EPISODES)
    if groups < 2:
        return Line(np.zeros(0), np.zeros(0))
    parts = list(zip(np.array_split(at, groups), np.array_split(scores, groups), strict=True))
    low, middle, high = (np.array([np.quantile(part, share) for _, part in parts]) for share in (0.1, 0.5, 0.9))
    return Line(np.array([x.mean() for x, _ in parts]), middle, "8 of 10 episodes", low, high, kind="band")


def show(run: RunRecord) -> Markup:
    """All other columns over time, each in a chart of its own."""
    panels = [drawn for panel in PANELS if (drawn := _panel(run, panel))]
    return section("Curves", element("div", *panels, class_="charts")) if panels else NOTHING


def _panel(run: RunRecord, panel: Panel) -> Markup:
    lines: list[Line] = []
    for column, label in panel.columns:
        x, y = run.curve(column)
        changes = len(y) > 0 and bool((y != y[0]).any())
        if len(y) and (changes or column not in _CONSTANT) and (changes or y[0] != 0.0):
            kind: Literal["steps", "line"] = "steps" if column in _STEPPED else "line"
            lines.append(Line(x / AXES["time"].scale, y * panel.scale, label, look=len(lines), kind=kind))
    if not lines:
        return NOTHING
    whole = lines[0].kind == "steps"
    svg = chart.draw(lines, panel.title, AXES["time"].title, from_zero=panel.from_zero, whole=whole)
    labels = [(line.label, chart.look(line.look)) for line in lines] if len(lines) > 1 else []
    return chart.figure(panel.title, panel.note, svg, labels)
