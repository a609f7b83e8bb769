"""The command `ga3c`, installed or as `python -m ga3c`. It sets up signals, streams and the path of modules before the
first slow import, and before a file in the current folder could be imported in place of a library."""

import os
import sys


def run() -> None:
    """Runs the command line and exits with its code."""
    append_current_folder()
    open_missing_streams()
    from ga3c import interruption

    interruption.end_at_once()
    from ga3c.cli import main
    from ga3c.run.interrupts import leave

    leave(main())


def append_current_folder() -> None:
    """People keep their own environments in the current folder, so modules are looked for there too, but last: a
    stranger's `csv.py` must not replace Python's."""
    try:
        here = os.getcwd()
    except OSError:  # the folder was deleted
        return
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if sys.path and sys.path[0] in ("", here) and package != here:
        del sys.path[0]  # `python -m` puts it first; it stays first where this package itself is in it
    if here not in sys.path:
        sys.path.append(here)


def open_missing_streams() -> None:
    """Opens standard streams that were closed by the caller (`>&-`) on /dev/null. Else the next file that is opened
    would take the place of one of them, and receive what is printed."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if name == "stdin" else "w", encoding="utf-8", closefd=False))  # noqa: SIM115


if __name__ == "__main__":
    run()
