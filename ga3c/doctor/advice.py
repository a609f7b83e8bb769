"""The settings that suit a machine, by a measurement on it, as a command line to paste."""

import shlex
from dataclasses import dataclass

from ga3c.config import Config, DeviceName
from ga3c.doctor.facts import Facts
from ga3c.flags import keywords
from ga3c.metrics.bottleneck import Bottleneck, Use

_NUMBERS = {"--agents", "--predictors", "--trainers"}
"""Numbers that a run tunes by itself, unless one of them is given."""
_MOST_THREADS = 64
_MOST_AGENTS = 4096


@dataclass(frozen=True)
class Suggestion:
    """A command, and the reasons for its flags."""

    command: str
    reasons: tuple[str, ...]


def suggest(
    config: Config, device: DeviceName, facts: Facts, found: Bottleneck | None = None, use: Use | None = None
) -> Suggestion:
    """The preset's settings, with a change against the bottleneck if the machine has room for it."""
    use = use or Use()
    flags: dict[str, str] = {} if device == "auto" else {"--device": device}
    reasons: list[str] = []
    if found is not None:
        changes, why = _against(found, use, config, facts)
        if changes.keys() & _NUMBERS:
            changes["--tune"] = ""  # numbers that are given are not tuned otherwise
        flags |= changes
        reasons += [why] if why else []
    of_env = [f"{name}={keywords.text(value)}" for name, value in config.env_args.items()]
    words = ["ga3c", "train", config.env_id, *(["--env-args", *of_env] if of_env else [])]
    words += ["--wrap", *config.env.wrap] if config.env.wrap else []
    words = [*words, *(word for name, value in flags.items() for word in (name, value) if word)]
    return Suggestion(shlex.join(words), tuple(reasons) or ("the preset's settings fit this machine",))


def _against(found: Bottleneck, use: Use, config: Config, facts: Facts) -> tuple[dict[str, str], str]:
    """The flags against a bottleneck, and the reason; no flags if the machine is fully used."""
    engine = config.engine
    on_cuda = facts.torch is not None and facts.torch.sees_gpu and engine.device != "cpu"
    if found.stage == "trainers" and on_cuda and facts.triton and facts.compiler and not engine.fuse:
        return {"--fuse": ""}, "trainers are the bottleneck, and compiled updates are faster"
    if use.full:
        return {}, f"the preset's settings, since {use.full} and more threads or agents would only wait for each other"
    if found.stage == "trainers" and engine.trainers < _MOST_THREADS:
        return {
            "--trainers": str(engine.trainers + 1)
        }, "trainers are the bottleneck, and the machine has room for one more"
    if found.stage == "predictors" and engine.predictors < _MOST_THREADS:
        return {
            "--predictors": str(engine.predictors + 1)
        }, "agents wait for predictions, and the machine has room for one more predictor"
    if found.stage == "agents" and engine.agents < _MOST_AGENTS:
        return {"--agents": str(2 * engine.agents)}, "too few agents to keep predictors and trainers busy"
    if found.stage == "environments" and 0 < engine.workers < min(facts.cores, engine.agents):
        return {
            "--workers": str(min(facts.cores, engine.agents))
        }, "environments are the bottleneck, and a process per core is faster"
    return {}, ""
