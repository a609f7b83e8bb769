"""The dashboard: a run as one picture for a terminal of any size."""

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.rule import Rule
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from ga3c.metrics import account, bottleneck
from ga3c.metrics.snapshot import Snapshot
from ga3c.metrics.text import clock, count, duration, number, percent
from ga3c.view import times
from ga3c.view.chart import History, line_chart, sparkline, split

_MESSAGES = 4
_RECENT = 10  # snapshots from which the bottleneck is found: a single second varies too much
_BOXED_HEIGHT = 30  # terminals with this many lines have room for frames around the sections
_LEAST_HEIGHT = 19  # lines that all sections need, without the messages
_LEAST_CHART = 8  # lines that the curve of scores keeps before the account of time is shown
_LINE = "bright_black"
_ASCII = str.maketrans({"·": "-", "…": "~"})

_WORK = ("█", "#", "green")
_WAIT = ("░", ".", "bright_black")
_HELD = ("▓", "=", "yellow")
_STAGE_TEXT = 60  # characters of a stage's name and legend beside its bar


@dataclass(frozen=True)
class _Frame:
    """The room for one drawing."""

    width: int
    boxed: bool
    ascii_only: bool

    @property
    def inner(self) -> int:
        return self.width - 4 if self.boxed else self.width

    @property
    def border(self) -> int:
        """Lines that a section needs in addition to its body."""
        return 2 if self.boxed else 1

    def section(self, title: Text, body: RenderableType) -> RenderableType:
        if self.boxed:
            return Panel(body, title=title, title_align="left", box=box.ROUNDED, border_style=_LINE, width=self.width)
        return Group(Rule(title, align="left", style=_LINE), body)


class Dashboard:
    """A run as one picture of any size, which rich can print, update in place or export.

    `title` is the environment, `facts` are short texts about the run (preset, network, device), `folder` is the run's
    folder, and `history` has the (steps, score) points of a resumed run. `names_bottleneck` shows why the run is not
    faster; it needs stages that wait for each other. `rules` is one word for the protocol of the scores.
    """

    def __init__(
        self,
        title: str,
        facts: Sequence[str],
        folder: str,
        history: Iterable[tuple[float, float]] = (),
        names_bottleneck: bool = True,
        rules: str = "",
    ) -> None:
        self._title = title
        self._score_title = f"{rules} score ".lstrip().capitalize()
        self._facts = facts
        self._folder = folder
        self._names_bottleneck = names_bottleneck
        self._snapshot: Snapshot | None = None
        self._recent: deque[Snapshot] = deque(maxlen=_RECENT)
        self._score = History()
        for steps, score in history:
            self._score.add(steps, score)
        self._pps: deque[float] = deque(maxlen=256)
        self._tps: deque[float] = deque(maxlen=256)
        self._messages: deque[str] = deque(maxlen=_MESSAGES)
        self._paused = False

    def pause(self, paused: bool) -> None:
        """A run that is paused shows that, and no advice to make it faster."""
        self._paused = paused
        self._recent.clear()

    def update(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._recent.append(snapshot)
        self._score.add(snapshot.steps, snapshot.score)
        self._pps.append(snapshot.pps)
        self._tps.append(snapshot.tps)

    def message(self, text: str) -> None:
        when = clock(self._snapshot.seconds) if self._snapshot else "start"
        self._messages.append(f"{when:<7}  {' '.join(text.split())}")

    def render(self, width: int, height: int, ascii_only: bool = False) -> RenderableType:
        """The picture in at most `height` lines; the curve of scores gets the lines that remain."""
        frame = _Frame(width, height >= _BOXED_HEIGHT, ascii_only)
        parts: list[RenderableType] = [self._header(width)]
        shown = list(self._messages)[-max(1, height - _LEAST_HEIGHT) :]
        messages = [Text(text, style="dim", no_wrap=True, overflow="ellipsis") for text in shown]
        if self._snapshot is None:
            return Group(*parts, Text("starting", style="dim"), *messages)
        rows = 6 if frame.boxed else 4
        fixed = 2 + (frame.border + rows) + (frame.border + 3) + len(messages)
        accounted = frame.border + times.ROWS
        fits = height - fixed - frame.border - accounted >= _LEAST_CHART and frame.inner >= times.LEAST_WIDTH
        shows_account = fits and self._snapshot.times is not account.UNKNOWN
        fixed += accounted if shows_account else 0
        # A taller chart would be too steep to read.
        chart_height = min(height - fixed - frame.border, max(8, width // 5))
        parts.append(_progress(self._snapshot))
        if chart_height >= 4 and width >= 24:
            parts.append(self._curve(self._snapshot, frame, chart_height))
        parts.append(self._figures(self._snapshot, frame, rows))
        found = bottleneck.find_in_run(self._recent) if self._names_bottleneck else None
        parts.append(_times(self._snapshot, frame, found))
        if shows_account:
            title = Text.assemble(("Account of time", "bold"), " · milliseconds")
            parts.append(frame.section(title, times.table(self._snapshot.times, frame.inner)))
        return Group(*parts, *messages)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # One line stays free for the prompt, so that all of the last view stays visible.
        picture = self.render(options.max_width, options.max_height - 1, options.ascii_only)
        for segment in console.render(picture, options):
            if options.ascii_only and not segment.control:
                text = segment.text.translate(_ASCII).encode("ascii", "replace").decode("ascii")
                segment = Segment(text, segment.style)
            yield segment

    def _header(self, width: int) -> RenderableType:
        left = Text.assemble(("GA3C ", "bold cyan"), (self._title, "bold"), overflow="ellipsis")
        if self._paused:
            left.append(" · ", style=_LINE).append("paused", style="bold yellow")
        for fact in self._facts:
            left.append(" · ", style=_LINE).append(fact)
        most = width // 2
        folder = self._folder if len(self._folder) <= most else "…" + self._folder[1 - most :]
        return _row(left, Text(folder, style="dim"))

    def _curve(self, snapshot: Snapshot, frame: _Frame, height: int) -> RenderableType:
        title = Text.assemble((self._score_title, "bold"), (number(snapshot.score), "bold green"))
        title.append(f" · best {number(snapshot.best_score)} · {number(snapshot.episodes)} episodes")
        if not math.isnan(snapshot.episode_length):
            title.append(f" of {number(snapshot.episode_length)} steps")
        points = self._score.points()
        if not points:
            body = Text("\n" * ((height - 1) // 2) + "no episode has ended yet", style="dim", justify="center")
            return frame.section(title, body.append("\n" * (height // 2)))
        chart = line_chart(points, frame.inner, height, "steps", frame.ascii_only)
        body = Text(no_wrap=True)
        for label, row in zip(chart.labels, chart.rows, strict=True):
            body.append(label, style="dim").append(row + "\n", style="bright_cyan")
        return frame.section(title, body.append(chart.axis, style="dim"))

    def _figures(self, now: Snapshot, frame: _Frame, rows: int) -> RenderableType:
        """Three sections side by side: speed, queues and learning; the most important rows come first."""
        gap = 0 if frame.boxed else 2
        side = (frame.width - 2 * gap) // 3
        first = replace(frame, width=frame.width - 2 * gap - 2 * side)
        third = replace(frame, width=side)
        grid = Table.grid(padding=(0, gap, 0, 0), pad_edge=False)
        for width in (first.width, side, side):
            grid.add_column(width=width)
        grid.add_row(
            first.section(Text("Speed", style="bold"), self._speeds(now, first, rows)),
            third.section(Text("Queues and lag", style="bold"), _pairs(_flow(now)[:rows], third.inner)),
            third.section(Text("Learning", style="bold"), _pairs(_learning(now)[:rows], third.inner)),
        )
        return grid

    def _speeds(self, now: Snapshot, frame: _Frame, rows: int) -> RenderableType:
        counts = [("Steps", now.steps), ("Updates", now.updates), ("Frames", now.frames)]
        lines = []
        for name, value, recent in (("PPS", now.pps, self._pps), ("TPS", now.tps, self._tps)):
            spark = sparkline(recent, min(len(recent), frame.inner - 17), frame.ascii_only)
            lines.append(_speed(name, number(value)).append("  " + spark, style="cyan"))
        lines += [_speed(name, number(value)) for name, value in counts]
        if not math.isnan(now.gpu_utilisation):
            held = f"  {number(now.gpu_memory_mb / 1024)} GB"
            lines.append(_speed("GPU", percent(now.gpu_utilisation)).append(held))
        return _lines(lines[:rows])


def _flow(now: Snapshot) -> list[tuple[str, str]]:
    return [
        ("Prediction queue", number(now.prediction_queue)),
        ("Training queue", number(now.training_queue)),
        ("Prediction batch", number(now.prediction_batch)),
        ("Lag (max)", f"{number(now.lag)} ({number(now.lag_max)})"),
        ("Wait for action", f"{number(now.wait_ms)} ms"),
        ("Update time", f"{number(now.update_ms)} ms"),
    ]


def _learning(now: Snapshot) -> list[tuple[str, str]]:
    return [
        ("Loss", number(now.loss)),
        ("Entropy", number(now.entropy)),
        ("Learning rate", number(now.learning_rate)),
        ("Gradient norm", number(now.gradient_norm)),
        ("Policy loss", number(now.policy_loss)),
        ("Value loss", number(now.value_loss)),
    ]


def _speed(name: str, value: str) -> Text:
    return Text.assemble((f"{name:<9}", "dim"), (f"{value:>6}", "bold"))


def _pairs(pairs: Iterable[tuple[str, str]], width: int) -> Text:
    """Names on the left, values on the right. If there is too little room, the name is cut, never the value."""
    rows = []
    for name, value in pairs:
        room = max(0, width - len(value) - 1)
        rows.append(Text.assemble((f"{name[:room]:<{room}}", "dim"), (f" {value}", "bold")))
    return _lines(rows)


def _lines(lines: Iterable[Text]) -> Text:
    return Text("\n", no_wrap=True, overflow="crop").join(lines)


def _row(left: RenderableType, right: RenderableType) -> Table:
    grid = Table.grid(expand=True, padding=(0, 2, 0, 0), pad_edge=False)
    grid.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    grid.add_column(no_wrap=True, justify="right")
    grid.add_row(left, right)
    return grid


def _progress(snapshot: Snapshot) -> RenderableType:
    elapsed = f"{clock(snapshot.seconds)} elapsed"
    if math.isnan(snapshot.progress):
        return Text(elapsed, style="dim")
    left = "" if math.isnan(snapshot.seconds_left) else f" · {duration(snapshot.seconds_left)} left"
    bar = ProgressBar(total=1.0, completed=snapshot.progress, complete_style="green", finished_style="green")
    return _row(bar, Text.assemble((percent(snapshot.progress), "bold"), f" · {elapsed}{left}"))


def _times(now: Snapshot, frame: _Frame, found: bottleneck.Bottleneck | None) -> RenderableType:
    """A bar for each stage: its full length is all time, divided into work, waiting and held back."""
    title = Text("Where the time goes", style="bold")
    if now.restarts:
        title.append(f" · {count(now.restarts, 'restart')} of agent processes", style="bold yellow")
    room = frame.inner - len(title) - 5
    texts = (found.sentence, found.what) if found else ()
    title.append(next((f" · {text}" for text in texts if len(text) <= room), ""), style="not bold")
    predictors = (now.predictor_predicting, now.predictor_waiting, now.predictor_blocked)
    stages = [
        _stage("agent", now.agents, "stepping", (now.agent_stepping, now.agent_waiting), frame),
        _stage("predictor", now.predictors, "predicting", predictors, frame),
        _stage("trainer", now.trainers, "training", (now.trainer_training, now.trainer_waiting), frame),
    ]
    return frame.section(title, _lines(stages))


def _stage(noun: str, size: int, work: str, shares: Sequence[float], frame: _Frame) -> Text:
    stage = Text(f"{number(size)} {noun}{'' if size == 1 else 's'}".ljust(13), style="bold")
    room = max(0, frame.inner - _STAGE_TEXT)
    bar, legend = Text(style="not bold"), Text(style="not bold")
    looks = (_WORK, _WAIT, _HELD)
    words = (f"{work:<10}", "waiting", "held back")
    for share, cells, word, look in zip(shares, split(shares, room), words, looks, strict=False):
        block, plain, colour = look
        bar.append((plain if frame.ascii_only else block) * cells, style=colour)
        part = "-" if math.isnan(share) else f"{share:.0%}"
        legend.append(f"  {word}", style=colour).append(f"{part:>5}")
    bar.pad_right(room - len(bar))
    return stage.append_text(bar).append_text(legend)
