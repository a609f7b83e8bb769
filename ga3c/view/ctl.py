"""`ga3c ctl`: asks a run that trains for something, and shows its answer."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ga3c.errors import RunFailed
from ga3c.metrics.sinks.status import read_status
from ga3c.metrics.text import duration, number
from ga3c.run.control_client import Control, Refused, Unreachable

_NAMES = ("agents", "predictors", "trainers")


def ask(folder: Path, do: str, arguments: Mapping[str, Any], as_json: bool) -> None:
    """Prints the run's answer once it has done what it was asked. What it refuses, or a run that does not listen, is a
    RunFailed."""
    try:
        with Control.connect(folder) as control:
            answer = control.ask("hello" if do == "status" else do, **arguments)
    except (Refused, Unreachable) as error:
        raise RunFailed(error.command_text) from error
    if as_json:
        status = {"status": read_status(folder / "status.json")} if do == "status" else {}
        print(json.dumps({name: part for name, part in answer.items() if name not in ("id", "ok")} | status))
    elif do == "status":
        sys.stdout.write("".join(f"{line}\n" for line in _described(answer, read_status(folder / "status.json") or {})))
    else:
        print(answer["text"])


def _described(state: Mapping[str, Any], status: Mapping[str, Any]) -> list[str]:
    """The state of a run in a few lines."""
    does = "is paused" if state["paused"] else "trains"
    lines = [f"{state['env']} {does} (process {state['pid']})."]
    if status.get("steps") is not None:
        figures = {name: float("nan") if status.get(name) is None else status[name] for name in ("score", "pps", "tps")}
        lines.append(
            f"{duration(status.get('seconds') or 0.0)}, {status['steps']:,} steps, score {number(figures['score'])}, "
            f"{number(figures['pps'])} PPS, {number(figures['tps'])} TPS"
        )
    lines.append(", ".join(_number(state, name) for name in _NAMES) + f"; tuning {'on' if state['tuning'] else 'off'}")
    lines.append(", ".join(_rate(state, name) for name in state["rates"]))
    return lines


def _number(state: Mapping[str, Any], name: str) -> str:
    space = state["space"]
    room = f" ({space[name][0]} to {space[name][-1]})" if space and len(space[name]) > 1 else ""
    return f"{name} {state['setting'][name]}{room}"


def _rate(state: Mapping[str, Any], name: str) -> str:
    how = "by schedule" if state["held"][name] is None else "held"
    return f"{name.replace('_', ' ')} {state['rates'][name]:g} ({how})"
