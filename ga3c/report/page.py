"""The page: its head, its contents, and the sections of each run and of each folder of results."""

from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import resources

from ga3c import __version__
from ga3c.metrics.text import count
from ga3c.report import (
    checkpoints,
    comparison,
    curves,
    engine,
    evaluations,
    happenings,
    markdown,
    results,
    settings,
    summary,
    times,
    tuner,
)
from ga3c.report.markup import NOTHING, Markup, element, folded, section
from ga3c.report.pictures import Pictures
from ga3c.report.record import RunRecord
from ga3c.report.results import Results

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
"""What a browser may do with the page: nothing but show it."""
_CARD = "library_name: ga3c"


def page(parts: Sequence[RunRecord | Results], now: datetime | None = None) -> str:
    """The whole file."""
    runs = [part for part in parts if isinstance(part, RunRecord)]
    pictures, title = Pictures(), title_of(parts)
    made = f"Written by ga3c {__version__} on {(now or datetime.now(UTC)).strftime('%Y-%m-%d %H:%M')} UTC."
    body = element(
        "body",
        element("header", element("h1", title), element("p", made, class_="note"), _contents(parts, runs)),
        element("main", comparison.show(runs), *(_part(n, part, pictures) for n, part in enumerate(parts, 1))),
    )
    return f"<!DOCTYPE html>\n{element('html', _head(title), body, lang='en')}\n"


def title_of(parts: Sequence[RunRecord | Results]) -> str:
    """What the report is of, in a few words."""
    if len(parts) == 1:
        (part,) = parts
        return part.env_id if isinstance(part, RunRecord) else part.name
    envs = list(dict.fromkeys(part.env_id for part in parts if isinstance(part, RunRecord)))
    runs = sum(isinstance(part, RunRecord) for part in parts)
    texts = [count(runs, "run") + (f" of {', '.join(envs[:3])}" if envs[:3] == envs else "")] if runs else []
    others = len(parts) - runs
    return ", ".join([*texts, *([f"{others} folder{'' if others == 1 else 's'} of results"] if others else [])])


def _head(title: str) -> Markup:
    style = resources.files("ga3c.report").joinpath("style.css").read_text(encoding="utf-8")
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", f"{title} · GA3C"),
        element("style", Markup(style)),
    )


def _contents(parts: Sequence[RunRecord | Results], runs: Sequence[RunRecord]) -> Markup:
    """Links to the parts; nothing for a single one."""
    if len(parts) < 2:
        return NOTHING
    links = [element("a", "The runs compared", href="#compared")] if len(runs) > 1 else []
    links += [element("a", part.name, href=f"#part-{n}") for n, part in enumerate(parts, 1)]
    return element("nav", element("ul", *(element("li", link) for link in links)), aria_label="Contents")


def _part(number: int, part: RunRecord | Results, pictures: Pictures) -> Markup:
    head = element("h2", part.name, id=f"part-{number}")
    if isinstance(part, Results):
        return element("article", head, results.show(part, pictures))
    return element("article", head, *_run(part, pictures))


def _run(run: RunRecord, pictures: Pictures) -> list[Markup]:
    return [
        summary.show(run),
        engine.show(run),
        curves.show_score(run),
        curves.show(run),
        times.show(run),
        tuner.show(run),
        evaluations.show(run.evaluations),
        checkpoints.show(run.checkpoints),
        happenings.show(run),
        settings.show(run),
        _card(run, pictures),
    ]


def _card(run: RunRecord, pictures: Pictures) -> Markup:
    """The model card, or another text that lies in the folder."""
    if not run.card:
        return NOTHING
    title = "Model card" if _CARD in run.card[:200] else "README.md"
    shown = markdown.to_markup(run.card, lambda name, text: pictures.show(run.folder, name, text))
    return section(title, folded("Show", element("div", shown, class_="prose"), is_open=True))
