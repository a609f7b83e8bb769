"""The engine as a drawing, as in figure 1 of the paper: agents, queues, predictors, trainers and model, with rates at
the arrows, shares of time in the stages and the fill of the queues. The figures come from elsewhere."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from ga3c.report import chart
from ga3c.report.chart import Line, Numbers, Size
from ga3c.report.markup import NOTHING, Markup, element, join

Place = Literal["agents", "prediction queue", "predictors", "training queue", "trainers", "model"]
_MOST_POINTS = 120


class Box(NamedTuple):
    x: float
    y: float
    width: float
    height: float


class Arrow(NamedTuple):
    """A way between two boxes, and where its text stands."""

    points: Sequence[tuple[float, float]]
    text: tuple[float, float]
    anchor: str = "middle"
    turned: bool = False


class Geometry(NamedTuple):
    """Where everything is."""

    size: Size
    boxes: Mapping[Place, Box]
    arrows: Mapping[str, Arrow]


ACROSS = Geometry(
    Size(1160, 372),
    {
        "agents": Box(2, 62, 216, 308),
        "prediction queue": Box(310, 62, 216, 132),
        "training queue": Box(310, 238, 216, 132),
        "predictors": Box(620, 62, 236, 132),
        "trainers": Box(620, 238, 236, 132),
        "model": Box(950, 62, 208, 308),
    },
    {
        "requests": Arrow([(218, 122), (308, 122)], (263, 112)),
        "batches": Arrow([(526, 122), (618, 122)], (572, 112)),
        "predictions": Arrow([(856, 112), (948, 112)], (902, 102)),
        "weights": Arrow([(950, 152), (858, 152)], (904, 168)),
        "actions": Arrow([(738, 62), (738, 26), (110, 26), (110, 60)], (424, 18)),
        "rollouts": Arrow([(738, 194), (738, 216), (418, 216), (418, 236)], (578, 210)),
        "updates' rollouts": Arrow([(526, 304), (618, 304)], (572, 294)),
        "updates": Arrow([(856, 304), (948, 304)], (902, 294)),
    },
)
DOWN = Geometry(
    Size(360, 932),
    {
        "agents": Box(2, 2, 306, 126),
        "prediction queue": Box(2, 170, 306, 122),
        "predictors": Box(2, 334, 306, 126),
        "training queue": Box(2, 502, 306, 122),
        "trainers": Box(2, 666, 306, 126),
        "model": Box(2, 834, 306, 96),
    },
    {
        "requests": Arrow([(155, 128), (155, 168)], (165, 153), "start"),
        "batches": Arrow([(155, 292), (155, 332)], (165, 317), "start"),
        "actions": Arrow([(308, 364), (332, 364), (332, 64), (310, 64)], (348, 214), turned=True),
        "rollouts": Arrow([(155, 460), (155, 500)], (165, 485), "start"),
        "updates' rollouts": Arrow([(155, 624), (155, 664)], (165, 649), "start"),
        "updates": Arrow([(155, 792), (155, 832)], (165, 817), "start"),
        "weights": Arrow([(308, 882), (332, 882), (332, 424), (310, 424)], (348, 653), turned=True),
    },
)


class Share(NamedTuple):
    """A part of a stage's time, 0 to 1, with the class of its colour."""

    word: str
    part: float
    mark: str


@dataclass(frozen=True)
class Stage:
    """Agents, predictors, trainers or the model."""

    title: str
    notes: Sequence[str]
    """Lines below the title."""
    shares: Sequence[Share] = ()
    is_bottleneck: bool = False


@dataclass(frozen=True)
class Queue:
    """A queue, and how full it was over the run."""

    title: str
    note: str
    x: Numbers
    fill: Numbers
    capacity: float


def draw(
    layout: Geometry, stages: Mapping[Place, Stage], queues: Mapping[Place, Queue], flows: Mapping[str, str], text: str,
    class_: str,
) -> Markup:  # fmt: skip
    """The drawing. `flows` are the texts at the arrows, `text` tells the whole in words."""
    parts = [
        *(_arrow(arrow, flows.get(name, "")) for name, arrow in layout.arrows.items()),
        *(_stage(layout.boxes[place], stage) for place, stage in stages.items()),
        *(_queue(layout.boxes[place], queue) for place, queue in queues.items()),
    ]
    return chart.picture(layout.size, "The engine", text, *parts, class_=f"engine {class_}")


def _arrow(arrow: Arrow, text: str) -> Markup:
    (a, b), (x, y) = arrow.points[-2:]
    along, down = float(np.sign(x - a)), float(np.sign(y - b))
    # The head is a part of the drawing, because a marker would need an id of its own on the page.
    head = [
        (x - 7 * along - 4 * down, y - 7 * down - 4 * along),
        (x, y),
        (x - 7 * along + 4 * down, y - 7 * down + 4 * along),
    ]
    turn = f"rotate(-90 {arrow.text[0]} {arrow.text[1]})" if arrow.turned else None
    return join(
        [
            element("path", d=chart.path(arrow.points), class_="way"),
            element("path", d=chart.path(head) + "Z", class_="head"),
            element("text", text, x=arrow.text[0], y=arrow.text[1], text_anchor=arrow.anchor, transform=turn),
        ]
    )


def _stage(box: Box, stage: Stage) -> Markup:
    x, y = box.x + 14, box.y + 26
    parts = [_frame(box, "stage lit" if stage.is_bottleneck else "stage"), _title(stage.title, x, y)]
    if stage.is_bottleneck:
        parts.append(element("text", "limits the run", x=x, y=box.y + box.height - 12, class_="badge"))
    for number, note in enumerate(stage.notes):
        parts.append(element("text", note, x=x, y=y + 19 + 17 * number, class_="soft"))
    if stage.shares:
        parts.append(shares(stage.shares, Box(x, y + 12 + 17 * len(stage.notes), box.width - 28, 14)))
    return element("g", *parts)


def shares(parts: Sequence[Share], box: Box) -> Markup:
    """A bar whose full width is all time, with its legend below."""
    drawn, start = [], box.x
    for part in parts:
        width = max(0.0, min(part.part * box.width, box.x + box.width - start))
        drawn.append(
            element(
                "rect", x=f"{start:.1f}", y=box.y, width=f"{width:.1f}", height=box.height, class_=f"fill {part.mark}"
            )
        )
        start += width
    x, y = box.x, box.y + box.height + 17
    for part in parts:
        text = f"{part.word} {part.part:.0%}"
        room = 24 + 6.9 * len(text)
        if x + room > box.x + box.width + 12 and x > box.x:
            x, y = box.x, y + 16
        drawn.append(element("rect", x=f"{x:.0f}", y=y - 8, width=8, height=8, class_=f"fill {part.mark}"))
        drawn.append(element("text", text, x=f"{x + 12:.0f}", y=y, class_="small"))
        x += room
    return join(drawn)


def _queue(box: Box, queue: Queue) -> Markup:
    x, y = box.x + 14, box.y + 26
    inner = Box(x, box.y + 56, box.width - 28, box.height - 56 - 12)
    parts = [_frame(box, "queue"), _title(queue.title, x, y), element("text", queue.note, x=x, y=y + 18, class_="soft")]
    parts.append(element("rect", x=inner.x, y=inner.y, width=inner.width, height=inner.height, class_="empty"))
    return element("g", *parts, _fill(inner, queue))


def _fill(box: Box, queue: Queue) -> Markup:
    """How full the queue was over the run: the mean as an area, and up to the highest in a lighter colour."""
    if not len(queue.x) or queue.capacity <= 0.0:
        return NOTHING
    line = chart.thinned(Line(queue.x, queue.fill), _MOST_POINTS)
    width = max(float(line.x[-1] - line.x[0]), 1e-9)
    xs = box.x + (line.x - line.x[0]) * (box.width / width)
    base = box.y + box.height

    def area(values: Numbers, mark: str) -> Markup:
        heights = base - np.clip(values / queue.capacity, 0.0, 1.0) * box.height
        points = [(box.x, base), *zip(xs.tolist(), heights.tolist(), strict=True), (float(xs[-1]), base)]
        return element("path", d=chart.path(points) + "Z", class_=mark)

    highest = area(line.high, "fill queued most") if len(line.high) else NOTHING
    return join([highest, area(line.y, "fill queued")])


def _frame(box: Box, class_: str) -> Markup:
    return element("rect", x=box.x, y=box.y, width=box.width, height=box.height, rx=6, class_=class_)


def _title(text: str, x: float, y: float) -> Markup:
    return element("text", text, x=x, y=y, class_="title")
