"""The formats of an exported model: how each is written, and how it is read again for the check."""

import copy
import importlib.util
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import safetensors.torch
import torch
from numpy.typing import NDArray
from torch import Tensor

from ga3c.errors import UserError
from ga3c.export.graph import PolicyGraph
from ga3c.export.inputs import STATISTICS

FormatName = Literal["onnx", "torchscript", "safetensors"]
Arrays = Mapping[str, NDArray[Any]]
Exported = Callable[[Arrays], Arrays]
"""A model that was read back: inputs by name to outputs by name."""

OPSET = 17
"""The version of ONNX's operators: the newest that torch 2.7, ONNX Runtime 1.13 and all later versions know."""


class Format(NamedTuple):
    """One way to keep a model in a file."""

    file: str
    packages: tuple[str, ...]
    """What must be installed to write and check it, besides torch."""
    write: Callable[[PolicyGraph, tuple[Tensor, ...], Path], None]
    """The graph, inputs of the right shapes, and the file."""
    read: Callable[[Path, PolicyGraph], Exported]
    example: str
    """The module whose text becomes `example.py`; empty where there is none."""


def need(name: FormatName) -> None:
    """Refuses a format whose packages are missing."""
    missing = [package for package in FORMATS[name].packages if importlib.util.find_spec(package) is None]
    if missing:
        raise UserError(
            f'--format {name} needs {" and ".join(missing)}; install what it needs with pip install "ga3c[export]".'
        )


def _write_onnx(graph: PolicyGraph, inputs: tuple[Tensor, ...], path: Path) -> None:
    names = [*graph.inputs, *graph.outputs]
    with warnings.catch_warnings():
        # The exporter that traces is deprecated, but the one that replaces it needs another package and 20 times as
        # long. It also warns of each constant.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            graph, inputs, str(path), dynamo=False, opset_version=OPSET, input_names=list(graph.inputs),
            output_names=list(graph.outputs), dynamic_axes={name: {0: "batch"} for name in names},
        )  # fmt: skip


def _read_onnx(path: Path, graph: PolicyGraph) -> Exported:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(None, dict(inputs)), strict=True))


def _write_torchscript(graph: PolicyGraph, inputs: tuple[Tensor, ...], path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated, and of each constant
        # Freezing leaves out what no output needs, such as the value.
        traced: Any = torch.jit.trace(graph, inputs, check_trace=False)  # type: ignore[no-untyped-call]
        torch.jit.freeze(traced).save(str(path))


def _read_torchscript(path: Path, graph: PolicyGraph) -> Exported:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        module = torch.jit.load(str(path))  # type: ignore[no-untyped-call]
    return _as_exported(module, graph)


def _write_safetensors(graph: PolicyGraph, inputs: tuple[Tensor, ...], path: Path) -> None:
    # By way of bytes: the library's own file could be read by nobody else.
    path.write_bytes(safetensors.torch.save(weights(graph)))


def _read_safetensors(path: Path, graph: PolicyGraph) -> Exported:
    tensors, other = safetensors.torch.load_file(path), copy.deepcopy(graph)
    for name, parameter in other.network.named_parameters():
        parameter.data = tensors[name]
    if other.network.unpack.normalises:
        other.network.unpack.statistics = tensors[STATISTICS]
    return _as_exported(other, graph)


def weights(graph: PolicyGraph) -> dict[str, Tensor]:
    """The weights by name, with the statistics of observations where they are normalised."""
    found = {name: parameter.detach() for name, parameter in graph.network.named_parameters()}
    if graph.network.unpack.normalises:
        found[STATISTICS] = graph.network.unpack.statistics
    return {name: tensor.contiguous() for name, tensor in found.items()}


def _as_exported(module: Callable[..., tuple[Tensor, ...]], graph: PolicyGraph) -> Exported:
    def run(inputs: Arrays) -> Arrays:
        with torch.inference_mode():
            outputs = module(*(torch.from_numpy(np.ascontiguousarray(inputs[name])) for name in graph.inputs))
        return {name: output.numpy() for name, output in zip(graph.outputs, outputs, strict=True)}

    return run


FORMATS: dict[FormatName, Format] = {
    "onnx": Format("model.onnx", ("onnx", "onnxruntime"), _write_onnx, _read_onnx, "example_onnx"),
    "torchscript": Format("model.pt", (), _write_torchscript, _read_torchscript, "example_torchscript"),
    "safetensors": Format("model.safetensors", (), _write_safetensors, _read_safetensors, ""),
}
