"""The memory that learners share: the model, the number of updates of each, the rates, and the order to stop."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ga3c.engine.model import Model

_HEAD = 64
"""Bytes before the counters of updates."""
_PAGE = 4096


class Board:
    """Arrays over one buffer, the same in every process that maps it. Each number has one writer, except those of the
    model, which all learners change without a lock."""

    def __init__(self, buffer: Any, learners: int) -> None:
        self.stopping = np.frombuffer(buffer, np.int64, 1, 0)
        """Not 0 once learners should end. The server writes it."""
        self.rates = np.frombuffer(buffer, np.float64, 2, 8)
        """The learning rate and the entropy weight that hold now. The server writes them."""
        self.paused = np.frombuffer(buffer, np.int64, 1, 24)
        """Not 0 while learners should rest. The server writes it."""
        self.updates = np.frombuffer(buffer, np.int64, learners, _HEAD)
        """Updates that each learner has made, over all its lives."""
        self.resting = np.frombuffer(buffer, np.int64, learners, _HEAD + 8 * learners)
        """Not 0 for a learner that rests. Each writes its own."""
        self.model = torch.from_numpy(np.frombuffer(buffer, np.float32, -1, _start(learners)))
        """The memory of a model that is shared on the host; empty where it is shared on a GPU."""

    @staticmethod
    def size(learners: int, model: int) -> int:
        """Bytes for this many learners and a model of this many floats (0: on a GPU)."""
        return _start(learners) + 4 * model


def _start(learners: int) -> int:
    """Where the model begins: on its own pages, which can be locked for a GPU."""
    return -(-(_HEAD + 16 * learners) // _PAGE) * _PAGE


class SharedModel(Model):
    """A model whose weights and statistics are in shared memory: all that attach to it see the same updates."""

    memory: Tensor
    """All of it, [size]."""

    def publish(self, board: Board, memory: Tensor) -> None:
        """Moves this model's weights and statistics into memory that learners will attach to."""
        self.move_to(memory)
        self._share(board, memory, learner=-1)
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)  # other processes and streams must not see half of it

    def attach(self, board: Board, memory: Tensor, learner: int) -> None:
        """Uses the model that was published there, as one of the board's learners."""
        self.use(memory)
        self._share(board, memory, learner)

    @property
    def version(self) -> int:
        return self._version + int(self._board.updates.sum())

    def count_updates(self, count: int) -> None:
        self._board.updates[self._learner] += count  # this learner is the only writer of the cell, so no update is lost

    def _share(self, board: Board, memory: Tensor, learner: int) -> None:
        self.memory, self._board, self._learner = memory, board, learner
