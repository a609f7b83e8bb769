"""Every setting of a run: `sections` has them with their help, `names` finds them by name, `toml` keeps them, and
`file` reads those that a person wrote."""

from ga3c.config.file import SettingsFile
from ga3c.config.names import by_name, changed, setting_names, validated
from ga3c.config.sections import (
    DETERMINISTIC,
    GPU_SYSTEMS,
    ActionBounds,
    Config,
    Correction,
    DeviceName,
    EngineConfig,
    EnvConfig,
    LearnConfig,
    NamedNet,
    NetConfig,
    NetName,
    Pixels,
    Precision,
    PresetName,
    RunConfig,
    SystemName,
    TuneName,
    Ui,
)
from ga3c.config.toml import UnknownSetting, check_env_args, differences, from_toml, to_toml

__all__ = [
    "DETERMINISTIC",
    "GPU_SYSTEMS",
    "ActionBounds",
    "Config",
    "Correction",
    "DeviceName",
    "EngineConfig",
    "EnvConfig",
    "LearnConfig",
    "NamedNet",
    "NetConfig",
    "NetName",
    "Pixels",
    "Precision",
    "PresetName",
    "RunConfig",
    "SettingsFile",
    "SystemName",
    "TuneName",
    "Ui",
    "UnknownSetting",
    "by_name",
    "changed",
    "check_env_args",
    "differences",
    "from_toml",
    "setting_names",
    "to_toml",
    "validated",
]
