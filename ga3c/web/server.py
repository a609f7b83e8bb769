"""The server process of the control room: from a socket that listens to the end, by a signal or by its parent's."""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable, Iterator

import uvicorn

from ga3c.run.listening import Listener
from ga3c.web import connections
from ga3c.web.gate import Gate
from ga3c.web.site import Site

_NICENESS = 10
"""The training has the cores first."""
_BACKLOG = 128
_KEEP_ALIVE_SECONDS = 15
_PATIENCE_SECONDS = 1
"""Seconds for answers under way when the server ends."""


class Server(uvicorn.Server):
    """uvicorn's server, without its handlers of signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(site: Site, listener: Listener, on_begin: Callable[[Callable[[], None]], None]) -> None:
    """Serves until a signal comes or `stop` is called, which `on_begin` gets: any thread may call it."""
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # what strangers send is nothing to tell of
    server = Server(
        uvicorn.Config(
            Gate(site.app, listener),
            loop="asyncio",
            http=connections.Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            backlog=_BACKLOG,
            limit_concurrency=connections.MOST + _BACKLOG,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_PATIENCE_SECONDS,
        )
    )
    loop = asyncio.get_running_loop()

    def stop() -> None:
        server.force_exit = server.should_exit  # the second time it waits for nothing
        server.should_exit = True
        site.close()

    with contextlib.suppress(ValueError, RuntimeError):  # only the main thread gets signals
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as under `nohup`
                loop.add_signal_handler(number, stop)

    def stop_from_anywhere() -> None:
        with contextlib.suppress(RuntimeError):  # it has ended already
            loop.call_soon_threadsafe(stop)

    on_begin(stop_from_anywhere)
    watching = asyncio.create_task(connections.watch(server.server_state.connections))
    try:
        async with site.running():
            await server.serve([listener.socket])
    finally:
        watching.cancel()


def run(site: Site, listener: Listener, on_begin: Callable[[Callable[[], None]], None]) -> None:
    """Serves in this thread, at low priority where the process is its own."""
    asyncio.run(serve(site, listener, on_begin))


def be_nice() -> None:
    """Leaves the cores to the training. For a process that does nothing else."""
    with contextlib.suppress(OSError):
        os.nice(_NICENESS)
