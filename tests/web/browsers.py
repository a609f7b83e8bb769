"""Chromium for tests of the page, and a fake control room for it. Without a browser, tests are skipped and say why."""

import contextlib
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """A browser, or a skipped test."""
    api = pytest.importorskip("playwright.sync_api", reason="needs `pip install playwright`")
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("needs the program chromium: `apt-get install chromium`")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


@contextlib.contextmanager
def opened(browser: Any, address: str, **options: Any) -> Iterator[Any]:
    """A page that must not complain: neither of its scripts, nor of its content security policy."""
    context = browser.new_context(**{"viewport": WIDE} | options)
    page = context.new_page()
    page.set_default_timeout(10_000)
    complaints: list[str] = []
    page.on(
        "console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.complaints = complaints
    page.goto(address)
    try:
        yield page
    finally:
        context.close()
    assert complaints == []


@contextlib.contextmanager
def served(app: Any, port: int = 0) -> Iterator[str]:
    """Serves an app in a thread, at any port that is free if none is given; gives its address."""
    uvicorn = pytest.importorskip("uvicorn", reason="needs the extra `web`")
    listener = socket.create_server(("127.0.0.1", port))
    config = uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=0)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join()


def until(condition: Any, seconds: float = 10.0) -> None:
    """Waits for something outside the page."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
