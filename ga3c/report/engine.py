"""The engine of a run: the drawing with the run's means, and what limits the run."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ga3c.metrics import bottleneck
from ga3c.metrics.bottleneck import Bottleneck
from ga3c.metrics.text import count, number
from ga3c.report import drawing
from ga3c.report.drawing import Place, Queue, Share, Stage
from ga3c.report.markup import NOTHING, Markup, element, facts, paragraph, section
from ga3c.report.record import RunRecord

_WORK, _WAIT, _HELD = "work", "wait", "held"
_FLAG = re.compile(r"(--[a-z][a-z-]*)")
_LIT: Mapping[str, Place] = {
    "environments": "agents", "agents": "agents", "predictors": "predictors", "trainers": "trainers",
}  # fmt: skip


@dataclass(frozen=True)
class Means:
    """Shares of time and the use of the machine, as means over a run; NaN for what is not on record."""

    agent_stepping: float
    agent_waiting: float
    predictor_predicting: float
    predictor_waiting: float
    predictor_blocked: float
    trainer_training: float
    trainer_waiting: float
    gpu_utilisation: float
    core_utilisation: float


def means(run: RunRecord) -> Means:
    return Means(**{name: run.mean(name) for name in Means.__dataclass_fields__})


def limit(run: RunRecord) -> Bottleneck | None:
    """What limited the run over all its time; None where nothing shows it."""
    return bottleneck.find_in_run([means(run)]) if run.system == "ga3c" else None


def show(run: RunRecord) -> Markup:
    """The section; nothing for a run without a record."""
    if not run.columns:
        return NOTHING
    now = means(run)
    if run.system != "ga3c":
        text = f"Every agent of {run.system} has a model of its own, so there are no predictors, trainers and queues."
        shares = [("agents step environments", now.agent_stepping), ("agents learn", now.trainer_training)]
        return section("The engine", paragraph(text), facts([(name, _percent(share)) for name, share in shares]))
    found = limit(run)
    stages, queues, flows = _stages(run, now, found), _queues(run), _flows(run)
    text = " ".join(
        [*(f"{s.title}: {_told(s)}." for s in stages.values()), *(f"{q.title}: {q.note}." for q in queues.values())]
    )
    both = [
        drawing.draw(layout, stages, queues, flows, text, class_)
        for layout, class_ in ((drawing.ACROSS, "wide"), (drawing.DOWN, "narrow"))
    ]
    note = "Rates and shares are means over the run; the areas in the queues are their fill from its start to its end."
    return section("The engine", _sentence(found), element("figure", *both), paragraph(note, class_="note"))


def _sentence(found: Bottleneck | None) -> Markup:
    if found is None:
        return paragraph("No stage stood out as the limit of this run.", class_="limit")
    stage = "too few agents" if found.stage == "agents" else f"the {found.stage}"
    return element(
        "p",
        element("b", f"The run was limited by {stage}."),
        f" {found.what[:1].upper()}{found.what[1:]}. What to change: ",
        *_flags(f"{found.advice}."),
        class_="limit",
    )


def _flags(text: str) -> list[str]:
    """The parts of a text, with flags as code, which keeps each on one line."""
    return [element("code", part) if part.startswith("--") else part for part in _FLAG.split(text)]


def _stages(run: RunRecord, now: Means, found: Bottleneck | None) -> dict[Place, Stage]:
    lit = _LIT[found.stage] if found else None
    agents = [Share("stepping", now.agent_stepping, _WORK), Share("waiting", now.agent_waiting, _WAIT)]
    predictors = [
        Share("predicting", now.predictor_predicting, _WORK),
        Share("waiting", now.predictor_waiting, _WAIT),
        Share("held back", now.predictor_blocked, _HELD),
    ]
    trainers = [Share("training", now.trainer_training, _WORK), Share("waiting", now.trainer_waiting, _WAIT)]
    notes = ((f"{number(run.mean('wait_ms'))} ms for an action",), (f"{number(run.mean('update_ms'))} ms an update",))
    return {
        "agents": Stage(_count(run, "agents"), notes[0], _known(agents), lit == "agents"),
        "predictors": Stage(_count(run, "predictors"), (), _known(predictors), lit == "predictors"),
        "trainers": Stage(_count(run, "trainers"), notes[1], _known(trainers), lit == "trainers"),
        "model": Stage("Model", _machine(run, now)),
    }


def _machine(run: RunRecord, now: Means) -> list[str]:
    """The model's network and device, and how much of the machine is in use."""
    net = "network" if run.settings["net.net"] == "auto" else str(run.settings["net.net"])
    notes = [f"{net} on the {run.device}"[:30], f"lag {number(run.mean('lag'))} updates"]
    used = [("GPU", now.gpu_utilisation), ("cores", now.core_utilisation)]
    texts = [f"{name} {_percent(share)}" for name, share in used if math.isfinite(share)]
    return [*notes, *([f"in use: {', '.join(texts)}"] if texts else [])]


def _queues(run: RunRecord) -> dict[Place, Queue]:
    batch = run.number("learn.batch_rollouts", 1.0)
    most_agents = max(1.0, run.highest("agents"))
    room = max(run.number("engine.queue", 100.0), 2 * batch)
    of_agents = f"{number(run.mean('prediction_queue'))} of {number(most_agents)} agents"
    of_rollouts = f"{number(run.mean('training_queue'))} of {number(room)} rollouts"
    return {
        "prediction queue": Queue("Prediction queue", of_agents, *run.curve("prediction_queue"), most_agents),
        "training queue": Queue("Training queue", of_rollouts, *run.curve("training_queue"), room),
    }


def _flows(run: RunRecord) -> dict[str, str]:
    """The texts at the arrows."""
    pps, batch = run.mean("pps"), run.mean("prediction_batch")
    per_second = pps / batch if batch > 0.0 else math.nan
    return {
        "requests": f"{number(pps)}/s",
        "batches": f"{number(batch)} at once",
        "predictions": f"{number(per_second)}/s",
        "weights": "weights",
        "actions": f"{number(pps)} actions/s (PPS)",
        "rollouts": f"{number(pps / max(1.0, run.number('learn.rollout', 1.0)))} rollouts/s",
        "updates' rollouts": f"{number(run.number('learn.batch_rollouts', 1.0))} at once",
        "updates": f"TPS {number(run.mean('tps'))}",
    }


def _count(run: RunRecord, name: str) -> str:
    last = run.last(name)
    return "Agents" if math.isnan(last) else count(round(last), name.removesuffix("s"))


def _known(shares: list[Share]) -> list[Share]:
    return [share for share in shares if math.isfinite(share.part)]


def _told(stage: Stage) -> str:
    return ", ".join([*stage.notes, *(f"{share.word} {share.part:.0%}" for share in stage.shares)])


def _percent(share: float) -> str:
    return f"{share:.0%}" if math.isfinite(share) else "not on record"
