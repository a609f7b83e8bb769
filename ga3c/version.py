"""The version of this package, for every room: the package itself may be imported by the command line only."""

__version__ = "0.6.0"
