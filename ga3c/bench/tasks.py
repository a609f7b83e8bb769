"""What the default preset learns on tasks of all spaces, over several seeds, beside Stable-Baselines3's A2C and PPO at
the same steps and at the same time."""

import functools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, get_args

import tyro
from rich.console import Console

from ga3c import files, machine
from ga3c.bench import arguments, baselines, cells, output, record, report, task_sets, tasks_picture, training
from ga3c.bench.baselines import BaselineName, BaselineTask, Moment
from ga3c.bench.progress import PhaseBar
from ga3c.bench.report import Ending
from ga3c.bench.task_sets import BenchTask
from ga3c.bench.training import Budget, ignore_left
from ga3c.config import Config
from ga3c.errors import RunFailed
from ga3c.flags import parsing
from ga3c.metrics.strict_json import from_json
from ga3c.metrics.text import number
from ga3c.run import evaluate, settings

_EVALUATION_SEED = 1000


OURS = "ga3c"


@dataclass(frozen=True)
class TasksArguments:
    """Train the default preset on Gymnasium's tasks and evaluate each run. Where Stable-Baselines3 is installed, do the
    same with its A2C and PPO: at the same steps, and at the time that our run of the same seed took.

    Each run has a folder below --out. Run the same command again to continue after a stop."""

    tasks: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME [NAME ...]")] = ("classic",)
    """The tasks: classic (vectors with discrete actions), spaces (one or two for each kind of observation and action;
    they need gymnasium[box2d,mujoco] and minigrid), or single tasks of both by name."""
    seeds: Annotated[tuple[int, ...], tyro.conf.arg(metavar="N [N ...]")] = (1, 2, 3)
    """Seeds: each task is trained once with each of them."""
    baselines: Annotated[tuple[BaselineName, ...], tyro.conf.arg(metavar="NAME [NAME ...]")] = ("a2c", "ppo")
    """What to compare with: a2c and ppo with the library's settings, ppo-zoo with those of the RL Baselines3 Zoo.
    There is no comparison without Stable-Baselines3."""
    moments: Annotated[tuple[Moment, ...], tyro.conf.arg(metavar="NAME [NAME ...]")] = get_args(Moment)
    """When the others are evaluated: steps (after as many steps as our run), seconds (after as many seconds)."""
    steps: int = 0
    """Agent steps of each run (0: each task's own limit)."""
    episodes: int = 0
    """Episodes of an evaluation (0: each task's own)."""
    plot: bool = True
    """Draw the picture (needs matplotlib)."""
    json: bool = False
    """Print one JSON object and nothing else."""
    out: Annotated[Path, output.flag("tasks")] = field(default_factory=output.fresh("tasks"))
    """The folder for the runs, the table and the picture."""

    def __post_init__(self) -> None:
        arguments.check_given(self, "tasks", "seeds", "moments")
        arguments.check_range("--episodes", self.episodes, 0)
        arguments.check_range("--steps", self.steps, 0)

    def chosen(self) -> list[BenchTask]:
        """The tasks with the steps and episodes of this command."""
        tasks = task_sets.chosen(self.tasks)
        if self.steps:
            tasks = [task._replace(steps=self.steps, minutes=0.0) for task in tasks]
        return [task._replace(episodes=self.episodes) for task in tasks] if self.episodes else tasks


def main(words: Sequence[str]) -> None:
    args = parsing.read(TasksArguments, words, "ga3c bench tasks")
    report.check(args.out, args.plot)
    files.check_folder(args.out)
    tasks, ending = args.chosen(), Ending()
    others = args.baselines if baselines.installed() else ()
    with ending.postponed(), PhaseBar([training.START_UP] * len(tasks) * len(args.seeds)) as bar:
        if args.baselines and not others:
            bar.say("Stable-Baselines3 is not installed: ours alone. `pip install stable-baselines3` adds it.")
        for task in tasks:
            for seed in args.seeds:
                bar.begin(f"{task.name}, seed {seed}")
                try:
                    _train_all(args, task, seed, others, bar)
                except RunFailed as error:
                    ending.failed[f"{task.name}, seed {seed}"] = str(error).strip().splitlines()[0]
                    bar.say(f"{task.name}, seed {seed}: {error}")
    result: dict[str, Any] = {
        "tasks": [task._asdict() for task in tasks],
        "seeds": list(args.seeds),
        "runs": [run for task in tasks for seed in args.seeds for run in _found(args, task, seed, others)],
        "stable_baselines3": _version(args, tasks, others),
        "failed": ending.failed,
        "machine": machine.describe(),
        "date": record.date(),
    }
    record.write_csv(args.out / "tasks.csv", _COLUMNS, result["runs"])
    episodes = functools.partial(_episodes_file, args.out)
    draw = (lambda drawn, path: tasks_picture.plot(drawn, path, episodes)) if args.plot else None
    report.publish("tasks", result, show, out=args.out, as_json=args.json, plot=draw)
    ending.conclude()


# -- what is trained --------------------------------------------------------------------------------------------------


def configured(task: BenchTask, seed: int) -> Config:
    """The settings of `ga3c train ENV --seed N` with the task's limit."""
    limits = {name: value for name in ("steps", "minutes") if (value := getattr(task, name))}
    return settings.resolve(task.env_id, "fast", {"seed": seed, "log": "csv", **limits}, env_args=task.env_args)


def _folder(out: Path, name: str, seed: int, trainer: str) -> Path:
    return out / f"{name.replace(', ', '-').replace(' ', '-')}-{trainer}-{seed}"


def _train_all(args: TasksArguments, task: BenchTask, seed: int, others: Sequence[BaselineName], bar: PhaseBar) -> None:
    """Ours first: the others train for as long."""
    folder = _folder(args.out, task.name, seed, OURS)
    if _read(folder) is None:
        training.train(configured(task, seed), folder, Budget(0.0), ignore_left)
        found = evaluate.evaluate(folder, task.episodes, device="cpu", seed=_EVALUATION_SEED)
        record.write_json(_file(folder), found.as_dict())
        bar.say(f"{task.name}, seed {seed}: {number(found.mean)} after {found.steps:,} steps")
    todo = [name for name in others if _read(_folder(args.out, task.name, seed, name)) is None]
    bar.rename(f"{task.name}, seed {seed}: {' and '.join(todo)}")
    done = training.counters(folder)
    assert done is not None
    # Each uses one core, so they train side by side as far as there are cores.
    with ThreadPoolExecutor(max(1, machine.num_cores())) as pool:
        trained = [
            pool.submit(
                baselines.train,
                BaselineTask(
                    algorithm=name,
                    env_id=task.env_id,
                    seed=seed,
                    steps=done.steps,
                    seconds=done.seconds,
                    episodes=task.episodes,
                    evaluation_seed=_EVALUATION_SEED,
                    out=str(_file(_folder(args.out, task.name, seed, name))),
                    moments=args.moments,
                    env_args=task.env_args,
                ),
            )
            for name in todo
        ]
    for one in trained:
        one.result()


def _seconds(folder: Path) -> float:
    """Seconds of training of one of our runs."""
    done = training.counters(folder)
    return done.seconds if done else 0.0


def _found(
    args: TasksArguments, task: BenchTask, seed: int, others: Sequence[BaselineName]
) -> Iterator[dict[str, Any]]:
    """A row for each evaluation that is on file."""
    about = {"task": task.name, "seed": seed}
    folder = _folder(args.out, task.name, seed, OURS)
    if ours := _read(folder):
        seconds = _seconds(folder)
        yield about | {
            "trainer": OURS,
            "at": "steps",
            "steps": ours["steps"],
            "seconds": seconds,
            "score": ours["mean"],
        }
    for name in others:
        found = _read(_folder(args.out, task.name, seed, name)) or {}
        for at in ("steps", "seconds"):
            if moment := found.get(f"at_{at}"):
                measured = {"steps": moment["steps"], "seconds": moment["seconds"], "score": moment["mean"]}
                yield about | {"trainer": name, "at": at} | measured


def _version(args: TasksArguments, tasks: Sequence[BenchTask], others: Sequence[BaselineName]) -> str | None:
    """The version of Stable-Baselines3 behind the results."""
    found = (
        _read(_folder(args.out, task.name, seed, name)) for task in tasks for seed in args.seeds for name in others
    )
    return next((one["version"] for one in found if one), None)


def _file(folder: Path) -> Path:
    """Where the evaluation of a run is kept."""
    return folder / "evaluation.json"


def _episodes_file(out: Path, task: str, seed: int, trainer: str) -> Path:
    """Where the training episodes of a run are: other trainers have them beside the evaluation."""
    folder = _folder(out, task, seed, trainer)
    return folder / "episodes.csv" if trainer == OURS else _file(folder).with_suffix(".csv")


def _read(folder: Path) -> dict[str, Any] | None:
    try:
        return dict(from_json(_file(folder).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


# -- what people see --------------------------------------------------------------------------------------------------

_COLUMNS = ("task", "trainer", "seed", "at", "steps", "seconds", "score")


def show(result: dict[str, Any], console: Console) -> None:
    title = f"[bold]Tasks[/bold]: mean scores of {len(result['seeds'])} seeds, with the least and the greatest"
    report.head(console, title, result["machine"])
    measured = {(run["trainer"], run["at"]) for run in result["runs"]}
    columns = [(name, at) for at in get_args(Moment) for name in get_args(BaselineName) if (name, at) in measured]
    titles = [name if at == "steps" else f"{name}, our time" for name, at in columns]
    table = report.table("task", "wanted", "ours", "steps", "seconds", *titles)
    for task in result["tasks"]:
        ours = _runs(result, task["name"], OURS, "steps")
        table.add_row(
            task["name"],
            number(task["wanted"]),
            _cell([run["score"] for run in ours]),
            number(cells.mean([run["steps"] for run in ours])),
            number(cells.mean([run["seconds"] for run in ours])),
            *(_cell([run["score"] for run in _runs(result, task["name"], *column)]) for column in columns),
        )
    console.print(table)
    report.note(
        console, "Raw scores, sampled actions. `our time`: after the seconds that our run of the same seed took."
    )


def _runs(result: dict[str, Any], task: str, trainer: str, at: str) -> list[dict[str, Any]]:
    wanted = (task, trainer, at)
    return [run for run in result["runs"] if (run["task"], run["trainer"], run["at"]) == wanted]


def _cell(scores: Sequence[float]) -> str:
    """The mean; of several with the least and the greatest."""
    if not scores:
        return "-"
    ends = f" ({number(min(scores))} to {number(max(scores))})" if len(scores) > 1 else ""
    return number(cells.mean(scores)) + ends
