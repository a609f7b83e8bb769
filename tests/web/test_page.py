"""The page of the control room in a browser, against a fake server: what it shows, what it asks for, and how it picks up."""

from collections.abc import Iterator
from typing import Any

import pytest
from browsers import PHONE, chromium, opened, served, until

pytest.importorskip("starlette", reason="needs the extra `web`")

from fake import Fake
from fake_runs import FakeRun, made

_OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
_DOTS = "[...document.querySelectorAll('svg.across .dots')].map((dots) => dots.style.strokeDashoffset)"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def fake() -> Fake:
    return Fake(made(), beat=0.1)


def test_a_run_is_watched_and_steered(browser: Any, fake: Fake) -> None:
    """From the list to a run, whose drawing moves; numbers are changed, refused and confirmed; the run is stopped, and
    found again when it goes on."""
    run = fake.runs["a1"]
    with served(fake.app()) as address, opened(browser, address) as page:
        page.get_by_role("link", name="pong-live").click()
        page.get_by_text("The run is limited by the trainers.").wait_for()
        assert "--trainers" in page.locator(".limit").inner_text()
        assert page.locator("svg.across .lit").get_attribute("data-place") == "trainers"
        page.wait_for_function(f"(before) => {_DOTS}.every((now, i) => now !== before[i])", arg=page.evaluate(_DOTS))

        trainers = page.locator('[data-control="trainers"]')
        trainers.get_by_role("slider").focus()
        page.keyboard.press("ArrowRight")
        trainers.get_by_text("Done: trainers 3.").wait_for()
        assert run.setting["trainers"] == 3
        page.locator("svg.across").get_by_text("3 trainers", exact=True).wait_for()

        agents = page.locator('[data-control="agents"]')
        agents.get_by_role("textbox").fill("31")
        page.keyboard.press("Enter")
        agents.get_by_text("32 agents are too many").wait_for()
        assert agents.get_by_role("textbox").input_value() == "16"

        page.get_by_role("button", name="Stop…").click()
        page.get_by_role("button", name="Stop the run").click()
        page.locator(".state").get_by_text("stopped").wait_for()
        page.get_by_text("Nothing can be changed now").wait_for()
        assert fake.asked == [{"do": "set", "trainers": 3}, {"do": "set", "agents": 32}, {"do": "stop"}]

        run.change("running")
        page.locator(".state").get_by_text("running").wait_for()
        page.get_by_role("button", name="Pause").wait_for()
        page.set_viewport_size(PHONE)
        assert page.evaluate(_OVERFLOW) == 0
