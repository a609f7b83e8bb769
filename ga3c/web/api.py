"""What is on record of runs, as a page asks for it."""

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from ga3c import __version__
from ga3c.metrics import account, bottleneck
from ga3c.metrics.bottleneck import Bottleneck
from ga3c.metrics.sampling import Numbers
from ga3c.metrics.snapshot import METRICS
from ga3c.view import times
from ga3c.view.curves import RunCurve
from ga3c.view.plot import rules_of
from ga3c.web import query
from ga3c.web.answers import Json, Refusal
from ga3c.web.catalog import Catalog
from ga3c.web.jobs import Jobs
from ga3c.web.run_files import RunFiles, defaults
from ga3c.web.samples import Samples, View
from ga3c.web.series import Bins, Range, answer

_AXES = ("steps", "seconds", "frames")
_MOST_COLUMNS = 64
_MOST_POINTS = 4_000
_MOST_COMPARED = 64
_RECENT = 10
"""Rows from which the bottleneck and the account of time are taken: a single second varies too much."""
_MISSING = object()


class Api:
    """Answers from the folders of runs."""

    def __init__(self, catalog: Catalog, samples: Samples, jobs: Jobs, readonly: bool) -> None:
        self._catalog = catalog
        self._samples = samples
        self._jobs = jobs
        self._readonly = readonly

    def runs(self, request: Request) -> Response:
        rows = list(self._catalog.rows().values())
        return Json({"readonly": self._readonly, "version": __version__, "runs": rows})

    def details(self, run: RunFiles, live: dict[str, Any] | None) -> dict[str, Any]:
        """Everything about one run but its curves. `live` is what the run says of itself."""
        view = self._samples.metrics(run.folder).look()
        settings = run.settings
        return run.row() | {
            "all_settings": settings,
            "rules": rules(run, view),
            "columns": view.names,
            "live": live,
            "bottleneck": as_json(limit(view)) if settings.get("engine.system") == "ga3c" else None,
            "files": {
                "trace": run.has("trace.json"),
                "card": run.has("README.md"),
                "videos": list(run.videos()),
                "logs": run.logs(),
                **self._jobs.state(run),
            },
            "queue_capacity": capacity(settings, live),
        }

    def series(self, request: Request) -> Response:
        run = self._catalog.run(request.path_params["run"])
        names = query.names(request, "y", _MOST_COLUMNS)
        x = query.choice(request, "x", _AXES)
        limits = _range(request)
        view = self._samples.metrics(run.folder).look(x, limits)
        bins = Bins(view.column(x), query.whole(request, "points", 800, 2, _MOST_POINTS), limits)
        ys = {name: bins.spread(view.column(name)) for name in names}
        return Json(answer(bins, ys, view.total, view.is_whole))

    def episodes(self, request: Request) -> Response:
        run = self._catalog.run(request.path_params["run"])
        x = query.choice(request, "x", _AXES)
        limits = _range(request)
        scale = self._frames_per_step(run) if x == "frames" else 1.0
        column = "steps" if x == "frames" else x
        inner = Range(limits.low / scale, limits.high / scale)
        view = self._samples.episodes(run.folder).look(column, inner)
        points = query.whole(request, "points", 400, 2, _MOST_POINTS)
        bins = Bins(view.column(column) * scale, points, limits, ties=True)
        ys = {name: bins.quantiles(view.column(name)) for name in ("score", "length")}
        return Json(answer(bins, ys, view.total, view.is_whole))

    def times(self, request: Request) -> Response:
        """The account of time of the last seconds."""
        run = self._catalog.run(request.path_params["run"])
        view = self._samples.metrics(run.folder).look()
        step = [(name, part) for name, part in times.STEP if part != "agent_waiting"]
        blocks = {
            "step": step,
            "prediction": [(name, part) for name, part in step if part.startswith("prediction_")],
            "update": times.UPDATE,
        }
        parts = {title: [_times(view, *named) for named in block] for title, block in blocks.items()}
        return Json({"seconds": _last(view.column("seconds")), **parts})

    def compare(self, request: Request) -> Response:
        runs = [self._catalog.run(id_) for id_ in query.names(request, "runs", _MOST_COMPARED)]
        settings = {run.id: run.settings for run in runs}
        names = dict.fromkeys(name for one in settings.values() for name in one)
        differing = [
            {"name": name, "values": {id_: one.get(name) for id_, one in settings.items()}}
            for name in names
            if len({repr(one.get(name, _MISSING)) for one in settings.values()}) > 1
        ]
        return Json({"settings": differing, "groups": groups(runs)})

    def _frames_per_step(self, run: RunFiles) -> float:
        return frames_per_step(self._samples.metrics(run.folder).look())


def capacity(settings: dict[str, Any], live: dict[str, Any] | None) -> dict[str, float]:
    """What the queues have room for: every agent waits at most once, and the training queue has room for two batches
    at least."""
    space = (live or {}).get("space") or {}
    agents = space.get("agents") or [_setting(settings, "engine.max_agents"), _setting(settings, "engine.agents")]
    batch = _setting(settings, "learn.batch_rollouts")
    return {"prediction": max(1, *agents), "training": max(_setting(settings, "engine.queue"), 2 * batch)}


def limit(view: View) -> Bottleneck | None:
    """What limits a run in its last seconds."""
    columns = [view.column(name)[-_RECENT:] for name in METRICS]
    recent = [SimpleNamespace(**dict(zip(METRICS, row, strict=True))) for row in zip(*columns, strict=True)]
    return bottleneck.find_in_run(recent) if recent else None


def as_json(found: Bottleneck | None) -> dict[str, str] | None:
    if found is None:
        return None
    return {"sentence": found.sentence, "what": found.what, "advice": found.advice, "stage": found.stage}


def frames_per_step(view: View) -> float:
    frames, steps = (_last(view.column(name)) or math.nan for name in ("frames", "steps"))
    return frames / steps if frames > 0.0 and steps > 0.0 else 1.0


def rules(run: RunFiles, view: View) -> str:
    """The protocol of the run's scores; empty outside Atari."""
    nothing = np.zeros(0)
    settings = run.settings
    try:
        return rules_of([RunCurve(run.folder, settings, 0, nothing, nothing, frames_per_step(view))])
    except KeyError:
        return ""


def groups(runs: Sequence[RunFiles]) -> list[list[str]]:
    """Runs that differ in their seed and limits alone."""
    found: dict[str, list[str]] = {}
    for run in runs:
        ways = sorted((name, repr(value)) for name, value in run.settings.items() if not name.startswith("run."))
        found.setdefault(repr(ways), []).append(run.id)
    return list(found.values())


def _times(view: View, name: str, part: str) -> dict[str, Any]:
    figures = {figure: _mean(view.column(f"{part}_{figure}_ms")[-_RECENT:]) for figure in account.Spread._fields}
    return {"part": part, "name": name.strip(), **figures}


def _mean(values: Numbers) -> float | None:
    there = values[np.isfinite(values)]
    return float(there.mean()) if len(there) else None


def _last(values: Numbers) -> float | None:
    return float(values[-1]) if len(values) and math.isfinite(values[-1]) else None


def _range(request: Request) -> Range:
    limits = Range(query.number(request, "from", -math.inf), query.number(request, "to", math.inf))
    if limits.low > limits.high:
        raise Refusal(400, "from must not be above to.")
    return limits


def _setting(settings: dict[str, Any], name: str) -> int:
    value = settings.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else int(defaults()[name])
