"""How fast a setting acts and trains, compared with the speed of ale-py's own vector environment on this machine."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from ga3c import files, flags, machine
from ga3c.bench import harness, record, report, variants
from ga3c.bench.ceiling import Ceiling, Steppers
from ga3c.bench.measurement import Measurement
from ga3c.bench.settings import Base
from ga3c.bench.throughput_result import Figures, Throughput
from ga3c.bench.training import OnLeft
from ga3c.bench.variants import Variant, VariantArguments
from ga3c.config import Config
from ga3c.errors import UserError

_COLUMNS = ("phase", "repeat", *(f.name for f in dataclasses.fields(Measurement)))


@dataclass(frozen=True)
class ThroughputArguments(VariantArguments):
    """Measure predictions (PPS) and updates (TPS) per second in steady state, three times on the same cores: the
    ceiling (ale-py's C++ vector environment with random actions and no network), acting alone, and training.

    Settings that are not given are the preset's for this environment and device."""

    seconds: float = 20.0
    """Seconds to measure each of the three, after a warm-up."""
    repeats: int = 1
    """How many times to measure the three in turn; several are reported as median, minimum and maximum."""


def main(arguments: Sequence[str]) -> None:
    args = flags.parse(ThroughputArguments, arguments, "ga3c bench throughput")
    if args.engine.system != "ga3c":
        raise UserError(
            f"--system is {args.engine.system}, but `ga3c bench throughput` measures GA3C only, since A3C cannot act "
            "without training. metrics.csv of a `ga3c train` run has the speed of A3C."
        )
    base = args.base()
    if args.out is not None:
        files.check_folder(args.out)
    found = measure(base, args.seconds, args.repeats)
    if args.out is not None:
        record.write_csv(args.out / "throughput.csv", _COLUMNS, found.rows)
    report.publish(
        "throughput",
        found.as_dict(),
        lambda _, console: found.show(console),
        out=args.out,
        as_json=args.json,
    )


def measure(base: Base, seconds: float, repeats: int) -> Throughput:
    """Measures the three phases in turn."""
    config = base.resolved(base.config)
    base.check_net(config.net)
    ceilings: list[Ceiling] = []
    with Steppers(config, machine.num_cores(), seconds) as steppers:

        def ceiling(on_left: OnLeft) -> Figures:
            found = steppers.measure(on_left)
            if found is None:
                return {}
            ceilings.append(found)
            frames = found.pps * base.spec.frames_per_step
            return {
                "seconds": found.seconds, "pps": found.pps, "frames_per_second": frames, "cpu_agents": found.cpu,
            }  # fmt: skip

        expected = harness.expected(seconds)
        phases = (
            Variant("ceiling", "Ceiling", steppers.expected, ceiling),
            Variant("acting", "Acting only", expected, lambda on_left: _figures(config, seconds, False, on_left)),
            Variant("training", "Training", expected, lambda on_left: _figures(config, seconds, True, on_left)),
        )
        trials = []
        with variants.bar_for(phases, repeats) as bar:
            for trial in variants.in_turn(phases, repeats, bar):
                trials.append(trial)
                if trial.name == "ceiling" and trial.repeat == 1 and steppers.problem:
                    bar.say(f"There is no ceiling to compare with: {steppers.problem}.")
                if trial.name == "ceiling" and trial.repeat == repeats:
                    steppers.close()
    best = max(ceilings, key=lambda one: one.pps, default=None)
    return Throughput(config, seconds, tuple(trials), best, machine.describe(), record.date())


def _figures(config: Config, seconds: float, train: bool, on_left: OnLeft) -> Figures:
    return vars(harness.measure(config, seconds, train=train, on_left=on_left))
