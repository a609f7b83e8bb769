"""A disk without room, as the kernel makes it: files of this process cannot grow beyond a size."""

import contextlib
import resource
from collections.abc import Iterator


@contextlib.contextmanager
def full_at(size: int) -> Iterator[None]:
    """In the block, a write beyond `size` bytes of a file writes what fits, then fails with OSError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
