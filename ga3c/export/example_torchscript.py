"""The part of an example that differs from `example_onnx.py` for TorchScript."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

# -- the model --------------------------------------------------------------------------------------------------------


class Model:
    """The network: inputs by name to outputs by name, each with a leading dimension for a batch."""

    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        self._module = torch.jit.load(str(path))
        self._inputs = [given["name"] for given in about["inputs"]]
        self._outputs = [output["name"] for output in about["outputs"]]

    def __call__(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        with torch.inference_mode():
            outputs = self._module(*(torch.from_numpy(inputs[name]) for name in self._inputs))
        return {name: output.numpy() for name, output in zip(self._outputs, outputs, strict=True)}
