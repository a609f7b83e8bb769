"""Seeds: each environment and each source of sampled actions gets its own, from the seed of the run."""

import numpy as np


def continued_seed(seed: int, steps: int) -> int:
    """The seed of a run that continues after `steps` steps: it plays other games than at its start."""
    return (seed + steps) % 2**31


def environment_seed(seed: int, index: int, incarnation: int = 0) -> int:
    """The seed of one environment. A restarted process (the next incarnation) plays other games than before."""
    return (seed * 1_000_003 + incarnation * 65_537 + index) % 2**31


def lane_seed(seed: int, number: int, incarnation: int = 0) -> int:
    """The seed of one lane's generator, which samples actions."""
    return seed * 1000 + incarnation * 65_537_000 + number


def evaluation_seed(seed: int, index: int) -> int:
    """The seed of one environment of an evaluation. With the seed of a training it still plays other games than
    the training did: the numbers come from another stream."""
    evaluation = np.random.SeedSequence((seed, index), spawn_key=(1,))
    return int(evaluation.generate_state(1)[0]) % 2**31
