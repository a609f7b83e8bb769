"""A series of runs, trained one after the other, each in a folder of its own below --out."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ga3c import files
from ga3c.bench import training
from ga3c.bench.progress import PhaseBar
from ga3c.bench.report import Ending
from ga3c.bench.training import START_UP, Budget, OnLeft
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

    def train(self, finish: Finish, finish_seconds: float = 0.0, about: str = "") -> None:
        """Trains the runs that are not complete yet, as far as the budget goes. `finish_seconds` is how long `finish`
        takes, for the time left that people are shown. `about` is told first."""
        outlook = Outlook([(config, self.out / name) for name, config in self.plan.items()], finish_seconds)
        with self.ending.postponed(), PhaseBar(outlook.lengths()) as bar:
            if about:
                bar.say(about)
            for place, (name, config) in enumerate(self.plan.items()):
                count = f" ({place + 1} of {len(self.plan)})" if len(self.plan) > 1 else ""
                bar.begin(f"{name}{count}: training")
                try:
                    if not self._train(name, config, bar, outlook.follow(place, bar)) or not finish(name, bar):
                        return
                except RunFailed as error:
                    self.ending.failed[name] = str(error).strip().splitlines()[0]
                    bar.say(f"{name}: {error}")

    def _train(self, name: str, config: Config, bar: PhaseBar, on_left: OnLeft) -> bool:
        folder = self.out / name
        if flags := training.kept_flags(config, folder):
            bar.say(f"{name}: continues with {flags}, which it began with.")
        if training.train(config, folder, self.budget, on_left):
            return True
        bar.say(f"{name}: the budget is spent; run the same command again to continue.")
        return False


class Outlook:
    """How long the runs of a series still take. All have the same limit, so what one takes is expected of all."""

    def __init__(self, runs: Sequence[tuple[Config, Path]], finish_seconds: float) -> None:
        self._shares = [training.share_left(config, folder) for config, folder in runs]
        self._whole = max((training.expected_seconds(config) for config, _ in runs), default=0.0)
        self._finish_seconds = finish_seconds

    def lengths(self, first: int = 0) -> list[float]:
        """The seconds of each run from the `first` on."""
        return [START_UP + share * self._whole + self._finish_seconds for share in self._shares[first:]]

    def follow(self, place: int, bar: PhaseBar) -> OnLeft:
        """For the run at this place, which begins now: a function that takes the seconds left of it, shows them on the
        bar, and expects the runs after it to take as long."""
        begin, share = time.monotonic(), self._shares[place]

        def on_left(left: float) -> None:
            if share:
                self._whole = (time.monotonic() - begin + left) / share
                bar.expect_each(self.lengths(place + 1))
            bar.left(left + self._finish_seconds)

        return on_left
