"""The flags of every command, each with its help."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from ga3c.config import Config, DeviceName, EngineConfig, EnvConfig, LearnConfig, NetConfig, PresetName, RunConfig, Ui
from ga3c.errors import UserError

_Port = Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: 8300 or the next)")]


@dataclass(frozen=True)
class TrainArguments:
    """Train an agent. Defaults are those of the preset for this environment and device.

    The run stops at --steps or --minutes, or on Ctrl-C, with a checkpoint; `ga3c resume DIR` continues it."""

    env_id: Annotated[
        tyro.conf.Positional[str | None],
        tyro.conf.arg(metavar="ENV", help_behavior_hint=f"(default: {Config.env_id})"),
    ] = None
    """A Gymnasium id; `ga3c envs` lists them. MODULE:ENV imports MODULE first; ENV may be an id that it registers, or a
    class or function in it."""
    env_args: Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY=VALUE ...", help_behavior_hint="")] = ()
    """Arguments of the environment, for `gymnasium.make`: numbers, true, false, null, lists as in TOML, or texts."""
    preset: Annotated[
        PresetName | None,
        tyro.conf.arg(metavar="{fast,paper}", help_behavior_hint=f"(default: {Config.preset})"),
    ] = None
    """fast: the settings that learn fastest. paper: the settings of the GA3C paper and its code."""
    config_file: Annotated[Path | None, tyro.conf.arg(name="config", metavar="FILE", help_behavior_hint="")] = None
    """Settings from a .toml file, such as a run's config.toml; it may have any part of them. Flags and ENV replace what
    it says."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: runs/ENV/DATE)")] = None
    """The run's folder."""
    ui: Ui = "auto"
    """live: a view of the run; plain: a line every ten seconds; none: warnings only; auto: live on a terminal, else
    plain."""
    web: bool = False
    """Open the run in the browser: curves, the engine, the agents at play, ways to change it (needs the extra web)."""
    web_port: _Port = None
    """The port of that page's address (0: any that is free)."""
    web_readonly: bool = False
    """Pages in the browser cannot change the run."""
    run: RunConfig = field(default_factory=RunConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    net: NetConfig = field(default_factory=NetConfig)
    learn: LearnConfig = field(default_factory=LearnConfig)
    env: EnvConfig = field(default_factory=EnvConfig)


@dataclass(frozen=True)
class SweepArguments:
    """Search for settings that learn several environments best. Flags of a run fix a setting for all trials.

    A trial is one choice of settings, and trains a run for each environment and seed. Ctrl-C stops the sweep, and the
    same command continues it. The best settings are in best.toml, for `ga3c train --config`."""

    env_ids: Annotated[
        tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="ENV [ENV ...]", help_behavior_hint="")
    ]
    """The environments, each a Gymnasium id or MODULE:ENV."""
    env_args: Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY=VALUE ...", help_behavior_hint="")] = ()
    """Arguments of every environment, for `gymnasium.make`: numbers, true, false, null, lists as in TOML, or texts."""
    preset: PresetName = "fast"
    """The settings that are neither fixed nor searched; the first trial has its values of those that are searched."""
    search: Annotated[
        tyro.conf.UseAppendAction[tuple[str, ...]],
        tyro.conf.arg(metavar="NAME=WHAT", help_behavior_hint="(may be repeated; default: nine that matter most)"),
    ] = ()
    """A setting to search, by its name: learning_rate=1e-4:1e-2:log (a range, here of magnitudes), reuse=1:4, or
    rollout=8,16,32 (choices). Only what is named is searched."""
    steps: int = 0
    """Agent steps of each run (0: the preset's length, unless --minutes is given)."""
    minutes: float = 0.0
    """Minutes of training of each run (0: no limit of time)."""
    trials: int = 50
    """How many choices of settings are tried in all."""
    jobs: int = 0
    """Runs that train at the same time, each on its share of the cores (0: one for every four cores)."""
    seeds: int = 1
    """Runs of each trial and environment, with seeds from --seed on; their mean counts."""
    seed: int = 1
    """The first seed of the runs."""
    prune_below: float = 0.5
    """Stop a trial early whose scores are ahead of less than this share of the others' at the same point of training
    (0.5: the median rule; 0: stop none)."""
    prune_after: int = 5
    """How many others must have reached that point."""
    hang_seconds: float = 300.0
    """Seconds without a step after which a run is killed and its trial fails."""
    budget: float = 0.0
    """Stop after this number of seconds; the same command continues (0: no limit)."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: sweeps/ENV)")] = None
    """The sweep's folder."""
    plot: bool = True
    """Draw the picture (needs matplotlib)."""
    json: bool = False
    """Print one JSON object and nothing else."""
    engine: EngineConfig = field(default_factory=EngineConfig)
    net: NetConfig = field(default_factory=NetConfig)
    learn: LearnConfig = field(default_factory=LearnConfig)
    env: EnvConfig = field(default_factory=EnvConfig)

    @property
    def env_id(self) -> str:
        """The first environment, whose defaults `--help` shows."""
        return self.env_ids[0] if self.env_ids else Config.env_id


@dataclass(frozen=True)
class ResumeArguments:
    """Continue a run from its last checkpoint: weights, optimiser statistics, counters, schedules and curves."""

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """The run's folder."""
    steps: Annotated[int | None, tyro.conf.arg(help_behavior_hint="")] = None
    """A new limit of agent steps for the whole run; given alone, it is the only limit."""
    minutes: Annotated[float | None, tyro.conf.arg(help_behavior_hint="")] = None
    """A new limit of training minutes for the whole run; given alone, it is the only limit."""
    device: Annotated[DeviceName | None, tyro.conf.arg(help_behavior_hint="")] = None
    """Continue on another device."""
    ui: Ui = "auto"
    """live, plain, none, or auto: live on a terminal, else plain."""
    web: bool = False
    """Open the run in the browser: curves, the engine, the agents at play, ways to change it (needs the extra web)."""
    web_port: _Port = None
    """The port of that page's address (0: any that is free)."""
    web_readonly: bool = False
    """Pages in the browser cannot change the run."""
    trust: bool = False
    """Import the modules of the run's environment, wrappers and network without a question."""


@dataclass(frozen=True)
class CtlArguments:
    """Steer a run that trains, from another terminal. It answers after it has done what it was asked.

    set NAME=VALUE ...: agents, predictors and trainers (this ends tuning), learning_rate and entropy_weight (a number
    that holds from now on, or schedule), tuning (on or off). pause, resume, checkpoint, stop: what they say. trace:
    writes trace.json now, in a run with --profile. status: what runs, and what can be set. What is set also holds after
    `ga3c resume`. The exit code is 0 if it was done, 1 if the run refuses or does not listen, 2 if the words are
    wrong."""

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The run's folder."""
    words: Annotated[
        tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="COMMAND [NAME=VALUE ...]", help_behavior_hint="")
    ]
    """set, pause, resume, checkpoint, stop, trace or status."""
    json: bool = False
    """Print the answer as one JSON object."""


@dataclass(frozen=True)
class EvalArguments:
    """Play whole episodes with a trained agent and report raw scores with their protocol."""

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """The run's folder, or the name of a trained agent."""
    episodes: int = 30
    """How many episodes to play."""
    protocol: Literal["trained", "noop", "sticky"] = "trained"
    """The protocol, for Atari. trained: as in training. noop: the paper's, with up to 30 no-ops at the start. sticky:
    today's for ALE, where the last action is repeated with probability 0.25; it is meant for policies with all 18
    actions, trained with --full-actions."""
    policy: Literal["sample", "greedy"] = "sample"
    """Sample actions from the policy, as in training and in A3C's evaluation, or take the most probable."""
    checkpoint: Annotated[str, tyro.conf.arg(metavar="WHICH")] = "last"
    """Which checkpoint of the run: last, best, its number of steps, or its file."""
    seed: int = 1000
    """Seed of the starts and of sampling."""
    device: DeviceName = "auto"
    """Device of the network."""
    json: bool = False
    """Print one JSON object and nothing else."""
    trust: bool = False
    """Import the modules of the run's environment, wrappers and network without a question."""


@dataclass(frozen=True)
class PlayArguments:
    """Watch a trained agent: in a window, or as a video with --video."""

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """The run's folder, or the name of a trained agent."""
    video: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """Record to this .mp4 (or .gif) file instead of showing a window."""
    episodes: int = 1
    """How many episodes."""
    max_seconds: float = 0.0
    """Stop after this number of seconds of play (0: whole episodes)."""
    policy: Literal["sample", "greedy"] = "sample"
    """Sample actions from the policy, or take the most probable."""
    checkpoint: Annotated[str, tyro.conf.arg(metavar="WHICH")] = "last"
    """Which checkpoint of the run: last, best, its number of steps, or its file."""
    seed: int = 1000
    """Seed of the starts and of sampling."""
    trust: bool = False
    """Import the modules of the run's environment, wrappers and network without a question."""


@dataclass(frozen=True)
class ExportArguments:
    """Write a policy as a folder that plays without this project: the model, what must be known of it, and an example.

    The model computes with 32 bits. It is compared with the network before it is written."""

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The run's folder, or the name of a trained agent."""
    format: Literal["onnx", "torchscript", "safetensors"] = "onnx"
    """onnx: for ONNX Runtime and others. torchscript: for torch alone. safetensors: the weights and what they are, for
    a network of your own."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: exports/ENV-FORMAT)")] = None
    """The folder to write, new or empty."""
    checkpoint: Annotated[str, tyro.conf.arg(metavar="WHICH")] = "last"
    """Which checkpoint of the run: last, best, its number of steps, or its file."""
    trust: bool = False
    """Import the modules of the run's environment, wrappers and network without a question."""


@dataclass(frozen=True)
class CardArguments:
    """Write a model card: scores with their protocol, the command, the settings and the learning curve.

    Scores are of an evaluation: the one in the run's evaluation.json if it is of the same checkpoint and has as many
    episodes, else a new one, which is kept there."""

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The run's folder."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="(default: README.md in RUN)")] = None
    """The card, a .md file; pictures go to the same folder."""
    episodes: int = 30
    """Episodes of the evaluation."""
    checkpoint: Annotated[str, tyro.conf.arg(metavar="WHICH")] = "last"
    """Which checkpoint of the run: last, best, its number of steps, or its file."""
    video: bool = False
    """Record an episode as replay.mp4 beside the card."""
    trust: bool = False
    """Import the modules of the run's environment, wrappers and network without a question."""


@dataclass(frozen=True)
class PushArguments:
    """Upload a policy with its card to the Hugging Face Hub. It needs the package huggingface_hub and a login there.

    What is uploaded is a run's folder with one checkpoint, without the optimiser's statistics: `ga3c.load` reads it."""

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The run's folder."""
    repository: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="REPO")]
    """The repository, as OWNER/NAME; it is made if there is none."""
    private: bool = False
    """Make a new repository private."""
    episodes: int = 30
    """Episodes of the evaluation for the card."""
    checkpoint: Annotated[str, tyro.conf.arg(metavar="WHICH")] = "last"
    """Which checkpoint of the run: last, best, its number of steps, or its file."""
    video: bool = False
    """Record an episode for the card."""
    trust: bool = False
    """Import the modules of the run's environment, wrappers and network without a question."""


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
    """Rows of metrics.csv to average over, each a second apart in the first hour (1: none)."""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("plot.png")
    """The picture: .png, .svg or .pdf."""
    group: bool = True
    """Draw runs that differ only in their seed as one line, with a band from the lowest to the highest."""


@dataclass(frozen=True)
class ReportArguments:
    """Write runs, or results of `ga3c bench`, as one HTML file to mail or to publish: curves, the engine as a drawing,
    what limited it, where the time went, the tuner, settings, events and evaluations.

    The file needs no network and no other file, and has no scripts."""

    folders: Annotated[
        tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN [RUN ...]", help_behavior_hint="")
    ]
    """The folders of runs, or of a benchmark's results such as bench/lag/DATE."""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("report.html")
    """The report, a .html file."""


@dataclass(frozen=True)
class WebArguments:
    """Watch runs in the browser, those that go on and those that are over: curves, the engine as a drawing, where the
    time goes, the tuner, the agents at play, and ways to change a run. It needs the extra web.

    It prints an address with a token. Only programs of this machine reach it, unless --host says otherwise; from
    another machine use an SSH tunnel, as in ssh -L 8300:127.0.0.1:8300 MACHINE."""

    folders: Annotated[
        tyro.conf.Positional[tuple[Path, ...]],
        tyro.conf.arg(metavar="FOLDER [FOLDER ...]", help_behavior_hint="(default: runs)"),
    ] = (Path("runs"),)
    """Runs, or folders that hold runs at any depth."""
    port: _Port = None
    """The port to listen on (0: any that is free)."""
    host: Annotated[str, tyro.conf.arg(metavar="NAME")] = "127.0.0.1"
    """The address to listen on, and the name by which browsers may call it (0.0.0.0: all addresses of this machine)."""
    web_readonly: bool = False
    """Pages cannot change anything."""
    open: bool = False
    """Open the address in a browser of this machine."""


@dataclass(frozen=True)
class EnvsArguments:
    """List the environments that can be trained here."""

    pattern: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="PATTERN", help_behavior_hint="")] = None
    """Only ids that contain this, or match it if it holds * or ?. MODULE:PATTERN imports MODULE first."""


@dataclass(frozen=True)
class CheckArguments:
    """Check an environment: play it at random, train it for some seconds, and say what is wrong or doubtful.

    The exit code is 0 if it can be trained, and 1 if something must be repaired first."""

    env_id: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENV")]
    """A Gymnasium id, or MODULE:ENV."""
    env_args: Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY=VALUE ...", help_behavior_hint="")] = ()
    """Arguments of the environment, for `gymnasium.make`: numbers, true, false, null, lists as in TOML, or texts."""
    wrap: Annotated[tuple[str, ...], tyro.conf.arg(metavar="MODULE:NAME ...", help_behavior_hint="")] = ()
    """Wrappers around the environment, the innermost first."""
    seconds: float = 30.0
    """Seconds of training (0: none)."""
    play_seconds: float = 5.0
    """Seconds of random play, of at most 12,000 steps."""
    device: DeviceName = "auto"
    """Device of the model; auto: CUDA where available, else the CPU."""
    json: bool = False
    """Print one JSON object and nothing else."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.seconds < math.inf:
            raise UserError(f"--seconds is {self.seconds}, but must be 0 or more.")
        if not 0.0 < self.play_seconds < math.inf:
            raise UserError(f"--play-seconds is {self.play_seconds}, but must be above 0.")


@dataclass(frozen=True)
class DoctorArguments:
    """Examine this machine: what it has, what limits training, what is wrong, and which settings suit it.

    The exit code is 0 if this machine can train, and 1 if something must be repaired first."""

    env_id: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENV")] = "ALE/Pong-v5"
    """The environment to train on; `ga3c envs` lists them."""
    env_args: Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY=VALUE ...", help_behavior_hint="")] = ()
    """Arguments of the environment, for `gymnasium.make`: numbers, true, false, null, lists as in TOML, or texts."""
    wrap: Annotated[tuple[str, ...], tyro.conf.arg(metavar="MODULE:NAME ...", help_behavior_hint="")] = ()
    """Wrappers around the environment, the innermost first."""
    seconds: float = 20.0
    """Seconds of measurement in all: environments alone, acting, and training (0: none)."""
    device: DeviceName = "auto"
    """Device of the model; auto: CUDA where available, else the CPU."""
    json: bool = False
    """Print one JSON object and nothing else."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.seconds < math.inf:
            raise UserError(f"--seconds is {self.seconds}, but must be 0 or more.")


@dataclass(frozen=True)
class CompletionArguments:
    """Print a script that lets a shell complete commands, flags and their choices. Load it where the shell starts:

    bash: source <(ga3c completion bash); zsh: source <(ga3c completion zsh); fish: ga3c completion fish | source."""

    shell: tyro.conf.Positional[Literal["bash", "zsh", "fish"]]
    """The shell."""
