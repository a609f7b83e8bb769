"""A run's record as TensorBoard scalars over agent steps, written without torch or TensorFlow."""

import itertools
import math
import os
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event as Record  # type: ignore[import-untyped]
from tensorboard.compat.proto.event_pb2 import SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata  # type: ignore[import-untyped]
from tensorboard.compat.proto.tensor_pb2 import TensorProto  # type: ignore[import-untyped]
from tensorboard.compat.proto.types_pb2 import DT_STRING  # type: ignore[import-untyped]
from tensorboard.summary.writer.record_writer import RecordWriter  # type: ignore[import-untyped]

from ga3c.metrics import account
from ga3c.metrics.events import Event, outcome
from ga3c.metrics.sinks import hparams
from ga3c.metrics.sinks.append import AppendFile
from ga3c.metrics.sinks.base import Sink
from ga3c.metrics.snapshot import Episode, Snapshot
from ga3c.metrics.thinning import Thinning

TAGS = {
    "score": "score/mean of last 100",
    "best_score": "score/best",
    "episode_length": "score/episode length",
    "episodes": "score/episodes",
    "pps": "speed/pps",
    "tps": "speed/tps",
    "wait_ms": "speed/wait ms",
    "preparing_ms": "speed/prediction preparing ms",
    "predicting_ms": "speed/prediction network ms",
    "replying_ms": "speed/prediction replying ms",
    "update_ms": "speed/update ms",
    "update_device_ms": "speed/update on device ms",
    "prediction_queue": "queue/prediction",
    "training_queue": "queue/training",
    "prediction_batch": "queue/prediction batch",
    "lag": "lag/mean",
    "lag_max": "lag/max",
    "loss": "loss/total",
    "policy_loss": "loss/policy",
    "value_loss": "loss/value",
    "entropy": "loss/entropy",
    "gradient_norm": "loss/gradient norm",
    "learning_rate": "schedule/learning rate",
    "entropy_weight": "schedule/entropy weight",
    "agents": "engine/agents",
    "predictors": "engine/predictors",
    "trainers": "engine/trainers",
    "restarts": "engine/restarts",
    "agent_stepping": "time/agents stepping",
    "agent_waiting": "time/agents waiting",
    "predictor_waiting": "time/predictors waiting",
    "predictor_blocked": "time/predictors held back",
    "predictor_predicting": "time/predictors predicting",
    "trainer_waiting": "time/trainers waiting",
    "trainer_training": "time/trainers training",
    "gpu_utilisation": "gpu/utilisation",
    "gpu_memory_mb": "gpu/memory mb",
    "core_utilisation": "speed/cores in use",
    "seconds": "progress/seconds",
    "frames": "progress/frames",
    "updates": "progress/updates",
}
for _part in account.PARTS:
    _stage, _, _what = _part.partition("_")
    TAGS |= {f"{_part}_{figure}_ms": f"{_stage} times/{_what} {figure} ms" for figure in account.Spread._fields}
"""The tag of each snapshot field that is shown: its group of charts, then its name there."""

SETTINGS_TAG = "settings/text_summary"
_SCORES = {TAGS["score"], TAGS["best_score"]}
_numbers = itertools.count()
"""Tells the event files apart that one process begins within a second."""


class TensorBoardSink(Sink):
    """Writes an event file to `folder`. A run resumed at `purge_step` makes TensorBoard drop the points after it. Of a
    long run it keeps the points that `metrics.csv` keeps, with one at each checkpoint.

    TensorBoard's own writer has a thread that ends for good at the first error of the disk, so this sink writes the
    records itself."""

    name = "TensorBoard's event file"

    def __init__(
        self, folder: Path, purge_step: int | None = None, rules: str = "", settings: Mapping[str, Any] | None = None
    ) -> None:
        """The charts of scores describe the `rules` of the scores. The `settings` are shown as a table of text, and as
        hyperparameters beside those of other runs."""
        self._rules = SummaryMetadata(summary_description=f"Raw scores, {rules}") if rules else None
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{next(_numbers)}"
        self._file = AppendFile(folder / name)
        self._records = RecordWriter(_Held(self._file))
        self._steps = purge_step or 0
        self._thinning = Thinning()
        self._latest: Record | None = None
        """The latest snapshot's record, if it was left out."""
        self._hold(Record(file_version="brain.Event:2"))
        if purge_step is not None:
            # TensorBoard drops points from the session's step on. The checkpoint's own point stays, as in the CSV.
            self._hold(Record(step=purge_step + 1, session_log=SessionLog(status=SessionLog.START)))
        self._has_settings = bool(settings)
        if settings:
            values = [_table(settings), *hparams.start(settings, TAGS["score"])]
            self._hold(Record(step=self._steps, summary=Summary(value=values)))

    @property
    def lost(self) -> int:
        return self._file.lost

    def write(self, snapshot: Snapshot, episodes: Sequence[Episode]) -> None:
        self._steps = snapshot.steps
        numbers = snapshot.numbers()
        values = {tag: float(numbers[name]) for name, tag in TAGS.items()}
        shown = [
            Summary.Value(tag=tag, simple_value=x, metadata=self._rules if tag in _SCORES else None)
            for tag, x in values.items()
            if not math.isnan(x)
        ]
        record = Record(step=snapshot.steps, summary=Summary(value=shown), wall_time=time.time())
        if self._thinning.keeps(snapshot.seconds):
            self._latest = None
            self._hold(record)
        else:
            self._latest = record
        self._file.flush()

    def event(self, event: Event) -> None:
        if event.kind == "stop" and self._has_settings:
            self._hold(Record(step=self._steps, summary=Summary(value=[hparams.end(outcome(event))])))
            self._file.flush()

    def sync(self) -> None:
        self._hold_latest()
        self._file.sync()

    def close(self) -> None:
        self._hold_latest()
        self._file.close()

    def _hold_latest(self) -> None:
        latest, self._latest = self._latest, None
        if latest is not None:
            self._hold(latest)

    def _hold(self, record: Record) -> None:
        record.wall_time = record.wall_time or time.time()
        self._records.write(record.SerializeToString())


class _Held:
    """Gives the framed records of a `RecordWriter` to a file, one entry each."""

    def __init__(self, file: AppendFile) -> None:
        self.write = file.hold


def _table(settings: Mapping[str, Any]) -> Summary.Value:
    """The settings as a Markdown table, for TensorBoard's page of texts."""
    rows = ["| setting | value |", "|---|---|", *(f"| {name} | {value} |" for name, value in settings.items())]
    text = TensorProto(dtype=DT_STRING, string_val=["\n".join(rows).encode()])
    plugin = SummaryMetadata.PluginData(plugin_name="text")
    return Summary.Value(tag=SETTINGS_TAG, tensor=text, metadata=SummaryMetadata(plugin_data=plugin))
