"""`ga3c sweep`: from its flags to its results."""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ga3c import files, machine
from ga3c.bench import arguments, report, settings
from ga3c.bench.report import Ending
from ga3c.bench.training import Budget
from ga3c.config import Config, by_name
from ga3c.errors import RunFailed, UserError
from ga3c.flags import keywords
from ga3c.flags.arguments import SweepArguments
from ga3c.run.folder import RunFolder
from ga3c.sweep import outcome, picture, shares, space, study
from ga3c.sweep.plan import Plan, RunName
from ga3c.sweep.scheduler import Rules, Scheduler
from ga3c.sweep.shares import Share
from ga3c.sweep.study import Past, Study
from ga3c.sweep.view import View
from ga3c.view.picture import need_matplotlib

_STUDY = "study.db"


def run(args: SweepArguments, fixed: Mapping[str, Any]) -> None:
    """Searches until all trials are made, or the budget is spent, and reports what was found."""
    study.need_optuna()
    _check(args, fixed)
    parts = shares.divide(args.jobs or shares.default_jobs())
    plan, base = _plan(args, fixed, parts[0])
    folder = args.out or default_folder(args.env_ids)
    with _claimed(folder):
        sweep = Sweep(args, plan, base, folder, parts)
        ending = Ending()
        with ending.postponed():
            sweep.train()
        sweep.report()
        ending.conclude()
        sweep.conclude()


class Sweep:
    """A sweep in its folder."""

    def __init__(self, args: SweepArguments, plan: Plan, base: Config, folder: Path, parts: list[Share]) -> None:
        self._args = args
        self._plan = plan
        self._folder = folder
        self._first = {name: value for name, value in by_name(base).items() if name in plan.space}
        self._first = {name: value for name, value in self._first.items() if plan.space[name].holds(value)}
        self._study = Study(folder / _STUDY, plan)
        rules = Rules(args.trials, args.prune_below, args.prune_after, args.hang_seconds)
        self._scheduler = Scheduler(plan, self._study, folder, parts, rules, self._ended)
        self._view = View(args.trials)
        self._failure: RunFailed | None = None

    def train(self) -> None:
        budget = Budget(self._args.budget)

        def look() -> bool:
            self._view.refresh(self._scheduler)
            return budget.left > 0

        with self._view:
            if held := len(self._scheduler.pasts):
                self._view.say(f"{self._folder} holds {held} trials; the sweep continues.")
            try:
                if not self._scheduler.train(self._first, look):
                    self._view.say("The budget is spent; run the same command again to continue.")
            except RunFailed as error:
                self._failure = error

    def _ended(self, past: Past) -> None:
        """Tells how a trial ended, and keeps the best one's settings: a sweep may be stopped at any time."""
        yardstick, pasts = self._scheduler.yardstick, self._scheduler.pasts
        best = yardstick.best(pasts)
        self._view.ended(past, yardstick.value(past), best)
        if best is not None and past.state == "complete":
            configs = list(self._scheduler.configs(best).values())
            outcome.write_best(
                self._folder / "best.toml", best, yardstick.value(best), configs, self._plan.fixed
            )  # fmt: skip

    def report(self) -> None:
        """Writes and shows what was found so far."""
        result = outcome.gather(self._plan, self._scheduler.pasts, self._folder)
        outcome.write_csv(self._folder / "trials.csv", result)
        plot = picture.draw if self._args.plot else None
        report.publish("sweep", result, outcome.show, out=self._folder, as_json=self._args.json, plot=plot)

    def conclude(self) -> None:
        """Raises what ended the sweep early."""
        if self._failure is not None:
            raise self._failure


def default_folder(env_ids: tuple[str, ...]) -> Path:
    """The same for the same command, so that it continues: sweeps/ENV, with more environments sweeps/ENV-and-N-more."""
    name = env_ids[0].replace("/", "-").replace(":", "-")
    return Path("sweeps") / (name if len(env_ids) == 1 else f"{name}-and-{len(env_ids) - 1}-more")


def _plan(args: SweepArguments, fixed: Mapping[str, Any], share: Share) -> tuple[Plan, Config]:
    """The sweep, and the settings of its first run without a search. Refuses environments that cannot be trained and
    settings that cannot be used."""
    cores = len(share) or max(1, machine.num_cores() // (args.jobs or shares.default_jobs()))
    if not share and "torch_threads" not in fixed:  # cores cannot be bound, so at least torch is kept to its share
        fixed = {**fixed, "torch_threads": cores}
    seeds = tuple(range(args.seed, args.seed + args.seeds))
    env_args = keywords.env_args(args.env_args) or {}
    plain = Plan(args.env_ids, args.preset, fixed, {}, args.steps, args.minutes, seeds, cores, env_args)
    with shares.within(share):
        bases = [settings.base_of(plain.config(RunName(env_id, args.seed), {})) for env_id in args.env_ids]
    for one in bases:
        one.check_net(one.config.net)
    base = bases[0].config
    searched = space.parse(args.search, base, fixed) if args.search else space.default(base, fixed)
    if not searched:
        raise UserError("Every setting that would be searched is fixed; name others with --search.")
    return dataclasses.replace(plain, space=searched), base


def _check(args: SweepArguments, fixed: Mapping[str, Any]) -> None:
    if not args.env_ids:
        raise UserError("ENV is missing; name the environments, as in `ga3c sweep CartPole-v1`.")
    for env_id in args.env_ids:
        if args.env_ids.count(env_id) > 1:
            raise UserError(f"{env_id} is named twice; name every environment once.")
    for name in ("tune", "max_agents"):
        if fixed.get(name) not in (None, "off", 0):
            flag = name.replace("_", "-")
            raise UserError(f"--{flag} must be left out: trials do not tune themselves, so that they can be compared.")
    arguments.check_range("--steps", args.steps, 0)
    arguments.check_range("--minutes", args.minutes, 0)
    arguments.check_range("--trials", args.trials, 1, 100_000)
    arguments.check_range("--jobs", args.jobs, 0, 1024)
    arguments.check_range("--seeds", args.seeds, 1, 1000)
    arguments.check_range("--seed", args.seed, 0, 2**31 - 1001)
    arguments.check_range("--prune-below", args.prune_below, 0, 1)
    arguments.check_range("--prune-after", args.prune_after, 1)
    arguments.check_range("--hang-seconds", args.hang_seconds, 1)
    arguments.check_range("--budget", args.budget, 0)
    if args.plot:
        need_matplotlib(", or give --no-plot")


@contextlib.contextmanager
def _claimed(folder: Path) -> Iterator[None]:
    """The folder, for this process alone. Refuses one that holds anything but a sweep."""
    files.check_folder(folder)
    if not (folder / _STUDY).exists() and any(path.name != ".lock" for path in folder.iterdir()):
        raise UserError(f"{folder} is not empty and holds no sweep, so nothing is written there; choose another --out.")
    lock = RunFolder(folder)
    lock.lock()
    try:
        yield
    finally:
        lock.unlock()
