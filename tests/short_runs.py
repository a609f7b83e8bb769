"""Runs a program with `ga3c.train`, `ga3c.resume` and `ga3c.evaluate` cut short: `python -m short_runs PROGRAM`."""

import runpy
import sys
from typing import Any

import ga3c

TRAINED, RESUMED, PLAYED = 2_500, 3_000, 2
"""Agent steps of a run, agent steps of a resumed run, and episodes of an evaluation."""


def shorten() -> None:
    train, resume, evaluate = ga3c.train, ga3c.resume, ga3c.evaluate

    def short_train(env: Any = None, *, minutes: float | None = None, **settings: Any) -> Any:
        return train(env, **(settings | {"steps": TRAINED, "ui": "none"}))

    def short_resume(folder: Any, *, minutes: float | None = None, **settings: Any) -> Any:
        return resume(folder, **(settings | {"steps": RESUMED, "ui": "none"}))

    def short_evaluate(folder: Any, episodes: int = 30, **settings: Any) -> Any:
        return evaluate(folder, min(episodes, PLAYED), **settings)

    ga3c.train, ga3c.resume, ga3c.evaluate = short_train, short_resume, short_evaluate  # type: ignore[assignment]


if __name__ == "__main__":
    shorten()
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
