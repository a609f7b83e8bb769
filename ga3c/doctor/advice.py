"""The settings that a machine and a measurement on it suggest, as a command line to paste."""

import shlex
from dataclasses import dataclass

from ga3c.bottleneck import Bottleneck, Use
from ga3c.config import Config, DeviceName
from ga3c.doctor.facts import Facts

_NUMBERS = {"--agents", "--predictors", "--trainers"}
"""What a run looks for by itself, unless one of them is named."""
_MOST_THREADS = 64
_MOST_AGENTS = 4096


@dataclass(frozen=True)
class Suggestion:
    """A command, and why it has each of its flags."""

    command: str
    reasons: tuple[str, ...]


def suggest(
    config: Config, device: DeviceName, facts: Facts, found: Bottleneck | None = None, use: Use | None = None
) -> Suggestion:
    """The preset's settings, and over them what a bottleneck with room beside it asks for."""
    use = use or Use()
    flags: dict[str, str] = {} if device == "auto" else {"--device": device}
    reasons: list[str] = []
    if found is not None:
        changes, why = _against(found, use, config, facts)
        if changes.keys() & _NUMBERS:
            changes["--tune"] = ""  # else what is named stays as it is
        flags |= changes
        reasons += [why] if why else []
    words = ["ga3c", "train", config.env_id, *(word for name, value in flags.items() for word in (name, value) if word)]
    return Suggestion(shlex.join(words), tuple(reasons) or ("the preset's settings, which nothing speaks against",))


def _against(found: Bottleneck, use: Use, config: Config, facts: Facts) -> tuple[dict[str, str], str]:
    """What to change against a bottleneck, and why; nothing where the machine is full."""
    engine = config.engine
    on_cuda = facts.torch is not None and facts.torch.sees_gpu and engine.device != "cpu"
    if found.stage == "trainers" and on_cuda and facts.triton and facts.compiler and not engine.fuse:
        return {"--fuse": ""}, "trainers are the bottleneck, and compiling an update makes it quicker"
    if use.full:
        return {}, f"the preset's settings, as {use.full}: more threads or agents would only take turns"
    if found.stage == "trainers" and engine.trainers < _MOST_THREADS:
        return {"--trainers": str(engine.trainers + 1)}, "trainers are the bottleneck, and there is room for another"
    if found.stage == "predictors" and engine.predictors < _MOST_THREADS:
        return {
            "--predictors": str(engine.predictors + 1)
        }, "agents wait for predictions, and there is room for another"
    if found.stage == "agents" and engine.agents < _MOST_AGENTS:
        return {"--agents": str(2 * engine.agents)}, "there are too few agents to keep predictors and trainers busy"
    if found.stage == "environments" and 0 < engine.workers < min(facts.cores, engine.agents):
        return {
            "--workers": str(min(facts.cores, engine.agents))
        }, "environments are the bottleneck: a process per core"
    return {}, ""
