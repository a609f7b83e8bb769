"""Gymnasium's observation spaces as layouts: which of their parts are pictures, and which are numbers of the vector."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from ga3c.envs.layout import SMALL, Dtype, Layout, Part, Range
from ga3c.errors import UserError

LONGEST_VECTOR = 1_000_000
"""A limit for one-hot vectors of huge discrete spaces, which would fill the memory."""
SMALLEST_PICTURE = 5
"""Arrays with a shorter side are vectors: a filter of 3 x 3 would see nearly all of them at once."""
_USUAL_CHANNELS = (1, 3, 4)
"""Grey, colours, colours with transparency, or four grey frames."""

Path = tuple[Any, ...]
"""The keys and numbers that lead to a part of an observation."""


@dataclass(frozen=True, kw_only=True)
class Leaf:
    """A part of a space that has no parts, and where it goes."""

    path: Path
    space: spaces.Space[Any]
    part: int = 0
    """The number of the layout's part that it belongs to."""
    axes: tuple[int, ...] | None = None
    """For a picture: the order of the environment's axes that gives the layout's; None where it is the same."""
    range: Range = (0, 0)
    """For numbers: where they begin and end in the vector."""


@dataclass(frozen=True)
class Observed:
    """What is observed of a space, and how."""

    layout: Layout
    leaves: tuple[Leaf, ...]
    """The parts of the space that are observed, in the space's order."""
    left_out: tuple[Path, ...]
    """The parts that are text."""


def layout_of(env_id: str, space: spaces.Space[Any]) -> Layout:
    """How the observations of a space are packed; a UserError says why they cannot be."""
    return observed(env_id, space).layout


def observed(env_id: str, space: spaces.Space[Any]) -> Observed:
    """What the network sees of a space; a UserError says why it can see nothing. Text beside other parts is left out;
    what is of no fixed size is refused."""
    found = list(_leaves(space))
    texts = tuple(path for path, one in found if is_text(one))
    kept = [(path, one) for path, one in found if not is_text(one) and not _is_empty(one)]
    odd = next(((path, one) for path, one in kept or found if not _is_numeric(one)), None)
    if odd is not None:
        raise UserError(_refusal(env_id, *odd))
    if not kept:
        raise UserError(f"{env_id} has observations without any number; there is nothing to learn from.")
    pictures = [_picture(one) for _, one in kept]
    sizes = [0 if picture else spaces.flatdim(one) for (_, one), picture in zip(kept, pictures, strict=True)]
    if (size := sum(sizes)) > LONGEST_VECTOR:
        raise UserError(f"{env_id} has observations of {size} numbers; at most {LONGEST_VECTOR} are supported.")
    leaves: list[Leaf] = []
    parts: list[Part] = []
    fixed: list[Range] = []
    start, first = 0, int(any(not picture for picture in pictures))  # the vector, if there is one, is the first part
    for (path, one), picture, count in zip(kept, pictures, sizes, strict=True):
        if picture is not None:
            leaves.append(Leaf(path=path, space=one, part=first + len(parts), axes=picture.axes))
            parts.append(_picture_part(path, one, picture))
            continue
        leaves.append(Leaf(path=path, space=one, range=(start, start + count)))
        if _is_fixed(one):
            fixed.append((start, start + count))
        start += count
    vector = Layout.vector(size, fixed_ranges=tuple(fixed)).parts if first else ()
    return Observed(Layout((*vector, *parts)), tuple(leaves), texts)


def notes_of(env_id: str, space: spaces.Space[Any]) -> tuple[str, ...]:
    """Where the network is another one than a person may expect: sentences."""
    seen = observed(env_id, space)
    notes = [
        f"{env_id}: the part {named(path)} of its observations is text, which no network here reads, so it is left out."
        for path in seen.left_out
    ]
    notes += [note for leaf in seen.leaves if (note := _network_note(env_id, leaf)) is not None]
    return tuple(notes)


def named(path: Path) -> str:
    """A part's name, as a program would reach it: ['camera'][0]."""
    return "".join(f"[{key!r}]" for key in path)


def is_text(space: spaces.Space[Any]) -> bool:
    """Whether a space is of texts, also one of a package's own (MiniGrid's missions)."""
    return isinstance(space, spaces.Text) or (space.dtype is not None and np.dtype(space.dtype).kind == "U")


def is_bytes(space: spaces.Space[Any]) -> bool:
    """Whether a space is an array of bytes, or of true and false."""
    return isinstance(space, spaces.Box) and space.dtype in (np.uint8, np.bool_)


def largest_byte(space: spaces.Box) -> int:
    """The number by which bytes are divided, so that they become 0 to 1."""
    return max(1, int(space.high.max())) if space.high.size else 1


def _leaves(space: spaces.Space[Any], path: Path = ()) -> Iterator[tuple[Path, spaces.Space[Any]]]:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        for key, part in space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces):
            yield from _leaves(part, (*path, key))
    else:
        yield path, space


def _is_numeric(space: spaces.Space[Any]) -> bool:
    return isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiBinary | spaces.MultiDiscrete)


def _is_empty(space: spaces.Space[Any]) -> bool:
    return _is_numeric(space) and spaces.flatdim(space) == 0


def _is_fixed(space: spaces.Space[Any]) -> bool:
    """Whether running normalisation leaves it as it is."""
    return not isinstance(space, spaces.Box) or is_bytes(space)


def _refusal(env_id: str, path: Path, space: spaces.Space[Any]) -> str:
    """Only the kind of the space is named: a space may show itself with a function's address."""
    where = f" as its part {named(path)}" if path else ""
    return (
        f"{env_id} has the observation space {type(space).__name__}{where}, but only pictures and fixed numbers of "
        "values are supported; wrap it in a function that leaves this out (gymnasium.wrappers.FilterObservation and "
        "others), and train that as MODULE:FUNCTION."
    )


# -- pictures ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Picture:
    """The shape of a picture [C, H, W], and the order of the axes that gives it."""

    shape: tuple[int, int, int]
    axes: tuple[int, ...] | None


def _picture(space: spaces.Space[Any]) -> _Picture | None:
    """The picture that a space is: bytes with two or three axes, or floats from 0 to 1 with three; None for others."""
    if not isinstance(space, spaces.Box):
        return None
    if is_bytes(space):
        return _axes_of(space.shape)
    floats = np.issubdtype(space.dtype, np.floating) and len(space.shape) == 3 and space.low.size
    return _axes_of(space.shape) if floats and (space.low == 0.0).all() and (space.high == 1.0).all() else None


def _axes_of(shape: tuple[int, ...]) -> _Picture | None:
    """Which axes of an array are rows, columns and channels; None where that is not plain, or the picture is too small.

    The channels are the first axis or the last: the one that has a usual number of them, else the one that differs from
    two equal ones, else the one that is shorter than both others."""
    if len(shape) == 2:
        return _Picture((1, *shape), None) if min(shape) >= SMALLEST_PICTURE else None
    if len(shape) != 3:
        return None
    first, middle, last = shape
    channels_last = _Picture((last, first, middle), (2, 0, 1)) if min(first, middle) >= SMALLEST_PICTURE else None
    channels_first = _Picture((first, middle, last), None) if min(middle, last) >= SMALLEST_PICTURE else None
    if channels_last is not None and last in _USUAL_CHANNELS:
        return channels_last
    if channels_first is not None and first in _USUAL_CHANNELS:
        return channels_first
    if first == middle != last:
        return channels_last
    if middle == last != first:
        return channels_first
    if last < min(first, middle):
        return channels_last
    return channels_first if first < min(middle, last) else None


def _picture_part(path: Path, space: spaces.Space[Any], picture: _Picture) -> Part:
    dtype: Dtype = "uint8" if is_bytes(space) else "float32"
    largest = largest_byte(space) if isinstance(space, spaces.Box) and dtype == "uint8" else 255
    name = named(path) or "picture"
    return Part(name=name, kind="picture", shape=picture.shape, dtype=dtype, largest=largest)


def _network_note(env_id: str, leaf: Leaf) -> str | None:
    """Why an array goes to an MLP, where a person may expect a convolutional network."""
    space = leaf.space
    if not isinstance(space, spaces.Box) or len(space.shape) > 3 or _picture(space) is not None:
        return None
    what = f"its observations{named(leaf.path)}"
    count = f"so its {int(np.prod(space.shape)):,} numbers go to an MLP"
    if is_bytes(space):
        kind = "true and false" if space.dtype == np.bool_ else "bytes"
        several = len(space.shape) == 3 and min(space.shape) >= SMALLEST_PICTURE
        why = "which axis has the channels is not plain" if several else "which is no picture"
        return f"{env_id}: {what} are {kind} of the shape {list(space.shape)}, {why}, {count}."
    if len(space.shape) > 1 and (picture := _axes_of(space.shape)) is not None and min(picture.shape[1:]) >= SMALL:
        return (
            f"{env_id}: {what} of the shape {list(space.shape)} are {space.dtype}, and a convolutional network takes "
            f"pictures of bytes (uint8, 0 to 255), or of floats whose bounds are 0 and 1, {count}."
        )
    return None
