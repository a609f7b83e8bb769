"""What benchmarks keep: JSON without NaN, and CSV that is always whole."""

import csv
import dataclasses
import io
import json
import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ga3c.config import Config, DeviceName, RunConfig
from ga3c.errors import UserError
from ga3c.files import replacing

if TYPE_CHECKING:  # JSON can be written where torch cannot be imported
    import torch

    from ga3c.envs.spec import EnvSpec

Row = Mapping[str, Any]


def resolved(config: Config, spec: "EnvSpec", where: "torch.device") -> Config:
    """The same run as a record should have it: what was left for the machine to choose is named, and how long a run
    was to be, which no measurement heeds, is left out."""
    from ga3c import nets
    from ga3c.engine import default_workers

    workers = config.engine.workers
    if config.engine.system == "ga3c":
        workers = workers or default_workers(config.engine.room, where)
    device_name: DeviceName = "cuda" if where.type == "cuda" else "cpu"
    engine = dataclasses.replace(config.engine, workers=workers, device=device_name)
    net = dataclasses.replace(config.net, net=nets.chosen(spec, config.net))
    return dataclasses.replace(config, engine=engine, net=net, run=RunConfig(seed=config.run.seed))


def finite(value: Any) -> Any:
    """The value for JSON: what is not finite becomes null, and figures get no more digits than they are worth."""
    if isinstance(value, Mapping):
        return {name: finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite(part) for part in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def to_json(value: Row) -> str:
    return json.dumps(finite(value), allow_nan=False)


def date() -> str:
    """Now, in universal time."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def check_folder(folder: Path) -> None:
    """Makes the folder before anything is measured that could then not be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--out is {folder}, which cannot be made: {error.strerror}.") from error
    if not os.access(folder, os.W_OK):
        raise UserError(f"--out is {folder}, which cannot be written to.")


def write(path: Path, text: str) -> None:
    """Writes a file as a whole, so that who is interrupted leaves the old one."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """A row per mapping; what a row lacks or is not finite stays empty."""
    text = io.StringIO()
    table = csv.DictWriter(text, columns, restval="", extrasaction="ignore", lineterminator="\n")
    table.writeheader()
    for row in rows:
        table.writerow({name: "" if value is None else value for name, value in finite(row).items()})
    write(path, text.getvalue())


def append_csv(path: Path, columns: Sequence[str], row: Row, first: bool) -> None:
    """One row more, where a file of thousands would take too long to be written anew; `first` begins the file."""
    with path.open("w" if first else "a", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, columns, restval="", extrasaction="ignore", lineterminator="\n")
        if first:
            table.writeheader()
        table.writerow({name: "" if value is None else value for name, value in finite(row).items()})


def read_csv(path: Path) -> list[dict[str, str]]:
    """The rows of a file; none where there is no file."""
    if not path.exists():
        return []
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(
            f"{path} is damaged or cannot be read ({error}); move it away or choose another --out."
        ) from error
