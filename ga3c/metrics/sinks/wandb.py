"""A run's record in Weights & Biases. `WANDB_MODE=offline` keeps it in the run's folder, for `wandb sync`."""

import importlib
import math
import os
import secrets
from collections.abc import Sequence
from typing import Any

from ga3c.errors import UserError
from ga3c.metrics.events import Event, Outcome, outcome
from ga3c.metrics.sinks.base import RunFacts, Sink
from ga3c.metrics.sinks.tracker import as_os_error, read_id, write_id
from ga3c.metrics.snapshot import Episode, Snapshot


class WandbSink(Sink):
    """Logs every snapshot at its agent steps, and the last event of each kind in the summary."""

    name = "wandb"
    retries = False

    def __init__(self, run: RunFacts) -> None:
        wandb: Any = importlib.import_module("wandb")
        run_id = read_id(run, "wandb") or secrets.token_hex(4)
        try:
            self._run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", "ga3c"),
                name=run.name,
                id=run_id,
                resume="allow",
                dir=str(run.folder),
                config=dict(run.settings),
                allow_val_change=True,  # a resumed run may have other limits
                settings=wandb.Settings(console="off", silent=True),  # the terminal belongs to the live view
            )
        except Exception as error:
            raise UserError(
                f"wandb cannot start a run: {str(error).rstrip('.')}. Run `wandb login`, set WANDB_MODE=offline, "
                "or leave wandb out of --log."
            ) from error
        write_id(run, "wandb", run_id)
        # After a crash a run resumes at fewer steps than it had logged, and wandb refuses to go back.
        self._first_step = int(self._run.step)
        self._outcome: Outcome = "failed"  # until a `stop` event says otherwise

    def write(self, snapshot: Snapshot, episodes: Sequence[Episode]) -> None:
        if snapshot.steps < self._first_step:
            return
        numbers = {name: value for name, value in snapshot.numbers().items() if not math.isnan(value)}
        with as_os_error():
            self._run.log(numbers, step=snapshot.steps)

    def event(self, event: Event) -> None:
        if event.kind == "stop":
            self._outcome = outcome(event)
        if event.text:
            with as_os_error():
                self._run.summary[f"event/{event.kind}"] = event.text

    def close(self) -> None:
        with as_os_error():
            self._run.finish(exit_code=1 if self._outcome == "failed" else 0)
