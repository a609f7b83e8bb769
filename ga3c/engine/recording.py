"""Recorded functions: on a CPU, the operations of a small network take less time than their calls from Python, and the
other threads of a run wait for the interpreter's lock meanwhile. A recording has the same operations, forward and
backward, and calls them without Python and without the lock.

It is the CPU's counterpart of a captured CUDA graph. It takes a second to make, so that only functions which are
called often are recorded."""

import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

AFTER = 1000
"""Calls before a function is recorded. By then about as much time was lost as a recording takes, so that a run loses at
most twice that, however short it is."""
_RECORDING = threading.Lock()
"""A recording replaces methods of modules while it is made, for all threads: those of two would mix."""

TensorFunction = Callable[..., Tensor]


class Recorded:
    """A function of tensors, which are of the same shapes in each call, with a tensor as its result. It may change the
    tensors that it is given, and may read others, but must not change those."""

    def __init__(self, function: TensorFunction) -> None:
        self._function = function
        self._calls = 0
        self._recording: TensorFunction | None = None

    @property
    def is_recorded(self) -> bool:
        return self._recording is not None

    def __call__(self, *inputs: Tensor) -> Tensor:
        if self._recording is not None:
            with torch.no_grad():
                return self._recording(*inputs)
        self._calls += 1
        if self._calls == AFTER:
            self._recording = record(self._function, *inputs)
            return self(*inputs)  # recorded or, where that is not possible, once more as a call
        return self._function(*inputs)


def record(function: TensorFunction, *inputs: Tensor) -> TensorFunction | None:
    """The operations that the function calls for inputs of these shapes; None where they depend on the values of
    tensors, or torch cannot record one of them."""
    from torch.fx.experimental.proxy_tensor import make_fx  # takes half a second to import

    with _RECORDING, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch announces the end of TorchScript; without it nothing is recorded
        # The function runs twice here, on copies of the tensors that it may change.
        copies = [one.detach().clone() for one in inputs]
        try:
            graph: Any = make_fx(function)(*copies)
            for node in graph.graph.nodes:
                if node.op == "get_attr" and isinstance(one := getattr(graph, node.target), Tensor):
                    delattr(graph, node.target)
                    setattr(graph, node.target, one.detach())  # it has the gradient's operations itself
            with torch.no_grad():
                recording: TensorFunction = torch.jit.trace(graph, tuple(copies), check_trace=False)  # type: ignore[no-untyped-call]
        except Exception:  # a network may do anything
            return None
    return recording
