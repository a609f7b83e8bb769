"""`python -m ga3c`."""

from ga3c.cli import main
from ga3c.run.interrupts import leave

if __name__ == "__main__":
    leave(main())
