"""How fast a setting acts and trains, beside what ale-py's own vector environment steps and preprocesses here."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Table

from ga3c import device, envs, flags, machine, nets
from ga3c.bench import cells, harness, record
from ga3c.bench.ceiling import Ceiling, Steppers
from ga3c.bench.harness import Measurement
from ga3c.bench.progress import PhaseBar
from ga3c.config import Config, EngineConfig, EnvConfig, LearnConfig, NetConfig
from ga3c.envs.spec import EnvSpec
from ga3c.errors import UserError
from ga3c.sinks.plain import count, number

Phase = Literal["ceiling", "acting", "training"]
Figures = Mapping[str, float]

PHASES: tuple[Phase, ...] = ("ceiling", "acting", "training")
_COLUMNS = ("phase", "repeat", *(f.name for f in dataclasses.fields(Measurement)))


@dataclass(frozen=True)
class ThroughputArguments:
    """Measure predictions (PPS) and updates (TPS) per second in steady state, on the same cores one after the other:
    the ceiling (ale-py's C++ vector environment with random actions and no network), acting alone, and training.

    Settings that are not given are the preset's for this environment and device."""

    env_id: Annotated[str, tyro.conf.arg(name="env", metavar="ENV")] = "ALE/Pong-v5"
    """A Gymnasium id; `ga3c envs` lists them."""
    preset: Literal["fast", "paper"] = "fast"
    """fast: what learns fastest here. paper: the GA3C paper's and its code's settings."""
    seconds: float = 20.0
    """Seconds measured of each of the three, after a warm-up."""
    repeats: int = 1
    """Measure the three in turn so many times, and report medians with the least and the most."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Also write throughput.json and throughput.csv to this folder."""
    json: bool = False
    """Print one JSON object and nothing else."""
    engine: EngineConfig = field(default_factory=EngineConfig)
    net: NetConfig = field(default_factory=NetConfig)
    learn: LearnConfig = field(default_factory=LearnConfig)
    env: EnvConfig = field(default_factory=EnvConfig)

    def __post_init__(self) -> None:
        if not 0.0 < self.seconds < math.inf:
            raise UserError(f"--seconds is {self.seconds}, but must be above 0.")
        if not 1 <= self.repeats <= 1000:
            raise UserError(f"--repeats is {self.repeats}, but must be between 1 and 1000.")


@dataclass(frozen=True)
class Trial:
    """One phase, measured once."""

    phase: Phase
    repeat: int
    """From 1."""
    figures: Figures


@dataclass(frozen=True)
class Throughput:
    """All that was measured, with what one must know to repeat it."""

    config: Config
    frames_per_step: int
    seconds: float
    trials: tuple[Trial, ...]
    ceiling: Ceiling | None
    """The best of all repeats, for its size."""
    machine: machine.Machine
    date: str

    def values(self, phase: Phase, name: str) -> list[float]:
        """A figure of a phase, by repeat."""
        return [trial.figures.get(name, math.nan) for trial in self.trials if trial.phase == phase]

    def ratios(self, phase: Phase) -> list[float]:
        """A phase's steps per second as a share of the ceiling's in the same repeat."""
        pairs = zip(self.values(phase, "pps"), self.values("ceiling", "pps"), strict=True)
        return [ours / ceiling for ours, ceiling in pairs]

    @property
    def restarts(self) -> list[float]:
        return [trial.figures.get("restarts", 0) for trial in self.trials]

    def as_dict(self) -> dict[str, Any]:
        """For JSON. Figures that are not named after a phase are those of training."""

        def training(*names: str) -> dict[str, float]:
            return {name: cells.median(self.values("training", name)) for name in names}

        rss = [sum(pair) for pair in zip(*(self.values("training", n) for n in _MEMORY), strict=True)]
        speeds = {f"{phase}_pps": self.values(phase, "pps") for phase in PHASES}
        speeds |= {"tps": self.values("training", "tps")}
        speeds |= {"ratio": self.ratios("training"), "acting_ratio": self.ratios("acting")}
        return {
            **{name: cells.median(values) for name, values in speeds.items()},
            **training("frames_per_second", "lag", "lag_max", "prediction_batch", "wait_ms"),
            **training("preparing_ms", "predicting_ms", "replying_ms", "update_ms", "update_device_ms"),
            **training("update_overhead"),
            **training("gpu_utilisation", "gpu_memory_mb"),
            "cpu": {name.removeprefix("cpu_"): value for name, value in training(*_CPU).items()},
            "rss_mb": cells.median(rss),
            **training(*_MEMORY),
            "time": training(*(name for _, names in _SHARES for name, _ in names)),
            "restarts": sum(self.restarts),
            "spread": {name: cells.spread(values) for name, values in speeds.items()},
            "ceiling": dataclasses.asdict(self.ceiling) if self.ceiling else None,
            "trials": [{"phase": t.phase, "repeat": t.repeat, **t.figures} for t in self.trials],
            "machine": self.machine,
            "config": dataclasses.asdict(self.config),
            "seconds": self.seconds,
            "repeats": len(self.values("training", "pps")),
            "date": self.date,
        }


_CPU = ("cpu_agents", "cpu_predictors", "cpu_trainers", "cpu_rest")
_MEMORY = ("rss_server_mb", "rss_agents_mb")
_SHARES = (
    ("agents", (("agent_stepping", "stepping"), ("agent_waiting", "waiting"))),
    (
        "predictors",
        (
            ("predictor_predicting", "predicting"),
            ("predictor_waiting", "waiting"),
            ("predictor_blocked", "held back"),
        ),
    ),
    ("trainers", (("trainer_training", "training"), ("trainer_waiting", "waiting"))),
)
"""Where the time of each stage goes: the figure, and what it is called."""


def main(arguments: Sequence[str]) -> None:
    args = flags.parse(ThroughputArguments, arguments, "ga3c bench throughput")
    if args.engine.system != "ga3c":
        raise UserError(
            f"--system is {args.engine.system}, but `ga3c bench throughput` takes GA3C apart: acting without training "
            "is no part of A3C. What A3C reaches is in the metrics.csv of `ga3c train`."
        )
    if args.engine.tune != "off":
        raise UserError(f"--tune is {args.engine.tune}, but what is measured must stand still: leave it out.")
    config = Config(args.env_id, args.preset, args.env, args.net, args.learn, args.engine)
    if args.out is not None:
        record.check_folder(args.out)
    found = measure(config, args.seconds, args.repeats)
    if args.out is not None:
        rows = ({"phase": t.phase, "repeat": t.repeat, **t.figures} for t in found.trials)
        record.write_csv(args.out / "throughput.csv", _COLUMNS, rows)
        record.write(args.out / "throughput.json", record.to_json(found.as_dict()) + "\n")
    if args.json:
        print(record.to_json(found.as_dict()))
    else:
        show(found, Console())


def measure(config: Config, seconds: float, repeats: int) -> Throughput:
    """Measures the three phases in turn, over and over: what changes with time on a machine meets all of them."""
    where = device.choose(config.engine.device)
    spec = envs.describe(config.env_id, config.env, raw_screens=where.type == "cuda")
    config = record.resolved(config, spec, where)
    nets.build(spec, config.net)  # a net that does not suit the environment is refused before anything is measured
    trials: list[Trial] = []
    best: Ceiling | None = None
    with Steppers(config.env_id, config.env, machine.num_cores(), seconds) as steppers:
        lengths = (steppers.expected, harness.expected(seconds), harness.expected(seconds))
        with PhaseBar(lengths * repeats) as bar:
            for repeat in range(1, repeats + 1):
                bar.begin(_title("ceiling", repeat, repeats))
                ceiling = steppers.measure(bar.left)
                if repeat == repeats:
                    steppers.close()
                if ceiling is None and repeat == 1:
                    bar.say(f"There is no ceiling to compare with: {steppers.problem}.")
                best = max(filter(None, (best, ceiling)), key=lambda c: c.pps, default=None)
                trials.append(Trial("ceiling", repeat, _ceiling_figures(ceiling, spec)))
                for phase in PHASES[1:]:
                    bar.begin(_title(phase, repeat, repeats))
                    one = harness.measure(config, seconds, train=phase == "training", on_left=bar.left)
                    trials.append(Trial(phase, repeat, vars(one)))
    return Throughput(config, spec.frames_per_step, seconds, tuple(trials), best, machine.describe(), record.date())


def _title(phase: Phase, repeat: int, repeats: int) -> str:
    name = {"ceiling": "Ceiling", "acting": "Acting only", "training": "Training"}[phase]
    return f"{name} ({repeat} of {repeats})" if repeats > 1 else name


def _ceiling_figures(ceiling: Ceiling | None, spec: EnvSpec) -> Figures:
    if ceiling is None:
        return {}
    frames = ceiling.pps * spec.frames_per_step
    return {"seconds": ceiling.seconds, "pps": ceiling.pps, "frames_per_second": frames, "cpu_agents": ceiling.cpu}


# -- what people see --------------------------------------------------------------------------------------------------


def show(found: Throughput, console: Console) -> None:
    config = found.config
    engine, learn = config.engine, config.learn
    net = f"{config.net.net} (stride {config.net.stride})" if config.net.net == "large" else config.net.net
    console.print(
        f"[bold]{config.env_id}[/bold]: preset {config.preset}, net {net} on {engine.device}; "
        f"{count(engine.agents, 'agent')} in {count(engine.workers, 'process')}, "
        f"{count(engine.predictors, 'predictor')}, {count(engine.trainers, 'trainer')}; "
        f"updates of {learn.batch_rollouts} x {learn.rollout} steps",
        highlight=False,
    )
    console.print(machine.summary(found.machine), style="dim", highlight=False)
    table = Table(show_edge=False, pad_edge=False)
    table.add_column("")
    for title in ("ceiling", "acting only", "training"):
        table.add_column(title, justify="right", no_wrap=True)
    for section in _sections(found):
        for row in section:
            if any(cell != "-" for cell in row[1:]):  # without a GPU there is nothing to say of one
                table.add_row(*row)
        table.add_section()
    console.print(table)
    console.print(_ceiling_line(found), style="dim", highlight=False)


def _sections(found: Throughput) -> list[list[tuple[str, ...]]]:
    def row(title: str, name: str, form: Callable[[float], str] = number) -> tuple[str, ...]:
        return (title, *(cells.cell(found.values(phase, name), form) for phase in PHASES))

    ratios = (cells.cell(found.ratios(phase), cells.share) for phase in PHASES[1:])
    speed = [
        row("PPS", "pps"),
        row("frames/s", "frames_per_second"),
        row("TPS", "tps"),
        ("of the ceiling", "", *ratios),
    ]
    flow = [
        row("prediction batch", "prediction_batch"),
        row("policy lag, updates", "lag"),
        row("wait for a prediction", "wait_ms", cells.milliseconds),
        row("prediction: preparing", "preparing_ms", cells.milliseconds),
        row("prediction: network", "predicting_ms", cells.milliseconds),
        row("prediction: replying", "replying_ms", cells.milliseconds),
        row("update", "update_ms", cells.milliseconds),
        row("update: on the device", "update_device_ms", cells.milliseconds),
        row("update: overhead", "update_overhead", cells.share),
    ]
    used = [
        row("cores: agents", "cpu_agents", cells.cores),
        row("cores: predictors", "cpu_predictors", cells.cores),
        row("cores: trainers", "cpu_trainers", cells.cores),
        row("cores: rest of the server", "cpu_rest", cells.cores),
        row("memory: server", "rss_server_mb", cells.megabytes),
        row("memory: agents", "rss_agents_mb", cells.megabytes),
        row("GPU in use", "gpu_utilisation", cells.share),
        row("GPU memory", "gpu_memory_mb", cells.megabytes),
    ]
    times = [row(f"{stage} {word}", name, cells.share) for stage, names in _SHARES for name, word in names]
    restarts = [row("restarts of agent processes", "restarts")] if any(found.restarts) else []
    return [speed, flow, used, times, restarts]


def _ceiling_line(found: Throughput) -> str:
    seconds = f"{found.seconds:g} s of each in steady state"
    if found.ceiling is None:
        return f"{seconds}; no ceiling could be measured."
    size = found.ceiling.size
    if size.processes > 1:
        return f"{seconds}; ceiling: Gymnasium's plain environment in {size.processes} processes, random actions."
    return (
        f"{seconds}; ceiling: ale-py's AtariVectorEnv, random actions, no network, {size.envs} environments of which "
        f"{size.batch} answer at a time (the best of the sizes tried)."
    )
