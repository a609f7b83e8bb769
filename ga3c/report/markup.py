"""HTML and SVG as text. Every text is escaped, so that nothing that a file says can become an element."""

import html
import itertools
import re
from collections.abc import Collection, Iterable, Sequence

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
    caption: str, titles: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1, texts: Collection[int] = (),
    class_: str | None = None,
) -> Markup:  # fmt: skip
    """A table whose first columns are texts, which wrap. The others are figures, except `texts`."""
    sides = [None if n < left or n in texts else "figure" for n in range(len(titles))]
    head = [element("th", title, scope="col", class_=side) for title, side in zip(titles, sides, strict=True)]
    body = [
        element(
            "tr",
            element("th", first, scope="row"),
            *(element("td", cell, class_=side) for cell, side in zip(others, sides[1:], strict=True)),
        )
        for first, *others in rows
    ]
    parts = element("caption", caption), element("thead", element("tr", *head)), element("tbody", *body)
    # Wide tables scroll by themselves, also by keyboard.
    return element(
        "div", element("table", *parts, class_=class_), class_="scroll", tabindex="0", role="region", aria_label=caption
    )


def facts(rows: Iterable[tuple[str, str]]) -> Markup:
    """Names with their values; those without a value are left out."""
    return element("dl", *(element("div", element("dt", name), element("dd", value)) for name, value in rows if value))
