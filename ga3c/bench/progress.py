"""A bar over the phases of a benchmark, on standard error: what is measured now, and how long all of it still takes."""

from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from ga3c.sinks.plain import duration


class PhaseBar:
    """Phases are begun in turn, each with an expected length in seconds. Only a terminal gets a bar; lines go to any
    output."""

    def __init__(self, lengths: Sequence[float]) -> None:
        self._lengths = list(lengths)
        self._begun = 0
        console = Console(stderr=True)
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[left]}"))
        # Few redraws: they take from the processors that are being measured.
        self._progress = Progress(
            *columns, console=console, disable=not console.is_terminal, transient=True, refresh_per_second=2
        )
        self._task = self._progress.add_task("", total=sum(self._lengths), left="")

    def __enter__(self) -> "PhaseBar":
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._progress.stop()

    def begin(self, name: str) -> None:
        """Goes on to the next phase."""
        self._begun += 1
        self._progress.update(self._task, description=name)
        self.left(self._lengths[self._begun - 1])

    def expect(self, seconds: float) -> None:
        """All phases still to come are expected to take so long, each."""
        self._lengths[self._begun :] = [seconds] * (len(self._lengths) - self._begun)

    def left(self, seconds: float) -> None:
        """So many seconds are left of this phase."""
        left = seconds + sum(self._lengths[self._begun :])
        whole = sum(self._lengths)
        self._progress.update(self._task, total=whole, completed=whole - left, left=f"about {duration(left)} left")

    def say(self, line: str) -> None:
        """A line that stays."""
        self._progress.console.print(line, highlight=False, soft_wrap=True)
