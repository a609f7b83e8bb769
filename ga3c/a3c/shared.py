"""The memory that learners share: weights, statistics, the updates that each has made, progress, and the end."""

from typing import Any

import numpy as np
import torch

from ga3c.config import LearnConfig
from ga3c.model import Model
from ga3c.nets import Network

_HEAD = 64
"""Bytes before the counters, for what there is one of."""


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

    @staticmethod
    def size(learners: int, model: int) -> int:
        """Bytes for so many learners and a model of so many numbers."""
        return _start(learners) + 4 * model


def _start(learners: int) -> int:
    return _HEAD + -(-8 * learners // _HEAD) * _HEAD


class SharedModel(Model):
    """The model whose weights and statistics lie on a board. Whoever attaches to it sees what everybody else does."""

    def __init__(self, network: Network, learn: LearnConfig) -> None:
        super().__init__(network, learn, torch.device("cpu"))

    def publish(self, board: Board) -> None:
        """Brings this model's weights and statistics to an empty board."""
        self.live_in(board.model, bring=True)
        self._board, self._learner = board, -1

    def attach(self, board: Board, learner: int) -> None:
        """Becomes the model on a board, for one of its learners."""
        self.live_in(board.model, bring=False)
        self._board, self._learner = board, learner

    @property
    def version(self) -> int:
        return self._version + int(self._board.updates.sum())

    def count_updates(self, count: int) -> None:
        self._board.updates[self._learner] += count  # a cell of this learner alone, so that none is lost
