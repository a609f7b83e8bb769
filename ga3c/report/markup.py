"""HTML and SVG as text. Every text is escaped, so that nothing that a file says can become an element."""

import html
import itertools
import re
from collections.abc import Iterable, Sequence

_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufdd0-\ufdef\ufffe\uffff]"
)
"""Characters that HTML forbids or UTF-8 cannot hold, and those that turn the direction of the text around them."""
_EMPTY = {"br", "col", "hr", "img", "input", "meta"}
_numbers = itertools.count(1)


class Markup(str):
    """Text that is HTML already. Everything else that becomes part of an element is escaped."""

    __slots__ = ()


NOTHING = Markup("")


def escape(text: str) -> Markup:
    """Any text, harmless between tags and between quotes."""
    return Markup(html.escape(_UNSEEN.sub("\ufffd", text)))


def element(tag: str, *parts: str, **attributes: object) -> Markup:
    """An element. Names of attributes have an underscore for a hyphen, and one at their end where Python has the word
    for itself: `class_`. None leaves an attribute out."""
    given = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    start = f"<{tag}{given}>"
    return Markup(start) if tag in _EMPTY else Markup(f"{start}{join(parts)}</{tag}>")


def join(parts: Iterable[str], between: str = "") -> Markup:
    """Parts one after the other; those that are not markup are escaped."""
    return Markup(between.join(part if isinstance(part, Markup) else escape(part) for part in parts))


def unique(prefix: str) -> str:
    """An id that no other element of the page has."""
    return f"{prefix}-{next(_numbers)}"


# -- what all sections have -------------------------------------------------------------------------------------------


def section(title: str, *parts: str) -> Markup:
    """A part of a run's record under its title; nothing if there is nothing to show."""
    return element("section", element("h3", title), *parts) if any(parts) else NOTHING


def paragraph(*parts: str, class_: str | None = None) -> Markup:
    return element("p", *parts, class_=class_)


def folded(title: str, *parts: str, is_open: bool = False) -> Markup:
    """Parts that a reader opens by the title."""
    return element("details", element("summary", title), *parts, open="" if is_open else None)


def table(
    caption: str, titles: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1, class_: str | None = None
) -> Markup:
    """A table whose first columns are texts, which wrap, and whose other columns are figures."""
    head = element("tr", *(element("th", title, scope="col", class_=_side(n, left)) for n, title in enumerate(titles)))
    body = [
        element(
            "tr",
            *(
                element("th", cell, scope="row") if n == 0 else element("td", cell, class_=_side(n, left))
                for n, cell in enumerate(row)
            ),
        )
        for row in rows
    ]
    whole = element(
        "table", element("caption", caption), element("thead", head), element("tbody", *body), class_=class_
    )
    # Wide tables scroll by themselves, also by keyboard.
    return element("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _side(column: int, left: int) -> str | None:
    return None if column < left else "figure"


def facts(rows: Iterable[tuple[str, str]]) -> Markup:
    """Names with their values; those without a value are left out."""
    return element("dl", *(element("div", element("dt", name), element("dd", value)) for name, value in rows if value))
