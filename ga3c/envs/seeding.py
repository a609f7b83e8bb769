"""Seeds: each environment and each source of sampled actions gets its own, from the seed of the run."""


def environment_seed(seed: int, index: int, incarnation: int = 0) -> int:
    """For one environment. A restarted process (the next incarnation) plays other games than before."""
    return (seed * 1_000_003 + incarnation * 65_537 + index) % 2**31


def lane_seed(seed: int, number: int, incarnation: int = 0) -> int:
    """For the generator of one lane, which samples actions."""
    return seed * 1000 + incarnation * 65_537_000 + number
