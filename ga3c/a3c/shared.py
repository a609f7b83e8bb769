"""The memory that learners share: weights, statistics, the updates that each has made, progress, and the end."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ga3c.model import Model

_HEAD = 64
"""Bytes before the counters, for what there is one of."""
_PAGE = 4096


class Board:
    """Arrays over one buffer, the same in every process that maps it. Each number has one writer, but for those of the
    model, which all learners change without a lock."""

    def __init__(self, buffer: Any, learners: int) -> None:
        self.progress = np.frombuffer(buffer, np.float64, 1, 0)
        """How much of the run is over, 0 to 1: the server's."""
        self.stopping = np.frombuffer(buffer, np.int64, 1, 8)
        """Not 0 once learners are to end: the server's."""
        self.updates = np.frombuffer(buffer, np.int64, learners, _HEAD)
        """What each learner has made, over all its lives."""
        self.model = torch.from_numpy(np.frombuffer(buffer, np.float32, -1, _start(learners)))
        """Where a model that is shared in the host's memory lies; empty where it is shared in a GPU's."""

    @staticmethod
    def size(learners: int, model: int) -> int:
        """Bytes for so many learners and a model of so many numbers."""
        return _start(learners) + 4 * model


def _start(learners: int) -> int:
    """The model has pages of its own, so that they can be locked for a GPU."""
    return -(-(_HEAD + 8 * learners) // _PAGE) * _PAGE


class SharedModel(Model):
    """The model whose weights and statistics lie in shared memory. Whoever attaches to it sees what all others do."""

    memory: Tensor
    """All of it, [size]."""

    def publish(self, board: Board, memory: Tensor) -> None:
        """Brings this model's weights and statistics to memory that learners will attach to."""
        self._share(board, memory, learner=-1, bring=True)
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)  # other processes and streams must not begin with half of it

    def attach(self, board: Board, memory: Tensor, learner: int) -> None:
        """Becomes the model that was published there, for one of the board's learners."""
        self._share(board, memory, learner, bring=False)

    @property
    def version(self) -> int:
        return self._version + int(self._board.updates.sum())

    def count_updates(self, count: int) -> None:
        self._board.updates[self._learner] += count  # a cell of this learner alone, so that none is lost

    def _share(self, board: Board, memory: Tensor, learner: int, bring: bool) -> None:
        self.live_in(memory, bring)
        self.memory, self._board, self._learner = memory, board, learner
