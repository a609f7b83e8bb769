"""Reports for tests: folders of runs without training, and a parser that accepts only pages that lead nowhere."""

import dataclasses
import json
import math
import re
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from snapshots import TRAINERS_BUSY, make_snapshot

from ga3c import cli
from ga3c.config import Config, to_toml
from ga3c.metrics.sinks.csv import CsvSink
from ga3c.metrics.snapshot import Episode

_EMPTY = {"br", "hr", "img", "input", "meta"}
_KNOWN = {
    "html", "head", "meta", "title", "style", "body", "header", "main", "nav", "article", "section", "h1", "h2", "h3",
    "h4", "h5", "h6", "p", "b", "a", "small", "span", "code", "pre", "ul", "ol", "li", "dl", "dt", "dd", "div", "table",
    "caption", "thead", "tbody", "tr", "th", "td", "details", "summary", "figure", "figcaption", "img", "input",
    "label", "svg", "desc", "g", "path", "line", "rect", "circle", "text",
}  # fmt: skip
"""Every element that a report may have; no script, and nothing that loads."""


class Page(HTMLParser):
    """A report, read strictly: each element is known and closed in its order, ids are unique, nothing leads outside."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = ""
        """All texts, one after the other."""
        self.pictures: list[str] = []
        self._open: list[str] = []
        self._ids: list[str] = []
        self._named: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open, f"not closed: {self._open}"
        assert len(self._ids) == len(set(self._ids)), "an id is there twice"
        assert set(self._named) <= set(self._ids), f"names without an element: {set(self._named) - set(self._ids)}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in _KNOWN, tag
        if tag not in _EMPTY:
            self._open.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), name
            assert name != "style"
            if name == "id":
                self._ids.append(value or "")
            if name in ("aria-labelledby", "for"):
                self._named += (value or "").split()
            if name == "href":
                assert (value or "").startswith("#"), value
                self._named.append((value or "")[1:])
            if name == "src":
                assert re.match(r"data:image/(png|jpeg|svg\+xml);base64,", value or ""), value
                self.pictures.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self._open, tag
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "style":
            assert "url(" not in data
            assert "@import" not in data
        else:
            self.text += data + "\n"

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")


def report(*folders: Path, out: Path) -> Page:
    """Writes a report and reads it."""
    assert cli.main(["report", *map(str, folders), "--out", str(out)]) == 0
    text = out.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert "default-src 'none'" in text.replace("&#x27;", "'")
    return Page(text)


def make_run(folder: Path, config: Config | None = None, rows: int = 30, **changes: Any) -> Path:
    """The record of a run that trained: a snapshot a second, two episodes in each."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(to_toml(config or Config(env_id="CartPole-v1")), encoding="utf-8")
    sink = CsvSink(folder)
    for number in range(1, rows + 1):
        wave = 1.0 + math.sin(number / 7.0)
        now = make_snapshot(
            1_000 * number, seconds=float(number), frames=1_000 * number, score=3.0 * number, pps=1_000.0 + 10.0 * wave,
            tps=50.0 + wave, agents=32, predictors=2, trainers=3, prediction_queue=round(8 * wave), **TRAINERS_BUSY
        )  # fmt: skip
        both = [Episode(2 * number + n, number + n / 2, 1_000 * number, 0, 3.0 * number + n, 9) for n in (0, 1)]
        sink.write(dataclasses.replace(now, **changes), both)
    sink.close()
    return folder


def add_events(folder: Path, *texts: str, kind: str = "note") -> None:
    with (folder / "events.jsonl").open("a", encoding="utf-8") as file:
        for text in texts:
            event = {"time": "2026-11-19T02:00:28.906+00:00", "seconds": 1.0, "steps": 9, "kind": kind, "text": text}
            file.write(json.dumps(event) + "\n")


def add_status(folder: Path, **values: object) -> None:
    (folder / "status.json").write_text(json.dumps(values), encoding="utf-8")


def add_windows(folder: Path, why: str = "what others are compared with") -> None:
    """Three windows of the tuner."""
    (folder / "tuning.csv").write_text(
        "seconds,steps,agents,predictors,trainers,tps,pps,lag,decision,accepted_agents,accepted_predictors,"
        f"accepted_trainers,why\n15,1000,32,1,1,40,400,12,measured,32,1,1,{why}\n30,2000,16,2,1,20,200,,rejected,32,1,1,"
        '"-50%, slower"\n45,3000,32,1,2,60,600,13,accepted,32,1,2,faster\n',
        encoding="utf-8",
    )


def evaluation(scores: list[float]) -> Mapping[str, object]:
    """What `ga3c eval --json` prints, in part."""
    return {
        "env": "CartPole-v1", "checkpoint": "runs/a/checkpoints/step-000000001000.safetensors", "policy": "sample",
        "protocol": {"name": "the environment's own rules", "seed": 1000}, "scores": scores,
        "lengths": [int(score) for score in scores],
    }  # fmt: skip
