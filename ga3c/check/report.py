"""How `ga3c check` prints its report."""

import math
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from ga3c.check.command import Report, pps
from ga3c.check.evidence import Play
from ga3c.metrics.text import number, percent
from ga3c.view.sections import grid, section, table_of

_STYLES = {"fault": "bold red", "doubtful": "yellow", "note": "cyan"}


def show(report: Report, console: Console) -> None:
    """Prints what was played and trained, the findings, and the verdict."""
    evidence = report.evidence
    if evidence.play is not None:
        section(console, f"{evidence.env_id}, played at random for {evidence.play.steps:,} steps")
        console.print(table_of(_played(report, evidence.play)))
    if report.curve is not None:
        section(console, f"Trained for {report.curve.seconds:.0f} s")
        console.print(table_of(_trained(report)))
    if report.findings:
        section(console, "Findings")
        table = grid()
        for finding in report.findings:
            seen = f"{finding.seen[:1].upper()}{finding.seen[1:]}."
            table.add_row(Text(finding.level, style=_STYLES[finding.level]), Text(seen))
            table.add_row("", Text(f"{finding.why[:1].upper()}{finding.why[1:]}.", style="dim"))
            table.add_row("", Text(f"-> {finding.do}", style="bold"))
        console.print(table)
    console.print(Text(f"\n{_verdict(report)}", style="bold green" if report.is_sound else "bold red"))


def _verdict(report: Report) -> str:
    levels = [finding.level for finding in report.findings]
    if not report.is_sound:
        return (
            f"{report.evidence.env_id} must be repaired before it is trained: {_count(levels.count('fault'), 'fault')}."
        )
    doubts = levels.count("doubtful")
    return f"{report.evidence.env_id} can be trained" + (f"; {_count(doubts, 'thing')} to look at." if doubts else ".")


def _count(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")


def _played(report: Report, play: Play) -> Iterator[tuple[str, str]]:
    limit = report.evidence.time_limit
    ended = f"{len(play.lengths):,} ended, {play.truncated:,} of them truncated"
    yield "episodes", ended + ("" if limit is None else f"; time limit {limit:,} steps")
    if play.lengths:
        yield "", f"{number(_mean(play.lengths))} steps and a return of {number(_mean(play.returns))} on average"
    if play.rewards:
        zero = percent(play.zero_rewards / play.rewards)
        yield "rewards", f"{play.least_reward:.4g} to {play.largest_reward:.4g}, {zero} of them 0"
    for part in play.numbers:
        what = f"{part.size:,} numbers of {part.dtype} from {part.low:.4g} to {part.high:.4g}"
        yield f"observation{part.name}", what
    if play.steps:
        each = 1e6 * play.step_seconds / play.steps
        yield "a step", f"{number(each)} us; {number(pps(play))} steps per second in one process, with resets"
    if report.expected_pps:
        yield (
            "expect",
            f"at most {number(report.expected_pps)} PPS from the {_count(report.cores, 'core')} of this machine",
        )


def _trained(report: Report) -> Iterator[tuple[str, str]]:
    curve, shows = report.curve, report.learned
    assert curve is not None
    assert shows is not None
    yield "speed", f"{curve.steps:,} steps, {curve.updates:,} updates, {number(curve.pps)} PPS"
    if math.isfinite(shows.explained):
        yield "values", f"explain {percent(max(0.0, shows.explained))} of the variance of the returns"
    if math.isfinite(shows.entropy_fell):
        fell = number(shows.entropy_fell) if curve.continuous else percent(shows.entropy_fell)
        yield "entropy", f"fell by {fell}" if shows.entropy_fell > 0 else "did not fall"
    if curve.scores:
        third = max(1, len(curve.scores) // 3)
        start, end = _mean(curve.scores[:third]), _mean(curve.scores[-third:])
        yield (
            "score",
            f"{number(start)} at first, {number(end)} at the end, over {_count(len(curve.scores), 'episode')}",
        )


def _mean(values: "list[int] | list[float] | tuple[float, ...]") -> float:
    return sum(values) / len(values)
