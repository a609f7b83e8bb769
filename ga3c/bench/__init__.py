"""Measurements as commands: `ga3c bench NAME`. Each is a module of this package with a `main` that takes its flags.

`harness` measures one setting in steady state; the benchmarks choose settings and tell what was found.
"""

import difflib
import importlib
from collections.abc import Sequence

from ga3c.errors import UserError

BENCHMARKS = {
    "throughput": "predictions and updates per second beside ale-py's own vector environment, and where the time goes",
    "scaling": "how both grow with agents, with agent processes and with the network",
    "placements": "GA3C and every A3C system side by side, beside the hours per million steps of the slides",
    "account": "what keeping the account of time costs: PPS with it and without it, in turn",
    "table2": "the paper's table 2: A3C, GA3C and the speed-up for its five networks",
    "table3": "the paper's table 3: scores of games after a time of training, beside the paper's",
    "fig4": "the paper's figure 4: score against wall time for several numbers of agents, predictors and trainers",
    "lag": "score and stability against policy lag, for each correction against it",
    "fig2": "the paper's figure 2: the tuner at work from N_A=32, N_P=N_T=1: TPS, N_P and N_T over time",
    "fig3": "the paper's figure 3: TPS by agents, predictors and trainers, and for larger networks",
    "fig5": "the paper's figure 5: training queue and prediction batch of the fastest settings",
    "latency": "the paper's latency: the wait for a prediction, the time of an update, and what of it is overhead",
    "tuning": "whether the tuner ends near the best of a fixed sweep in the same run",
    "soak": "random numbers of agents, predictors and trainers for an hour: nothing lost, nothing stuck, memory flat",
}
"""The module of each benchmark, by the name a person types, and what it measures."""


def run(arguments: Sequence[str]) -> None:
    """Runs the benchmark that the first word names; without one, lists them."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage())
        return
    name = arguments[0]
    if name not in BENCHMARKS:
        near = difflib.get_close_matches(name, BENCHMARKS)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(BENCHMARKS)}."
        raise UserError(f"There is no benchmark {name!r}; {hint}")
    importlib.import_module(f"ga3c.bench.{name}").main(arguments[1:])


def usage() -> str:
    width = max(map(len, BENCHMARKS)) + 2
    rows = "\n".join(f"  {name:{width}}{text}" for name, text in BENCHMARKS.items())
    return f"usage: ga3c bench NAME [...]\n\n{rows}\n\n`ga3c bench NAME --help` explains each."
