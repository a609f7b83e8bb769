"""A hook of mkdocs: files of the repository that lie outside docs/ become part of the site.

README.md is the first page. The records in results/ are pages, and so is everything that a page links to: other pages,
pictures and tables as they are, source files as a page with their text. Links keep the form that they have in the
repository. The build fails where a page would load something from elsewhere."""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DOCS = Path(__file__).parent.name

PLAIN = {".md", ".png", ".csv", ".json", ".txt"}
"""Files that are in the site as they are. Others are shown as the text of a page."""
LANGUAGES = {".py": "python", ".toml": "toml", ".yml": "yaml"}

_LINK = re.compile(r"(^```.*?^```|`[^`\n]*`)|(?<=\]\()([^)\s#]+)(#[^)\s]*)?(?=\))", re.MULTILINE | re.DOTALL)
"""Code, which has no links, or the path and the anchor of a link."""
_LOADED = re.compile(r"<(?:script|img|iframe|source)\b[^>]*\ssrc=[\"']?(?:https?:)?//[^\s\"'>]+")
_LINKED = re.compile(r"<link\b[^>]*\srel=[\"']?(?:stylesheet|preconnect|preload|icon)\b[^>]*//[^>]*>")


def place(path: str) -> str:
    """Where a file of the repository is in the site, as the path of its source; paths are relative to the root."""
    if path == "README.md":
        return "index.md"
    if path.startswith(f"{DOCS}/"):
        return path.removeprefix(f"{DOCS}/")
    if (ROOT / path).is_dir():
        return f"{path}/README.md"
    return path if Path(path).suffix in PLAIN else f"source/{path}.md"


def origin(uri: str) -> str:
    """The file of the repository behind a page of the site."""
    if uri == "index.md":
        return "README.md"
    return f"{DOCS}/{uri}" if (ROOT / DOCS / uri).exists() else uri


def target(link: str, page: str) -> str | None:
    """The path in the repository that a link of a page leads to; None for an address, an anchor and a missing file."""
    if "://" in link or link.startswith(("mailto:", "/")):
        return None
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
    return path if (ROOT / path).exists() and not path.startswith("..") else None


def links(text: str) -> Iterator[str]:
    """The paths of a page's links, without their anchors."""
    return (found[2] for found in _LINK.finditer(text) if found[2])


def relinked(text: str, page: str) -> str:
    """A page's text with links that hold in the site; `page` is its path in the repository."""
    here = posixpath.dirname(place(page)) or "."

    def replace(found: re.Match[str]) -> str:
        path = target(found[2], page) if found[2] else None
        return found[0] if path is None else posixpath.relpath(place(path), here) + (found[3] or "")

    return _LINK.sub(replace, text)


def records() -> list[str]:
    """The records in results/."""
    return sorted(str(path.relative_to(ROOT).as_posix()) for path in ROOT.glob("results/*/README.md"))


def outside() -> list[str]:
    """All files outside docs/ that are part of the site: those that can be reached from its pages."""
    waiting = ["README.md", *records(), *(p.relative_to(ROOT).as_posix() for p in ROOT.glob(f"{DOCS}/**/*.md"))]
    seen = set(waiting)
    while waiting:
        page = waiting.pop()
        for link in links((ROOT / page).read_text(encoding="utf-8")):
            path = target(link, page)
            path = f"{path}/README.md" if path is not None and (ROOT / path).is_dir() else path
            if path is not None and path not in seen:
                seen.add(path)
                waiting += [path] if path.endswith(".md") else []
    return sorted(path for path in seen if not path.startswith(f"{DOCS}/"))


def shown(path: str) -> str:
    """A page with the text of a source file. The search leaves it out."""
    text = (ROOT / path).read_text(encoding="utf-8")
    fence = "`" * 6
    language = LANGUAGES.get(Path(path).suffix, "text")
    return f"---\nsearch:\n  exclude: true\n---\n# {path}\n\n{fence}{language}\n{text}\n{fence}\n"


def loaded_from_elsewhere(html: str) -> list[str]:
    """What a page would load from another place: scripts, pictures, styles and fonts."""
    return _LOADED.findall(html) + [found[0] for found in _LINKED.finditer(html)]


def on_config(config: "MkDocsConfig") -> None:
    for part in config.nav or []:
        if "Results" in part:
            part["Results"].append({"Records": records()})


def on_files(files: "Files", *, config: "MkDocsConfig") -> None:
    from mkdocs.structure.files import File

    for path in outside():
        if Path(path).suffix in PLAIN:
            files.append(File.generated(config, place(path), abs_src_path=str(ROOT / path)))
        else:
            files.append(File.generated(config, place(path), content=shown(path)))


def on_page_markdown(markdown: str, *, page: "Page", **_: Any) -> str:
    uri = page.file.src_uri
    return markdown if uri.startswith("source/") else relinked(markdown, origin(uri))


def on_post_page(output: str, *, page: "Page", **_: Any) -> None:
    from mkdocs.plugins import get_plugin_logger

    for found in loaded_from_elsewhere(output):
        get_plugin_logger(__name__).warning(f"{page.file.src_uri} loads something from elsewhere: {found}")
