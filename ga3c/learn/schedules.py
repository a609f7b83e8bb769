"""Settings that change over a run."""

from ga3c.config import LearnConfig


def linear(start: float, end: float, progress: float) -> float:
    """From `start` at progress 0 to `end` at progress 1, and constant outside."""
    progress = min(1.0, max(0.0, progress))
    return (1.0 - progress) * start + progress * end


def rates(config: LearnConfig, progress: float) -> tuple[float, float]:
    """The learning rate and the entropy weight that hold when so much of a run is over, 0 to 1."""
    return (
        linear(config.learning_rate, config.learning_rate_end, progress),
        linear(config.entropy_weight, config.entropy_weight_end, progress),
    )
