"""The result of `ga3c bench throughput`: the measurements of its three phases, as JSON and as a table."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rich.console import Console

from ga3c import machine
from ga3c.bench import cells, networks, report
from ga3c.bench.ceiling import Ceiling
from ga3c.bench.variants import Trial
from ga3c.config import Config
from ga3c.metrics.text import count, number

Row = tuple[str, str, Callable[[float], str]]
"""A row of the table: its title, its figure, and how the figure is written."""
Phase = Literal["ceiling", "acting", "training"]
Figures = Mapping[str, float]

PHASES: tuple[Phase, ...] = ("ceiling", "acting", "training")
CPU = ("cpu_agents", "cpu_predictors", "cpu_trainers", "cpu_rest")
MEMORY = ("rss_server_mb", "rss_agents_mb")
SHARES = (
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
"""How each stage spends its time: the figure, and its name for people."""
_SPEED: tuple[Row, ...] = (
    ("PPS", "pps", number),
    ("frames/s", "frames_per_second", number),
    ("TPS", "tps", number),
)
_FLOW: tuple[Row, ...] = (
    ("prediction batch", "prediction_batch", number),
    ("policy lag, updates", "lag", number),
    ("wait for a prediction", "wait_ms", cells.milliseconds),
    ("prediction: preparing", "preparing_ms", cells.milliseconds),
    ("prediction: network", "predicting_ms", cells.milliseconds),
    ("prediction: replying", "replying_ms", cells.milliseconds),
    ("update", "update_ms", cells.milliseconds),
    ("update: on the device", "update_device_ms", cells.milliseconds),
    ("update: overhead", "update_overhead", cells.share),
)
_USED: tuple[Row, ...] = (
    ("cores: agents", "cpu_agents", cells.cores),
    ("cores: predictors", "cpu_predictors", cells.cores),
    ("cores: trainers", "cpu_trainers", cells.cores),
    ("cores: rest of the server", "cpu_rest", cells.cores),
    ("memory: server", "rss_server_mb", cells.megabytes),
    ("memory: agents", "rss_agents_mb", cells.megabytes),
    ("GPU in use", "gpu_utilisation", cells.share),
    ("GPU memory", "gpu_memory_mb", cells.megabytes),
)
_TIMES: tuple[Row, ...] = tuple(
    (f"{stage} {word}", name, cells.share) for stage, names in SHARES for name, word in names
)


@dataclass(frozen=True)
class Throughput:
    """All measurements, with what is needed to repeat them."""

    config: Config
    seconds: float
    trials: tuple[Trial[Figures], ...]
    ceiling: Ceiling | None
    """The best of all repeats, for its size."""
    machine: machine.Machine
    date: str

    def values(self, phase: Phase, name: str) -> list[float]:
        """A figure of a phase, by repeat."""
        return [trial.found.get(name, math.nan) for trial in self.trials if trial.name == phase]

    def ratios(self, phase: Phase) -> list[float]:
        """A phase's steps per second as a share of the ceiling's in the same repeat."""
        pairs = zip(self.values(phase, "pps"), self.values("ceiling", "pps"), strict=True)
        return [ours / ceiling for ours, ceiling in pairs]

    @property
    def restarts(self) -> list[float]:
        return [trial.found.get("restarts", 0) for trial in self.trials]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The trials for CSV and JSON."""
        return [{"phase": t.name, "repeat": t.repeat, **t.found} for t in self.trials]

    def as_dict(self) -> dict[str, Any]:
        """For JSON. Figures whose name has no phase are those of training."""

        def training(*names: str) -> dict[str, float]:
            return {name: cells.median(self.values("training", name)) for name in names}

        rss = [sum(pair) for pair in zip(*(self.values("training", n) for n in MEMORY), strict=True)]
        speeds = {f"{phase}_pps": self.values(phase, "pps") for phase in PHASES}
        speeds |= {"tps": self.values("training", "tps")}
        speeds |= {"ratio": self.ratios("training"), "acting_ratio": self.ratios("acting")}
        return {
            **{name: cells.median(values) for name, values in speeds.items()},
            **training("frames_per_second", "lag", "lag_max", "prediction_batch", "wait_ms"),
            **training("preparing_ms", "predicting_ms", "replying_ms", "update_ms", "update_device_ms"),
            **training("update_overhead"),
            **training("gpu_utilisation", "gpu_memory_mb"),
            "cpu": {name.removeprefix("cpu_"): value for name, value in training(*CPU).items()},
            "rss_mb": cells.median(rss),
            **training(*MEMORY),
            "time": training(*(name for _, names in SHARES for name, _ in names)),
            "restarts": sum(self.restarts),
            "spread": {name: cells.spread(values) for name, values in speeds.items()},
            "ceiling": dataclasses.asdict(self.ceiling) if self.ceiling else None,
            "trials": self.rows,
            "machine": self.machine,
            "config": dataclasses.asdict(self.config),
            "seconds": self.seconds,
            "repeats": len(self.values("training", "pps")),
            "date": self.date,
        }

    def show(self, console: Console) -> None:
        config = self.config
        engine, learn = config.engine, config.learn
        title = (
            f"[bold]{config.env_id}[/bold]: preset {config.preset}, net {networks.label(config.net)} "
            f"on {engine.device}; {count(engine.agents, 'agent')} in {count(engine.workers, 'process')}, "
            f"{count(engine.predictors, 'predictor')}, {count(engine.trainers, 'trainer')}; "
            f"updates of {learn.batch_rollouts} x {learn.rollout} steps"
        )
        report.head(console, title, self.machine)
        table = report.table("", "ceiling", "acting only", "training")
        for section in self._sections():
            for row in section:
                if any(cell != "-" for cell in row[1:]):  # rows about the GPU are empty without one
                    table.add_row(*row)
            table.add_section()
        console.print(table)
        report.note(console, self._ceiling_line())

    def _sections(self) -> list[list[tuple[str, ...]]]:
        sections = [self._cells(rows) for rows in (_SPEED, _FLOW, _USED, _TIMES)]
        ratios = (cells.cell(self.ratios(phase), cells.share) for phase in PHASES[1:])
        sections[0].append(("of the ceiling", "", *ratios))
        if any(self.restarts):
            sections.append(self._cells([("restarts of agent processes", "restarts", number)]))
        return sections

    def _cells(self, rows: Iterable[Row]) -> list[tuple[str, ...]]:
        return [
            (title, *(cells.cell(self.values(phase, name), form) for phase in PHASES)) for title, name, form in rows
        ]

    def _ceiling_line(self) -> str:
        seconds = f"{self.seconds:g} s of each in steady state"
        if self.ceiling is None:
            return f"{seconds}; no ceiling could be measured."
        size = self.ceiling.size
        if size.processes > 1:
            return f"{seconds}; ceiling: Gymnasium's plain environment in {size.processes} processes, random actions."
        return (
            f"{seconds}; ceiling: ale-py's AtariVectorEnv, random actions, no network, {size.envs} environments of "
            f"which {size.batch} answer at a time (the fastest of the sizes tried)."
        )
