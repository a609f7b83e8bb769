import subprocess
import sys
from pathlib import Path

import pytest
from snapshots import make_snapshot

from ga3c.errors import UserError
from ga3c.metrics import sinks
from ga3c.metrics.sinks.base import RunFacts
from ga3c.metrics.sinks.csv import CsvSink, read_metrics
from ga3c.metrics.sinks.tensorboard import TensorBoardSink


def facts(folder: Path, purge_step: int | None = None) -> RunFacts:
    return RunFacts("pong", folder, folder / "tensorboard", {"learn.rollout": 5}, "no-op starts", purge_step)


def test_sinks_are_made_by_name_each_once(tmp_path: Path) -> None:
    made = sinks.make(["csv", "tensorboard", "csv"], facts(tmp_path))
    assert [type(sink) for sink in made] == [CsvSink, TensorBoardSink]
    for sink in made:
        sink.write(make_snapshot(100), [])
        sink.close()
    assert len(read_metrics(tmp_path)) == 1
    assert len(list((tmp_path / "tensorboard").iterdir())) == 1
    assert sinks.make([], facts(tmp_path)) == []


@pytest.mark.parametrize(
    ("name", "hint"),
    [("tensorbord", "did you mean tensorboard?"), ("xyz", "choose from csv, tensorboard, wandb, mlflow.")],
)
def test_an_unknown_sink_is_refused_with_the_nearest(tmp_path: Path, name: str, hint: str) -> None:
    with pytest.raises(UserError) as raised:
        sinks.make(["csv", name], facts(tmp_path / "run"))
    assert str(raised.value) == f"--log names {name!r}, which is unknown; {hint}"
    assert not (tmp_path / "run").exists(), "nothing is written before all names are checked"


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_missing_package_is_refused_with_the_command_that_installs_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    sinks.check(["csv", "tensorboard"])
    with pytest.raises(UserError, match=rf'needs the package {name}; install it with pip install "ga3c\[{name}\]"'):
        sinks.check(["csv", name])


def test_sinks_do_not_import_torch_or_the_packages_of_others() -> None:
    modules = "ga3c.metrics.sinks.csv, ga3c.metrics.sinks.tensorboard, ga3c.view.plain, ga3c.view.live, ga3c.view.chart"
    heavy = ("torch", "tensorflow", "wandb", "mlflow")
    code = f"import sys, {modules}; sys.exit(any(name in sys.modules for name in {heavy}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
