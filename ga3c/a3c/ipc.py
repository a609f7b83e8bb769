"""GPU memory that several processes share, by CUDA IPC.

It comes from the driver itself. Torch's own sharing counts references in files, never frees what a killed process held,
and depends on the settings of its allocator. None of that is needed here: the server owns the memory and outlives all
other processes.
"""

import contextlib
import ctypes
import functools
import weakref
from typing import Any

import torch
from torch import Tensor

from ga3c.errors import UserError

_PIECE = 2 << 20
"""The driver shares memory in pieces of this many bytes, so the model gets whole pieces for itself."""
_LAZY_ENABLE_PEER_ACCESS = 1
_OUT_OF_MEMORY = 2
_FLOAT_BYTES = 4


class _Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


def allocate(count: int, device: torch.device) -> tuple[Tensor, str]:
    """Memory for `count` floats, and the handle by which other processes attach to it. It is freed with the last tensor
    over it; all other processes must have ended by then."""
    driver, pointer, handle = _driver(device), ctypes.c_uint64(), _Handle()
    size = -(-_FLOAT_BYTES * count // _PIECE) * _PIECE
    _check(driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)))
    memory = _Memory(pointer.value, count)
    weakref.finalize(memory, driver.cuMemFree_v2, pointer).atexit = False
    _check(driver.cuIpcGetMemHandle(ctypes.byref(handle), pointer))
    return torch.as_tensor(memory, device=device), f"{count}:{bytes(handle.bytes).hex()}"


def attach(handle: str, device: torch.device) -> Tensor:
    """The memory behind a handle of another process, until this process ends."""
    driver, pointer = _driver(device), ctypes.c_uint64()
    count, _, digits = handle.partition(":")
    opened = _Handle((ctypes.c_ubyte * 64).from_buffer_copy(bytes.fromhex(digits)))
    _check(driver.cuIpcOpenMemHandle_v2(ctypes.byref(pointer), opened, ctypes.c_uint(_LAZY_ENABLE_PEER_ACCESS)))
    return torch.as_tensor(_Memory(pointer.value, int(count)), device=device)


class _Memory:
    """Floats at an address of the GPU, in the form that torch accepts."""

    def __init__(self, pointer: int, count: int) -> None:
        self.__cuda_array_interface__ = {"shape": (count,), "typestr": "<f4", "data": (pointer, False), "version": 3}


def _driver(device: torch.device) -> Any:
    """The CUDA driver's library, with torch's context current in this thread."""
    torch.cuda.synchronize(device)
    return _library()


@functools.cache
def _library() -> Any:
    return ctypes.CDLL("libcuda.so.1")


def _check(code: int) -> None:
    if code == 0:
        return
    if code == _OUT_OF_MEMORY:
        raise MemoryError("the GPU has no room for the shared model")
    name = ctypes.c_char_p()
    with contextlib.suppress(AttributeError):
        _library().cuGetErrorName(ctypes.c_int(code), ctypes.byref(name))
    reason = (name.value or b"unknown").decode(errors="replace")
    raise UserError(
        f"This machine does not let processes share GPU memory (CUDA error {code}, {reason}), which "
        "--system a3c-gpu-shared needs; use --system a3c-gpu-local."
    )
