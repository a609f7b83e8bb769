"""The examination: reads the machine, judges it, measures it if it can train, and suggests settings. It raises no error
of its own."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ga3c.config import Config, DeviceName
from ga3c.doctor import facts as reading
from ga3c.doctor import findings as judging
from ga3c.doctor.advice import Suggestion, suggest
from ga3c.doctor.facts import Facts
from ga3c.doctor.findings import Finding, Needs
from ga3c.errors import UserError
from ga3c.metrics.bottleneck import Bottleneck

if TYPE_CHECKING:  # it imports torch, and this command must also work without torch
    from ga3c.doctor.measuring import Measured


@dataclass(frozen=True)
class Report:
    """The result of the examination."""

    env_id: str
    device: str
    """cpu or cuda: the device that a run would use."""
    facts: Facts
    findings: tuple[Finding, ...]
    """The most serious first."""
    measured: "Measured | None"
    suggestion: Suggestion | None
    """None if nothing can be trained."""

    @property
    def can_train(self) -> bool:
        return judging.can_train(self.findings)

    @property
    def bottleneck(self) -> Bottleneck | None:
        return self.measured.bottleneck if self.measured else None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        found = self.bottleneck
        return {
            "env": self.env_id,
            "device": self.device,
            "can_train": self.can_train,
            "machine": dataclasses.asdict(self.facts),
            "measured": dataclasses.asdict(self.measured) if self.measured else None,
            "bottleneck": {"stage": found.stage, "sentence": found.sentence} if found else None,
            "suggestion": dataclasses.asdict(self.suggestion) if self.suggestion else None,
            "findings": [dataclasses.asdict(finding) for finding in self.findings],
        }


@dataclass(frozen=True)
class _Plan:
    """The run that `ga3c train` would start here."""

    config: Config | None
    needs: Needs
    problem: Finding | None


def examine(
    env_id: str,
    device: DeviceName,
    seconds: float,
    env_args: Mapping[str, Any] | None = None,
    wraps: tuple[str, ...] = (),
) -> Report:
    """Examines the machine. It measures nothing if `seconds` is 0 or something must be repaired first."""
    facts = reading.gather()
    works = facts.torch is not None and facts.torch.sees_gpu and facts.torch.problem is None
    chosen: DeviceName = "cuda" if works and device != "cpu" else "cpu"
    plan = _plan(env_id, chosen, env_args, wraps)
    found = judging.judge(facts, dataclasses.replace(plan.needs, device=device))
    found += [plan.problem] if plan.problem else []
    measured = None
    if plan.config is not None and seconds > 0 and judging.can_train(found):
        from ga3c.doctor import measuring

        others = 0.0 if math.isnan(facts.load) else min(1.0, facts.load / facts.cores)
        measured, failed = measuring.measure(plan.config, seconds, others)
        found += failed
    suggestion = None
    if plan.config is not None and judging.can_train(found):
        sees = facts.torch is not None and facts.torch.sees_gpu
        named: DeviceName = "cpu" if sees and not works else device
        about = (measured.bottleneck, measured.use) if measured else (None, None)
        suggestion = suggest(plan.config, named, facts, *about)
    return Report(env_id, chosen, facts, tuple(judging.by_level(found)), measured, suggestion)


def _plan(env_id: str, chosen: DeviceName, env_args: Mapping[str, Any] | None, wraps: tuple[str, ...]) -> _Plan:
    """The preset's settings for an environment and what they need, or a finding if there can be no such run."""
    try:
        from ga3c.agents.slots import SlotPlan
        from ga3c.bench import settings

        base = settings.preset_base(env_id, "fast", chosen, env_args=env_args, wraps=wraps)
        config, spec = base.resolved(base.config), base.spec
        engine = config.engine
        shared = SlotPlan.of(spec, agents=engine.agents, workers=engine.workers).size
        return _Plan(config, Needs(chosen, engine.agents, engine.workers, shared), None)
    except Exception as error:
        # Environments are code of other people, and an installation may be broken in any way.
        is_told = isinstance(error, UserError)
        problem = str(error).rstrip(".") if is_told else f"{env_id} cannot be trained: {type(error).__name__}: {error}"
        remedy = (
            "`ga3c envs` lists the environments that can be trained here"
            if is_told
            else "reinstall what the error names"
        )
        return _Plan(None, Needs(chosen), Finding("repair", "environment", problem, remedy))
