"""A control room without runs: every request of the page is answered, with data that moves. Nothing is checked, and
there is no token: the real server does that. `python tests/web/fake.py` serves it for work on the page."""

import asyncio
import base64
import json
import struct
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from fake_runs import FakeRun, finite, made
from pictures import game, grey, png
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from ga3c.metrics.account import OF_TRAINERS, STEP
from ga3c.view import times

STATIC = Path(__file__).parents[2] / "ga3c" / "web" / "static"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self'; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".html": "text/html"}
_SPANS = (("step", "wait"), ("wait", "prepare", "predict", "reply"), ("wait", "update"))
_LOOKS = 5
_DEFAULTS = {
    "env_id": "", "engine.system": "ga3c", "engine.device": "auto", "engine.queue": 100, "learn.rollout": 5,
    "learn.batch_rollouts": 4, "net.net": "auto", "run.seed": 1, "learn.learning_rate": 3e-4, "learn.discount": 0.99,
    "env.repeat_action_probability": 0.25, "run.checkpoint_minutes": 10,
}  # fmt: skip
_ACTIONS = ["noop", "fire", "right", "left", "right fire", "left fire"]


class Fake:
    """The state of the fake control room. Tests change its runs while it serves."""

    def __init__(self, runs: Sequence[FakeRun], readonly: bool = False, beat: float = 1.0) -> None:
        """`beat` is the time between two snapshots, in seconds."""
        self.runs = {run.id: run for run in runs}
        self.readonly = readonly
        self.beat = beat
        self.asked: list[dict[str, Any]] = []
        """All commands."""

    def app(self) -> Starlette:
        of_run = "/api/runs/{run}"
        gets = {
            "/": self.page, "/static/{name:path}": self.static, "/api/runs": self.list, of_run: self.details,
            f"{of_run}/series": self.series, f"{of_run}/episodes": self.episodes, f"{of_run}/times": self.times,
            f"{of_run}/events": self.events, f"{of_run}/windows": self.windows, f"{of_run}/trace": self.trace,
            f"{of_run}/logs/{{name}}": self.log, f"{of_run}/card": self.card, f"{of_run}/report": self.report,
            f"{of_run}/video/{{name}}": self.video, f"{of_run}/wall": self.wall, f"{of_run}/look": self.look,
            "/api/stream": self.stream, "/api/compare": self.compare,
        }  # fmt: skip
        posts = {f"{of_run}/command": self.command, f"{of_run}/trace": self.take_trace, f"{of_run}/video": self.film}
        routes = [Route(path, answer) for path, answer in gets.items()]
        return Starlette(routes=[*routes, *(Route(path, answer, methods=["POST"]) for path, answer in posts.items())])

    def run_of(self, request: Request) -> FakeRun:
        return self.runs[request.path_params["run"]]

    # -- files --------------------------------------------------------------------------------------------------------

    async def page(self, request: Request) -> Response:
        return FileResponse(STATIC / "index.html", headers={"Content-Security-Policy": POLICY})

    async def static(self, request: Request) -> Response:
        path = STATIC / request.path_params["name"]
        return FileResponse(path, media_type=_TYPES[path.suffix], headers={"Content-Security-Policy": POLICY})

    # -- records ------------------------------------------------------------------------------------------------------

    async def list(self, request: Request) -> Response:
        rows = [run.row() for run in self.runs.values()]
        return JSONResponse({"readonly": self.readonly, "version": "0.6", "runs": rows})

    async def details(self, request: Request) -> Response:
        if request.path_params["run"] not in self.runs:
            return JSONResponse({"error": "There is no such run."}, 404)
        run = self.run_of(request)
        files = {"trace": True, "videos": run.videos, "card": True, "logs": ["server.log", "agents-000.log"]}
        own = {"env_id": run.env, "engine.system": run.system}
        return JSONResponse(
            run.row()
            | {
                "all_settings": _DEFAULTS | own | run.settings, "rules": "standard", "columns": list(run.snapshot()),
                "live": run.live(), "bottleneck": run.bottleneck(), "files": files,
                "queue_capacity": {"prediction": run.setting["agents"], "training": 100},
            }
        )  # fmt: skip

    async def series(self, request: Request) -> Response:
        query = request.query_params
        low, high = (float(query[name]) if name in query else None for name in ("from", "to"))
        answer = self.run_of(request).series(
            query["y"].split(","), query["x"], int(query.get("points", 800)), low, high
        )
        return JSONResponse(finite(answer))

    async def episodes(self, request: Request) -> Response:
        query = request.query_params
        answer = self.run_of(request).series(["score"], query["x"], int(query.get("points", 400)), None, None)
        score = np.asarray(answer["y"]["score"]["mean"])
        answer["y"]["score"] |= {"low": score - 5.0, "high": np.minimum(21.0, score + 4.0)}
        return JSONResponse(finite(answer))

    async def times(self, request: Request) -> Response:
        means = {
            "agent_stepping": 1.1, "prediction_queueing": 0.9, "prediction_batching": 0.05, "prediction_copying": 0.12,
            "prediction_device": 1.9, "prediction_returning": 0.2, "agent_turn": 0.6, "update_waiting": 0.8,
            "update_gathering": 1.4, "update_device": 23.0, "update_overhead": 0.7,
        }  # fmt: skip

        def parts(named: Sequence[tuple[str, str]], wanted: Sequence[str]) -> list[dict[str, Any]]:
            return [
                {"part": part, "name": name.strip(), "mean": means[part]}
                | {figure: means[part] * factor for figure, factor in (("p50", 0.9), ("p95", 1.8), ("p99", 2.7))}
                for name, part in named
                if part in wanted
            ]

        answer = {"step": parts(times.STEP, STEP), "update": parts(times.UPDATE, OF_TRAINERS)}
        answer["prediction"] = [part for part in answer["step"] if part["part"].startswith("prediction_")]
        return JSONResponse({"seconds": self.run_of(request).seconds, **answer})

    async def events(self, request: Request) -> Response:
        run, after = self.run_of(request), int(request.query_params.get("after", 0))
        return JSONResponse({"next": len(run.events), "events": run.events[after:]})

    async def windows(self, request: Request) -> Response:
        rows, accepted = [], (16, 2, 2)
        tried = [(16, 2, 2), (16, 2, 3), (24, 2, 3), (24, 3, 3), (24, 2, 2), (8, 2, 2), (16, 1, 2), (32, 2, 3)]
        for number, setting in enumerate(tried):
            tps = 30.0 + 3.0 * setting[2] + 0.2 * setting[0] - 2.0 * (setting[1] - 2) ** 2 + number % 2
            better = not rows or tps > max(row["tps"] for row in rows)
            accepted = setting if better else accepted
            names = ("agents", "predictors", "trainers")
            rows.append(
                {
                    "seconds": 40.0 + 21.0 * number,
                    "steps": 90_000 + 50_000 * number,
                    **dict(zip(names, setting, strict=True)),
                }
                | {"tps": tps, "pps": tps * 80, "lag": 6.0, "decision": "accepted" if better else "rejected"}
                | {f"accepted_{name}": value for name, value in zip(names, accepted, strict=True)}
                | {"why": f"TPS rose to {tps:.3g}" if better else f"TPS did not rise above {tps:.3g}"}
            )
        return JSONResponse({"windows": rows})

    async def trace(self, request: Request) -> Response:
        names = sorted({name for kind in _SPANS for name in kind})
        tracks, end = [], 5_000_000
        kinds = (("agents", 4, _SPANS[0]), ("predictors", 2, _SPANS[1]), ("trainers", 2, _SPANS[2]))
        for kind, count, span_names in kinds:
            for number in range(count):
                spans, at, turn = [], 137 * number, number
                while at < end:
                    length = 400 + (turn * 7919) % 5000
                    spans.append([at, length, names.index(span_names[turn % len(span_names)])])
                    at, turn = at + length, turn + 1
                tracks.append({"kind": kind, "name": f"{kind}-{number:03d}", "spans": spans})
        return JSONResponse({"seconds": end / 1e6, "tracks": tracks, "names": names})

    async def take_trace(self, request: Request) -> Response:
        return JSONResponse({"ok": True, "text": "Done: a trace of 5 seconds.", "seconds": 5.0})

    async def log(self, request: Request) -> Response:
        return PlainTextResponse(f"the end of {request.path_params['name']}\n" + "nothing happened\n" * 40)

    async def card(self, request: Request) -> Response:
        return PlainTextResponse("# A policy\n\nMean score 18.2 of 30 episodes.\n")

    async def report(self, request: Request) -> Response:
        return HTMLResponse("<!doctype html><title>Report</title><p>A report.")

    async def film(self, request: Request) -> Response:
        self.run_of(request).videos.append("episode-1.mp4")
        return JSONResponse({"started": True})

    async def video(self, request: Request) -> Response:
        return Response(b"", media_type="video/mp4")

    async def compare(self, request: Request) -> Response:
        runs = [self.runs[one] for one in request.query_params["runs"].split(",")]
        names = sorted({name for run in runs for name in run.settings})
        values = {name: {run.id: run.settings.get(name, _DEFAULTS.get(name)) for run in runs} for name in names}
        differing = [{"name": name, "values": of} for name, of in values.items() if len(set(map(str, of.values()))) > 1]
        groups: dict[str, list[str]] = {}
        for run in runs:
            groups.setdefault(json.dumps(run.settings | {"run.seed": 0}, sort_keys=True), []).append(run.id)
        return JSONResponse({"settings": differing, "groups": list(groups.values())})

    # -- live ---------------------------------------------------------------------------------------------------------

    async def wall(self, request: Request) -> Response:
        run, now = self.run_of(request), int(time.monotonic() * 10)
        if not run.is_live or not run.with_pictures or int(request.query_params.get("since", 0)) >= now:
            return Response(status_code=204)
        parts = []
        for agent in range(min(16, run.setting["agents"])):
            picture = png(game(agent, run.seconds))
            score = float(-21 + (agent * 5 + int(run.seconds / 9)) % 40)
            parts.append(struct.pack("<HHIqdqII", agent, 1, agent, now, score, 700, len(picture), 0) + picture)
        return Response(b"".join(parts), media_type="application/octet-stream")

    async def look(self, request: Request) -> Response:
        run, agent = self.run_of(request), int(request.query_params["agent"])

        async def moments() -> AsyncIterator[str]:
            while run.is_live:
                seconds = run.seconds
                logits = np.array([np.sin(seconds + number) for number in range(6)])
                chances = np.exp(logits) / np.exp(logits).sum()
                stack = [png(grey(agent, seconds - 0.07 * (3 - place))) for place in range(4)]
                length = int(seconds * 60) % 1500
                look = {
                    "agent": agent, "step": int(seconds * 60), "score": -3.0, "length": length, "reward": 0.0,
                    "value": float(np.sin(length / 90)), "actions": _ACTIONS, "probabilities": chances.tolist(),
                }  # fmt: skip
                if run.with_pictures:
                    look["frames"] = ["data:image/png;base64," + base64.b64encode(one).decode() for one in stack]
                else:
                    look |= {"numbers": [float(np.sin(seconds + place)) for place in range(4)]}
                yield _message("look", look)
                await asyncio.sleep(1 / _LOOKS)

        return StreamingResponse(moments(), media_type="text/event-stream")

    async def stream(self, request: Request) -> Response:
        watched = [one for one in request.query_params.get("runs", "").split(",") if one]
        return StreamingResponse(self._news(watched), media_type="text/event-stream")

    async def _news(self, watched: Sequence[str]) -> AsyncIterator[str]:
        told = {one: (self.runs[one].version, len(self.runs[one].events), self.runs[one].is_live) for one in watched}
        states = {one: run.state for one, run in self.runs.items()}
        while True:
            rows = [run.row() for one, run in self.runs.items() if run.state == "running" or states[one] != run.state]
            states = {one: run.state for one, run in self.runs.items()}
            yield _message("runs", rows)
            for one in watched:
                run = self.runs[one]
                version, events, was_live = told[one]
                told[one] = (run.version, len(run.events), run.is_live)
                for event in run.events[events:]:
                    yield _message("event", {"run": one, "event": event})
                if was_live and not run.is_live:
                    yield _message("gone", {"run": one})
                elif run.is_live and version != run.version:
                    yield _message("state", {"run": one, "state": run.live()})
                if run.is_live:
                    yield _message("snapshot", {"run": one, "snapshot": run.snapshot(), "bottleneck": run.bottleneck()})
            await asyncio.sleep(self.beat)

    async def command(self, request: Request) -> Response:
        if self.readonly:
            return JSONResponse({"error": "This control room is read-only."}, 403)
        run, asked = self.run_of(request), await request.json()
        self.asked.append(asked)
        await asyncio.sleep(self.beat / 4)  # the run answers at the next turn of its loop
        text = _obey(run, asked)
        if text is None:
            return JSONResponse({"ok": False, "text": "32 agents are too many for this machine."})
        run.tell("command", text, **asked)
        return JSONResponse({"ok": True, "text": f"Done: {text}"})


def _obey(run: FakeRun, asked: dict[str, Any]) -> str | None:
    """Carries a command out; None if the run refuses."""
    do = asked["do"]
    if do == "set":
        if asked.get("agents") == 32:
            return None
        run.setting = run.setting | {name: value for name, value in asked.items() if name in run.setting}
        run.held |= {name: value for name, value in asked.items() if name in run.held}
        run.held = dict.fromkeys(run.held) if asked.get("schedule") else run.held
        run.tuning = asked["tuning"] == "on" if "tuning" in asked else run.tuning
        run.version += 1
        return ", ".join(f"{name} {value}" for name, value in asked.items() if name != "do") + "."
    if do in ("pause", "resume", "stop"):
        run.change({"pause": "paused", "resume": "running", "stop": "stopped"}[do])
    return {"pause": "paused.", "resume": "the run goes on.", "stop": "the run ends.", "checkpoint": "a checkpoint."}[
        do
    ]


def _message(name: str, data: object) -> str:
    return f"event: {name}\ndata: {json.dumps(finite(data))}\n\n"


if __name__ == "__main__":
    print("http://127.0.0.1:8123/")
    uvicorn.run(Fake(made()).app(), port=8123, log_level="warning")
