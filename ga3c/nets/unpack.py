"""The first stage of a network: frames as they are stored to the numbers that the torso takes."""

import torch
from torch import Tensor, nn

from ga3c.config import Pixels
from ga3c.envs.layout import Layout
from ga3c.nets import normalisation


class Unpack(nn.Module):
    """Unpacks and scales observations by their layout."""

    statistics: Tensor
    """Of the numbers to normalise, [3, D]; [0] where none are. All networks of a model share them."""
    counted: Tensor
    """1 for each number of the vector to normalise, else 0, [D]."""

    def __init__(self, layout: Layout, pixels: Pixels, dtype: torch.dtype, normalise: bool = False) -> None:
        """`pixels` says which numbers the bytes of a picture become; `dtype` is what the torso multiplies. With
        `normalise`, floats of vectors are normalised by their statistics."""
        super().__init__()
        (part,) = layout.parts
        self._is_picture = layout.is_picture
        self._dtype = dtype
        # A byte b becomes b / divisor - middle.
        divisor, self._middle = {
            "unit": (255.0, 0.0),
            "signed": (128.0, 1.0),
            "contrast": (128.0, part.background / 128.0),
        }[pixels]
        self._step = 1.0 / divisor
        self._start = torch.tensor(-self._middle, dtype=dtype)
        counted = [] if self._is_picture or not normalise else [1.0] * part.shape[0]
        for start, stop in part.fixed_ranges if counted else ():
            counted[start:stop] = [0.0] * (stop - start)
        self.normalises = any(counted)
        empty = normalisation.empty_statistics(len(counted)) if self.normalises else torch.empty(0)
        self.register_buffer("counted", torch.tensor(counted), persistent=False)
        self.register_buffer("statistics", empty, persistent=False)

    def forward(self, observations: Tensor) -> Tensor:
        """Pictures [N, C, H, W] or vectors [N, D] to numbers of the same shape. The channels of one pixel are adjacent
        in memory."""
        if self._is_picture:
            # Convolutions run forward and backward up to 1.6 times as fast over such pixels. Stacking them takes half
            # the time of `contiguous(memory_format=...)` on a CPU.
            observations = torch.stack(observations.unbind(1), dim=-1).permute(0, 3, 1, 2)
        elif self.normalises:
            observations = normalisation.normalised(observations, self.statistics)
        return self.scale(observations)

    def moments(self, observations: Tensor, learn: Tensor) -> Tensor:
        """What observations [N, D] add to the statistics, flat; `learn` [N] is 1 for those to count. [0] where nothing
        is normalised."""
        if not self.normalises:
            return self.statistics
        return normalisation.moments(observations, learn, self.counted).flatten()

    def scale(self, observations: Tensor) -> Tensor:
        """Bytes to numbers of which bfloat16 can tell all 256 apart; floats stay as they are."""
        if observations.dtype != torch.uint8:
            return observations.to(self._dtype)
        if self._middle and torch.compiler.is_compiling():
            return observations.to(self._dtype) * self._step - self._middle
        if self._middle:  # one kernel converts, scales and shifts
            return torch.add(self._start, observations, alpha=self._step)
        if self._dtype == torch.float32:
            return observations * self._step  # one kernel here too
        return observations.to(self._dtype).mul_(self._step)
