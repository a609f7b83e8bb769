"""Trains and evaluates Atari games over seeds, each in a run of its own, and collects what the runs have reached.

`ga3c bench atari` and `ga3c bench table3` differ only in what they set beside the scores."""

import dataclasses
import math
import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from ga3c import files, machine
from ga3c.bench import arguments, cells, games, record, training
from ga3c.bench.arguments import RunArguments
from ga3c.bench.judging import Judge, Rules
from ga3c.bench.report import Ending
from ga3c.bench.series import Series
from ga3c.bench.training import Budget
from ga3c.config import Config, RunConfig
from ga3c.errors import UserError
from ga3c.metrics.text import count, percent
from ga3c.run import checkpoint
from ga3c.run.folder import RunFolder


@dataclass(frozen=True)
class GameArguments(RunArguments):
    """Flags of benchmarks that train games."""

    games: Annotated[tuple[str, ...], tyro.conf.arg(metavar="GAME [GAME ...]")] = ("dev",)
    """Games by their names in ALE, in any spelling, and sets of them. dev: the 12 games that settings are developed on.
    table3: the 11 of `ga3c bench table3`. all: the 57 games that have published scores."""
    frames: int = 0
    """Frames of training for each run, in all: agent steps times --frame-skip (0: no limit)."""
    minutes: float = 0.0
    """Minutes of training for each run, in all (0: no limit). With --frames, a run ends at the limit that it reaches
    first."""
    seeds: Annotated[tuple[int, ...], tyro.conf.arg(metavar="SEED [SEED ...]")] = (1,)
    """A run of each game for each of these seeds of the weights, the environments and the sampling of actions."""
    protocols: tuple[Rules, ...] = ("noop",)
    """The rules of the evaluation. noop: the paper's, up to 30 no-op actions at the start. sticky: today's rules for
    ALE, an action is repeated with probability 0.25; they require --full-actions."""
    episodes: int = 30
    """Episodes of an evaluation."""
    budget: float = 0.0
    """Stop after this many seconds with checkpoints (0: no limit). Run the same command again to continue."""

    def __post_init__(self) -> None:
        arguments.check_given(self, "games", "seeds", "protocols")
        games.expanded(self.games)
        arguments.check_range("--frames", self.frames, 0)
        arguments.check_range("--minutes", self.minutes, 0)
        if not self.frames and not self.minutes:
            raise UserError("--frames and --minutes are both 0, so training would never end; give one of them.")
        arguments.check_range("--episodes", self.episodes, 1)

    @property
    def env_id(self) -> str:
        """The environment whose preset applies to all games."""
        return games.id_of(games.expanded(self.games)[0])

    def configured(self, game: str, seed: int) -> Config:
        steps = math.ceil(self.frames / self.env.frame_skip)
        return self.config(games.id_of(game), RunConfig(steps=steps, minutes=self.minutes, seed=seed))


def folder_of(game: str, seed: int) -> str:
    return f"{game}-seed{seed}"


class GameRuns:
    """A run for each game and seed, in a folder below `out`.

    A run that is complete and evaluated needs no checkpoints: its config.toml, metrics.csv and eval-RULES.json can be
    copied here from another machine. What the preset chooses by the machine may differ in such a run."""

    def __init__(self, args: GameArguments, out: Path, typed: Collection[str]) -> None:
        """`typed` are the names of the settings that the user chose. Refuses a folder that cannot be written, or that
        holds runs with other settings."""
        files.check_folder(out)
        self._args = args
        self._out = out
        self._budget = Budget(args.budget)
        self._judge = Judge(out, args.protocols, args.episodes, args.engine.device, self._budget)
        self._seeds = list(dict.fromkeys(args.seeds))
        plan = {
            folder_of(game, seed): args.configured(game, seed)
            for seed in self._seeds
            for game in games.expanded(args.games)
        }
        pending = {name: config for name, config in plan.items() if not self._is_done(name, config, typed)}
        for name, config in pending.items():
            self._check_resumable(name, config)
        self._held = len(plan) - len(pending)
        self._series = Series(out, pending, self._budget)

    @property
    def ending(self) -> Ending:
        return self._series.ending

    def train(self) -> None:
        """Trains and evaluates what is not done yet, as far as the budget goes."""
        about = f"{count(self._held, 'run')} in {self._out} done already" if self._held else ""
        self._series.train(self._judge, self._judge.expected, about)

    def _is_done(self, name: str, config: Config, typed: Collection[str]) -> bool:
        folder = self._out / name
        if training.recorded(folder) is None or training.share_left(config, folder) > 0.0:
            return False
        if not self._judge.has_judged(name):
            return False
        training.check_same(config, folder, typed)
        return True

    def _check_resumable(self, name: str, config: Config) -> None:
        """Refuses to replace the results of a run that was copied here without its checkpoints."""
        folder = self._out / name
        results = next(folder.glob("eval-*.json"), None)
        if results is None or checkpoint.list_last(RunFolder(folder).checkpoints):
            return
        done = training.recorded(folder)
        reached = f"{done.steps * config.env.frame_skip:,} frames in {done.seconds / 60:.1f} minutes" if done else "-"
        raise UserError(
            f"{folder} has results ({reached}) but no checkpoint, so it can neither go on to these limits nor be "
            "evaluated in another way; change --frames, --minutes, --episodes or --protocols, or move it away."
        )

    # -- what the runs have reached -----------------------------------------------------------------------------------

    def result(self, shown: Sequence[str]) -> dict[str, Any]:
        """The results of this command and earlier ones in the same folder, for the games that are `shown`."""
        args = self._args
        found = [self._game(game) for game in shown]
        runs = [run for game in found for run in game["runs"]]
        machines = [one["machine"] for run in runs for one in run["scores"].values() if one and "machine" in one]
        first = args.configured(shown[0], self._seeds[0])
        held = next((run["folder"] for run in runs if run["steps"]), None)
        return {
            "preset": args.preset,
            "frames": args.frames,
            "minutes": args.minutes,
            "seeds": self._seeds,
            "episodes": args.episodes,
            "protocols": list(args.protocols),
            "games": found,
            "failed": self.ending.failed,
            "machine": machines[0] if machines else machine.describe(),
            "machines": [one for place, one in enumerate(machines) if one not in machines[:place]],
            "date": record.date(),
            "config": dataclasses.asdict(RunFolder(self._out / held).read_config() if held else first),
        }

    def _game(self, game: str) -> dict[str, Any]:
        runs = [self._run(game, seed) for seed in self._seeds]
        return {
            "game": game,
            "env": games.id_of(game),
            "state": _state(runs),
            "scores": {rules: _over_seeds([run["scores"][rules] for run in runs]) for rules in self._args.protocols},
            **{name: cells.mean([run[name] for run in runs if run["complete"]]) for name in ("minutes", "frames")},
            "runs": runs,
        }

    def _run(self, game: str, seed: int) -> dict[str, Any]:
        """What a run has reached; its scores count once it is complete. A run that cannot be read counts as not
        run."""
        name, config = folder_of(game, seed), self._args.configured(game, seed)
        folder = self._out / name
        try:
            done = training.recorded(folder)
            other = training.other_settings(config, folder) if done else {}
        except UserError:
            done, other = None, {}
        steps, seconds = (done.steps, done.seconds) if done else (0, 0.0)
        complete = done is not None and training.share_left(config, folder) == 0.0
        return {
            "seed": seed,
            "folder": name,
            "complete": complete,
            "progress": config.progress(steps, seconds),
            "failed": self.ending.failed.get(name),
            "minutes": seconds / 60,
            "steps": steps,
            "frames": steps * config.env.frame_skip,
            "updates": done.updates if done else 0,
            "other_settings": {one: list(pair) for one, pair in other.items()},
            "scores": {rules: self._judge.found(name, rules) if complete else None for rules in self._args.protocols},
        }


def _state(runs: Sequence[dict[str, Any]]) -> str:
    """How far the runs of a game are, in a word or two, for games without a score."""
    if any(run["failed"] for run in runs):
        return "failed"
    if not any(run["steps"] for run in runs):
        return "not run"
    if all(run["complete"] for run in runs):
        return "no score"
    return f"at {percent(statistics.fmean(run['progress'] for run in runs))}"


def _over_seeds(found: Sequence[dict[str, Any] | None]) -> dict[str, Any] | None:
    """The score of a game: the mean over the seeds that were evaluated. Its deviation is over seeds, or over episodes
    where there is one seed."""
    known = [one for one in found if one]
    if not known:
        return None
    means = [one["mean"] for one in known]
    spread = statistics.stdev(means) if len(known) > 1 else known[0]["std"]
    name = known[0]["protocol"]["name"]
    return {"mean": statistics.fmean(means), "std": spread, "seeds": len(known), "means": means, "protocol": name}


# -- tables -----------------------------------------------------------------------------------------------------------

COLUMNS = (
    "game", "seed", "rules", "protocol", "score", "std", "best", "worst", "episodes", "minutes", "steps", "frames",
    "updates",
)  # fmt: skip


def rows(result: dict[str, Any]) -> list[dict[str, Any]]:
    """A row with `COLUMNS` for each run and protocol."""
    return [
        {"game": game["game"], **run, "rules": rules, **_evaluated(found)}
        for game in result["games"]
        for run in game["runs"]
        for rules, found in run["scores"].items()
    ]


def _evaluated(found: dict[str, Any] | None) -> dict[str, Any]:
    if not found:
        return {}
    best, worst = found["best"]["score"], found["worst"]["score"]
    figures = {"score": found["mean"], "std": found["std"], "best": best, "worst": worst}
    return {"protocol": found["protocol"]["name"], "episodes": found["episodes"], **figures}


def length(result: dict[str, Any]) -> str:
    """How long runs were trained, in words."""
    limits = [f"{result['frames'] / 1e6:g} million frames"] if result["frames"] else []
    limits += [f"{result['minutes']:g} minutes"] if result["minutes"] else []
    return " or ".join(limits)


def remarks(result: dict[str, Any]) -> str:
    """Sentences about our scores: how they were made, and which runs differ from what this command would train."""
    scores = [one for game in result["games"] for one in game["scores"].values() if one]
    told = []
    if scores:
        rules = "; ".join(sorted({one["protocol"] for one in scores}))
        told.append(f"Ours: sampled actions, last checkpoint; {rules}.")
    runs = [run for game in result["games"] for run in game["runs"]]
    missing = len([run for run in runs if not any(run["scores"].values())])
    if missing and len(result["seeds"]) > 1:
        told.append(f"{missing} of {count(len(runs), 'run')} have no score yet.")
    if others := [run for run in runs if run["other_settings"]]:
        told.append(f"{_differ(others)} The JSON file names them by run.")
    return " ".join(told)


def _differ(runs: Sequence[dict[str, Any]]) -> str:
    """Which settings of finished runs are not those that this machine's preset would choose."""
    names = dict.fromkeys(name for run in runs for name in run["other_settings"])
    listed = ", ".join(f"--{name.replace('_', '-')}" for name in names)
    return f"{count(len(runs), 'finished run')} had other settings than this command has here: {listed}."
