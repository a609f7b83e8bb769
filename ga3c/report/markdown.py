"""Markdown as HTML: the part of it that cards and records use. Links become their texts, because a report leads
nowhere, and everything that is not known stays text."""

import re
from collections.abc import Callable, Iterator

from ga3c.report.markup import Markup, element, join

Show = Callable[[str, str], Markup]
"""Shows a picture by its name and its text."""

_INLINE = re.compile(r"(`[^`\n]{1,2000}`)|\*\*([^*\n]{1,500})\*\*|(!?)\[([^\[\]]{0,500})\]\(([^()\s]{0,500})\)")
_TAGS = re.compile(r"</?(?:details|summary)>")
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,3}\.)\s+")
_RULE = re.compile(r"\|[\s:|-]+\|?\s*")
_HEADING = re.compile(r"(#{1,6})\s+(.*)")
_LEVELS = ("h4", "h5", "h6")


def to_markup(text: str, show: Show) -> Markup:
    """The text as elements."""
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[0] == "---" and "---" in lines[1:]:
        lines = lines[lines.index("---", 1) + 1 :]  # facts for programs
    return join(_blocks(lines, show))


def _blocks(lines: list[str], show: Show) -> Iterator[Markup]:
    place = 0
    while place < len(lines):
        line, begin = lines[place], place
        if not line.strip():
            place += 1
        elif line.lstrip().startswith("```"):
            place = _next(lines, begin + 1, lambda one: one.lstrip().startswith("```")) + 1
            yield element("pre", "\n".join(lines[begin + 1 : place - 1]))
        elif heading := _HEADING.fullmatch(line):
            place += 1
            yield element(_LEVELS[min(len(heading[1]), len(_LEVELS)) - 1], *_inline(heading[2], show))
        elif line.startswith("|"):
            place = _next(lines, begin + 1, lambda one: not one.startswith("|"))
            yield _table(lines[begin:place], show)
        elif _ITEM.match(line):
            place = _next(lines, begin + 1, lambda one: not one.strip() or one.startswith(("#", "|", "```")))
            yield _list(lines[begin:place], show)
        else:
            place = _next(lines, begin + 1, lambda one: not one.strip() or one.startswith(("#", "|", "```", "- ")))
            words = _TAGS.sub("", "\n".join(lines[begin:place])).strip()
            if words:
                yield element("p", *_inline(words, show))


def _next(lines: list[str], begin: int, ends: Callable[[str], bool]) -> int:
    return next((place for place in range(begin, len(lines)) if ends(lines[place])), len(lines))


def _list(lines: list[str], show: Show) -> Markup:
    items: list[str] = []
    for line in lines:
        if _ITEM.match(line):
            items.append(_ITEM.sub("", line, count=1))
        else:
            items[-1] += f" {line.strip()}"
    kind = "ol" if lines[0].lstrip()[0].isdigit() else "ul"
    return element(kind, *(element("li", *_inline(item, show)) for item in items))


def _table(lines: list[str], show: Show) -> Markup:
    rows = [
        [cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines if not _RULE.fullmatch(line)
    ]
    head = (
        element("tr", *(element("th", *_inline(cell, show), scope="col") for cell in rows[0])) if rows else Markup("")
    )
    body = [element("tr", *(element("td", *_inline(cell, show)) for cell in row)) for row in rows[1:]]
    whole = element("table", element("thead", head), element("tbody", *body))
    return element("div", whole, class_="scroll", tabindex="0", role="region", aria_label="Table")


def _inline(text: str, show: Show) -> Iterator[str]:
    """Code, bold texts, links and pictures within a line."""
    end = 0
    for found in _INLINE.finditer(text):
        yield text[end : found.start()]
        end = found.end()
        code, bold, mark, label, target = found.groups()
        if code:
            yield element("code", code[1:-1])
        elif bold:
            yield element("b", *_inline(bold, show))
        elif mark:
            yield show(target, label)
        else:
            yield from _inline(label, show)
    yield text[end:]
