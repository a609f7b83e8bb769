"""The trace of a run for a page: its tracks, and the spans of each. A trace is up to a hundred megabytes of text, so it
is read line by line, and of very many spans the last ones are kept."""

import json
from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np

from ga3c.web.answers import Refusal
from ga3c.web.run_files import RunFiles

NAME = "trace.json"
_MOST_SPANS = 150_000
_BLOCK = 2**20
_LARGEST = 256 * 2**20


def read(run: RunFiles) -> dict[str, Any]:
    """The trace, in microseconds from its beginning."""
    if not run.has(NAME):
        raise Refusal(404, "This run has no trace; runs with --profile have one.")
    kinds: dict[Any, str] = {}
    tracks: dict[tuple[Any, Any], str] = {}
    names: dict[str, int] = {}
    place_of: dict[tuple[Any, Any], int] = {}
    spans = array("q")  # track, start, length, name; one after the other
    for event in _events(run):
        at = event.get("pid"), event.get("tid")
        told = event.get("args")
        text = str(told.get("name", "")) if isinstance(told, dict) else ""
        if event.get("name") == "process_name":
            kinds[at[0]] = text
        elif event.get("name") == "thread_name":
            tracks[at] = text
            place_of.setdefault(at, len(place_of))
        elif event.get("ph") == "X" and isinstance(event.get("ts"), int) and isinstance(event.get("dur"), int):
            name = names.setdefault(str(event.get("name", ""))[:100], len(names))
            spans.extend((place_of.setdefault(at, len(place_of)), event["ts"], event["dur"], name))
    return _answer([(kinds.get(at[0], ""), tracks.get(at, "")) for at in place_of], spans, list(names))


def _answer(tracks: list[tuple[str, str]], spans: "array[int]", names: list[str]) -> dict[str, Any]:
    table = np.frombuffer(spans, np.int64).reshape(-1, 4)
    ends = table[:, 1] + table[:, 2]
    begin, end = (int(table[:, 1].min()), int(ends.max())) if len(table) else (0, 0)
    if len(table) > _MOST_SPANS:
        begin = int(np.partition(table[:, 1], -_MOST_SPANS)[-_MOST_SPANS])
        table = table[table[:, 1] >= begin]
    table = table[np.argsort(table[:, 1], kind="stable")]
    shown = [
        {
            "kind": kind,
            "name": name,
            "spans": (table[table[:, 0] == place][:, 1:] - [begin, 0, 0]).tolist(),
        }
        for place, (kind, name) in enumerate(tracks)
    ]
    return {"seconds": (end - begin) / 1e6, "tracks": shown, "names": names}


def _events(run: RunFiles) -> Iterator[dict[str, Any]]:
    """The events, one a line as `metrics/trace.py` writes them. What is no event is left out."""
    rest, start = b"", 0
    while start < _LARGEST and (data := run.read_from(NAME, start, _BLOCK)):
        start += len(data)
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            try:
                event = json.loads(line.rstrip(b","))
            except (ValueError, RecursionError):
                continue
            if isinstance(event, dict):
                yield event
        if len(rest) > _BLOCK:
            rest = b""
