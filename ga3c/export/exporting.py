"""`ga3c export`: a folder with a model, its description and an example. It is written only if the model gives what the
network gives."""

import dataclasses
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch

from ga3c.errors import RunFailed, UserError
from ga3c.export import checking, formats, inputs, layers, observations
from ga3c.export.checking import Compared
from ga3c.export.description import describe, finite
from ga3c.export.formats import FORMATS, Format, FormatName
from ga3c.export.graph import PolicyGraph
from ga3c.files import make_folder, unused
from ga3c.run.trained import Trained, Which, load, torch_threads

_SEED = 1000
"""Seed of the episodes that the check plays."""
_BATCH = 3
"""Batch size of the inputs that a graph is traced with: 1 would be taken for a size that broadcasts."""
_PACKAGES = {"onnx": "onnxruntime", "torchscript": "torch"}
"""What an example needs besides gymnasium and numpy."""
_MODEL = re.compile(r"# -- the model -+\n\n\n(.*?)(?=\n\n\n# -- the policy|\Z)", re.DOTALL)


class Export(NamedTuple):
    """A folder that was written."""

    folder: Path
    file: Path
    """The model in it."""
    compared: Compared
    precision: str
    """The precision that the run trained with."""


def export(run: Path, name: FormatName, out: Path | None, which: Which = "last") -> Export:
    """Exports a checkpoint of a run to the folder `out`, which must be new or empty; exports/ENV-FORMAT unless given. A
    model that differs from the network is RunFailed, and nothing is written."""
    formats.need(name)
    if out is not None:
        check_new(out)
    trained = load(run, which, torch.device("cpu"), exact=True)
    inputs.check(trained)
    graph = PolicyGraph(trained)
    env = trained.config.env_id.replace("/", "-").replace(":", "-")
    folder = out or unused(Path("exports") / f"{env}-{name}")
    with torch_threads(1), _replacing(folder) as temporary:
        file = FORMATS[name].file
        compared = _write_model(FORMATS[name], trained, graph, temporary / file)
        _write_rest(name, trained, graph, temporary)
    return Export(folder, folder / file, compared, trained.config.net.precision)


def check_new(folder: Path) -> None:
    """Refuses a folder that something is in, or that cannot be written."""
    try:
        if os.path.lexists(folder) and (not folder.is_dir() or any(folder.iterdir())):
            raise UserError(f"--out is {folder}, which is not an empty folder, so nothing is written there.")
        parent = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    except OSError as error:
        raise UserError(f"--out is {folder}, which cannot be read: {error.strerror}.") from error
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise UserError(f"--out is {folder}, but {parent} is not a folder that can be written to.")


@contextmanager
def _replacing(folder: Path) -> Iterator[Path]:
    """A new folder beside `folder`, which takes its place if the block succeeds, and is removed if not."""
    make_folder(folder.absolute().parent)
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        temporary.mkdir()
        yield temporary
        os.replace(temporary, folder)  # an empty folder may be there
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}.") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write_model(kind: Format, trained: Trained, graph: PolicyGraph, path: Path) -> Compared:
    """Writes the model, reads it again, and compares it with the network."""
    samples = observations.collect(trained, graph, _SEED)
    state = graph.network.first_state(_BATCH)
    example = (samples.played[:_BATCH],) if state is None else (samples.played[:_BATCH], state)
    try:
        kind.write(graph, example, path)
    except (RuntimeError, TypeError, ValueError) as error:
        reason = (str(error).strip().splitlines() or ["no reason was given"])[0].rstrip(".")
        raise RunFailed(f"The network cannot be written as {path.name}: {reason}.") from error
    return checking.compare(kind.read(path, graph), graph, trained.network, samples)


def _write_rest(name: FormatName, trained: Trained, graph: PolicyGraph, folder: Path) -> None:
    described = describe(trained, graph, name)
    if name == "safetensors":
        described["layers"] = layers.listed(graph.network)
    settings = finite(dataclasses.asdict(trained.config))
    for file, content in (("policy.json", described), ("config.json", settings)):
        (folder / file).write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    if FORMATS[name].example:
        (folder / "example.py").write_text(example(name, trained.spec.source == "atari"), encoding="utf-8")


def example(name: FormatName, atari: bool) -> str:
    """The text of `example.py`: that for ONNX, with another model in it for other formats."""
    text = _source("example_onnx")
    if name != "onnx":
        (model,) = _MODEL.findall(_source(FORMATS[name].example))
        text = _MODEL.sub(lambda found: found[0].replace(found[1], model.rstrip("\n")), text)
        text = text.replace("import onnxruntime\n", f"import {_PACKAGES[name]}\n", 1)
    packages = ["gymnasium", "numpy", _PACKAGES[name], *(["ale-py", "opencv-python"] if atari else [])]
    return text.replace("@PACKAGES@", f"no more than: pip install {' '.join(packages)}", 1)


def _source(module: str) -> str:
    return Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
