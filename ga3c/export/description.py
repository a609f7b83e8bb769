"""`policy.json`: all that must be known of an exported policy to play it."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from ga3c import __version__
from ga3c.envs import wrapping
from ga3c.envs.spec import ActionSpec, EnvSpec
from ga3c.export import inputs
from ga3c.export.formats import FORMATS, FormatName
from ga3c.export.graph import ACTION, NEXT_STATE, OBSERVATION, STATE, PolicyGraph
from ga3c.run.trained import Trained

VERSION = 1
"""Changes whenever a reader of older files would be misled."""


def describe(trained: Trained, graph: PolicyGraph, kind: FormatName) -> dict[str, Any]:
    """The content of `policy.json`. Numbers that are not finite are null."""
    config, spec = trained.config, trained.spec
    described = {
        "format_version": VERSION,
        "made_by": f"ga3c {__version__}",
        "model": {
            "format": kind,
            "file": FORMATS[kind].file,
            "precision": "float32",
            "trained_with": config.net.precision,
        },
        "environment": _environment(trained),
        "observation": inputs.describe(trained, graph.network.unpack.normalises),
        "action": _action(spec.action),
        "state": {"size": graph.network.state_size, "first": "zeros"} if graph.network.state_size else None,
        "inputs": _inputs(graph, spec),
        "outputs": _outputs(graph, spec),
        "training": {
            "preset": config.preset,
            "steps": trained.steps,
            "seed": config.run.seed,
            "score": trained.score,
            "checkpoint": trained.path.name,
        },
    }
    return {name: finite(value) for name, value in described.items()}


def finite(value: Any) -> Any:
    """The value with null for every number that is not finite, and all digits of the others."""
    if isinstance(value, Mapping):
        return {name: finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _environment(trained: Trained) -> dict[str, Any]:
    config, spec = trained.config, trained.spec
    described: dict[str, Any] = {
        "id": config.env_id,
        "args": dict(config.env_args),
        "kind": spec.source,
        "wrappers": [_wrapper(text) for text in config.env.wrap],
    }
    if spec.source == "atari":
        env = dataclasses.asdict(config.env)
        described |= {name: env[name] for name in ("frame_skip", "noop_max", "sticky", "full_actions", "max_frames")}
    return described


def _wrapper(text: str) -> dict[str, Any]:
    wrap = wrapping.parse(text)
    module, _, name = wrap.factory_id.rpartition(":")
    return {"module": module, "name": name, "positional": list(wrap.args), "args": dict(wrap.kwargs)}


def _action(action: ActionSpec) -> dict[str, Any]:
    """How a row that the model gives becomes an action of the environment: which choices there are, counted from which
    number, and how each real number gets into its bounds."""
    squashed = action.bounded if action.bounds == "tanh" else (False,) * len(action.low)
    return {
        "kind": action.kind,
        "mask": False,
        "nums": list(action.nums),
        "starts": list(action.starts),
        "low": list(action.low),
        "high": list(action.high),
        "rescaled": list(action.bounded),
        "tanh": list(squashed),
        "shape": list(action.env_shape),
        "dtype": action.env_dtype,
    }


def _inputs(graph: PolicyGraph, spec: EnvSpec) -> list[dict[str, Any]]:
    shapes = {OBSERVATION: spec.observation_shape, STATE: (graph.network.state_size,)}
    dtypes = {OBSERVATION: spec.frame_dtype}
    return [
        {"name": name, "shape": ["batch", *shapes[name]], "dtype": dtypes.get(name, "float32")} for name in graph.inputs
    ]


def _outputs(graph: PolicyGraph, spec: EnvSpec) -> list[dict[str, Any]]:
    action = spec.action
    shapes: dict[str, tuple[int, ...]] = {ACTION: action.shape, NEXT_STATE: (graph.network.state_size,)}
    shapes |= {name: (size,) for name, size in graph.sizes.items()}
    return [
        {
            "name": name,
            "shape": ["batch", *shapes[name]],
            "dtype": action.dtype if name == ACTION else "float32",
        }
        for name in graph.outputs
    ]
