"""Settings that change over a run."""


def linear(start: float, end: float, progress: float) -> float:
    """From `start` at progress 0 to `end` at progress 1, and constant outside."""
    progress = min(1.0, max(0.0, progress))
    return (1.0 - progress) * start + progress * end
