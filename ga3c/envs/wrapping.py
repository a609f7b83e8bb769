"""Wrappers that a person names to put around an environment: MODULE:NAME, or MODULE:NAME(arguments) as in Python.

Each is a `gymnasium.Wrapper` class, or any function from environment to environment."""

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ga3c.envs import own
from ga3c.envs.guard import place_of, reason_of
from ga3c.errors import UserError

if TYPE_CHECKING:
    import gymnasium

_FORM = "MODULE:NAME or MODULE:NAME(key=value), as in gymnasium.wrappers:TimeLimit(max_episode_steps=500)"


class Wrap(NamedTuple):
    """One wrapper with its arguments, which follow the environment."""

    factory_id: str
    """MODULE:NAME, or the id of a class or function that only this process knows."""
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


def parse(text: str) -> Wrap:
    """The wrapper that a text names; nothing is imported."""
    found = re.fullmatch(r"([\w.]+:[\w.-]+)\s*(?:\((.*)\))?", text.strip(), re.DOTALL)
    if found is None:
        raise UserError(f"--wrap is {text}, but must be {_FORM}.")
    args, kwargs = _arguments(text, found[2] or "")
    return Wrap(found[1], args, kwargs)


def factory_ids(wraps: Iterable[str]) -> tuple[str, ...]:
    """What the wrappers import: MODULE:NAME of each."""
    return tuple(parse(text).factory_id for text in wraps)


def wrapped(env_id: str, env: "gymnasium.Env[Any, Any]", wraps: Sequence[str]) -> "gymnasium.Env[Any, Any]":
    """The environment within all wrappers, the first innermost. A UserError names the wrapper that fails."""
    import gymnasium

    for text in wraps:
        wrap = parse(text)
        factory = own.find_wrapper(wrap.factory_id)
        try:
            env = factory(env, *wrap.args, **wrap.kwargs)
        except Exception as error:  # a wrapper may raise anything
            place = place_of(error)
            reason = reason_of(error) + (f" ({place})" if place else "")
            raise UserError(f"{env_id} cannot be wrapped in {text}: {reason}.") from error
        if not isinstance(env, gymnasium.Env):
            raise UserError(
                f"The wrapper {text} returned a {type(env).__name__}, but must return an environment (gymnasium.Env)."
            )
    return env


def _arguments(text: str, inner: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments between the parentheses, which must be plain values."""
    try:
        call = ast.parse(f"f({inner})", mode="eval").body
        assert isinstance(call, ast.Call)
        assert isinstance(call.func, ast.Name)
        named = {word.arg: ast.literal_eval(word.value) for word in call.keywords if word.arg}
        if len(named) < len(call.keywords):
            raise ValueError("** is no plain value")
        return tuple(ast.literal_eval(value) for value in call.args), named
    except (SyntaxError, ValueError, AssertionError, RecursionError):
        raise UserError(
            f"--wrap is {text}, but the arguments of a wrapper must be numbers, texts, True, False, None, or lists of "
            "them; for anything else, write a function that wraps the environment, and name that."
        ) from None
