"""GA3C: asynchronous advantage actor-critic with agents in processes and one model on the device.

import ga3c

run = ga3c.train("ALE/Pong-v5", minutes=5, seed=1)
policy = ga3c.load(run.folder)
print(ga3c.evaluate(run.folder, episodes=30).mean)
"""

import importlib

from ga3c.version import __version__ as __version__

# As in `typing`, which is not imported here: until `__main__` has put the path in order, a `typing.py` in the current
# folder could be imported in its place.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from ga3c.api import evaluate, load, resume, train
    from ga3c.errors import Ga3cWarning, RunFailed, UserError
    from ga3c.run.callbacks import Callback
    from ga3c.run.policy import Policy
    from ga3c.run.session import Run

__all__ = ["Callback", "Ga3cWarning", "Policy", "Run", "RunFailed", "UserError", "evaluate", "load", "resume", "train"]

_PLACES = {
    "Callback": "ga3c.run.callbacks",
    "Ga3cWarning": "ga3c.errors",
    "Policy": "ga3c.run.policy",
    "Run": "ga3c.run.session",
    "RunFailed": "ga3c.errors",
    "UserError": "ga3c.errors",
    "evaluate": "ga3c.api",
    "load": "ga3c.api",
    "resume": "ga3c.api",
    "train": "ga3c.api",
}


def __getattr__(name: str) -> object:
    """Imports a public name when it is first used: agent processes import this package too, but never torch."""
    if name not in _PLACES:
        raise AttributeError(f"module 'ga3c' has no attribute {name!r}")
    return getattr(importlib.import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
