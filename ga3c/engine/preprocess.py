"""Preprocessing of raw Atari screens on the device: grey, maximum of two screens, 84 x 84, in the predictor's graph."""

import torch
from torch import Tensor

from ga3c.envs.screens import ROUNDING, area_weights, grey_table
from ga3c.envs.spec import EnvSpec


class ScreenPreprocessor:
    """Makes the same pixels as `envs.screens` on the CPU. Area resizing is two matrix products."""

    def __init__(self, spec: EnvSpec, device: torch.device) -> None:
        _, height, width = spec.frame_shape
        _, rows, columns = spec.observation_shape
        self._grey = torch.from_numpy(grey_table(height).copy()).to(device)
        self._rows = torch.from_numpy(area_weights(height, rows).copy()).to(device)  # [84, 210]
        self._columns = torch.from_numpy(area_weights(width, columns).copy()).T.contiguous().to(device)  # [160, 84]

    def __call__(self, screens: Tensor) -> Tensor:
        """[N, 2, H, W] palette bytes to [N, 84, 84] greys."""
        grey = self._grey[screens.int()].amax(dim=1).float()  # [N, H, W]
        return (self._rows @ grey @ self._columns).add_(ROUNDING).to(torch.uint8)
