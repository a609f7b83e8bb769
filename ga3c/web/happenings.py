"""The events of a run, as its file has them: the newest, or those after a place in the file."""

import json
from typing import Any

from ga3c.web.run_files import RunFiles

NAME = "events.jsonl"
MOST = 1_000
_BLOCK = 512 * 1024
_MOST_BYTES = 8 * 2**20
"""Bytes that are looked through for one answer; a line may have a long traceback."""


def newest(run: RunFiles, most: int) -> dict[str, Any]:
    """The last events, oldest first, and the place behind them."""
    size = run.size(NAME)
    block = min(_BLOCK, size)
    while True:
        start = max(0, size - block)
        data = run.read_from(NAME, start, size - start)
        whole = data.rfind(b"\n") + 1
        first = data.find(b"\n") + 1 if start else 0
        found = [event for event, _ in _events(data[first:whole], 0)]
        if len(found) >= most or start == 0 or block >= _MOST_BYTES:
            return {"next": start + whole, "events": found[-most:]}
        block = min(4 * block, _MOST_BYTES)


def after(run: RunFiles, place: int, most: int) -> dict[str, Any]:
    """The events after a place, and the place behind them. A file that has become shorter is another one."""
    start = place if place <= run.size(NAME) else 0
    data = run.read_from(NAME, start, _MOST_BYTES)
    whole = data.rfind(b"\n") + 1
    if not whole and len(data) == _MOST_BYTES:
        return {"next": start + len(data), "events": []}  # one line of this size is damage
    found = list(_events(data[:whole], start))
    if len(found) > most:
        return {"next": found[most - 1][1], "events": [event for event, _ in found[:most]]}
    return {"next": start + whole, "events": [event for event, _ in found]}


def _events(data: bytes, offset: int) -> list[tuple[dict[str, Any], int]]:
    """The events in whole lines, each with the place behind it. Damaged lines are left out."""
    found = []
    for line in data.split(b"\n")[:-1]:
        offset += len(line) + 1
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict):
            found.append((event, offset))
    return found
