"""Reports of runs: what they show is on record, they lead nowhere, and strangers' texts stay texts."""

import csv
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from reports import Page, add_events, add_status, add_windows, evaluation, make_run, report

import ga3c
from ga3c import cli
from ga3c.config import Config, EngineConfig, LearnConfig, RunConfig
from ga3c.metrics.text import number
from ga3c.report import page, record, summary
from ga3c.report.page import page as page_of

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)> & \x00\u202e${x}'


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a real run."""
    folder = tmp_path_factory.mktemp("runs") / "cartpole"
    ga3c.train("CartPole-v1", steps=3_000, out=folder, ui="none", agents=4, predictors=1, trainers=1, workers=1)
    return folder


def failure(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    """The one sentence with which the command ends with code 2."""
    assert cli.main(["report", *map(str, words)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (sentence,) = captured.err.splitlines()
    return sentence.removeprefix("ga3c: ")


# -- what a report shows ----------------------------------------------------------------------------------------------


def test_a_real_run_is_shown_as_it_is_on_record(trained: Path, tmp_path: Path) -> None:
    shown = report(trained, out=tmp_path / "report.html").text
    with (trained / "metrics.csv").open() as file:
        last = list(csv.DictReader(file))[-1]
    for told in (
        "complete",
        f"{int(last['steps']):,} agent steps",
        f"{int(last['updates']):,} updates",
        number(float(last["score"])),
        f"ga3c train CartPole-v1 --config {trained}/config.toml",
        "4 agents",
        "1 predictor",
        "1 trainer",
        "Training queue",
        "p99",
        f"Training CartPole-v1 in {trained}.",
        f"step-{int(last['steps']):012d}.safetensors",
        "whole",
        'env_id = "CartPole-v1"',
    ):
        assert told in shown, told
    assert "left out" not in shown


def test_the_engine_and_its_limit(tmp_path: Path) -> None:
    config = Config(env_id="CartPole-v1", engine=EngineConfig(queue=64), learn=LearnConfig(rollout=20))
    shown = report(make_run(tmp_path / "a", config), out=tmp_path / "report.html").text
    assert "The run was limited by the trainers." in shown
    assert "Training holds predictors back 60% of the time." in shown
    assert "limits the run" in shown
    assert "held back 60%" in shown
    assert "of 64 rollouts" in shown
    assert "of 32 agents" in shown
    mean = sum(float(row["pps"]) for row in _rows(tmp_path / "a")) / 30
    assert f"{number(mean)} actions/s (PPS)" in shown
    assert f"{number(mean / 20)} rollouts/s" in shown


def _rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


def test_everything_that_may_lie_in_the_folder(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    add_windows(run)
    add_events(run, "Tuned to 32 agents.", kind="tuned")
    (run / "evaluation.json").write_text(json.dumps(evaluation([10.0, 20.0, 60.0])))
    (run / "README.md").write_text("---\nlibrary_name: ga3c\n---\n\n# The card\n\nIt plays **well**.\n")
    shown = report(run, out=tmp_path / "report.html").text
    for told in ("3 windows", "32 agents, 1 predictor and 2 trainers", "-50%, slower", "Settings tried", "2 trainers"):
        assert told in shown, told
    for told in ("30.00 over 3 episodes", "10.00 and 60.00", "Model card", "The card", "well", "Tuned to 32 agents."):
        assert told in shown, told
    assert "library_name" not in shown


def test_an_a3c_run_has_no_queues(tmp_path: Path) -> None:
    config = Config(env_id="CartPole-v1", engine=EngineConfig(system="a3c-cpu", device="cpu"))
    shown = report(make_run(tmp_path / "a", config), out=tmp_path / "report.html").text
    assert "Every agent of a3c-cpu has a model of its own" in shown
    assert "limits the run" not in shown


def test_a_run_that_fell_silent_is_not_running(tmp_path: Path) -> None:
    now = datetime(2026, 11, 19, 2, 0, tzinfo=UTC)
    run = make_run(tmp_path / "a")
    for silent, state in ((1, "running"), (600, "ended without a word; last heard of 2026-11-19 01:50:00 UTC")):
        add_status(run, state="running", updated=(now - timedelta(seconds=silent)).isoformat(timespec="milliseconds"))
        assert summary.state(record.read(run, "a"), now) == state
    add_status(run, state="running", updated="yesterday")
    assert summary.state(record.read(run, "a"), now) == "running"


# -- several runs -----------------------------------------------------------------------------------------------------


def test_three_long_runs_are_compared_in_less_than_5_mb(tmp_path: Path) -> None:
    folders = []
    for name, rate, seed in (("one", 1e-3, 1), ("two", 1e-3, 2), ("other", 5e-4, 1)):
        config = Config(env_id="CartPole-v1", learn=LearnConfig(learning_rate=rate), run=RunConfig(seed=seed))
        folders.append(make_run(tmp_path / name, config, rows=1_500))
        add_windows(folders[-1])
    out = tmp_path / "report.html"
    shown = report(*folders, folders[0], out=out).text  # the one that is named twice is read once
    assert out.stat().st_size < 5_000_000
    assert "3 runs of CartPole-v1" in shown
    for told in ("learn.learning_rate", "run.seed", "0.001", "0.0005", "lr 1e-3 (2 runs)", "lr 5e-4"):
        assert told in shown, told


def test_runs_of_one_name_are_told_apart_and_of_two_environments_are_apart(tmp_path: Path) -> None:
    first = make_run(tmp_path / "a" / "run")
    second = make_run(tmp_path / "b" / "run", Config(env_id="Acrobot-v1"))
    shown = report(first, second, out=tmp_path / "report.html").text
    for told in ("a/run", "b/run", "2 runs of CartPole-v1, Acrobot-v1", "Training score: Acrobot-v1"):
        assert told in shown, told


# -- strangers' folders -----------------------------------------------------------------------------------------------


def test_texts_of_strangers_stay_texts(tmp_path: Path) -> None:
    run = make_run(tmp_path / "<script>alert(0)<", Config(env_id=HOSTILE.replace("\x00", "")))
    add_windows(run, why="<script>alert(3)</script>")
    add_events(run, HOSTILE, "</style></svg><script>", kind="<b>")
    add_status(run, state=HOSTILE, updated=HOSTILE)
    (run / "evaluation.json").write_text(json.dumps({**evaluation([1.0]), "policy": HOSTILE, "checkpoint": HOSTILE}))
    (run / "README.md").write_text(f"# {HOSTILE}\n\n- `{HOSTILE}`\n\n| {HOSTILE} |\n|---|\n\n[x](javascript:alert(1))")
    other = make_run(tmp_path / "other")
    shown = report(run, other, out=tmp_path / "report.html").text
    assert "<script>alert(1)</script>" in shown
    assert "<script>alert(3)</script>" in shown
    assert "javascript" not in shown.replace("[x](javascript:alert(1))", "")
    assert "\u202e" not in shown


@pytest.mark.parametrize("kind", ["garbage", "empty", "folder", "pipe", "link", "numbers"])
def test_damaged_files_lead_to_sentences(kind: str, trained: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the secret")
    names = ("metrics.csv", "episodes.csv", "events.jsonl", "status.json", "tuning.csv", "evaluation.json", "README.md")
    run = make_run(tmp_path / "run")
    for name in (*names, "checkpoints/best.safetensors", "checkpoints/step-000000001000.safetensors"):
        path = run / name
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        match kind:
            case "garbage":
                path.write_bytes(b"\xff\x00[[[[" * 99)
            case "empty":
                path.touch()
            case "folder":
                path.mkdir()
            case "pipe":
                os.mkfifo(path)
            case "link":
                path.symlink_to(secret)
            case "numbers":
                path.write_text('{"scores": [1e999], "lengths": [1], "protocol": {}, "state": [1], "updated": {}}')
    shown = report(run, trained, out=tmp_path / "report.html").text
    assert "the secret" not in shown
    assert "has no rows, so there are no curves." in shown
    if kind in ("folder", "pipe", "link"):
        for name in names:
            assert f"{run / name} is not a plain file" in shown, name


@pytest.mark.parametrize("text", ["", "env_id = [", 'env_id = "x"\n[run]\nseed = "y"', "a = " + "[" * 9_999])
def test_a_damaged_configuration(text: str, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "config.toml").write_text(text)
    assert "Training score" in report(run, out=tmp_path / "report.html").text


def test_the_configuration_of_a_checkpoint_takes_the_place_of_a_damaged_one(trained: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    os.mkdir(run)
    (run / "checkpoints").symlink_to(trained / "checkpoints")
    shown = report(run, out=tmp_path / "report.html").text
    assert "the settings are those in step-" in shown
    assert "CartPole-v1" in shown


# -- what is refused --------------------------------------------------------------------------------------------------


def test_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run, empty, missing = make_run(tmp_path / "runs" / "a"), tmp_path / "empty", tmp_path / "missing"
    empty.mkdir()
    assert "holds neither a run nor results" in failure(capsys, empty)
    assert f"name those, such as {run}" in failure(capsys, tmp_path / "runs")
    assert "is no folder" in failure(capsys, missing)
    assert "is no folder" in failure(capsys, run / "metrics.csv")
    assert "No folder is named" in failure(capsys)
    # --out comes first.
    assert "must end in .html" in failure(capsys, missing, "--out", "report.pdf")
    assert "create it first" in failure(capsys, missing, "--out", "nowhere/report.html")
    (tmp_path / "a.html").mkdir()
    assert "is a folder" in failure(capsys, missing, "--out", "a.html")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.html", "empty", "runs"]


def test_a_report_is_written_whole_or_not_at_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], small_files: Callable[[int], None]
) -> None:
    run, out = make_run(tmp_path / "run"), tmp_path / "report.html"
    out.write_text("the one before")
    small_files(10_000)
    assert "could not be written" in failure(capsys, run, "--out", out)
    small_files(-1)
    assert out.read_text() == "the one before"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["report.html", "run"]


def test_the_page_says_when_it_was_written(tmp_path: Path) -> None:
    parts = [record.read(make_run(tmp_path / "a"), "a")]
    text = page_of(parts, datetime(2026, 11, 19, 2, 0, tzinfo=UTC))
    assert f"Written by ga3c {ga3c.__version__} on 2026-11-19 02:00 UTC." in Page(text).text
    assert page.title_of(parts) == "CartPole-v1"
