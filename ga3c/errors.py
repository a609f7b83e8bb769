"""The one exception that means: the person asked for something that cannot be done."""


class UserError(Exception):
    """A mistake in the input. Its text is one clear sentence that names the value and says what to do next.

    The command line prints it without a traceback and exits with code 2.
    """


class RunFailed(Exception):
    """A run that had to stop by itself. Its text says why and what to do; the command line exits with code 1."""


class Diverged(RunFailed):
    """A run whose weights are no longer finite."""
