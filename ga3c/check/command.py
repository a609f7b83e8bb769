"""The check: plays the environment, judges what was seen, trains it, and judges what that shows."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ga3c import machine
from ga3c.check import findings, gathering, learning
from ga3c.check.evidence import Evidence, Play
from ga3c.check.finding import Finding, by_level, is_sound
from ga3c.check.learning import Curve, Learned
from ga3c.config import DeviceName


@dataclass(frozen=True)
class Report:
    """The result of the check."""

    evidence: Evidence
    findings: tuple[Finding, ...]
    """The most serious first."""
    cores: int
    curve: Curve | None
    """The curve of the training; None if it was left out."""

    @property
    def is_sound(self) -> bool:
        return is_sound(self.findings)

    @property
    def learned(self) -> Learned | None:
        return None if self.curve is None else learning.learned(self.curve)

    @property
    def expected_pps(self) -> float | None:
        """Steps per second that all cores together could play at most; None if nothing was played."""
        play = self.evidence.play
        return None if play is None else pps(play) * self.cores if pps(play) else None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        curve = self.curve
        return {
            "env": self.evidence.env_id,
            "sound": self.is_sound,
            "findings": [dataclasses.asdict(finding) for finding in self.findings],
            "expected_pps": self.expected_pps,
            "cores": self.cores,
            "evidence": self.evidence.to_json(),
            "training": None if curve is None else dataclasses.asdict(curve),
            "learned": None if self.learned is None else dataclasses.asdict(self.learned),
        }


def pps(play: Play) -> float:
    """Steps per second of one process, with the resets between them; 0 if there were none."""
    seconds = play.step_seconds + play.reset_seconds
    return play.steps / seconds if seconds > 0 else 0.0


def examine(
    env_id: str,
    env_args: Mapping[str, Any],
    wraps: tuple[str, ...],
    *,
    play_seconds: float,
    seconds: float,
    device: DeviceName,
) -> Report:
    """Checks an environment. It is not trained if `seconds` is 0 or something is wrong with it."""
    evidence = gathering.gather(env_id, env_args, wraps, play_seconds)
    found, curve = findings.judge(evidence), None
    if seconds > 0 and is_sound(found):
        from ga3c.check import training  # imports torch, which takes seconds

        continuous = any(part.kind == "Box" for part in evidence.actions)
        curve = training.train(env_id, env_args, wraps, seconds, device, continuous)
        found += learning.judge(curve)
    return Report(evidence, tuple(by_level(found)), machine.num_cores(), curve)
