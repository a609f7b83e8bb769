"""The frames that agents leave in shared memory, as the device reads them."""

from collections.abc import Callable
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from ga3c.engine.device import lock_pages


def as_words(frames: Tensor) -> Tensor:
    """Frames as words of 8 bytes where their size allows it, [N, ...] -> [N, W]: copies of words are several times as
    fast as copies of bytes, on a CPU and over the bus."""
    frames = frames.flatten(1)
    return frames.view(torch.int64) if frames.shape[1] * frames.element_size() % 8 == 0 else frames


class SharedFrames:
    """The frames of all agents, [agents, ...].

    A CUDA device reads them over the bus, from within a captured graph: the memory is page-locked and mapped, so no
    copy is launched for them. Where the system refuses that, they are copied to the device first.
    """

    def __init__(self, frames: NDArray[Any], device: torch.device) -> None:
        self._host = torch.from_numpy(frames)
        self._seen = self._host
        """The frames as the device sees them."""
        self._copies = False
        self._unlock: Callable[[], object] = lambda: None
        if device.type == "cuda":
            if unlock := lock_pages(frames, device):
                self._unlock = unlock
                self._seen = torch.as_tensor(_CudaArray(frames), device=device)
            else:
                self._seen = torch.zeros_like(self._host, device=device)
                self._copies = True
        self._words = as_words(self._seen)

    def refresh(self, start: int, stop: int) -> None:
        """Makes new frames of agents `start` to `stop` visible to the device; call it on the lane that reads them."""
        if self._copies:
            self._seen[start:stop].copy_(self._host[start:stop], non_blocking=True)

    def select(self, agents: Tensor) -> Tensor:
        """A copy of the frames of some agents on the device: [N] -> [N, ...]."""
        words = self._words.index_select(0, agents)
        return words.view(self._seen.dtype).view(len(agents), *self._seen.shape[1:])

    def close(self) -> None:
        """Unlocks the memory. No device may read it any more."""
        self._unlock()


class _CudaArray:
    """Host memory that a CUDA device can read at the same address, in the form that torch accepts."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.__cuda_array_interface__ = {
            "shape": array.shape, "typestr": array.dtype.str, "data": (array.ctypes.data, False), "version": 3,
        }  # fmt: skip
