"""A user's own torso, by its import path: `--net my_nets:Torso`, with an LSTM behind it `--net my_nets:Torso-lstm`.

It is a module class, or a function that makes a module, and takes the shape of what it gets: (C, H, W) of a picture, or
(D,) of a vector. The module turns [N, *shape] into features [N, F]. A trial with zeros finds F, and what would fail
later: in trainers, which compute gradients, and in predictors, whose weights may be bfloat16."""

import contextlib
import copy
import importlib
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from ga3c.envs import own
from ga3c.envs.guard import place_of, reason_of
from ga3c.errors import UserError
from ga3c.nets.torsos import Shape

_COUNT = 2
"""Pictures or vectors in a trial."""


class OwnTorso(nn.Module):
    """A user's module. It keeps the weights that it begins with. It is always in the mode for evaluation, because
    predictors and trainers must compute the same: dropout does nothing, and running statistics stand still."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module.eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, numbers: Tensor) -> Tensor:
        features: Tensor = self.module(numbers)
        return features


def named(net: Any) -> Any:
    """The name of a network that a program gives as a class or function; of others, what was given."""
    if isinstance(net, str) or not callable(net):
        return net
    module, name = getattr(net, "__module__", None), getattr(net, "__qualname__", type(net).__qualname__)
    if module is None or module == "__main__" or own.attribute(module, name) is not net:
        raise UserError(
            f"The network {name} cannot be found by other processes and later commands; put it at the top level of a "
            "module of its own, and import it from there."
        )
    return f"{module}:{name}"


def own_torso(net: str, shape: Shape, bf16: bool) -> tuple[OwnTorso, int]:
    """The torso that a name stands for, and the number of its features. A UserError says what is wrong with it."""
    factory = _imported(net)
    with _told(net, f"{shape} as the shape of the observations"):
        module = factory(shape)
    if not isinstance(module, nn.Module):
        _refuse(net, f"gives {type(module).__name__}, but must give a torch.nn.Module")
    if any(isinstance(parameter, nn.UninitializedParameter) for parameter in module.parameters()):
        zeros = torch.zeros(_COUNT, *shape)
        with _told(net, f"zeros of the shape {list(zeros.shape)}"), torch.no_grad():
            module.eval()(zeros)  # lazy layers find their sizes
    _check_parameters(net, module)
    torso = OwnTorso(module)
    features = _tried(net, torso, shape, torch.bfloat16 if bf16 else torch.float32)
    named = dict(torso.module.named_parameters())
    gradients = torch.autograd.grad(features.sum(), list(named.values()), allow_unused=True) if named else ()
    for name, gradient in zip(named, gradients, strict=True):
        if gradient is None:
            _refuse(net, f"has the parameter {name}, which its output does not depend on; remove it")
    return torso, features.shape[1]


def _imported(net: str) -> Any:
    path = net.removesuffix("-lstm")
    module, _, name = path.rpartition(":")
    try:
        importlib.import_module(module)
    except Exception as error:  # the module is the user's own code and may raise anything
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise UserError(
                f"--net is {net}, but no module named {error.name!r} can be imported here; `cd` to the folder that "
                "holds it, or add that folder to PYTHONPATH."
            ) from error
        raise _failed(net, f"importing {module!r} failed", error) from error
    factory = own.attribute(module, name)
    if not callable(factory):
        raise UserError(f"--net is {net}, but {module} has no class or function {name}.")
    return factory


def _tried(net: str, torso: OwnTorso, shape: Shape, dtype: torch.dtype) -> Tensor:
    """The features of zeros, computed as trainers do; also computed as predictors do."""
    zeros = torch.zeros(_COUNT, *shape, dtype=dtype)
    if len(shape) == 3:
        zeros = zeros.contiguous(memory_format=torch.channels_last)  # as the network gives pictures
    buffers = {name: buffer.clone() for name, buffer in torso.module.named_buffers()}
    what = f"zeros of the shape {list(zeros.shape)}"
    mixed: Any = contextlib.nullcontext()
    if dtype == torch.bfloat16 and not zeros.is_meta:
        mixed = torch.autocast(zeros.device.type, dtype, cache_enabled=False)
    with _told(net, what), torch.enable_grad():
        with mixed:
            features = torso(zeros)
        if dtype == torch.bfloat16 and not zeros.is_meta:
            with torch.no_grad():
                copy.deepcopy(torso).bfloat16()(zeros)
    if not isinstance(features, Tensor) or features.dim() != 2 or len(features) != _COUNT or not features.shape[1]:
        given = f"the shape {list(features.shape)}" if isinstance(features, Tensor) else type(features).__name__
        _refuse(net, f"makes {given} of {what}, but must make features [{_COUNT}, F]")
    if not features.is_floating_point():
        _refuse(net, f"makes features of {features.dtype}, but they must be floats")
    if not features.is_meta and not bool(features.isfinite().all()):
        _refuse(net, f"makes features that are not finite of {what}")
    for name, buffer in torso.module.named_buffers():
        if not buffer.is_meta and name in buffers and not torch.equal(buffer, buffers[name]):
            _refuse(net, f"changes its buffer {name}, which is neither shared nor saved")
    return features


def _check_parameters(net: str, module: nn.Module) -> None:
    """Refuses parameters that no update could change."""
    for name, parameter in module.named_parameters():
        if isinstance(parameter, nn.UninitializedParameter):
            _refuse(net, f"has the parameter {name}, which its output does not depend on; remove it")
        if parameter.dtype != torch.float32:
            _refuse(net, f"has the parameter {name} of {parameter.dtype}, but parameters must be float32")
        if not parameter.requires_grad:
            _refuse(net, f"has the parameter {name} without a gradient; make it a buffer")


@contextlib.contextmanager
def _told(net: str, given: str) -> Any:
    """Failures of the user's code as sentences."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise _failed(net, f"it failed with {given}", error) from error


def _failed(net: str, what: str, error: Exception) -> UserError:
    place = place_of(error)
    return UserError(f"--net is {net}, but {what}: {reason_of(error)}" + (f" ({place})." if place else "."))


def _refuse(net: str, reason: str) -> NoReturn:
    raise UserError(f"--net is {net}, which {reason}.")
