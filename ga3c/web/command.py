"""The command `ga3c web`."""

import sys
import tempfile
import webbrowser
from collections.abc import Sequence
from html import escape
from pathlib import Path

from ga3c.errors import UserError
from ga3c.metrics.text import count
from ga3c.run import listening
from ga3c.web import server
from ga3c.web.catalog import Catalog
from ga3c.web.site import Site


def serve(named: Sequence[Path], host: str, port: int | None, readonly: bool, opens: bool) -> None:
    """Serves the runs below some folders until Ctrl-C, and prints the address."""
    for folder in named:
        if not folder.is_dir():
            raise UserError(f"{folder} is no folder; name folders that hold runs, or runs.")
    listener = listening.listen(host, port)
    runs = len(Catalog(named).runs())
    print(f"{count(runs, 'run')} under {', '.join(map(str, named))}. Ctrl-C ends this.\n{listener.address}", flush=True)
    if not listening.is_loopback(host):
        warning = "Others on the network can read what passes, the token too; an SSH tunnel to 127.0.0.1 hides it."
        print(f"ga3c: {warning}", file=sys.stderr, flush=True)
    server.be_nice()
    with tempfile.TemporaryDirectory(prefix="ga3c-") as private:
        if opens:
            _open(listener.address, Path(private))
        server.run(Site(named, readonly=readonly), listener, lambda _: None)


def _open(address: str, private: Path) -> None:
    """Opens the address in a browser. It is passed in a file: all users see the arguments of a program."""
    page = private / "open.html"
    page.touch(0o600)
    page.write_text(f'<!DOCTYPE html><meta http-equiv="refresh" content="0;url={escape(address)}">', encoding="utf-8")
    if not webbrowser.open(page.as_uri()):
        print("ga3c: There is no browser to open; open the address yourself.", file=sys.stderr, flush=True)
