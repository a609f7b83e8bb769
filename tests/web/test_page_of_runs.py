"""The page of the control room in a browser, with real runs behind it: from `ga3c train --web` and from `ga3c web`."""

import contextlib
import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsers import chromium, opened
from runs import started, wait_for

pytest.importorskip("uvicorn", reason="needs the extra `web`")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

_SMALL = ("--agents", 8, "--workers", 1, "--predictors", 1, "--trainers", 2, "--tune", "off")
_PATIENCE = 60_000  # milliseconds; other work may keep the cores
_DOTS = "[...document.querySelectorAll('svg.across .dots')].map((dots) => dots.style.strokeDashoffset)"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


def address_of(process: "subprocess.Popen[str]") -> str:
    """The address with the token, as the command prints it."""
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r"http://\S+token=\S+", line):
            return found.group()
    raise AssertionError("the command ended without an address")


def kinds(folder: Path) -> list[str]:
    path = folder / "events.jsonl"
    return [json.loads(line)["kind"] for line in path.read_text().splitlines()] if path.exists() else []


@contextlib.contextmanager
def page_of(browser: Any, address: str, name: str) -> Iterator[Any]:
    """The page of a run, found in the list."""
    with opened(browser, address) as page:
        page.set_default_timeout(_PATIENCE)
        page.get_by_role("link", name=name).click()
        page.locator(".state").get_by_text("running").wait_for()
        yield page


def test_a_run_is_watched_steered_and_stopped(browser: Any, tmp_path: Path) -> None:
    """The curve of scores grows, the drawing moves, the number of trainers changes by a slider, and stop stops."""
    folder = tmp_path / "cartpole"
    words = ("train", "CartPole-v1", "--web", "--web-port", 0, "--out", folder, "--minutes", 10, *_SMALL)
    with started(*words) as process, page_of(browser, address_of(process), "cartpole") as page:
        score = page.locator('[data-chart="Score"] .plot')
        score.locator("canvas").wait_for()
        told = "(before) => document.querySelector('[data-chart=Score] .plot').getAttribute('aria-label') !== before"
        for _ in range(3):  # it says what it shows up to now
            page.wait_for_function(told, arg=score.get_attribute("aria-label"))
        page.wait_for_function(f"(before) => {_DOTS}.every((now, i) => now !== before[i])", arg=page.evaluate(_DOTS))

        trainers = page.locator('[data-control="trainers"]')
        trainers.get_by_role("slider").focus()
        page.keyboard.press("ArrowLeft")
        trainers.locator('[data-state="done"]').wait_for()
        page.locator("svg.across").get_by_text("1 trainer", exact=True).wait_for()
        assert "command" in kinds(folder)

        page.get_by_role("button", name="Pause").click()
        page.locator(".state").get_by_text("paused").wait_for()
        page.get_by_role("button", name="Resume").click()
        page.locator(".state").get_by_text("running").wait_for()

        page.get_by_role("button", name="Stop…").click()
        page.get_by_role("button", name="Stop the run").click()
        page.locator(".state").get_by_text("stopped").wait_for()
        assert process.wait(60) == 0
        page.get_by_text("the control room has closed").wait_for()
        page.complaints.clear()  # the browser reports that the server is gone
    assert kinds(folder)[-1] == "stop"


def test_a_run_that_is_killed_and_resumed_is_picked_up(browser: Any, tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "cartpole"
    folder.parent.mkdir()
    words = ("train", "CartPole-v1", "--out", folder, "--minutes", 10, *_SMALL)
    with started(*words) as process, started("web", tmp_path / "runs", "--port", 0) as server:
        wait_for(lambda: "start" in kinds(folder), "the start", 100)
        with page_of(browser, address_of(server), "cartpole") as page:
            page.get_by_role("button", name="Checkpoint now").click()
            page.locator('.controls > [data-state="done"]').wait_for()
            process.send_signal(signal.SIGKILL)
            page.locator("header .told").get_by_text("was killed").wait_for()
            page.get_by_text("Nothing can be changed now").wait_for()
            with started("resume", folder):
                page.locator(".state").get_by_text("running").wait_for()
                page.get_by_role("button", name="Pause").wait_for()
                steps = page.locator(".tiles dd").nth(4)
                before = steps.inner_text()
                wait_for(lambda: steps.inner_text() != before, "the next snapshot")
