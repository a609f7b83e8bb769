"""Stacking of frames on the host, for the A3C learners and for players. The experience store does it on the device.

The rule for all: where an episode is younger than the stack, its first frame stands for those before it.
"""

from ga3c.envs.spec import Frame


def push(frame: Frame, begins: bool, before: Frame, out: Frame) -> None:
    """Writes the stack [S, *frame] that ends with `frame` into `out`, given the stack before it. The two stacks may be
    the same memory. Where an episode begins, the stack before is not read."""
    if begins:
        out[...] = frame
    else:
        out[:-1] = before[1:]
        out[-1] = frame
