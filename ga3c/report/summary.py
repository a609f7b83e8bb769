"""The summary of a run: its state, its score under its rules, how far it came, and the command that repeats it."""

import shlex
from datetime import UTC, datetime

from ga3c.metrics.snapshot import AVERAGED_EPISODES
from ga3c.metrics.text import clock, count, number
from ga3c.report import engine
from ga3c.report.happenings import when
from ga3c.report.markup import NOTHING, Markup, element, facts, join
from ga3c.report.record import RunRecord

_OWN_RULES = "the environment's own rules"
_SILENT_SECONDS = 120.0
"""A run that has written no state for so long has ended without a word."""


def state(run: RunRecord, now: datetime | None = None) -> str:
    """How a run ended, or that it goes on."""
    told = str(run.status.get("state", ""))
    if told not in ("running", "paused"):
        return told or "not on record"
    try:
        silent = ((now or datetime.now(UTC)) - datetime.fromisoformat(str(run.status.get("updated")))).total_seconds()
    except (ValueError, TypeError):
        return told
    if silent > _SILENT_SECONDS:
        return f"ended without a word; last heard of {when(run.status['updated'])}"
    return told


def score(run: RunRecord) -> str:
    rules = f" ({run.rules})" if run.rules else ""
    return f"{number(run.last('score'))}{rules}"


def show(run: RunRecord) -> Markup:
    """The most important figures large, the others as a list, and what could not be read."""
    found = engine.limit(run)
    large = [
        ("state", state(run)),
        ("score", number(run.last("score"))),
        ("best score", number(run.last("best_score"))),
        ("steps", number(run.last("steps"))),
        ("training", clock(max(0.0, run.last("seconds"))) if run.columns else "-"),
        ("PPS", number(run.mean("pps"))),
        ("TPS", number(run.mean("tps"))),
        ("limited by", ("too few agents" if found.stage == "agents" else found.stage) if found else "-"),
    ]
    tiles = [element("div", element("dt", name), element("dd", value)) for name, value in large]
    return join([_troubles(run), element("dl", *tiles, class_="tiles"), facts(_facts(run))])


def _facts(run: RunRecord) -> list[tuple[str, str]]:
    starts = [event for event in run.events if event.get("kind") == "start"]
    steps, updates, episodes = (run.last(name) for name in ("steps", "updates", "episodes"))
    done = [f"{value:,.0f} {name}" for name, value in _done(steps, run.last("frames"), updates, episodes)]
    command = f"ga3c train {shlex.quote(run.env_id)} --config {shlex.quote(str(run.folder / 'config.toml'))}"
    return [
        ("environment", run.env_id),
        ("rules of the score", f"{run.rules or _OWN_RULES}; the mean of the last {AVERAGED_EPISODES} episodes"),
        (
            "settings",
            f"preset {run.settings['preset']}, {_network(run)}, seed {run.settings['run.seed']}",
        ),
        ("system", f"{run.system} on the {run.device}" + _deterministic(run)),
        ("done", ", ".join(done)),
        ("started", when(starts[0].get("time")) if starts else ""),
        ("resumed", count(len(starts) - 1, "time") if len(starts) > 1 else ""),
        ("restarts of agent processes", f"{run.last('restarts'):.0f}" if run.last("restarts") > 0 else ""),
        ("to train it again", element("code", command)),
    ]


def _network(run: RunRecord) -> str:
    net = run.settings["net.net"]
    return "network chosen by the observation" if net == "auto" else f"network {net}"


def _done(*values: float) -> list[tuple[str, float]]:
    names = ("agent steps", "frames", "updates", "episodes")
    return [(name, value) for name, value in zip(names, values, strict=True) if value >= 0.0]


def _deterministic(run: RunRecord) -> str:
    return ", deterministic" if run.settings.get("engine.deterministic") is True else ""


def _troubles(run: RunRecord) -> Markup:
    if not run.troubles:
        return NOTHING
    return element("ul", *(element("li", sentence) for sentence in run.troubles), class_="troubles")
