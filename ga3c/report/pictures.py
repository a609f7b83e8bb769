"""Pictures that lie beside a record, as parts of the page."""

import base64
from pathlib import Path, PurePosixPath

from ga3c.errors import UserError
from ga3c.files import read_file
from ga3c.report.content import check_plain
from ga3c.report.markup import Markup, element

_MOST_BYTES = 2**20
_MOST_OF_ALL = 5 * 2**19
"""Bytes of all pictures of a report: base64 makes a third more of them, and a report has at most 5 MB."""
_KINDS = {
    ".png": ("image/png", b"\x89PNG\r\n"),
    ".jpg": ("image/jpeg", b"\xff\xd8\xff"),
    ".jpeg": ("image/jpeg", b"\xff\xd8\xff"),
    ".svg": ("image/svg+xml", b"<"),
}
ENDINGS = tuple(_KINDS)


class Pictures:
    """Embeds pictures as long as the report stays small. A browser runs no script of a picture."""

    def __init__(self) -> None:
        self._used = 0
        self._shown: set[Path] = set()

    def show(self, folder: Path, name: str, text: str) -> Markup:
        """The picture of this name below the folder; a sentence where it cannot be shown."""
        path = folder / name
        inside = PurePosixPath(name)
        if inside.is_absolute() or ".." in inside.parts or path.suffix.lower() not in _KINDS:
            return element("span", f"[{text or name}]", class_="note")
        try:
            check_plain(path, _MOST_BYTES)
            content = read_file(path, _MOST_BYTES)
        except (OSError, UserError):
            return element("span", f"[The picture {name} cannot be shown.]", class_="note")
        kind, begin = _KINDS[path.suffix.lower()]
        if not content.lstrip(b"\xef\xbb\xbf").startswith(begin):
            return element("span", f"[The picture {name} is damaged.]", class_="note")
        if self._used + len(content) > _MOST_OF_ALL:
            return element("span", f"[The picture {name} is left out: the report would be too large.]", class_="note")
        self._used += len(content)
        self._shown.add(path)
        source = f"data:{kind};base64,{base64.b64encode(content).decode()}"
        return element("img", src=source, alt=text or name)

    def rest(self, folder: Path, names: list[str]) -> list[Markup]:
        """Those of the pictures that have not been shown yet, each with its name."""
        left = [name for name in names if folder / name not in self._shown]
        return [
            element("figure", element("figcaption", element("b", name)), self.show(folder, name, name)) for name in left
        ]
