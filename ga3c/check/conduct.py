"""How an environment behaves: what it raises and prints, its speed, its seeds, and what it leaves behind. All are pure
functions of the evidence."""

from collections.abc import Iterator

from ga3c.check.evidence import Evidence, Play
from ga3c.check.finding import Finding

_ENOUGH_TIMES = 5
_LEAK_BYTES = 20 * 2**20
"""Over all resets of the probe."""
_LEAK_BYTES_EACH = 50 * 2**10
_SLOW_STEP = 0.02
"""Seconds."""


def ended(evidence: Evidence) -> Iterator[Finding]:
    if evidence.stopped:
        yield Finding(
            "fault", "process", f"it {evidence.stopped}",
            "an agent process that ends or hangs is replaced, and its steps are lost",
            "repair the line that is named, or what it waits for",
        )  # fmt: skip


def failures(evidence: Evidence, play: Play) -> Iterator[Finding]:
    for failure in play.failures:
        text = failure.text.removeprefix(evidence.env_id).strip().rstrip(".")
        yield Finding(
            "fault", "raises", f"it {text}, after {play.steps} steps of random play",
            "the agent process ends with it; after ten of them a run stops",
            "repair the line, or end the episode instead of raising",
        )  # fmt: skip


def printed(evidence: Evidence, play: Play) -> Iterator[Finding]:
    for lines, times, method in (
        (play.lines_in_steps, play.steps, "step"),
        (play.lines_in_resets, play.resets, "reset"),
    ):
        if not lines or not times:
            continue
        often = lines >= 0.5 * times and lines > _ENOUGH_TIMES
        yield Finding(
            "doubtful" if often else "note", "prints",
            f"{lines} lines were printed in {times} calls of {method}, such as {play.line!r}",
            "printing is slow, and the agents' logs would fill the disk",
            "take the print or the warning out, or let an argument of the environment turn it on",
        )  # fmt: skip


def speed(evidence: Evidence, play: Play) -> Iterator[Finding]:
    if play.steps and play.step_seconds / play.steps > _SLOW_STEP:
        each = play.step_seconds / play.steps
        yield Finding(
            "note", "slow", f"a step takes {1000 * each:.3g} ms",
            f"a million steps take {1e6 * each / 3600:.3g} hours of a core", "look for the time in a profile of step",
        )  # fmt: skip
    if play.lengths and play.reset_seconds > 3 * play.step_seconds and play.reset_seconds > 1.0:
        yield Finding(
            "note", "slow-reset", f"a reset takes {1000 * play.reset_seconds / max(1, play.resets):.3g} ms",
            "more time goes to resets than to steps", "keep what does not change from one episode to the next",
        )  # fmt: skip


def seeding(evidence: Evidence) -> Iterator[Finding]:
    found = evidence.seeding
    if found is None or not found.steps:
        return
    generators = " and ".join(found.global_generators)
    cause = f"; it draws from the process's own {generators}" if generators else ""
    repair = "call super().reset(seed=seed), and draw from self.np_random alone"
    if found.new_instance is not None:
        yield Finding(
            "doubtful", "seeding", f"two instances with the same seed differ {_at(found.new_instance)}{cause}",
            "runs and evaluations cannot be repeated", repair,
        )  # fmt: skip
        return
    if found.used_instance is not None:
        yield Finding(
            "doubtful", "reset-keeps-state",
            f"an instance that was played before differs from a new one {_at(found.used_instance)}, with the same seed",
            "reset leaves something of the last episode, so states are not what they seem",
            "set every field in reset, not only in the constructor",
        )  # fmt: skip
    elif found.beside_another is not None:
        yield Finding(
            "fault", "shared-state",
            f"an instance differs {_at(found.beside_another)} when another one is played beside it",
            "several agents share a process, and would play each other's episodes",
            "keep state in self, made in reset or the constructor, not in the class or the module",
        )  # fmt: skip
    if generators and found.used_instance is None:
        yield Finding(
            "note", "global-generator", f"it draws from the process's own {generators}",
            "environments of one process then depend on each other", repair,
        )  # fmt: skip


def _at(step: int) -> str:
    return "in the first observation" if step == 0 else f"from step {step} on"


def leaks(evidence: Evidence) -> Iterator[Finding]:
    grown = evidence.over_resets
    if grown is not None and grown.times > 0:
        each = grown.memory / grown.times
        if grown.memory > _LEAK_BYTES and each > _LEAK_BYTES_EACH:
            yield Finding(
                "doubtful", "leak-memory",
                f"{grown.times} resets took {grown.memory / 2**20:.0f} MiB of memory that was not given back",
                "an agent process lives for hours, and is killed when the memory is full",
                "look for lists that grow, and for windows or simulators that reset makes and does not close",
            )  # fmt: skip
        counts = {"files": grown.files, "threads": grown.threads, "processes": grown.processes}
        for what, count in counts.items():
            if count >= max(_ENOUGH_TIMES, grown.times // 2):
                yield Finding(
                    "doubtful", f"leak-{what}", f"{grown.times} resets left {count} open {what}",
                    "a process may have about a thousand of them", "close in reset what the last reset opened",
                )  # fmt: skip
    left = evidence.over_instances
    if left is not None and left.times > 0:
        counts = {"files": left.files, "threads": left.threads, "processes": left.processes}
        for what, count in counts.items():
            if count >= left.times:
                yield Finding(
                    "note", "close", f"{left.times} closed instances left {count} open {what}",
                    "they stay until the process ends", "close them in close",
                )  # fmt: skip
