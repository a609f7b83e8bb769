"""`python -m ga3c`."""

import sys

from ga3c.cli import main

if __name__ == "__main__":
    sys.exit(main())
