"""How `ga3c doctor` prints its report."""

import math
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from ga3c.doctor.command import Report
from ga3c.doctor.facts import Facts
from ga3c.doctor.findings import size
from ga3c.view.sections import grid, section, table_of

_STYLES = {"repair": "bold red", "warning": "yellow", "note": "cyan"}


def show(report: Report, console: Console) -> None:
    """Prints the machine, the measurements, the findings with their remedies, and the suggested command."""
    section(console, "This machine")
    console.print(table_of(_machine(report.facts)))
    if report.measured is not None:
        section(console, f"{report.env_id} on {report.device}, measured for {report.measured.seconds:g} s")
        console.print(table_of(_measured(report)))
        if report.bottleneck is not None:
            sentence = report.bottleneck.sentence
            console.print(Text(f"{sentence[0].upper()}{sentence[1:]}.", style="bold"))
    if report.findings:
        section(console, "Findings")
        table = grid()
        for finding in report.findings:
            table.add_row(Text(finding.level, style=_STYLES[finding.level]), Text(f"{finding.problem}."))
            table.add_row("", Text(f"-> {finding.remedy}", style="dim"))
        console.print(table)
    if report.suggestion is not None:
        section(console, "Suggested command: " + "; ".join(report.suggestion.reasons))
        console.print(Text(report.suggestion.command, style="bold green"), soft_wrap=True)


def _machine(facts: Facts) -> Iterator[tuple[str, str]]:
    cores = f"{facts.cores} of {facts.cores_there} cores"
    quota = f", limited to the CPU time of {facts.core_quota:.3g} cores" if math.isfinite(facts.core_quota) else ""
    yield "processor", f"{facts.processor}, {cores}{quota}, {'with' if facts.bf16 else 'without'} bfloat16 instructions"
    yield "memory", f"{size(facts.memory)}, {size(facts.memory_free)} free"
    shm = "" if math.isnan(facts.dev_shm) else f"; /dev/shm {size(facts.dev_shm)}, {size(facts.dev_shm_free)} free"
    yield "shared memory", f"{size(facts.shared_free)} free{shm}"
    yield "limits", f"{_count(facts.open_files)} open files, {_count(facts.processes)} processes"
    yield "disk", f"{size(facts.disk_free)} free for runs"
    yield "GPU", _gpu(facts)
    compiler = facts.compiler or "no C compiler"
    yield "for --fuse", f"{'triton' if facts.triton else 'no triton'}, {compiler}"
    yield "ROMs", "unknown" if facts.roms is None else f"{facts.roms} games in ale-py"
    yield "Python", f"{facts.python} ({facts.python_range}), {facts.system}"
    for title, names in (("packages", facts.packages), ("extras", facts.packages)):
        chosen = [p for p in names if bool(p.extra) == (title == "extras")]
        listed = dict.fromkeys(f"{p.name} {p.installed or 'not installed'} ({p.wanted})" for p in chosen)
        yield title, ", ".join(listed) or "unknown"


def _gpu(facts: Facts) -> str:
    if facts.gpu is None:
        return "none"
    gpu, torch = facts.gpu, facts.torch
    parts = [gpu.name, f"{gpu.free_mb:,.0f} of {gpu.memory_mb:,.0f} MB free"]
    if gpu.capability:
        parts.append("compute capability {}.{}".format(*gpu.capability))
    if facts.driver:
        parts.append("driver {} (CUDA up to {}.{})".format(facts.driver.version, *facts.driver.cuda))
    parts.append("torch for CUDA {}.{}".format(*torch.cuda) if torch and torch.cuda else "torch without CUDA")
    return ", ".join(parts)


def _measured(report: Report) -> Iterator[tuple[str, str]]:
    from ga3c.metrics.text import number, percent

    measured = report.measured
    assert measured is not None
    ceiling, acting, training = measured.ceiling, measured.acting, measured.training

    def of_ceiling(pps: float) -> str:
        return f", {percent(pps / ceiling.pps)} of environments alone" if ceiling else ""

    if ceiling:
        yield "environments alone", f"{number(ceiling.pps)} steps per second, random actions"
    if acting:
        yield "acting", f"{number(acting.pps)} predictions per second{of_ceiling(acting.pps)}"
    if training:
        speed = f"{number(training.pps)} predictions and {number(training.tps)} updates per second"
        yield "training", f"{speed}{of_ceiling(training.pps)}, policy lag {number(training.lag)} updates"
        agents = f"agents step {percent(training.agent_stepping)}, wait {percent(training.agent_waiting)}"
        predictors = f"predict {percent(training.predictor_predicting)}, wait {percent(training.predictor_waiting)}"
        yield "time spent", f"{agents}; predictors {predictors}, held back {percent(training.predictor_blocked)}"
        yield "", f"trainers train {percent(training.trainer_training)}, wait {percent(training.trainer_waiting)}"
        use = measured.use
        gpu = "" if math.isnan(use.gpu) else f"; GPU busy {percent(use.gpu)} of the time"
        others = f" (other processes: {percent(measured.others)})" if measured.others else ""
        yield "in use", f"{percent(use.cores)} of the cores{others}{gpu}"


def _count(value: float) -> str:
    return f"{value:,.0f}" if math.isfinite(value) else "unlimited"
