"""The command line: `ga3c train`, `resume`, `eval`, `play`, `plot`, `envs`, `bench` and `doctor`."""

import os

# Before numpy is imported: the tuner's matrices are small, and threads of OpenBLAS that wait for one another are slower
# than one thread, and take cores from the agents.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import difflib
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich.console import Console
from rich.table import Table

from ga3c import __version__, flags
from ga3c.config import DeviceName, EngineConfig, EnvConfig, LearnConfig, NetConfig, PresetName, RunConfig, Ui
from ga3c.errors import RunFailed, UserError, show_warnings_plainly
from ga3c.run.interrupts import leave

if TYPE_CHECKING:
    from ga3c.run.evaluate import Evaluation, Played


@dataclass(frozen=True)
class TrainArguments:
    """Train an agent. Defaults are those of the preset for this environment and device.

    The run stops at --steps or --minutes, or on Ctrl-C, with a checkpoint; `ga3c resume DIR` continues it."""

    env_id: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENV")] = "ALE/Pong-v5"
    """A Gymnasium id; `ga3c envs` lists them. MODULE:ENV imports MODULE first; ENV may be an id that it registers, or a
    class or function in it."""
    preset: PresetName = "fast"
    """fast: the settings that learn fastest. paper: the settings of the GA3C paper and its code."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """The run's folder; runs/ENV/DATE unless given."""
    ui: Ui = "auto"
    """live: a view of the run; plain: a line every ten seconds; none: warnings only; auto: live on a terminal, else
    plain."""
    run: RunConfig = field(default_factory=RunConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    net: NetConfig = field(default_factory=NetConfig)
    learn: LearnConfig = field(default_factory=LearnConfig)
    env: EnvConfig = field(default_factory=EnvConfig)


@dataclass(frozen=True)
class ResumeArguments:
    """Continue a run from its last checkpoint: weights, optimiser statistics, counters, schedules and curves."""

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """The run's folder."""
    steps: int | None = None
    """A new limit of agent steps for the whole run."""
    minutes: float | None = None
    """A new limit of training minutes for the whole run."""
    device: DeviceName | None = None
    """Continue on another device."""
    ui: Ui = "auto"
    """live, plain, none, or auto: live on a terminal, else plain."""


@dataclass(frozen=True)
class EvalArguments:
    """Play whole episodes with a trained agent and report raw scores with their protocol."""

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """The run's folder."""
    episodes: int = 30
    """How many episodes to play."""
    protocol: Literal["trained", "noop", "sticky"] = "trained"
    """The protocol, for Atari. trained: as in training. noop: the paper's, with up to 30 no-ops at the start. sticky:
    today's for ALE, where the last action is repeated with probability 0.25; it is meant for policies with all 18
    actions, trained with --full-actions."""
    policy: Literal["sample", "greedy"] = "sample"
    """Sample actions from the policy, as in training and in A3C's evaluation, or take the most probable."""
    checkpoint: Literal["last", "best"] = "last"
    """Which checkpoint of the run."""
    seed: int = 1000
    """Seed of the starts and of sampling."""
    device: DeviceName = "auto"
    """Device of the network."""
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
    """Stop after this number of seconds of play (0: whole episodes)."""
    policy: Literal["sample", "greedy"] = "sample"
    """Sample actions from the policy, or take the most probable."""
    checkpoint: Literal["last", "best"] = "last"
    """Which checkpoint of the run."""
    seed: int = 1000
    """Seed of the starts and of sampling."""


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
    """Rows of metrics.csv to average over, about a second each (1: none)."""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("plot.png")
    """The picture: .png, .svg or .pdf."""
    group: bool = True
    """Draw runs that differ only in their seed as one line, with a band from the lowest to the highest."""


@dataclass(frozen=True)
class EnvsArguments:
    """List the environments that can be trained here."""

    pattern: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="PATTERN")] = None
    """Only ids that contain this, or match it if it holds * or ?."""


@dataclass(frozen=True)
class DoctorArguments:
    """Examine this machine: what it has, what limits training, what is wrong, and which settings suit it.

    The exit code is 0 if this machine can train, and 1 if something must be repaired first."""

    env_id: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENV")] = "ALE/Pong-v5"
    """The environment to train on; `ga3c envs` lists them."""
    seconds: float = 20.0
    """Seconds of measurement in all: environments alone, acting, and training (0: none)."""
    device: DeviceName = "auto"
    """Device of the model; auto: CUDA where available, else the CPU."""
    json: bool = False
    """Print one JSON object and nothing else."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.seconds < math.inf:
            raise UserError(f"--seconds is {self.seconds}, but must be 0 or more.")


# Commands import what they need when they run: torch takes seconds to import, and `ga3c --help` does not need it.


def train(arguments: Sequence[str]) -> None:
    args, settings = flags.chosen(TrainArguments, arguments, "ga3c train", tunes=True)
    from ga3c import api

    api.train(args.env_id, preset=args.preset, out=args.out, ui=args.ui, **settings)


def resume(arguments: Sequence[str]) -> None:
    args = tyro.cli(ResumeArguments, args=list(arguments), prog="ga3c resume", config=flags.STYLE)
    from ga3c import api

    api.resume(args.folder, steps=args.steps, minutes=args.minutes, device=args.device, ui=args.ui)


def evaluate(arguments: Sequence[str]) -> None:
    args = tyro.cli(EvalArguments, args=list(arguments), prog="ga3c eval", config=flags.STYLE)
    from ga3c import api
    from ga3c.view import scores

    def run(on_episode: Callable[["Played"], None]) -> "Evaluation":
        return api.evaluate(
            args.folder, args.episodes, policy=args.policy, checkpoint=args.checkpoint, seed=args.seed,
            device=args.device, protocol=args.protocol, on_episode=on_episode,
        )  # fmt: skip

    scores.show(run, args.episodes, args.json)


def play(arguments: Sequence[str]) -> None:
    args = tyro.cli(PlayArguments, args=list(arguments), prog="ga3c play", config=flags.STYLE)
    from ga3c.view import play

    play.show(args.folder, args.video, args.episodes, args.max_seconds, args.policy, args.checkpoint, args.seed)


def plot(arguments: Sequence[str]) -> None:
    args = tyro.cli(PlotArguments, args=list(arguments), prog="ga3c plot", config=flags.STYLE)
    from ga3c.view import plot

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
        raise RunFailed("Something must be repaired before this machine can train; the findings say how.")


COMMANDS: dict[str, tuple[Callable[[Sequence[str]], None], str]] = {
    "train": (train, "train an agent on any Gymnasium environment with discrete actions"),
    "resume": (resume, "continue a run from its last checkpoint"),
    "eval": (evaluate, "play whole episodes and report raw scores"),
    "play": (play, "watch a trained agent, or record a video"),
    "plot": (plot, "draw the learning curves of several runs on one picture"),
    "envs": (environments, "list the environments that can be trained here"),
    "bench": (bench, "measure how fast this machine trains, and where the time goes"),
    "doctor": (doctor, "examine this machine: what limits it, what is wrong, which settings suit it"),
}


def usage() -> str:
    rows = "\n".join(f"  {name:8}{text}" for name, (_, text) in COMMANDS.items())
    return (
        f"ga3c {__version__}: asynchronous actor-critic with agents in processes and one model on the device.\n\n"
        f"usage: ga3c COMMAND [...]\n\n{rows}\n\n`ga3c COMMAND --help` explains each."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns the exit code: 0, 1 if a run failed, 2 if the input was wrong."""
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
    show_warnings_plainly()
    try:
        COMMANDS[words[0]][0](words[1:])
    except UserError as error:
        return _fail(error.command_text, 2)
    except RunFailed as error:
        return _fail(error.command_text, 1)
    except BrokenPipeError:
        # The reader of the output has ended, as `head` does.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return _fail("Interrupted.", 130)
    return 0


def run() -> None:
    """The `ga3c` command. Unlike `python -m ga3c`, an installed script does not look for modules in the current folder,
    where people keep their own environments."""
    sys.path.insert(0, os.getcwd())
    leave(main())


def _fail(text: str, code: int) -> int:
    print(f"ga3c: {text}", file=sys.stderr)
    return code
