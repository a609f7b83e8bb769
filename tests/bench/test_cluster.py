"""Measurements of agents on hosts: what they count, and that added milliseconds are on the way."""

import json
from pathlib import Path

import pytest

from ga3c import cli
from ga3c.bench import cluster
from ga3c.bench.cluster import Point

pytestmark = pytest.mark.timeout(300)


@pytest.mark.slow
def test_hosts_are_measured(tmp_path: Path) -> None:
    words = ["--hosts", "1", "2", "--round-trips", "0", "20", "--senders", "1", "--agents", "4", "--seconds", "0.5"]
    assert cli.main(["bench", "cluster", *words, "--out", str(tmp_path)]) == 0
    result = json.loads((tmp_path / "cluster.json").read_text())
    first, *others = result["points"]
    assert (first["part"], first["hosts"], first["agents"]) == ("hand-over", 1, 4)
    frame = 84 * 84 + 5  # with a reward and flags
    assert frame < first["received_per_step"] < frame + 40
    assert [(point["hosts"], point["agents"], point["added_ms"]) for point in others] == [
        (1, 2, 0.0), (1, 2, 20.0), (2, 4, 0.0), (2, 4, 20.0),
    ]  # fmt: skip
    assert all(point["pps"] > 0 for point in result["points"])
    assert all(point["round_trip_ms"] >= 20.0 for point in others if point["added_ms"])
    assert [kept["hosts"] for kept in result["kept"]] == [1, 2]


def test_shares_compare_hosts_and_round_trips() -> None:
    def point(hosts: int, added: float, pps: float) -> Point:
        return Point("scaling", hosts, 2 * hosts, pps, 0.0, 0.0, added, added, 0.0, 0.0)

    points = [point(1, 0.0, 100.0), point(1, 5.0, 90.0), point(8, 0.0, 700.0), point(8, 5.0, 500.0)]
    assert cluster._efficiency(points) == pytest.approx(600.0 / 95.0 / 8)
    assert cluster._kept(points) == [
        {"hosts": 1, "agents": 2, "added_ms": 5.0, "share": 0.9},
        {"hosts": 8, "agents": 16, "added_ms": 5.0, "share": pytest.approx(5 / 7)},
    ]


@pytest.mark.parametrize("words", [["--hosts", "0"], ["--round-trips", "-1"], ["--seconds", "0"]])
def test_figures_out_of_range_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "cluster", *words]) == 2
    assert words[0] in capsys.readouterr().err
