"""`ga3c bench peers`: training speed on cheap environments beside other libraries.

`command` is what people see, `runs` starts the runs and reads their progress, `process` is a run of another library, in
a Python that has it, and `picture` draws the result."""

from collections.abc import Sequence


def main(words: Sequence[str]) -> None:
    from ga3c.bench.peers import command

    command.main(words)
