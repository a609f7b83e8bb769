"""The settings of a run as hyperparameters in TensorBoard, which compares runs by them. Written without TensorFlow."""

import time
from collections.abc import Mapping
from typing import Any

from google.protobuf.struct_pb2 import Value  # type: ignore[import-untyped]
from tensorboard.compat.proto.summary_pb2 import Summary  # type: ignore[import-untyped]
from tensorboard.plugins.hparams import api_pb2, metadata  # type: ignore[import-untyped]
from tensorboard.plugins.hparams.plugin_data_pb2 import (  # type: ignore[import-untyped]
    HParamsPluginData,
    SessionEndInfo,
    SessionStartInfo,
)

from ga3c.metrics.events import Outcome

_STATUS: Mapping[Outcome, Any] = {
    "complete": api_pb2.STATUS_SUCCESS,
    "stopped": api_pb2.STATUS_UNKNOWN,
    "failed": api_pb2.STATUS_FAILURE,
}


def start(settings: Mapping[str, Any], score: str) -> list[Summary.Value]:
    """The settings of a run that begins; `score` is the tag of the scalar to compare runs by."""
    values = {name: _value(value) for name, value in settings.items()}
    infos = [api_pb2.HParamInfo(name=name, type=_kind(value)) for name, value in values.items()]
    metric = api_pb2.MetricInfo(name=api_pb2.MetricName(tag=score), display_name="score")
    experiment = api_pb2.Experiment(hparam_infos=infos, metric_infos=[metric], time_created_secs=time.time())
    begun = SessionStartInfo(hparams=values, start_time_secs=time.time())
    return [
        _summary(metadata.EXPERIMENT_TAG, HParamsPluginData(experiment=experiment)),
        _summary(metadata.SESSION_START_INFO_TAG, HParamsPluginData(session_start_info=begun)),
    ]


def end(how: Outcome) -> Summary.Value:
    """How the run ended."""
    ended = SessionEndInfo(status=_STATUS[how], end_time_secs=time.time())
    return _summary(metadata.SESSION_END_INFO_TAG, HParamsPluginData(session_end_info=ended))


def _summary(tag: str, data: HParamsPluginData) -> Summary.Value:
    return Summary.Value(tag=tag, metadata=metadata.create_summary_metadata(data), tensor=metadata.NULL_TENSOR)


def _value(value: Any) -> Value:
    if isinstance(value, bool):
        return Value(bool_value=value)
    if isinstance(value, int | float):
        return Value(number_value=value)
    return Value(string_value=str(value))


def _kind(value: Value) -> Any:
    kinds = {
        "bool_value": api_pb2.DATA_TYPE_BOOL,
        "number_value": api_pb2.DATA_TYPE_FLOAT64,
        "string_value": api_pb2.DATA_TYPE_STRING,
    }
    return kinds[value.WhichOneof("kind")]
