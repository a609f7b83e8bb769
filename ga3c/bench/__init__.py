"""Benchmarks: `ga3c bench NAME`. Each is a module of this package with a `main` that takes its flags.

They share `settings` (which run), `harness` (measures one setting), `live` (measures many settings in one run),
`training` (trains runs), `ledger` (measurements on file) and `report` (files, tables and pictures).
"""

import difflib
import importlib
from collections.abc import Sequence

from ga3c import interruption
from ga3c.errors import UserError

BENCHMARKS = {
    "throughput": "predictions and updates per second next to ale-py's own vector environment, and where the time goes",
    "scaling": "predictions and updates per second by agents, agent processes and network",
    "placements": "GA3C and all A3C systems compared, next to the slides' hours per million steps",
    "account": "the cost of the account of time: PPS with it and without it, in turn",
    "table2": "the paper's table 2: A3C, GA3C and the speed-up for its five networks",
    "atari": "scores of up to 57 Atari games after frames or minutes of training, next to PPO's, IMPALA's and humans'",
    "table3": "the paper's table 3: scores of games after a time of training, next to the paper's",
    "tasks": "tasks of all spaces over several seeds, beside Stable-Baselines3's A2C and PPO",
    "peers": "training steps per second on cheap environments, beside Stable-Baselines3, CleanRL and PufferLib",
    "fig4": "the paper's figure 4: score against wall time for several numbers of agents, predictors and trainers",
    "lag": "score and stability by policy lag, for each off-policy correction",
    "fig2": "the paper's figure 2: the tuner at work from N_A=32, N_P=N_T=1: TPS, N_P and N_T over time",
    "fig3": "the paper's figure 3: TPS by agents, predictors and trainers, and for larger networks",
    "fig5": "the paper's figure 5: training queue and prediction batch of the fastest settings",
    "latency": "the paper's latency: the wait for a prediction, the time of an update, and its overhead",
    "tuning": "how close the tuner comes to the best of a fixed sweep in the same run",
    "cluster": "agents on hosts: frames through the sockets per second, and steps per second by hosts",
    "soak": "random numbers of agents, predictors and trainers for an hour: nothing lost or stuck, no growing memory",
    "faults": "hundreds of faults against real runs: killed, crashed, damaged, disk full, power cut; nothing may break",
}
"""The benchmarks by name, which is also the name of the module or package, and what each measures."""


def run(arguments: Sequence[str]) -> None:
    """Runs the benchmark that the first word names. Without one, lists all."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(overview())
        return
    name = arguments[0]
    if name not in BENCHMARKS:
        near = difflib.get_close_matches(name, BENCHMARKS)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(BENCHMARKS)}."
        raise UserError(f"There is no benchmark {name!r}; {hint}")
    module = importlib.import_module(f"ga3c.bench.{name}")
    interruption.unwind()
    module.main(arguments[1:])


def overview() -> str:
    width = max(map(len, BENCHMARKS)) + 2
    rows = "\n".join(f"  {name:{width}}{text}" for name, text in BENCHMARKS.items())
    return f"usage: ga3c bench NAME [...]\n\n{rows}\n\n`ga3c bench NAME --help` explains each."
