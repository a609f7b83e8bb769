"""A progress bar over the phases of a benchmark, on standard error: the current phase and the time left for all."""

from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from ga3c.metrics.text import duration


class PhaseBar:
    """Phases begin one after the other, each with an expected length in seconds. Only a terminal shows the bar; lines
    go to any output."""

    def __init__(self, lengths: Sequence[float]) -> None:
        self._lengths = list(lengths)
        self._begun = 0
        console = Console(stderr=True)
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[left]}"))
        # Few redraws, since they use the processors that are being measured.
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
        """Begins the next phase."""
        self._begun += 1
        self.rename(name)
        self.left(self._lengths[self._begun - 1])

    def rename(self, name: str) -> None:
        """Changes the title of the current phase."""
        self._progress.update(self._task, description=name)

    def expect(self, seconds: float) -> None:
        """Sets the expected length of every phase that has not begun."""
        self.expect_each([seconds] * (len(self._lengths) - self._begun))

    def expect_each(self, lengths: Sequence[float]) -> None:
        """Sets the expected lengths of the phases that have not begun, one by one."""
        self._lengths[self._begun :] = lengths

    def left(self, seconds: float) -> None:
        """Sets the seconds that are left of the current phase."""
        left = seconds + sum(self._lengths[self._begun :])
        whole = sum(self._lengths)
        self._progress.update(self._task, total=whole, completed=whole - left, left=f"about {duration(left)} left")

    def say(self, line: str) -> None:
        """Prints a line that stays."""
        self._progress.console.print(line, highlight=False, soft_wrap=True)
