"""Runs that nobody trains, for the fake control room: their figures follow from the seconds they have run."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ga3c.metrics.snapshot import METRICS

Numbers = NDArray[np.float64]
Json = dict[str, Any]

SPACE = {"agents": [4, 8, 12, 16, 20, 24, 28, 32], "predictors": [1, 2, 3, 4], "trainers": [1, 2, 3, 4, 5, 6]}
RATES = {"learning_rate": 3e-4, "entropy_weight": 0.01}
_LIVE = ("running", "paused")


@dataclass
class FakeRun:
    """One run. `at_start` is how many seconds it had trained when the fake began."""

    id: str
    name: str
    env: str
    state: str
    at_start: float
    settings: Json
    limit: float = 7200.0
    best: float = 19.0
    stage: str = "trainers"
    with_pictures: bool = True
    system: str = "ga3c"
    setting: dict[str, int] = field(default_factory=lambda: {"agents": 16, "predictors": 2, "trainers": 2})
    tuning: bool = False
    held: dict[str, float | None] = field(default_factory=lambda: dict.fromkeys(RATES))
    events: list[Json] = field(default_factory=list)
    videos: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    version: int = 0
    """Rises whenever the run's state, setting or rates change."""

    @property
    def seconds(self) -> float:
        return self.at_start + (time.monotonic() - self.began if self.state == "running" else 0.0)

    @property
    def is_live(self) -> bool:
        return self.state in _LIVE

    def change(self, state: str) -> None:
        """The run goes over to another state."""
        self.at_start, self.began, self.state = self.seconds, time.monotonic(), state
        self.version += 1

    def tell(self, kind: str, text: str, **details: object) -> None:
        """Adds an event."""
        steps = round(float(self.columns(np.array([self.seconds]))["steps"][0]))
        now = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
        event = {"time": now, "seconds": self.seconds, "steps": steps, "kind": kind, "text": text, "details": details}
        self.events.append(event)

    # -- figures ------------------------------------------------------------------------------------------------------

    def columns(self, seconds: Numbers) -> dict[str, Numbers]:
        """All columns of metrics.csv at some seconds of training."""
        wobble = _wobble(seconds, sum(map(ord, self.id)))
        warm = 1.0 - np.exp(-seconds / 8.0)
        pps = (2900.0 + 60.0 * self.setting["trainers"]) * warm * (1.0 + 0.03 * wobble[0])
        tps = pps / 80.0 * (1.0 + 0.02 * wobble[1])
        learned = 1.0 / (1.0 + np.exp(-(seconds - 1500.0) / 420.0))
        shares = self._shares(wobble)
        figures: dict[str, Any] = {
            "seconds": seconds, "steps": np.floor(seconds * 2950.0), "frames": np.floor(seconds * 2950.0) * 4,
            "updates": seconds * 37.0, "episodes": seconds / 4.0, "progress": np.minimum(1.0, seconds / self.limit),
            "seconds_left": np.maximum(0.0, self.limit - seconds), "pps": pps, "tps": tps,
            "score": -21.0 + (self.best + 21.0) * learned + 0.6 * wobble[2],
            "best_score": -21.0 + (self.best + 21.0) * learned + 0.6,
            "episode_length": 900 + 1600 * learned + 30 * wobble[3],
            "prediction_queue": np.maximum(0.0, np.round(3.0 + 2.0 * wobble[4])),
            "training_queue": np.clip(np.round(78.0 + 14.0 * wobble[5]), 0, 100),
            "prediction_batch": np.clip(7.0 + wobble[6], 1, 32), "lag": 6.0 + 1.2 * wobble[7],
            "lag_max": 17.0 + 3.0 * np.abs(wobble[8]), "loss": 0.05 + 0.02 * wobble[0], "policy_loss": 0.01 * wobble[1],
            "value_loss": 0.12 * np.exp(-seconds / 900.0) + 0.03 + 0.004 * wobble[2],
            "entropy": 0.25 + 1.5 * np.exp(-seconds / 1400.0) + 0.02 * wobble[3],
            "gradient_norm": 0.4 + 0.05 * wobble[4], "learning_rate": 3e-4 * np.maximum(0.0, 1 - seconds / self.limit),
            "entropy_weight": np.full_like(seconds, self.held["entropy_weight"] or RATES["entropy_weight"]),
            "wait_ms": 4.6 + 0.3 * wobble[6], "predicting_ms": 2.1 + 0.1 * wobble[7], "preparing_ms": 0.2,
            "replying_ms": 0.1, "update_ms": 26.0 + wobble[8], "update_device_ms": 24.0 + wobble[8], "restarts": 0.0,
            "core_utilisation": np.clip(0.88 + 0.03 * wobble[0], 0, 1), **shares, **self.setting,
        }  # fmt: skip
        return {
            name: np.broadcast_to(np.asarray(figures.get(name, math.nan), float), seconds.shape) for name in METRICS
        }

    def _shares(self, wobble: Numbers) -> dict[str, Numbers]:
        """Shares of time that belong to the stage that limits the run."""
        held = 0.22 + 0.02 * wobble[1] if self.stage == "trainers" else 0.0 * wobble[1]
        stepping = (0.86 if self.stage == "environments" else 0.38) + 0.02 * wobble[2]
        predicting = (0.9 if self.stage == "predictors" else 0.41) + 0.02 * wobble[3]
        training = (0.97 if self.stage == "trainers" else 0.3) + 0.01 * wobble[4]
        return {
            "agent_stepping": stepping, "agent_waiting": 1 - stepping, "predictor_blocked": held,
            "predictor_predicting": predicting * (1 - held), "predictor_waiting": 1 - held - predicting * (1 - held),
            "trainer_training": training, "trainer_waiting": 1 - training,
        }  # fmt: skip

    def snapshot(self) -> Json:
        columns = self.columns(np.array([self.seconds]))
        if self.state == "paused":
            columns |= {name: np.zeros(1) for name in ("pps", "tps")}
        return finite({name: float(values[0]) for name, values in columns.items()})

    def series(self, names: list[str], x: str, points: int, low: float | None, high: float | None) -> Json:
        """What the server would have thinned out, in the range from `low` to `high` of x."""
        end = self.seconds
        rate = {"seconds": 1.0, "steps": 2950.0, "frames": 11800.0}[x]
        start, stop = max(1.0, (low or 0.0) / rate), min(end, (high or math.inf) / rate)
        if stop <= start:
            return {"x": [], "y": {name: {"mean": [], "low": [], "high": []} for name in names}, "rows": 0}
        seconds = np.linspace(start, stop, min(points, max(2, int(stop - start))))
        columns = self.columns(seconds)
        y = {name: {"mean": columns[name], "low": columns[name] * 0.97, "high": columns[name] * 1.03} for name in names}
        return {"x": columns[x], "y": y, "rows": int(end)}

    # -- what the server says of it -----------------------------------------------------------------------------------

    def row(self) -> Json:
        now = self.snapshot()
        names = ("steps", "seconds", "progress", "seconds_left", "score", "best_score", "pps", "tps")
        updated = time.time() if self.state == "running" else time.time() - 5000.0 - 3000.0 * ord(self.id[-1])
        own = {"name": self.name, "folder": f"runs/{self.name}", "env": self.env, "state": self.state}
        speeds = {} if self.is_live else {"seconds_left": None}
        return {
            "id": self.id, **own, **{name: now[name] for name in names}, **speeds, "settings": self.settings,
            "updated": updated, "started": updated - self.seconds,
        }  # fmt: skip

    def live(self) -> Json | None:
        """hello's object."""
        if not self.is_live:
            return None
        now = self.columns(np.array([self.seconds]))
        rates = {name: held if held is not None else float(now[name][0]) for name, held in self.held.items()}
        gallery = {"places": 16, "bytes": 160 * 210} if self.with_pictures else None
        return {
            "version": "0.6", "env": self.env, "pid": 4242, "paused": self.state == "paused", "tuning": self.tuning,
            "setting": self.setting, "space": SPACE, "rates": rates, "held": self.held, "profile": 5.0,
            "gallery": gallery,
        }  # fmt: skip

    def bottleneck(self) -> Json:
        now = self.snapshot()
        what, advice = {
            "trainers": (
                f"training holds predictors back {now['predictor_blocked']:.0%} of the time",
                "raise --trainers or --batch-rollouts",
            ),
            "environments": (
                f"agents step environments {now['agent_stepping']:.0%} of the time",
                "only more or faster cores can speed this up",
            ),
            "predictors": (
                f"agents wait {now['agent_waiting']:.0%} of the time for predictions",
                "raise --predictors or --agents",
            ),
        }[self.stage]
        return {"sentence": f"{what}: {advice}", "what": what, "advice": advice, "stage": self.stage}


def finite(value: Any) -> Any:
    """The same with null for numbers that are not finite, and lists for arrays."""
    if isinstance(value, np.ndarray):
        return [finite(one) for one in value.tolist()]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: finite(one) for name, one in value.items()}
    return [finite(one) for one in value] if isinstance(value, list | tuple) else value


def _wobble(seconds: Numbers, seed: int) -> Numbers:
    """Nine rows of noise around 0 that depend on the second alone: [9, N]."""
    rows = np.arange(9)[:, None] + seed
    fast = np.sin(seconds * (0.9 + 0.31 * rows)) + np.sin(seconds * (2.3 + 0.17 * rows) + rows)
    slow = np.sin(seconds / (40.0 + 7.0 * rows))
    noise: Numbers = 0.4 * fast + 0.5 * slow
    return noise


def made() -> list[FakeRun]:
    """Runs of each state, three of them with other seeds."""
    pong = {"engine.trainers": 2, "learn.rollout": 20}
    slow = pong | {"learn.learning_rate": 1e-4}
    runs = [
        FakeRun("a1", "pong-live", "ALE/Pong-v5", "running", 1240.0, pong | {"net.net": "large"}),
        FakeRun(
            "b2", "cartpole", "CartPole-v1", "running", 62.0, {"engine.agents": 32}, limit=180.0, best=480.0,
            stage="environments", with_pictures=False,
        ),
        FakeRun("e1", "breakout", "ALE/Breakout-v5", "paused", 900.0, {}, best=31.0, stage="predictors"),
        FakeRun("g1", "just-begun", "CartPole-v1", "paused", 0.0, {}, with_pictures=False),
        FakeRun("f1", "humanoid", "Humanoid-v5", "failed", 35.0, {"net.net": "mlp", "learn.discount": 0.995}, best=2.0),
        FakeRun("d1", "pong-lr1e-4-seed1", "ALE/Pong-v5", "stopped", 5400.0, slow | {"run.seed": 1}, best=9.0),
        FakeRun("d2", "pong-lr1e-4-seed2", "ALE/Pong-v5", "killed", 4100.0, slow | {"run.seed": 2}, best=11.0),
    ]  # fmt: skip
    for seed in (1, 2, 3):
        settings = pong | {"run.seed": seed}
        runs.append(
            FakeRun(f"c{seed}", f"pong-seed{seed}", "ALE/Pong-v5", "complete", 7200.0, settings, best=17.0 + seed)
        )
    for run in runs:
        run.tell("start", f"Training {run.env} in runs/{run.name}.")
        run.tell("checkpoint", "", steps=100)
        run.tell("tuned", "Tuned to 16 agents, 2 predictors and 2 trainers: TPS rose from 31.", agents=16)
        run.tell("warning", "An agent process did not answer for 10 seconds.")
        run.tell("restart", "Agent process 3 is restarted after a failure: its environment raised ValueError.")
    return runs
