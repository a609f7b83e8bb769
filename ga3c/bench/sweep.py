"""The sweep behind the paper's figures 3 and 5: agents, predictors and trainers, by live changes of one run for each
network. What one of the two commands has measured, the other reads."""

import dataclasses
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro

from ga3c import device, envs, machine, nets, picture, session
from ga3c.bench import cells, harness, live, networks, record
from ga3c.bench.harness import Measurement
from ga3c.bench.ledger import Ledger
from ga3c.bench.progress import PhaseBar
from ga3c.config import Config, DeviceName, Precision
from ga3c.errors import UserError
from ga3c.tuner import Setting

TOP = 3
"""So many of the settings of each number of agents are told, as in the paper."""
_FINALISTS = 6
"""So many of each number of agents are measured again: of many, the one that looks best was also lucky."""


@dataclass(frozen=True)
class SweepArguments:
    """What `fig3` and `fig5` have in common."""

    env_id: Annotated[str, tyro.conf.arg(name="env", metavar="ENV")] = "ALE/Pong-v5"
    """A Gymnasium id; `ga3c envs` lists them."""
    device: DeviceName = "auto"
    """Where the model lives: auto takes CUDA where there is one."""
    seconds: float = 2.0
    """Seconds measured of each point at a time, after it has settled; longer where updates are few."""
    repeats: int = 2
    """All settings are measured once, and the best of each number of agents so many times in all."""
    agents: Annotated[tuple[int, ...], tyro.conf.arg(metavar="N [N ...]")] = (16, 32, 64, 128)
    """Numbers of agents (N_A)."""
    threads: Annotated[tuple[int, ...], tyro.conf.arg(metavar="N [N ...]")] = (1, 2, 4, 8, 16)
    """Numbers of predictors (N_P) and of trainers (N_T), each with each."""
    nets: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NET[:STRIDE] [...]")] = ()
    """Networks: the first in all settings, each other one in the first's best three and in the paper's best
    (fig3: small and large:4 to large:1 unless given, fig5: small; mlp for vectors)."""
    precision: Precision = "tf32"
    """Of products inside the network: all 32 bits, a GPU's 19-bit tf32 (elsewhere 32 bits), or bfloat16."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("results/figures")
    """Where sweep.csv goes, which both commands share, and what is told and drawn of it. What sweep.csv already holds
    of the same settings is not measured again, so a run that was stopped goes on."""
    plot: bool = True
    """Draw the picture (needs matplotlib)."""
    json: bool = False
    """Print one JSON object and nothing else."""

    def __post_init__(self) -> None:
        if not 0.0 < self.seconds < math.inf:
            raise UserError(f"--seconds is {self.seconds}, but must be above 0.")
        if not 1 <= self.repeats <= 100:
            raise UserError(f"--repeats is {self.repeats}, but must be between 1 and 100.")
        for flag, numbers, most in (("agents", self.agents, 65_536), ("threads", self.threads, 64)):
            for one in numbers or (0,):
                if not 1 <= one <= most:
                    raise UserError(f"--{flag} holds {one}, but must be between 1 and {most}.")


@dataclass(frozen=True)
class Row:
    """A setting of a network, with what was measured of it."""

    net: str
    setting: Setting
    trials: tuple[Measurement, ...]

    def mean(self, name: str) -> float:
        return cells.mean(getattr(one, name) for one in self.trials)

    @property
    def tps(self) -> float:
        return self.mean("tps")

    def as_dict(self) -> dict[str, Any]:
        names = ("tps", "pps", "prediction_batch", "training_queue", "lag", "gpu_utilisation")
        return {
            "net": self.net, **self.setting._asdict(), **{name: self.mean(name) for name in names},
            "trials": [one.tps for one in self.trials],
        }  # fmt: skip


class Sweep:
    """The settings of each network, and what the ledger has of them."""

    def __init__(self, args: SweepArguments, default_nets: Sequence[str]) -> None:
        """Refuses what cannot be measured or drawn, before anything is."""
        if args.plot:
            picture.need_matplotlib(", or give --no-plot")
        self.args = args
        where = device.choose(args.device)
        base = session.base_config(args.env_id, "paper", args.device)
        spec = envs.describe(base.env_id, base.env, raw_screens=where.type == "cuda")
        base = dataclasses.replace(base, net=dataclasses.replace(base.net, precision=args.precision))
        self.settings = [Setting(a, p, t) for a in args.agents for p in args.threads for t in args.threads]
        base = record.resolved(live.with_most(base, self.settings), spec, where)
        names = args.nets or (tuple(default_nets) if spec.is_picture else ("mlp",))
        self.bases: dict[str, Config] = {}
        for name in names:
            net = networks.parse(name, base.net)
            with torch.device("meta"):
                nets.build(spec, net)
            self.bases[networks.label(net)] = dataclasses.replace(base, net=net)
        record.check_folder(args.out)
        self.ledger = Ledger(args.out / "sweep.csv", args.seconds, base.engine.room)

    @property
    def first_net(self) -> str:
        return next(iter(self.bases))

    @property
    def base(self) -> Config:
        return self.bases[self.first_net]

    def rows(self, net: str) -> list[Row]:
        """What is known of a network, the fastest first."""
        found = []
        for setting in self.settings:
            config = live.point(self.bases[net], setting)
            trials = [self.ledger.find(config, repeat) for repeat in range(1, self.args.repeats + 1)]
            if there := tuple(one for one in trials if one is not None):
                found.append(Row(net, setting, there))
        return sorted(found, key=lambda row: -row.tps)

    def top(self, agents: int, count: int = TOP) -> list[Row]:
        """The fastest settings of so many agents. Who was measured as often as the best comes before who was not."""
        rows = [row for row in self.rows(self.first_net) if row.setting.agents == agents]
        return sorted(rows, key=lambda row: -len(row.trials))[:count]

    def best(self) -> Row:
        rows = self.rows(self.first_net)
        return max(rows, key=lambda row: (len(row.trials), row.tps))

    # -- measuring ----------------------------------------------------------------------------------------------------

    def measure(self) -> None:
        """Measures what is missing, one run for each network."""
        each = self.args.seconds + live.settling(self.args.seconds)
        lengths: list[float] = []
        for net, base in self.bases.items():
            if count := self._most_missing(net):
                lengths += [live.expected_start(base), *[each] * count]
        with PhaseBar(lengths) as bar:
            held = sum(len(row.trials) for net in self.bases for row in self.rows(net))
            if held:
                bar.say(f"{held} measurements are in {self.ledger.path} already and stay as they are.")
            for net in self.bases:
                self._measure(net, bar)
                harness.free_device()

    def _measure(self, net: str, bar: PhaseBar) -> None:
        base = self.bases[net]
        if not any(live.missing(base, turns, self.ledger) for turns in self._passes(net)):
            return
        bar.begin(f"{net}: starting")
        # Each predictor and trainer is built before the run starts, which takes its time on a GPU.
        settings = self.settings if net == self.first_net else self.of_other_nets()
        settings = [*settings, Setting(base.engine.room, 1, 1)]  # room for as many agents in the runs of all networks
        with live.running(live.with_most(base, settings)) as run:
            run.warm_up()
            for turns in self._passes(net):
                live.measure(run, base, turns, self.ledger, bar, net)

    def _passes(self, net: str) -> Iterator[list[live.Turn]]:
        """What to measure, pass by pass: each is known once those before it are on file."""
        repeats = range(1, self.args.repeats + 1)
        if net != self.first_net:
            yield from ([(setting, repeat) for setting in self.of_other_nets()] for repeat in repeats)
            return
        # In an order of no meaning, so that a machine whose speed changes treats all numbers alike.
        yield [(setting, 1) for setting in random.Random(1).sample(self.settings, len(self.settings))]
        for repeat in repeats[1:]:
            finalists = [row.setting for agents in self.args.agents for row in self._leading(agents, repeat)]
            yield [(setting, repeat) for setting in random.Random(repeat).sample(finalists, len(finalists))]

    def _leading(self, agents: int, repeat: int) -> list[Row]:
        """Those that lead by what was measured before this repeat, which so stay the same while it is measured."""
        rows = [row for row in self.rows(self.first_net) if row.setting.agents == agents]
        past = [dataclasses.replace(row, trials=row.trials[: repeat - 1]) for row in rows]
        return sorted(past, key=lambda row: (-len(row.trials), -row.tps))[:_FINALISTS]

    def of_other_nets(self) -> list[Setting]:
        """The settings in which larger networks are measured: the best three, and the paper's with the most agents."""
        rows = sorted(self.rows(self.first_net), key=lambda row: (-len(row.trials), -row.tps))
        papers = Setting(max(self.args.agents), 2, 2)
        return list(dict.fromkeys([row.setting for row in rows[:TOP]] + [papers] * (papers in self.settings)))

    def _most_missing(self, net: str) -> int:
        """How many points are left at most; before the first pass is over, nobody knows which the others will be."""
        if net == self.first_net:
            first = len(live.missing(self.base, next(self._passes(net)), self.ledger))
            finals = len(self.args.agents) * min(_FINALISTS, len(self.args.threads) ** 2) * (self.args.repeats - 1)
            return (
                first + finals
                if first
                else sum(len(live.missing(self.base, t, self.ledger)) for t in self._passes(net))
            )
        if self._most_missing(self.first_net):
            return (TOP + 1) * self.args.repeats
        return sum(len(live.missing(self.bases[net], turns, self.ledger)) for turns in self._passes(net))

    def about(self) -> dict[str, Any]:
        """What one must know to repeat it."""
        return {
            "env": self.args.env_id,
            "preset": "paper",
            "rollout": self.base.learn.rollout,
            "queue": self.base.engine.queue,
            "seconds": self.args.seconds,
            "repeats": self.args.repeats,
            "machine": machine.describe(),
            "config": dataclasses.asdict(self.base),
            "date": record.date(),
        }
