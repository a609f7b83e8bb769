"""`ga3c bench faults`: a machine of faults against real runs.

`fault` names the kinds, `runner` does them, `command` is what people see. Faults of agents (`agents`) happen in a run
of `clockwork`, whose transitions `audit` checks. The others (`runs`, `damage`) happen on a `testbed`, in processes that
`zygote` forks, that `witness` watches and whose files are under a `layer`; `truth` knows what must be there
afterwards."""

from collections.abc import Sequence


def main(words: Sequence[str]) -> None:
    # Agent processes import `clockwork` from this package, and must not import torch.
    from ga3c.bench.faults import command

    command.main(words)
