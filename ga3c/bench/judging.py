"""Evaluates trained runs under one or several protocols, and keeps the results in their folders."""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from ga3c import machine
from ga3c.bench import record, training
from ga3c.bench.progress import PhaseBar
from ga3c.bench.training import Budget
from ga3c.config import DeviceName
from ga3c.metrics.strict_json import from_json
from ga3c.metrics.text import number
from ga3c.run import evaluate

Rules = Literal["noop", "sticky"]

_EVALUATION = 60.0
"""Seconds that an evaluation takes, for the time left that people are shown."""


class Judge:
    """Evaluates the runs below a folder, by name, until the budget is spent."""

    def __init__(
        self, out: Path, protocols: Sequence[Rules], episodes: int, device: DeviceName, budget: Budget
    ) -> None:
        self._out = out
        self._protocols = protocols
        self._episodes = episodes
        self._device = device
        self._budget = budget

    @property
    def expected(self) -> float:
        """Seconds that the evaluation of a run takes."""
        return _EVALUATION * len(self._protocols)

    def __call__(self, name: str, bar: PhaseBar) -> bool:
        """Evaluates a run as far as that is not done yet. Returns False where the budget ended first."""
        bar.rename(f"{name}: evaluation")
        return all(self.found(name, rules) or self._evaluate(name, rules, bar) for rules in self._protocols)

    def has_judged(self, name: str) -> bool:
        """Whether all evaluations of a run are on file."""
        return all(self.found(name, rules) for rules in self._protocols)

    def found(self, name: str, rules: Rules) -> dict[str, Any] | None:
        """The evaluation on file, if it is of the run's last checkpoint, or of the end of its record where the run was
        copied without checkpoints."""
        path, done = self._path(name, rules), training.recorded(self._out / name)
        try:
            found: dict[str, Any] = dict(from_json(path.read_bytes()))
        except (OSError, ValueError, TypeError):
            return None
        same = done is not None and found.get("steps") == done.steps and found.get("episodes") == self._episodes
        return found if same else None

    def _path(self, name: str, rules: Rules) -> Path:
        return self._out / name / f"eval-{rules}.json"

    def _evaluate(self, name: str, rules: Rules, bar: PhaseBar) -> bool:
        played = 0

        def on_episode(_: evaluate.Played) -> None:
            nonlocal played
            played += 1
            bar.left(_EVALUATION * (1 - played / self._episodes))
            if self._budget.left <= 0:
                raise _Spent

        try:
            with _interruptible():
                found = evaluate.evaluate(
                    self._out / name, self._episodes, device=self._device, on_episode=on_episode, protocol=rules
                )
        except _Spent:
            bar.say(f"{name}: the budget is spent during the evaluation; run the same command again to repeat it.")
            return False
        record.write_json(self._path(name, rules), found.as_dict() | {"machine": machine.describe()})
        bar.say(f"{name}: {number(found.mean)} ± {number(found.std)} ({found.protocol['name']})")
        return True


class _Spent(Exception):
    """The budget ended in the middle of an evaluation."""


@contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt as Ctrl-C does, so that results are still shown. Runs handle signals
    themselves."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before: Callable[..., Any] | int | None = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
