"""Reads the words of a command into its dataclass. What is wrong with them is one sentence (UserError)."""

import contextlib
import decimal
import io
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import tyro
from tyro import _strings
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from ga3c.config import synonyms
from ga3c.errors import UserError

STYLE = (tyro.conf.OmitArgPrefixes,)
_MOST_DIGITS = 18
"""Digits of a whole number: a longer number would fit no counter, and 1e999999999 would not fit the memory."""

Arguments = TypeVar("Arguments")


def read(kind: type[Arguments], words: Sequence[str], prog: str, default: Arguments | None = None) -> Arguments:
    """The arguments that the words give. `--help` prints the flags, with the values of `default`, and exits."""
    more: dict[str, Any] = {} if default is None else {"default": default}
    said = io.StringIO()
    try:
        with _primitives(), contextlib.redirect_stderr(said):
            given: Arguments = tyro.cli(kind, args=gathered(words), prog=prog, config=STYLE, **more)
    except SystemExit as end:
        if end.code in (None, 0):
            raise
        raise UserError(_sentence(said.getvalue(), kind, prog)) from None
    return given


_LISTS = ("--env-args", "--wrap")
"""Flags that take words up to the next flag, and may be given again for more of them."""


def gathered(words: Sequence[str]) -> list[str]:
    """The same words, with all words of a flag that takes a list after its first mention."""
    plain: list[str] = []
    lists: dict[str, list[str]] = {}
    into = plain
    for word in words:
        name, sign, first = word.partition("=")
        flag = name.replace("_", "-")
        if flag in _LISTS:
            into = lists.setdefault(flag, [])
            into += [first] if sign else []
        elif word.startswith("-"):
            into = plain
            plain.append(word)
        else:
            into.append(word)
    return [*plain, *(word for flag, its in lists.items() for word in (flag, *its))]


def options(kind: type, prog: str) -> list[Any]:
    """The flags of a command, each like an `argparse.Action`, and its positional arguments."""
    with _primitives(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return list(tyro.extras.get_parser(kind, prog=prog, config=STYLE)._actions)


def _joined(helptext: str) -> str:
    """A help text with the lines of each paragraph joined."""
    return "\n\n".join(" ".join(part.split()) for part in re.split(r"\n\s*\n", helptext))


# By itself tyro keeps the breaks of lines that are indented in the source.
_strings.remove_single_line_breaks = _joined


# -- numbers ----------------------------------------------------------------------------------------------------------


def whole_number(text: str) -> int:
    """A whole number as people write it: 1000000, 1_000_000 or 1e6."""
    try:
        number = decimal.Decimal(text)
        if number.is_finite() and number.adjusted() >= _MOST_DIGITS:
            raise ValueError(f"{text}, but must be a whole number of at most {_MOST_DIGITS} digits")
        if number.is_finite() and number == number.to_integral_value():
            return int(number)
    except decimal.InvalidOperation:
        pass
    raise ValueError(f"{text or 'empty'}, but must be a whole number, such as 1000 or 1e6")


def real_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text or 'empty'}, but must be a number") from None


def path(text: str) -> Path:
    if not text:
        raise ValueError("empty, but must be a path")  # `Path("")` would be the current folder
    return Path(text)


def _primitives() -> contextlib.AbstractContextManager[Any]:
    """Within the context, tyro reads numbers and paths as this module does."""
    registry: Any = ConstructorRegistry()
    registry.primitive_rule(_rule(int, "INT", whole_number))
    registry.primitive_rule(_rule(float, "FLOAT", real_number))
    registry.primitive_rule(_rule(Path, "PATH", path))
    entered: contextlib.AbstractContextManager[Any] = registry
    return entered


def _rule(kind: type, metavar: str, read: Callable[[str], Any]) -> Callable[[PrimitiveTypeInfo], Any]:
    def rule(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
        if info.type is not kind:
            return None
        return PrimitiveConstructorSpec(
            nargs=1,
            metavar=metavar,
            instance_from_str=lambda words: read(words[0]),
            is_instance=lambda value: isinstance(value, kind) and not isinstance(value, bool),
            str_from_instance=lambda value: [str(value)],
        )

    return rule


# -- what is wrong ----------------------------------------------------------------------------------------------------


def _sentence(said: str, kind: type, prog: str) -> str:
    """One sentence from the box that tyro draws around what is wrong. What is not recognised is quoted as it is."""
    text = _body(said)
    if found := re.match(r"Unrecognized options: (\S+?)(,|$)", text):
        return _unknown(found[1], kind, prog)
    if found := re.match(r"Error parsing (\S+): (.*)", text):
        flag, reason = found[1], found[2]
        number = re.search(r"(?:^|: )([^:]*, but must be a .*)$", reason)
        return f"{flag} is {number[1]}." if number else f"{flag} cannot be read: {reason.rstrip('.')}."
    if found := re.match(r"invalid choice '(.*)' for argument '(\S+)'. Expected one of \((.*?),?\)", text):
        choices = [choice.strip(" '") for choice in found[3].split(",")]
        name = found[2] if found[2].startswith("-") else found[2].upper()
        return f"{name} is {found[1]}, but must be one of {', '.join(c for c in choices if c != 'None')}."
    if found := re.match(r"Missing value for argument '(\S+)'", text):
        return f"{found[1]} needs a value; `{prog} --help` explains it."
    if found := re.match(r"Missing from [^:]*: *(\S+)", text):
        return f"{found[1]} is missing; `{prog} --help` explains it."
    return f"{text.rstrip('.')}; `{prog} --help` explains the flags."


def _body(box: str) -> str:
    """The first paragraph below the title of a box. Where a terminal has no lines to draw with, the title has a
    paragraph of its own."""
    lines = [line.strip().strip("│").strip() for line in box.splitlines()]
    titled = bool(lines) and lines[0].startswith("╭")
    paragraphs: list[list[str]] = [[]]
    for line in lines[1:] if titled else lines:
        if line and set(line) <= set("─-"):
            paragraphs.append([])
        else:
            paragraphs[-1].append(line)
    texts = [" ".join(filter(None, paragraph)) for paragraph in paragraphs]
    return next(filter(None, texts if titled else texts[1:]), "The flags could not be read")


def _unknown(word: str, kind: type, prog: str) -> str:
    """A flag that does not exist, with the one that may be meant."""
    if not word.startswith("-"):
        return f"{word!r} is one word too many; `{prog} --help` explains what the command takes."
    words = [word for option in options(kind, prog) for word in option.option_strings if word.startswith("--")]
    known = [word[2:].replace("-", "_") for word in words]
    near = [f"--{name.replace('_', '-')}" for name in synonyms.suggest(word.lstrip("-").partition("=")[0], known)]
    hint = f"did you mean {' or '.join(near)}?" if near else f"`{prog} --help` lists all flags."
    return f"There is no flag {word.partition('=')[0]}; {hint}"
