"""Networks as flags of benchmarks write them: `small`, or `large:2` for a stride of 2."""

import dataclasses
from typing import get_args

from ga3c.config import NamedNet, NetConfig
from ga3c.errors import UserError

_KNOWN = get_args(NamedNet)


def parse(text: str, base: NetConfig) -> NetConfig:
    """The network of a name. For `large` the stride of its first layer may follow after a colon."""
    name, colon, stride = text.partition(":")
    if name not in _KNOWN or (colon and (name != "large" or not stride.isdecimal())):
        raise UserError(f"--nets holds {text!r}, but must be of {', '.join(_KNOWN)} and large:4 to large:1.")
    strides = {"stride": int(stride)} if colon else {}
    return dataclasses.replace(base, net=name, **strides)  # type: ignore[arg-type]


def label(net: NetConfig) -> str:
    return f"large:{net.stride}" if net.net == "large" else net.net
