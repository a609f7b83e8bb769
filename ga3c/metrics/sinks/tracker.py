"""What the sinks for experiment trackers share: the id of a run there, and failures that must not end the run."""

import contextlib
from collections.abc import Iterator

from ga3c.metrics.sinks.base import RunFacts


def read_id(run: RunFacts, tracker: str) -> str | None:
    """The id under which the tracker knows a resumed run; None for a new run."""
    path = run.folder / f"{tracker}.id"
    if run.purge_step is None or not path.exists():
        return None
    return path.read_text(encoding="utf-8").strip() or None


def write_id(run: RunFacts, tracker: str, run_id: str) -> None:
    """Keeps the id in the run's folder, so that a resumed run continues under it."""
    run.folder.mkdir(parents=True, exist_ok=True)
    (run.folder / f"{tracker}.id").write_text(run_id + "\n", encoding="utf-8")


@contextlib.contextmanager
def as_os_error() -> Iterator[None]:
    """Turns whatever a tracker raises into an OSError, on which the reporter drops the sink and the run continues."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise OSError(f"{type(error).__name__}: {error}") from error
