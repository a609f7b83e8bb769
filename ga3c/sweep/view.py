"""What people see while a sweep goes on, on standard error: a table that is redrawn on a terminal, else a line for each
trial that ends."""

import math
import os
import time
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from ga3c.bench import report
from ga3c.metrics.text import clock, number, percent
from ga3c.sweep.outcome import settings_text
from ga3c.sweep.scheduler import Scheduler
from ga3c.sweep.study import Past


class View:
    """Shows the runs that train and the best trial so far. Used as a context."""

    def __init__(self, trials: int) -> None:
        self._trials = trials
        self._console = Console(stderr=True)
        self._begun = time.monotonic()
        is_live = self._console.is_terminal and os.environ.get("TERM") != "dumb"
        self._live = Live(console=self._console, auto_refresh=False, transient=True) if is_live else None

    def __enter__(self) -> "View":
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def say(self, line: str) -> None:
        """Prints a line that stays."""
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def ended(self, past: Past, value: float, best: Past | None) -> None:
        """Tells how a trial ended."""
        scores = ", ".join(f"{run.env_id} {number(score)}" for run, score in past.latest.items())
        shown = {"complete": f"{value:.3f}" if not math.isnan(value) else "complete"}.get(past.state, past.state)
        reason = f" {past.reason}" if past.state == "failed" else ""
        leads = " (best so far)" if best is not None and best.number == past.number else ""
        self.say(f"trial {past.number}: {shown}{leads}; {scores or 'no score'}; {settings_text(past.params)}{reason}")

    def refresh(self, scheduler: Scheduler) -> None:
        """Draws the table anew."""
        if self._live:
            self._live.update(self._picture(scheduler), refresh=True)

    def _picture(self, scheduler: Scheduler) -> RenderableType:
        pasts, yardstick = scheduler.pasts, scheduler.yardstick
        ended = [past for past in pasts if past.state != "running"]
        best = yardstick.best(pasts)
        head = f"{len(ended)} of {self._trials} trials, {clock(time.monotonic() - self._begun)}"
        if best is not None:
            head += f"; best {yardstick.value(best):.3f} (trial {best.number}): {settings_text(best.params)}"
        table = report.table("trial", "environment", "seed", "done", "score", left=2)
        for attempt in scheduler.attempts:
            for run in attempt.training:
                now = attempt.progress[run]
                cells = (run.env_id, str(run.seed), percent(now.share), number(now.score))
                table.add_row(str(attempt.past.number), *cells)
        return Group(Text(head), table)
