"""What a terminal shows of a run: the live view, plain lines, or nothing."""

import os
import sys
from typing import TextIO, cast

from rich.console import Console

from ga3c import envs
from ga3c.config import Config, Ui
from ga3c.engine import device
from ga3c.metrics.sinks.base import Sink
from ga3c.metrics.sinks.csv import read_metrics
from ga3c.run import protocols
from ga3c.run.folder import RunFolder
from ga3c.view.dashboard import Dashboard
from ga3c.view.live import LiveSink
from ga3c.view.output import Output, Shown
from ga3c.view.plain import PlainSink, WarningSink


def sinks(ui: Ui, config: Config, folder: RunFolder) -> list[Sink]:
    """The sink that `ui` asks for. `auto` is the live view on a terminal, else plain lines. `none` shows warnings.

    A process without standard output, or without standard error, shows nothing there."""
    stream = sys.stderr if ui == "none" else sys.stdout
    if stream is None:
        return []
    if ui == "auto":
        ui = "live" if stream.isatty() and os.environ.get("TERM") != "dumb" else "plain"
    output = Output(stream)
    try:
        return [Shown(_view(ui, output, config, folder), output, "picture" if ui == "live" else "line")]
    except BaseException:
        output.close()
        raise


def _view(ui: Ui, output: Output, config: Config, folder: RunFolder) -> Sink:
    stream = cast(TextIO, output)
    if ui == "none":
        return WarningSink(stream)
    rules = protocols.short(config.env, envs.is_atari(config.env_id))
    names_bottleneck = config.engine.system == "ga3c"  # in A3C no stage waits for another
    if ui == "plain":
        return PlainSink(stream, names_bottleneck, rules)
    history = [(row["steps"], row["score"]) for row in read_metrics(folder.path, ("steps", "score"))]
    facts = (
        config.engine.system,
        f"preset {config.preset}",
        f"net {config.net.net}",
        f"on {device.choose(config.engine.device).type}",
        f"seed {config.run.seed}",
    )
    dashboard = Dashboard(config.env_id, facts, str(folder.path), history, names_bottleneck, rules)
    return LiveSink(Console(file=stream), dashboard)
