"""Measures environments alone, acting and training for some seconds, with the settings that a run would have."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from ga3c import machine
from ga3c.bench import harness
from ga3c.bench.ceiling import Ceiling, Steppers
from ga3c.bench.measurement import Measurement
from ga3c.bench.progress import PhaseBar
from ga3c.bench.training import START_UP
from ga3c.config import Config
from ga3c.doctor.findings import Finding
from ga3c.metrics import bottleneck

T = TypeVar("T")

_CEILING_SHARE, _ACTING_SHARE, _TRAINING_SHARE = 0.15, 0.25, 0.6
_CEILING_SECONDS = 1.5
"""The most seconds for the ceiling. With more, several sizes of ale-py's environment would be tried, and their
emulators take long to make."""


@dataclass(frozen=True)
class Measured:
    """The measurements; None for one that failed."""

    seconds: float
    """Seconds that all three phases took."""
    ceiling: Ceiling | None
    acting: Measurement | None
    training: Measurement | None
    others: float
    """Share of the cores that other processes used before the measurement."""

    @property
    def use(self) -> bottleneck.Use:
        """How much of the machine is in use while it trains."""
        one = self.training
        if one is None:
            return bottleneck.Use()
        used = (one.cpu_agents, one.cpu_predictors, one.cpu_trainers, one.cpu_rest)
        share = sum(used) / machine.num_cores() + self.others
        return bottleneck.Use(min(share, 1.0), one.gpu_utilisation)  # NaN stays NaN

    @property
    def bottleneck(self) -> bottleneck.Bottleneck | None:
        return None if self.training is None else bottleneck.find([self.training], self.use)


def measure(config: Config, seconds: float, others: float) -> tuple[Measured, list[Finding]]:
    """Measures the three phases in turn, with a progress bar on a terminal. A phase that fails becomes a finding, and
    the others are still measured."""
    failed: list[Finding] = []

    def attempt(phase: str, run: Callable[[], T]) -> T | None:
        try:
            return run()
        except Exception as error:
            # Any error counts, since a run would fail with it too.
            problem = f"{phase} failed: {str(error) or type(error).__name__}"
            remedy = "fix the cause that the message names; `ga3c train --ui plain` shows more details"
            failed.append(Finding("repair" if phase == "training" else "warning", phase, problem, remedy))
            return None

    def alone() -> Ceiling | None:
        length = min(_CEILING_SHARE * seconds, _CEILING_SECONDS)
        with Steppers(config, machine.num_cores(), length) as steppers:
            found = steppers.measure(bar.left)
        if found is None:
            raise RuntimeError(steppers.problem or "no steps were measured")
        return found

    acting_seconds, training_seconds = _ACTING_SHARE * seconds, _TRAINING_SHARE * seconds
    lengths = (START_UP, harness.expected(acting_seconds), harness.expected(training_seconds))
    with PhaseBar(lengths) as bar:
        bar.begin("Environments alone")
        ceiling = attempt("environments alone", alone)
        bar.begin("Acting")
        acting = attempt("acting", lambda: harness.measure(config, acting_seconds, train=False, on_left=bar.left))
        bar.begin("Training")
        training = attempt("training", lambda: harness.measure(config, training_seconds, on_left=bar.left))
    if training is not None and training.restarts:
        problem = f"agent processes failed and were restarted {training.restarts} times during the measurement"
        remedy = "start a run with `ga3c train` and read the logs folder in its run folder"
        failed.append(Finding("warning", "environment", problem, remedy))
    return Measured(seconds, ceiling, acting, training, others), failed
