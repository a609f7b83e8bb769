"""A run's record in MLflow, in the store that MLFLOW_TRACKING_URI names or MLflow takes by default."""

import contextlib
import importlib
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from ga3c.errors import UserError
from ga3c.metrics.events import Event, Outcome, outcome
from ga3c.metrics.sinks.base import RunFacts, Sink
from ga3c.metrics.sinks.tracker import as_os_error, read_id, write_id
from ga3c.metrics.snapshot import Episode, Snapshot

_SECONDS_BETWEEN_ROWS = 10.0
"""A store takes up to 0.1 s of CPU time for one snapshot: every second would slow training down."""
_LONGEST_VALUE = 500
"""Characters that every version of MLflow takes as the value of a parameter or tag."""
_MOST_PARAMETERS = 100
"""Parameters that MLflow takes in one call."""
_STATUS: Mapping[Outcome, str] = {"complete": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}


class MlflowSink(Sink):
    """Logs a snapshot every ten seconds at its agent steps, settings as parameters, events as tags.

    A thread talks to the store, so that a slow server does not hold the run up."""

    name = "MLflow"
    retries = False

    def __init__(self, run: RunFacts) -> None:
        self._mlflow: Any = importlib.import_module("mlflow")
        try:
            self._client = self._mlflow.MlflowClient()
            self._run_id = self._begin(run)
        except Exception as error:
            raise UserError(
                f"MLflow cannot start a run: {str(error).rstrip('.')}. Check MLFLOW_TRACKING_URI, "
                "or leave mlflow out of --log."
            ) from error
        write_id(run, "mlflow", self._run_id)
        self._thread = ThreadPoolExecutor(1, "mlflow")
        self._under_way: list[Future[None]] = []
        self._next = -math.inf
        self._unlogged: Snapshot | None = None
        self._outcome: Outcome = "failed"  # until a `stop` event says otherwise

    def write(self, snapshot: Snapshot, episodes: Sequence[Episode]) -> None:
        self._check()
        self._unlogged = snapshot
        # What a slow server has not taken yet must not pile up.
        if snapshot.seconds >= self._next and not self._under_way:
            self._next = snapshot.seconds + _SECONDS_BETWEEN_ROWS
            self._log(snapshot)

    def event(self, event: Event) -> None:
        self._check()
        if event.kind == "stop":
            self._outcome = outcome(event)
        if event.text:
            self._submit(self._client.set_tag, self._run_id, f"event.{event.kind}", event.text[:_LONGEST_VALUE])

    def close(self) -> None:
        if self._unlogged is not None:
            self._log(self._unlogged)
        self._submit(self._client.set_terminated, self._run_id, _STATUS[self._outcome])
        self._thread.shutdown()
        with contextlib.suppress(OSError):  # there is nothing left to drop
            self._check()

    def _begin(self, run: RunFacts) -> str:
        """The id of a new run, or of the one that is resumed if the store still has it."""
        if (kept := read_id(run, "mlflow")) is not None:
            with contextlib.suppress(self._mlflow.MlflowException):
                self._client.update_run(kept, status="RUNNING")
                return kept
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "ga3c")
        experiment = self._client.get_experiment_by_name(name)
        experiment_id = experiment.experiment_id if experiment else self._client.create_experiment(name)
        run_id = str(self._client.create_run(experiment_id, run_name=run.name).info.run_id)
        entities: Any = importlib.import_module("mlflow.entities")
        settings = [entities.Param(name, str(value)[:_LONGEST_VALUE]) for name, value in run.settings.items()]
        for start in range(0, len(settings), _MOST_PARAMETERS):
            self._client.log_batch(run_id, params=settings[start : start + _MOST_PARAMETERS])
        return run_id

    def _log(self, snapshot: Snapshot) -> None:
        self._unlogged = None
        metric, now = self._mlflow.entities.Metric, int(1000 * time.time())
        numbers = snapshot.numbers().items()
        metrics = [metric(name, float(value), now, snapshot.steps) for name, value in numbers if not math.isnan(value)]
        self._submit(self._client.log_batch, self._run_id, metrics)

    def _submit(self, call: Callable[..., None], *values: object) -> None:
        self._under_way.append(self._thread.submit(call, *values))

    def _check(self) -> None:
        """Raises what a finished call raised."""
        done = [call for call in self._under_way if call.done()]
        self._under_way = [call for call in self._under_way if not call.done()]
        for call in done:
            with as_os_error():
                call.result()
