"""What a person types: `ga3c train`, `resume`, `eval`, `play`, `plot`, `envs`, `bench` and `doctor`."""

import dataclasses
import difflib
import math
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.table import Table

from ga3c import __version__, flags
from ga3c.config import Config, DeviceName, EngineConfig, EnvConfig, LearnConfig, NetConfig, RunConfig, Ui
from ga3c.errors import RunFailed, UserError


@dataclass(frozen=True)
class TrainArguments:
    """Train an agent. Defaults are those of the preset for this environment and device.

    Stops at --steps or --minutes, or on Ctrl-C with a checkpoint; `ga3c resume DIR` goes on."""

    env_id: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENV")] = "ALE/Pong-v5"
    """A Gymnasium id; `ga3c envs` lists them. MODULE:ENV imports MODULE first."""
    preset: Literal["fast", "paper"] = "fast"
    """fast: what learns fastest here. paper: the GA3C paper's and its code's settings."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """The run's folder; runs/ENV/DATE unless given."""
    ui: Ui = "auto"
    """live: a view of the run; plain: lines; none: nothing; auto: live on a terminal, else plain."""
    run: RunConfig = field(default_factory=RunConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    net: NetConfig = field(default_factory=NetConfig)
    learn: LearnConfig = field(default_factory=LearnConfig)
    env: EnvConfig = field(default_factory=EnvConfig)


@dataclass(frozen=True)
class ResumeArguments:
    """Go on with a run where its last checkpoint left it: weights, statistics, counters, schedules and curves."""

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """The run's folder."""
    steps: int | None = None
    """A new limit of agent steps in all, for a run that is to go further."""
    minutes: float | None = None
    """A new limit of training minutes in all."""
    device: DeviceName | None = None
    """Go on on another device."""
    ui: Ui = "auto"
    """live, plain, none, or auto: live on a terminal, else plain."""


@dataclass(frozen=True)
class EvalArguments:
    """Play whole episodes with a trained agent and report raw game scores, with the rules they were made under."""

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """The run's folder."""
    episodes: int = 30
    """How many episodes to play."""
    protocol: Literal["trained", "noop", "sticky"] = "trained"
    """The rules, for Atari: those of the training; noop, the paper's, with up to 30 no-ops at first; or sticky, today's
    for ALE, with actions that stick by 0.25. It asks for the full action set, which a policy has if it was trained with
    --full-actions."""
    policy: Literal["sample", "greedy"] = "sample"
    """Draw actions from the policy, as in training and in A3C's evaluation, or take the likeliest."""
    checkpoint: Literal["last", "best"] = "last"
    """Which checkpoint of the run."""
    seed: int = 1000
    """Seeds the starts and the draws."""
    device: DeviceName = "auto"
    """Where the network runs."""
    json: bool = False
    """Print one JSON object and nothing else."""


@dataclass(frozen=True)
class PlayArguments:
    """Watch a trained agent: in a window, or as a video with --video."""

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """The run's folder."""
    video: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Record to this .mp4 (or .gif) file instead of showing a window."""
    episodes: int = 1
    """How many episodes."""
    max_seconds: float = 0.0
    """Stop after so many seconds of play (0: whole episodes)."""
    policy: Literal["sample", "greedy"] = "sample"
    """Draw actions from the policy, or take the likeliest."""
    checkpoint: Literal["last", "best"] = "last"
    """Which checkpoint of the run."""
    seed: int = 1000
    """Seeds the starts and the draws."""


@dataclass(frozen=True)
class PlotArguments:
    """Draw the learning curves of one or several runs on one picture."""

    folders: Annotated[
        tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN [RUN ...]", help_behavior_hint="")
    ]
    """The runs' folders."""
    x: Literal["time", "steps", "frames"] = "time"
    """Draw against minutes of training, agent steps or frames."""
    y: Annotated[str, tyro.conf.arg(metavar="COLUMN")] = "score"
    """score, entropy, pps, tps, lag or any other column of metrics.csv."""
    smooth: int = 1
    """Mean over so many rows of metrics.csv, about a second each (1: as they are)."""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("plot.png")
    """The picture: .png, .svg or .pdf."""
    group: bool = True
    """Runs that differ only in their seed are one line, with a band from the least to the most of them."""


@dataclass(frozen=True)
class EnvsArguments:
    """List the environments that can be trained here."""

    pattern: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="PATTERN")] = None
    """Only ids that contain this, or match it if it holds * or ?."""


@dataclass(frozen=True)
class DoctorArguments:
    """Look at this machine: what it has, what limits it, what is wrong and what to do, and the settings it suggests.

    Exits with 0 if it can train, and with 1 if something must be repaired first."""

    env_id: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENV")] = "ALE/Pong-v5"
    """What is to be trained; `ga3c envs` lists what can be."""
    seconds: float = 20.0
    """Seconds measured in all, of environments alone, acting and training (0: nothing is measured)."""
    device: DeviceName = "auto"
    """Where the model is to live: auto takes CUDA where there is one."""
    json: bool = False
    """Print one JSON object and nothing else."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.seconds < math.inf:
            raise UserError(f"--seconds is {self.seconds}, but must be 0 or more.")


# Commands import what they need when they run: torch takes seconds, and `ga3c --help` or a typo need none of it.


def train(arguments: Sequence[str]) -> None:
    from ga3c import session

    args = parse_train(arguments)
    config = Config(args.env_id, args.preset, args.env, args.net, args.learn, args.engine, args.run)
    session.train(config, args.out, args.ui)


_FIXED = ("agents", "predictors", "trainers", "delay")
"""Who names one of these numbers wants it as it is; else a run looks for them by itself."""


def parse_train(arguments: Sequence[str]) -> TrainArguments:
    """The settings of a run: the preset's, and over them what was typed."""

    def adjust(first: TrainArguments, defaults: TrainArguments) -> TrainArguments:
        # A preset's number of steps is for runs that are given no limit of their own.
        run = dataclasses.replace(defaults.run, steps=0) if first.run.minutes else defaults.run
        engine = defaults.engine
        if first.engine.system == "ga3c" and not flags.has_typed(arguments, *_FIXED):
            engine = dataclasses.replace(engine, tune="on")
        return dataclasses.replace(defaults, run=run, engine=engine)

    return flags.parse(TrainArguments, arguments, "ga3c train", adjust=adjust)


def resume(arguments: Sequence[str]) -> None:
    args = tyro.cli(ResumeArguments, args=list(arguments), prog="ga3c resume", config=flags.STYLE)
    from ga3c import session

    session.resume(args.folder, args.steps, args.minutes, args.device, args.ui)


def evaluate(arguments: Sequence[str]) -> None:
    args = tyro.cli(EvalArguments, args=list(arguments), prog="ga3c eval", config=flags.STYLE)
    from ga3c import evaluate

    evaluate.report(
        args.folder, args.episodes, args.policy, args.checkpoint, args.seed, args.device, args.json, args.protocol
    )


def play(arguments: Sequence[str]) -> None:
    args = tyro.cli(PlayArguments, args=list(arguments), prog="ga3c play", config=flags.STYLE)
    from ga3c import play

    play.show(args.folder, args.video, args.episodes, args.max_seconds, args.policy, args.checkpoint, args.seed)


def plot(arguments: Sequence[str]) -> None:
    args = tyro.cli(PlotArguments, args=list(arguments), prog="ga3c plot", config=flags.STYLE)
    from ga3c import plot

    plot.show(args.folders, args.x, args.y, args.smooth, args.out, args.group)


def environments(arguments: Sequence[str]) -> None:
    args = tyro.cli(EnvsArguments, args=list(arguments), prog="ga3c envs", config=flags.STYLE)
    from ga3c.envs import catalog

    entries = catalog.list_ids(args.pattern)
    if not entries:
        near = ", ".join(catalog.suggest(args.pattern or ""))
        raise UserError(f"No environment matches {args.pattern!r}" + (f"; near it: {near}." if near else "."))
    table = Table(box=None, pad_edge=False)
    for title in ("environment", "kind", "note"):
        table.add_column(title, no_wrap=title == "environment")
    for entry in entries:
        table.add_row(entry.id, entry.kind, entry.note)
    Console().print(table)


def bench(arguments: Sequence[str]) -> None:
    from ga3c import bench

    bench.run(arguments)


def doctor(arguments: Sequence[str]) -> None:
    args = tyro.cli(DoctorArguments, args=list(arguments), prog="ga3c doctor", config=flags.STYLE)
    from ga3c.bench import record
    from ga3c.doctor import command, report

    found = command.examine(args.env_id, args.device, args.seconds)
    if args.json:
        print(record.to_json(found.as_dict()))
    else:
        report.show(found, Console())
    if not found.can_train:
        raise RunFailed("Something must be repaired before anything can be trained here; the findings say what to do.")


COMMANDS: dict[str, tuple[Callable[[Sequence[str]], None], str]] = {
    "train": (train, "train an agent on any Gymnasium environment with discrete actions"),
    "resume": (resume, "go on with a run from its last checkpoint"),
    "eval": (evaluate, "play whole episodes and report raw scores"),
    "play": (play, "watch a trained agent, or record a video"),
    "plot": (plot, "draw the learning curves of several runs on one picture"),
    "envs": (environments, "list the environments that can be trained here"),
    "bench": (bench, "measure how fast this machine trains, and where the time goes"),
    "doctor": (doctor, "look at this machine: what limits it, what is wrong, which settings suit it"),
}


def usage() -> str:
    rows = "\n".join(f"  {name:8}{text}" for name, (_, text) in COMMANDS.items())
    return (
        f"ga3c {__version__}: asynchronous actor-critic with agents in processes and one model on the device.\n\n"
        f"usage: ga3c COMMAND [...]\n\n{rows}\n\n`ga3c COMMAND --help` explains each."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and gives the exit code: 0, 1 when a run failed, 2 when the input was wrong."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help"):
        print(usage())
        return 0 if words else 2
    if words[0] in ("-V", "--version"):
        print(__version__)
        return 0
    if words[0] not in COMMANDS:
        near = difflib.get_close_matches(words[0], COMMANDS)
        hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(COMMANDS)}."
        return _fail(f"There is no command {words[0]!r}{hint}", 2)
    try:
        COMMANDS[words[0]][0](words[1:])
    except UserError as error:
        return _fail(str(error), 2)
    except RunFailed as error:
        return _fail(str(error), 1)
    except BrokenPipeError:
        # Whoever read the output has gone, as `head` does; what is left of it has no reader.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return _fail("Interrupted.", 130)
    return 0


def run() -> None:
    """The `ga3c` command. An installed script does not look for modules in the current folder, as `python -m` does, but
    that is where people keep environments of their own."""
    sys.path.insert(0, os.getcwd())
    sys.exit(main())


def _fail(text: str, code: int) -> int:
    print(f"ga3c: {text}", file=sys.stderr)
    return code
