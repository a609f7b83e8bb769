"""Which Ray cluster `--cluster` names."""

import importlib.util
import re
from dataclasses import dataclass

from ga3c.errors import UserError

_MOST_NODES = 16
"""Nodes on this machine for a trial: each takes 300 MB and some seconds."""


@dataclass(frozen=True)
class Target:
    """A cluster that runs, by its address, or nodes that are started on this machine."""

    address: str = ""
    """As `ray.init` takes it; `auto` finds the cluster of this machine."""
    nodes: int = 0
    """Nodes to start on this machine; 0 to join a cluster."""

    @staticmethod
    def parse(text: str) -> "Target":
        local = re.fullmatch(r"local:(\d+)", text)
        if local:
            nodes = int(local[1])
            if not 1 <= nodes <= _MOST_NODES:
                raise UserError(f"--cluster is {text}, but a trial has between 1 and {_MOST_NODES} nodes.")
            return Target(nodes=nodes)
        if text != "auto" and not re.fullmatch(r"[\w.-]+:\d+|\[[\da-fA-F:]+\]:\d+", text):
            raise UserError(
                f"--cluster is {text}, but must be auto, the ADDRESS:PORT of a Ray cluster's head, or local:N."
            )
        return Target(address=text)


def check_installed() -> None:
    if importlib.util.find_spec("ray") is None:
        raise UserError('--cluster needs the package ray; install it with pip install "ga3c[ray]".')
