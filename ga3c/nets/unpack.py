"""The first stage of a network: frames as they are stored to the numbers that the torsos take."""

import math

import torch
from torch import Tensor, nn

from ga3c.config import Pixels
from ga3c.envs.layout import Layout, Part
from ga3c.nets import normalisation

Numbers = Tensor | tuple[Tensor, ...]
"""What the torso takes: an array, or one for each part of the layout where there are several."""


class Unpack(nn.Module):
    """Unpacks and scales observations by their layout."""

    statistics: Tensor
    """The statistics of the numbers to normalise, [3, D]; [0] where none are. All networks of a model share them."""
    counted: Tensor
    """1 for each number of the vector to normalise, else 0, [D]."""

    def __init__(self, layout: Layout, pixels: Pixels, dtype: torch.dtype, normalise: bool = False) -> None:
        """`pixels` says which numbers the bytes of a picture become; `dtype` is what the torso multiplies. With
        `normalise`, floats of vectors are normalised by their statistics."""
        super().__init__()
        self._parts = layout.parts
        self._places = layout.places
        self._scales = [Scale(part, pixels, dtype) for part in layout.parts]
        self._vector = next((number for number, part in enumerate(layout.parts) if not part.is_picture), None)
        vector = None if self._vector is None else layout.parts[self._vector]
        counted = [] if vector is None or not normalise else [1.0] * vector.shape[0]
        for start, stop in vector.fixed_ranges if vector is not None and counted else ():
            counted[start:stop] = [0.0] * (stop - start)
        self.normalises = any(counted)
        empty = normalisation.empty_statistics(len(counted)) if self.normalises else torch.empty(0)
        self.register_buffer("counted", torch.tensor(counted), persistent=False)
        self.register_buffer("statistics", empty, persistent=False)

    def forward(self, observations: Tensor) -> Numbers:
        """Pictures [N, C, H, W] or vectors [N, D] to numbers of the same shape, or the frames of several parts
        [N, S, bytes] to the numbers of each. The channels of one pixel are adjacent in memory."""
        parts = [self._numbers(number, observations) for number in range(len(self._parts))]
        return parts[0] if len(parts) == 1 else tuple(parts)

    def _numbers(self, number: int, observations: Tensor) -> Tensor:
        """The numbers of one part."""
        if number == self._vector:
            vectors = self._vectors(observations)
            return self._scales[number](
                normalisation.normalised(vectors, self.statistics) if self.normalises else vectors
            )
        # Convolutions run forward and backward up to 1.6 times as fast over pixels whose channels are adjacent.
        # Stacking them takes half the time of `contiguous(memory_format=...)` on a CPU.
        pixels = torch.stack(self._channels(number, observations), dim=-1).permute(0, 3, 1, 2)
        return self._scales[number](pixels)

    def _channels(self, number: int, observations: Tensor) -> list[Tensor]:
        """The channels [N, H, W] of a picture, of all stacked frames."""
        if len(self._parts) == 1:
            return list(observations.unbind(1))
        part, (start, stop) = self._parts[number], self._places[number]
        frames = observations[:, :, start:stop]
        if part.dtype == "float32":
            frames = frames.view(torch.float32)
        pictures = frames.view(*frames.shape[:2], *part.stacked(1))  # [N, S, C, H, W]
        return [channel for picture in pictures.unbind(1) for channel in picture.unbind(1)]

    def _vectors(self, observations: Tensor) -> Tensor:
        """The vectors [N, D] of the last frames."""
        if len(self._parts) == 1 or self._vector is None:
            return observations
        start, stop = self._places[self._vector]
        return observations[:, -1, start:stop].view(torch.float32)

    def moments(self, observations: Tensor, learn: Tensor) -> Tensor:
        """What observations [N, *observation] add to the statistics, flat; `learn` [N] is 1 for those to count. [0]
        where nothing is normalised."""
        if not self.normalises:
            return self.statistics
        return normalisation.moments(self._vectors(observations), learn, self.counted).flatten()


class Scale:
    """Bytes of a part to numbers of which bfloat16 can tell all 256 apart; floats stay as they are.

    Small pictures are often grids of symbols, numbered from 0 to 10 or so, also where their space allows 255. Divided
    by 255 they would all be near 0. So a byte b of a small picture becomes log(1 + b) / log(1 + largest), from 0 to 1,
    in which neighbouring bytes differ the more the smaller they are."""

    def __init__(self, part: Part, pixels: Pixels, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._per_log = 1.0 / math.log1p(part.largest) if part.is_small else 0.0
        # A byte b becomes b / divisor - middle.
        divisor, self._middle = {
            "unit": (255.0, 0.0),
            "signed": (128.0, 1.0),
            "contrast": (128.0, part.background / 128.0),
        }[pixels]
        self._step = 1.0 / divisor
        self._start = torch.tensor(-self._middle, dtype=dtype)

    def __call__(self, numbers: Tensor) -> Tensor:
        if numbers.dtype != torch.uint8:
            return numbers.to(self._dtype)
        if self._per_log:
            return numbers.float().log1p_().mul_(self._per_log).to(self._dtype)
        if self._middle and torch.compiler.is_compiling():
            return numbers.to(self._dtype) * self._step - self._middle
        if self._middle:  # one kernel converts, scales and shifts
            return torch.add(self._start, numbers, alpha=self._step)
        if self._dtype == torch.float32:
            return numbers * self._step  # one kernel here too
        return numbers.to(self._dtype).mul_(self._step)
