"""The page of the control room in a browser, against a fake server: what it shows and asks for, and how it picks up."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from browsers import PHONE, WIDE, chromium, opened, served

pytest.importorskip("starlette", reason="needs the extra `web`")

from fake import Fake
from fake_runs import FakeRun, made

from ga3c.metrics import text

_OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
_COLLISIONS = """() => {
  const sheet = [...document.querySelectorAll("svg.engine")].find((one) => one.clientWidth).getBoundingClientRect();
  const texts = [...document.querySelectorAll("svg.engine text")].filter((one) => one.textContent);
  const boxes = texts.map((one) => [one.textContent, one.getBoundingClientRect()]).filter(([, box]) => box.width);
  const crosses = (a, b) =>
    a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2;
  const found = boxes.filter(([, box]) => box.left < sheet.left - 1 || box.right > sheet.right + 1);
  for (const [i, [text, box]] of boxes.entries())
    for (const [other, around] of boxes.slice(i + 1)) if (crosses(box, around)) found.push([text, other]);
  return found.map(([text, other]) => [text, `${other}`]);
}"""
"""Texts of the drawing that lie over one another, or outside."""
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


@pytest.mark.slow
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_every_page_fits(browser: Any, fake: Fake, size: dict[str, int], scheme: str) -> None:
    """No page is wider than the screen, no text of the drawing lies over another, and nothing complains while a reader
    scrolls through all sections."""
    fake.runs["a1"].settings |= {"net.net": "a_module_of_a_long_name:Network", "learn.notes": "x" * 300}
    pages = ("#/", "#/run/a1", "#/run/b2", "#/run/d2", "#/run/e1", "#/run/g1", "#/compare/c1,c2,c3,d1,d2")
    with served(fake.app()) as address, opened(browser, address, viewport=size, color_scheme=scheme) as page:
        for place in pages:
            page.goto(address + place)
            page.locator("h1").wait_for()
            if "run" in place:
                page.wait_for_function("() => document.querySelector('svg.engine .title')?.textContent !== 'Agents'")
                assert page.evaluate(_COLLISIONS) == []
            for section in page.locator("section").all():
                if section.is_visible():
                    section.scroll_into_view_if_needed()
            assert page.evaluate(_OVERFLOW) == 0, place


@pytest.mark.slow
def test_runs_are_compared(browser: Any, fake: Fake) -> None:
    """Seeds of one setting are one line; the settings that differ stand side by side."""
    with served(fake.app()) as address, opened(browser, address) as page:
        for name in ("pong-seed1", "pong-seed2", "pong-seed3", "pong-lr1e-4-seed1", "pong-lr1e-4-seed2"):
            page.get_by_label(f"Choose {name} for").check()
        page.get_by_role("button", name="Compare").click()
        score = page.locator('[data-chart="Score"]')
        score.locator("canvas").wait_for()
        labels = [" ".join(one.split()[:-1]) for one in score.locator(".entry").all_inner_texts()]
        assert sorted(labels) == ["lr 1e-4 (2 runs)", "lr 3e-4 (3 runs)"]
        row = page.get_by_role("row", name="learn.learning_rate")
        assert sorted(row.locator("td").all_inner_texts()) == ["1e-4"] * 2 + ["3e-4"] * 3


@pytest.mark.slow
def test_curves_zoom_and_ask_for_more(browser: Any, fake: Fake) -> None:
    """A dragged range is asked for anew; all comes back by a button; other axes ask for their columns."""
    with served(fake.app()) as address, opened(browser, address + "#/run/c1") as page:
        chart = page.locator('[data-chart="Score"] .u-over')
        chart.wait_for()
        box = chart.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 20)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 30, steps=4)
        with page.expect_request(lambda one: "y=score" in one.url and "from=" in one.url) as asked:
            page.mouse.up()
        low, high = (float(asked.value.url.partition(f"{name}=")[2].partition("&")[0]) for name in ("from", "to"))
        assert low == pytest.approx(1800, rel=0.03)
        assert high == pytest.approx(3600, rel=0.03)
        with page.expect_request(lambda one: "y=score" in one.url and "from=" not in one.url):
            page.get_by_role("button", name="All", exact=True).first.click()
        with page.expect_request(lambda one: "y=score" in one.url and "x=frames" in one.url):
            page.get_by_label("x axis").select_option("frames")


@pytest.mark.slow
def test_games_are_asked_for_only_while_they_are_seen(browser: Any, fake: Fake) -> None:
    """The wall rests outside the screen; a game opens a closer look by keyboard, and Escape closes it."""
    asked: list[str] = []
    with served(fake.app()) as address, opened(browser, address, viewport=PHONE) as page:
        page.on("request", lambda request: asked.append(request.url) if "/wall" in request.url else None)
        page.goto(address + "#/run/a1")
        page.get_by_text("The run is limited by the trainers.").wait_for()
        assert asked == []
        page.locator("section.wall").scroll_into_view_if_needed()
        game = page.locator(".game").nth(3)
        game.wait_for()
        game.focus()
        page.keyboard.press("Enter")
        page.get_by_text("left fire").wait_for()
        assert page.locator(".frames img").count() == 4
        page.locator(".look .u-over").wait_for()
        page.keyboard.press("Escape")
        assert page.evaluate("document.activeElement.classList.contains('game')")
        page.evaluate("scrollTo(0, 0)")
        page.wait_for_timeout(500)
        seen = len(asked)
        page.wait_for_timeout(1000)
        assert len(asked) == seen


@pytest.mark.slow
def test_the_timeline_is_moved_by_keys(browser: Any, fake: Fake) -> None:
    with served(fake.app()) as address, opened(browser, address + "#/run/a1/times") as page:
        page.get_by_role("button", name="Show the trace").click()
        told = page.locator(".trace .told")
        told.get_by_text("5,000 ms from 0 ms").wait_for()
        page.locator(".timeline").focus()
        for key, expected in (
            ("+", "2,500 ms from 1,250"),
            ("ArrowRight", "from 1,750"),
            ("Home", "5,000 ms from 0 ms"),
        ):
            page.keyboard.press(key)
            told.get_by_text(expected).wait_for()
        page.locator("summary").get_by_text("Shares of time by thread").click()
        assert "update" in page.get_by_role("row", name="trainers-000").inner_text()


@pytest.mark.slow
def test_a_lost_connection_is_told_and_found_again(browser: Any, fake: Fake) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    context = browser.new_context()
    page = context.new_page()
    with served(fake.app(), port) as address:
        page.goto(address + "#/run/a1")
        page.locator("#connection").get_by_text("live").wait_for()
    page.get_by_text("connection lost").wait_for()
    fake.runs["a1"].change("killed")
    with served(fake.app(), port):
        page.locator("#connection").get_by_text("live").wait_for()
        page.locator("header .told").get_by_text("was killed").wait_for()
    context.close()


@pytest.mark.slow
def test_who_may_only_look_gets_no_controls(browser: Any) -> None:
    with served(Fake(made(), readonly=True, beat=0.1).app()) as address, opened(browser, address + "#/run/a1") as page:
        page.get_by_text("This page only shows").wait_for()
        for name in ("Pause", "Stop…", "Checkpoint now", "Record a video of an episode", "Trace the last seconds now"):
            assert not page.get_by_role("button", name=name).is_visible()


@pytest.mark.slow
def test_readers_who_want_less_motion_get_none(browser: Any, fake: Fake) -> None:
    with served(fake.app()) as address, opened(browser, address + "#/run/a1", reduced_motion="reduce") as page:
        page.get_by_text("The run is limited by the trainers.").wait_for()
        before = page.evaluate(_DOTS)
        page.wait_for_timeout(500)
        assert page.evaluate(_DOTS) == before


@pytest.mark.slow
def test_what_runs_say_never_becomes_markup(browser: Any) -> None:
    evil = "<img src=x onerror=alert(1)>"
    run = FakeRun("a1", evil, evil, "running", 100.0, {"net.net": evil})
    run.tell("warning", evil)
    with served(Fake([run], beat=0.1).app()) as address, opened(browser, address) as page:
        page.get_by_role("link", name=evil).click()
        page.locator("td.text").get_by_text(evil).wait_for()
        page.locator("svg.across .title").first.wait_for()
        assert page.locator("main img").count() == 0


@pytest.mark.slow
def test_numbers_read_as_in_the_terminal(browser: Any, fake: Fake) -> None:
    values = [sign * size * 10.0**power for sign in (1, -1) for size in (1, 1.2346, 9.996) for power in range(-4, 10)]
    with served(fake.app()) as address, opened(browser, address) as page:
        call = (
            "async ([name, values]) => { const text = await import('/static/text.js'); return values.map(text[name]); }"
        )
        assert page.evaluate(call, ["number", values]) == [text.number(value) for value in values]
        seconds = [0.0, 59.4, 89.0, 91.0, 5000.0, 5500.0, 90_000.0, 180_000.0, 1e6]
        assert page.evaluate(call, ["duration", seconds]) == [text.duration(value) for value in seconds]
        assert page.evaluate(call, ["clock", seconds]) == [text.clock(value) for value in seconds]
        shares = [0.0, 0.29, 0.999, 1.0]
        assert page.evaluate(call, ["percent", shares]) == [text.percent(value) for value in shares]
