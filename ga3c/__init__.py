"""GA3C: asynchronous advantage actor-critic with agents in processes and one model on the device."""

import os

# Before numpy is imported: the cores are the agents', and threads that spin while they wait for each other there take
# longer over the tuner's small matrices than one thread does.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

__version__ = "0.1.0"
