"""The record of a run that continues: what is kept, what is moved aside, and how fast it is read."""

from pathlib import Path

import pytest
from saved_runs import save_run
from snapshots import make_episode, make_snapshot

from ga3c.config import Config, EngineConfig, RunConfig
from ga3c.metrics.sinks.csv import CsvSink, read_episodes, read_metrics
from ga3c.run import session

CONFIG = Config(
    "CartPole-v1", engine=EngineConfig(agents=2, workers=1, device="cpu", tune="off"), run=RunConfig(steps=9000)
)


def make_run(folder: Path) -> None:
    """A run killed right after it was resumed at 1,000 steps: it had made no checkpoint, and perhaps no step."""
    save_run(folder, CONFIG, steps=1000)
    sink = CsvSink(folder)
    for steps, seconds in ((500, 0.0), (1000, 0.0), (1000, 0.25), (1040, 1.25)):
        sink.write(make_snapshot(steps, seconds=seconds), [make_episode(steps, steps)])
    sink.close()


def test_seconds_do_not_fall_back_after_a_resume_that_was_killed_early(tmp_path: Path) -> None:
    make_run(tmp_path / "run")
    run = session.go_on(tmp_path / "run")
    run.run_folder.unlock()
    assert [(row["steps"], row["seconds"]) for row in read_metrics(run.folder)] == [(500, 0.0), (1000, 0.0)]
    assert run.metrics()["steps"].tolist() == [500, 1000]
    assert len(run.episodes()) == 3


@pytest.mark.timeout(60)
def test_a_resume_reads_the_end_of_the_episodes_only(tmp_path: Path) -> None:
    make_run(tmp_path / "run")
    path = tmp_path / "run" / "episodes.csv"
    with path.open("r+b") as file:
        file.seek(2**35)  # what would take minutes to read
        file.write(b"\n" + b"".join(b"%d,1,%d,0,5,9\n" % (n, n) for n in range(500, 1100)))
    last = read_episodes(tmp_path / "run", last=100, steps=1000)
    assert [episode.steps for episode in last] == list(range(901, 1001))
    run = session.go_on(tmp_path / "run")
    run.server.system.stop(0.0)
    run.run_folder.unlock()
    scores = [episode.score for episode in last]
    assert run.server.stats.snapshot()[0].score == sum(scores) / 100
    assert read_episodes(tmp_path / "run", last=1)[0].steps == 1000, "later rows are moved aside"
