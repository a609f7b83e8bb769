"""GA3C: asynchronous advantage actor-critic with agents in processes and one model on the device."""

__version__ = "0.1.0"
