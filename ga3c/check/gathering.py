"""Gathers the evidence: has the environment played in a process of its own, and follows that process."""

from collections.abc import Mapping
from typing import Any

from ga3c.check.evidence import Evidence
from ga3c.envs import own, wrapping
from ga3c.envs.child import Child
from ga3c.errors import UserError

_LIMITS = {"start": 60.0, "make": 60.0, "try": 20.0, "play": 20.0, "seeding": 60.0, "over_resets": 30.0,
           "over_instances": 60.0}  # fmt: skip
"""Seconds that each phase may take beyond those that it is told to play."""


def gather(env_id: str, env_args: Mapping[str, Any], wraps: tuple[str, ...], seconds: float) -> Evidence:
    """All that is seen of an environment, of what it prints and of what ends its process too. A UserError says that it
    cannot be found."""
    with _Gathering(env_id, env_args, wraps, seconds) as gathering:
        gathering.follow()
        return gathering.evidence


class _Gathering(Child):
    def __init__(self, env_id: str, env_args: Mapping[str, Any], wraps: tuple[str, ...], seconds: float) -> None:
        pickle = own.pickled(env_id, *wrapping.factory_ids(wraps))
        task = {"env_id": env_id, "env_args": dict(env_args), "env_pickle": pickle, "wraps": wraps, "seconds": seconds}
        super().__init__("ga3c.check.player", task, {phase: limit + seconds for phase, limit in _LIMITS.items()})
        self.evidence = Evidence(env_id)

    def hear(self, message: dict[str, Any]) -> None:
        match message:
            case {"error": text}:
                if self.method == "the import":  # there is no such environment
                    raise UserError(text)
                self.evidence.refusal, self.done = text, True
            case {"closed": True}:
                self.done = True
            case _:
                self.evidence.add(message)

    def stop_short(self, text: str) -> None:
        self.evidence.stopped = text
