"""Reports of a benchmark's results: text, pictures and tables, and what of them is left out."""

import base64
import csv
import json
from pathlib import Path

import pytest
from reports import make_run, report

from ga3c import cli
from ga3c.report import folders, results

ROOT = Path(__file__).parents[2]
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
README = """# Lag

It *may* cost `score` and **stability**:

![What lag does](lag.png) ![outside](../secret.png) [more](https://example.org)

| correction | score |
|---|---|
| `vtrace` | 12 |

1. first
2. second
   goes on

```sh
ga3c bench lag <&>
```
<details><summary>Settings</summary>
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What `ga3c bench lag` leaves, with a text."""
    path = tmp_path / "lag" / "2026-11-19"
    (path / "pong").mkdir(parents=True)
    (path / "README.md").write_text(README)
    (path / "lag.png").write_bytes(PNG)
    (path / "other.png").write_bytes(PNG)
    (path / "broken.png").write_bytes(b"<script>")
    rows = [{"correction": f"c{n}", "score": str(n), "env": "Pong"} for n in range(200)]
    _write(path / "lag.csv", rows)
    _write(path / "pong" / "lag.csv", [{"a": "1", "b": "<script>"}, {"a": "2", "b": "x"}])
    about = {
        "cpu": "A processor",
        "cores": 2,
        "memory_gb": 8,
        "gpu": None,
        "python": "3.11",
        "torch": "2",
        "ale_py": "1",
    }
    value = {
        "machine": about,
        "rows": [{"net": "small", "spread": [1.5, 2.5]}],
        "config": {"x": 1},
        "many": [*range(99)],
    }
    (path / "lag.json").write_text(json.dumps(value))
    return path


def _write(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)


def test_texts_pictures_and_tables(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "lag" / "secret.png").write_bytes(PNG + b"secret")
    shown = report(folder, out=tmp_path / "report.html")
    for told in (
        "Lag",
        "stability",
        "ga3c bench lag <&>",
        "second goes on",
        "A processor, 2 cores",
        "1.5, 2.5",
        "[outside]",
    ):
        assert told in shown.text, told
    assert "99 values, from 0 to 98" in shown.text
    assert "200 rows: the range of each column, and the first 20 rows." in shown.text
    assert "c19" in shown.text
    assert "c20" not in shown.text
    assert "The picture broken.png is damaged." in shown.text
    assert "example.org" not in shown.text
    assert len(shown.pictures) == 2
    assert all(base64.b64decode(one.partition(",")[2]) == PNG for one in shown.pictures)


def test_runs_within_results_are_named(folder: Path, tmp_path: Path) -> None:
    make_run(folder / "Pong-seed1")
    shown = report(folder, make_run(tmp_path / "run"), out=tmp_path / "report.html").text
    assert "1 run of it can be reported by themselves: Pong-seed1." in shown
    assert "1 run of CartPole-v1, 1 folder of results" in shown


def test_damaged_results(folder: Path, tmp_path: Path) -> None:
    (folder / "lag.json").write_text("{")
    (folder / "huge.json").write_text('{"x": [' + ",".join(["1" + "0" * 400] * 20) + '], "y": ' + "[" * 5_000)
    (folder / "lag.csv").write_bytes(b"\xff\xfe\x00")
    (folder / "pong" / "lag.csv").unlink()
    (folder / "pong" / "lag.csv").symlink_to("/etc/passwd")
    shown = report(folder, out=tmp_path / "report.html").text
    assert f"{folder / 'lag.json'} cannot be used" in shown
    assert f"{folder / 'lag.csv'} is damaged" in shown
    assert "root:" not in shown


def test_pictures_beyond_the_size_of_a_report_are_left_out(folder: Path, tmp_path: Path) -> None:
    for number in range(5):
        (folder / f"large{number}.png").write_bytes(PNG + bytes(900_000))
    out = tmp_path / "report.html"
    shown = report(folder, out=out)
    assert out.stat().st_size < 5_000_000
    assert "is left out: the report would be too large." in shown.text


def test_every_record_of_this_project_can_be_reported(tmp_path: Path) -> None:
    found = [path for path in sorted((ROOT / "results").iterdir()) if path.is_dir()]
    kinds = {path.name: folders.kind(path) for path in found}
    assert kinds.pop("pong-paper") == kinds.pop("lstm") == "run"
    assert set(kinds.values()) == {"results"}
    shown = report(ROOT / "results" / "table2", ROOT / "results" / "account", out=tmp_path / "report.html")
    assert "The speed-up is higher than the paper's" in shown.text
    assert len(shown.pictures) == 1


def test_a_folder_of_other_tables_is_no_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "package.json").write_text("{}")
    assert not results.is_results(tmp_path)
    assert cli.main(["report", str(tmp_path), "--out", str(tmp_path / "a.html")]) == 2
    assert "holds neither" in capsys.readouterr().err
