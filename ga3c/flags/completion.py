"""Scripts that let a shell complete the commands, their flags, and the choices of a flag."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ga3c.flags import asking, parsing

Shell = Literal["bash", "zsh", "fish"]

_BASH = """_ga3c() {
    local current=${COMP_WORDS[COMP_CWORD]} words=""
    if [[ $COMP_CWORD -eq 1 ]]; then
        words="@commands"
    elif [[ $COMP_CWORD -eq 3 && ${COMP_WORDS[1]} == ctl ]]; then
        words="@ctl"
    else
        case "${COMP_WORDS[1]} ${COMP_WORDS[COMP_CWORD-1]}" in
@choices
        esac
        if [[ -z $words && $current == -* ]]; then
            case "${COMP_WORDS[1]}" in
@flags
            esac
        fi
    fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _ga3c ga3c"""
"""Where there is nothing to propose, `-o default` proposes files."""
_ZSH = """autoload -Uz compinit bashcompinit
(( $+functions[compdef] )) || compinit
bashcompinit
"""
"""zsh runs the script for bash."""


@dataclass(frozen=True)
class Flag:
    """A flag, and what may follow it: `choices`, any value, or nothing."""

    name: str
    choices: tuple[str, ...]
    takes_value: bool


def script(shell: Shell, commands: Mapping[str, type | None], benchmarks: Mapping[str, str]) -> str:
    """The script for a shell. `commands` have the dataclass of their flags; `bench` is followed by a benchmark's
    name."""
    flags = {name: _flags(kind, name) for name, kind in commands.items() if kind is not None}
    after = {"bench": tuple(benchmarks), "completion": ("bash", "zsh", "fish")}
    settable = tuple(f"{name}=" for name in asking.SETTABLE)
    if shell == "fish":
        return _fish(list(commands), flags, after, settable)
    return (_ZSH if shell == "zsh" else "") + _bash(list(commands), flags, after, settable)


def _flags(kind: type, command: str) -> list[Flag]:
    found = []
    for option in parsing.options(kind, f"ga3c {command}"):
        names = [name for name in option.option_strings if name.startswith("--")]
        switch = option.nargs == 0 or any(name.startswith("--no-") for name in names)
        listed = re.match(r"\{(.*?)\}", str(option.metavar or "")) if not switch else None
        choices = tuple(name for name in listed[1].split(",") if name != "None") if listed else ()
        found += [Flag(name, choices, not switch) for name in names]
    return found


def _bash(
    commands: list[str],
    flags: Mapping[str, list[Flag]],
    after: Mapping[str, tuple[str, ...]],
    settable: tuple[str, ...],
) -> str:
    choices = [(f"{command} {command}", words) for command, words in after.items()]
    choices.append(("ctl set", settable))
    choices += [
        (f"{command} {flag.name}", flag.choices) for command in flags for flag in flags[command] if flag.choices
    ]
    names = [(command, [flag.name for flag in flags[command]]) for command in flags]
    text = _BASH.replace("@commands", " ".join(commands)).replace("@ctl", " ".join(asking.COMMANDS))
    text = text.replace(
        "@choices", "\n".join(f'            "{key}") words="{" ".join(words)}";;' for key, words in choices)
    )
    return text.replace(
        "@flags", "\n".join(f'                {key}) words="{" ".join(words)}";;' for key, words in names)
    )


def _fish(
    commands: list[str],
    flags: Mapping[str, list[Flag]],
    after: Mapping[str, tuple[str, ...]],
    settable: tuple[str, ...],
) -> str:
    lines = [f"complete -c ga3c -n __fish_use_subcommand -f -a '{' '.join(commands)}'"]
    for command, words in after.items():
        lines.append(f"complete -c ga3c -n '__fish_seen_subcommand_from {command}' -f -a '{' '.join(words)}'")
    third = "__fish_seen_subcommand_from ctl; and test (count (commandline -opc)) -eq 3"
    lines.append(f"complete -c ga3c -n '{third}' -f -a '{' '.join(asking.COMMANDS)}'")
    later = "__fish_seen_subcommand_from ctl; and __fish_seen_subcommand_from set"
    lines.append(f"complete -c ga3c -n '{later}' -f -a '{' '.join((*settable, 'tuning=on', 'tuning=off'))}'")
    for command in flags:
        for flag in flags[command]:
            follows = f" -x -a '{' '.join(flag.choices)}'" if flag.choices else " -r" if flag.takes_value else ""
            lines.append(f"complete -c ga3c -n '__fish_seen_subcommand_from {command}' -l {flag.name[2:]}{follows}")
    return "\n".join(lines)
