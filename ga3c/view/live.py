"""The live view of a run on a terminal, drawn again at each snapshot."""

from collections.abc import Sequence

from rich.console import Console
from rich.control import Control
from rich.live import Live

from ga3c.metrics.events import Event, paused
from ga3c.metrics.sinks.base import Sink
from ga3c.metrics.snapshot import Episode, Snapshot
from ga3c.view.dashboard import Dashboard


class LiveSink(Sink):
    """Shows a `Dashboard` in place on the terminal. The last view stays when the sink closes, and how the run ended is
    told under it."""

    def __init__(self, console: Console, dashboard: Dashboard) -> None:
        self._console = console
        self._dashboard = dashboard
        self._live = Live(dashboard, console=console, auto_refresh=False, vertical_overflow="crop")
        self._size = console.size
        self._end = ""
        """How the run ended, once it has."""

    def write(self, snapshot: Snapshot, episodes: Sequence[Episode]) -> None:
        self._dashboard.update(snapshot)
        self._refresh()

    def event(self, event: Event) -> None:
        lines = event.text.strip().splitlines()
        if not lines:
            return
        if (now_paused := paused(event)) is not None:
            self._dashboard.pause(now_paused)
        if len(lines) > 1:
            # A traceback is printed above the view, where it can be read whole; its last line names the error.
            self._live.start()
            self._console.print(event.text, markup=False, highlight=False)
        if event.kind == "stop":
            self._end = event.text  # shown under the last view, since the view cuts messages off
        else:
            self._dashboard.message(lines[-1])
        self._refresh()

    def close(self) -> None:
        self._live.stop()
        if self._end:
            self._console.print(self._end, markup=False, highlight=False)

    def _refresh(self) -> None:
        self._live.start()
        if self._console.size != self._size:
            # The terminal has wrapped the old lines again, so the number of lines to overwrite is unknown.
            self._size = self._console.size
            self._console.control(Control.clear(), Control.home())
        self._live.refresh()
