"""A series of runs, trained one after the other, each in a folder of its own below --out."""

from collections.abc import Callable, Mapping
from pathlib import Path

from ga3c import files
from ga3c.bench import training
from ga3c.bench.progress import PhaseBar
from ga3c.bench.report import Ending
from ga3c.bench.training import Budget
from ga3c.config import Config
from ga3c.errors import RunFailed

Finish = Callable[[str, PhaseBar], bool]
"""What follows the training of the run of this name; False where the budget ended first."""


class Series:
    """Runs by name, which is also their folder's. A run that was stopped is resumed, and one that fails does not keep
    the others from being trained."""

    def __init__(self, out: Path, plan: Mapping[str, Config], budget: Budget) -> None:
        """Refuses an --out folder that cannot be written, or that holds runs with other settings."""
        files.check_folder(out)
        self.out = out
        self.plan = plan
        self.budget = budget
        self.ending = Ending()
        for name, config in plan.items():
            training.is_complete(config, out / name)

    @property
    def first_config(self) -> Config:
        """The settings of the first run, as its folder has them."""
        name, config = next(iter(self.plan.items()))
        return training.held(config, self.out / name)

    def train(self, finish: Finish, finish_seconds: float = 0.0) -> None:
        """Trains the runs that are not complete yet, as far as the budget goes. `finish_seconds` is how long `finish`
        takes, for the time left that people are shown."""
        lengths = [
            training.seconds_left(config, self.out / name) + finish_seconds for name, config in self.plan.items()
        ]
        with self.ending.postponed(), PhaseBar(lengths) as bar:
            for name, config in self.plan.items():
                bar.begin(f"{name}: training")
                try:
                    if not self._train(name, config, bar, finish_seconds) or not finish(name, bar):
                        return
                except RunFailed as error:
                    self.ending.failed[name] = str(error).strip().splitlines()[0]
                    bar.say(f"{name}: {error}")

    def _train(self, name: str, config: Config, bar: PhaseBar, finish_seconds: float) -> bool:
        folder = self.out / name
        if flags := training.kept_flags(config, folder):
            bar.say(f"{name}: continues with {flags}, which it began with.")
        if training.train(config, folder, self.budget, lambda left: bar.left(left + finish_seconds)):
            return True
        bar.say(f"{name}: the budget is spent; run the same command again to continue.")
        return False
