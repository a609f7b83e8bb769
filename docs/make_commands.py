"""Writes docs/commands.md from the command line's own parser; `--check` exits with 1 where the file differs."""

import argparse
import ast
import dataclasses
import inspect
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import tyro

from ga3c import bench, cli, presets
from ga3c.config import Config

PAGE = Path(__file__).with_name("commands.md")
SECTIONS = {f.name: f.type for f in dataclasses.fields(Config) if dataclasses.is_dataclass(f.type)}
"""The sections of a run's settings, such as `engine`, with their dataclasses."""

HEAD = """# Commands and flags

<!-- Made by `python docs/make_commands.py`. Change the help texts in the code, not this page. -->

`ga3c COMMAND --help` shows the same. A yes-or-no flag such as `--fuse` is turned off by `--no-fuse`.

| command | what it does |
|---|---|
"""
SETTINGS = """
## Settings of a run

Commands that train or measure a run take these flags. "By preset" means that `--preset` decides, together with the
environment, the device and the network; `config.toml` in the run's folder holds the values of a run. `ga3c train` tunes
its numbers of agents, predictors and trainers unless you choose one of them.
"""


class _Found(Exception):
    """Carries what a command gave to `tyro.cli`."""

    def __init__(self, kind: Any, **options: Any) -> None:
        self.kind, self.options = kind, options


def parser_of(run: Callable[[Sequence[str]], None]) -> argparse.ArgumentParser:
    """The parser that a command reads its flags with: the command runs up to its first call of `tyro.cli`."""

    def stop(kind: Any, **options: Any) -> None:
        raise _Found(kind, **options)

    try:
        with mock.patch.object(tyro, "cli", stop):
            run([])
    except _Found as found:
        options = {name: found.options[name] for name in ("prog", "config") if name in found.options}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return tyro.extras.get_parser(found.kind, **options)
    raise SystemExit(f"{run} has no flags that tyro reads.")


def commands() -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """Each command as it is typed, what it does, and its parser."""
    for name, (run, text, *_) in cli.COMMANDS.items():
        if name != "bench":
            yield f"ga3c {name}", text, parser_of(run)
    for name, text in bench.BENCHMARKS.items():
        yield f"ga3c bench {name}", text, parser_of(lambda words, name=name: bench.run([name, *words]))


def set_by_presets() -> set[str]:
    """Settings, such as `engine.agents`, to which presets.py gives another value than the dataclass does."""
    sections = {kind.__name__: name for name, kind in SECTIONS.items()}
    found = set()
    for function in ast.parse(inspect.getsource(presets)).body:
        # A function that is given a system decides by --system, not by --preset.
        if not isinstance(function, ast.FunctionDef) or "system" in [a.arg for a in function.args.args]:
            continue
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
            section = sections.get(ast.unparse(call.func))
            if call.args and ast.unparse(call.func).endswith("replace"):
                section = ast.unparse(call.args[0]).rpartition(".")[2]
            for keyword in call.keywords if section in SECTIONS else ():
                default = repr(getattr(SECTIONS[section], str(keyword.arg)))
                if ast.unparse(keyword.value) != default and ast.unparse(keyword.value) != keyword.arg:
                    found.add(f"{section}.{keyword.arg}")
    return found


def table(actions: Sequence[argparse.Action], by_preset: set[str]) -> str:
    rows = ["| flag | value | default | meaning |", "|---|---|---|---|"]
    for action in actions:
        text = " ".join((action.help or "").split())
        meaning, default = re.fullmatch(r"(.*?)\s*(?:\((?:default: (.*)|required)\))?", text).groups()  # type: ignore[union-attr]
        default = {"True": "on", "False": "off"}.get(default, f"`{default}`" if default else "")
        if action.dest.replace("-", "_") in by_preset:
            default = "by preset"
        elif default in ("`None`", "`''`"):
            default = ""
        flag, value = (action.option_strings[0], values(action)) if action.option_strings else (values(action), "")
        meaning = meaning.replace("|", "\\|")
        rows.append(f"| `{flag}` | {value} | {default} | {meaning} |")
    return "\n".join(rows) + "\n"


def values(action: argparse.Action) -> str:
    """What a flag takes: the choices there are, or a word such as INT; nothing for a switch."""
    if any(name.startswith("--no-") for name in action.option_strings):
        return ""
    text = str(action.metavar or action.dest)
    if (choices := re.search(r"\{(.*?)\}", text)) is None:
        return text
    names = [name for name in choices[1].split(",") if name != "None"]
    more = " (several)" if text[0] == "[" else " or another text" if text.endswith("}|STR") else ""
    return text.rpartition("|")[2] if not names else ", ".join(names) + more


def page() -> str:
    """The whole of docs/commands.md. Sections of settings that several commands share stand in it once."""
    by_preset, index, own, shared = set_by_presets(), [], [], {}
    for name, text, parser in commands():
        link = name.replace(" ", "-")
        index.append(f"| [`{name}`](#{link}) | {text} |\n")
        actions, sections = [], []
        for group in parser._action_groups:
            listed = [a for a in group._group_actions if a.dest != "help"]
            section = listed[0].dest.partition(".")[0] if listed else ""
            if section in SECTIONS and "." in listed[0].dest:
                title = f"Flags of `{section}`"
                shared[title] = f"\n### {title}\n\n{group.description}\n\n{table(listed, by_preset)}"
                sections.append(f"[{section}](#flags-of-{section})")
            else:
                actions += listed
        own.append(f"\n## {name}\n\n{parser.description}\n\n" + (table(actions, by_preset) if actions else ""))
        if sections:
            own[-1] += f"\nTakes the settings of a run, too: {', '.join(sections)}.\n"
    return HEAD + "".join(index) + "".join(own) + SETTINGS + "".join(shared.values())


def main() -> int:
    wanted = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(wanted, encoding="utf-8")
        return 0
    if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == wanted:
        return 0
    print(f"{PAGE} differs from the parser; run `python docs/make_commands.py`.", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
