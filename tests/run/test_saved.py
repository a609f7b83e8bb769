"""What a run goes on from: damage is passed over and told, settings never change in silence, and nothing is lost."""

import contextlib
import dataclasses
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from saved_runs import save_format_2, save_run
from snapshots import make_snapshot

import ga3c
from ga3c import cli
from ga3c.config import Config, RunConfig, to_toml
from ga3c.errors import Ga3cWarning, UserError
from ga3c.metrics.sinks.csv import CsvSink, read_metrics
from ga3c.metrics.sinks.events import read_events
from ga3c.run import checkpoint, saved, session, settings
from ga3c.run.folder import RunFolder

CPU = torch.device("cpu")


def cartpole() -> Config:
    config = settings.preset_config("CartPole-v1", "fast", "cpu")
    engine = dataclasses.replace(config.engine, device="cpu", agents=2, workers=1)
    learn = dataclasses.replace(config.learn, discount=0.99, rollout=5, learning_rate=1e-3, learning_rate_end=0.0)
    run = RunConfig(steps=5000, log="")  # it has no record
    return dataclasses.replace(config, engine=engine, learn=learn, run=run)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run with checkpoints at 1,000 and 2,000 steps."""
    path = save_run(tmp_path / "run", cartpole())
    save_run(tmp_path / "other", cartpole(), steps=2000)
    later = checkpoint.path_for(tmp_path / "other" / "checkpoints", 2000)
    later.rename(path / "checkpoints" / later.name)
    return path


@contextlib.contextmanager
def going_on(path: Path, steps: int | None = None, minutes: float | None = None) -> Iterator[session.Run]:
    """A run that is resumed, but not trained."""
    run = session.go_on(path, steps, minutes)
    try:
        yield run
    finally:
        run.server.system.stop(0.0)
        run.run_folder.unlock()


def told(run: session.Run) -> list[str]:
    return [text for _, text in run.server.notices]


def flip(path: Path, place: int = -1) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


# -- checkpoints ------------------------------------------------------------------------------------------------------


def test_a_damaged_last_checkpoint_is_passed_over_told_of_and_kept(folder: Path) -> None:
    older, last = RunFolder(folder).list_checkpoints()
    whole = checkpoint.load(older)
    flip(last)
    damaged = last.read_bytes()
    sentence = f"The checkpoint {last} is damaged; {older.name} is used instead."
    with pytest.warns(Ga3cWarning, match=re.escape(sentence)):
        policy = ga3c.load(folder, device="cpu")
    assert policy.trained.steps == 1000
    assert last.read_bytes() == damaged, "evaluation leaves everything as it is"
    with going_on(folder) as run:
        assert told(run) == [sentence, f"The damaged file is kept as {last}.damaged."]
        assert run.steps == 1000
        for name, tensor in run.server.system.model.state().items():
            assert torch.equal(tensor, whole.tensors[name]), name
    assert RunFolder(folder).list_checkpoints() == [older]
    assert last.with_name(f"{last.name}.damaged").read_bytes() == damaged


def test_a_checkpoint_that_a_person_named_is_never_replaced_by_another(folder: Path) -> None:
    _, last = RunFolder(folder).list_checkpoints()
    assert ga3c.load(last, device="cpu").trained.steps == 2000
    flip(last)
    with pytest.raises(UserError, match=r"step-000000002000\.safetensors is damaged \(its checksum does not match\)"):
        ga3c.load(last, device="cpu")


def test_checkpoints_that_are_all_damaged_end_in_a_sentence(folder: Path) -> None:
    for path in RunFolder(folder).list_checkpoints():
        flip(path)
    before = sorted(folder.rglob("*"))
    with pytest.raises(UserError, match=r"2000\.safetensors is damaged .*, and so are the 1 before it; .* train anew"):
        session.go_on(folder)
    assert sorted(folder.rglob("*")) == before


def test_a_damaged_best_checkpoint_is_refused_and_kept_when_the_run_goes_on(folder: Path) -> None:
    best = checkpoint.best_path(folder / "checkpoints")
    best.write_bytes(RunFolder(folder).last_checkpoint().read_bytes())
    flip(best)
    with pytest.raises(UserError, match=r"best\.safetensors is damaged .*; use the last checkpoint instead\.$"):
        ga3c.load(folder, checkpoint="best", device="cpu")
    with going_on(folder) as run:
        assert "the best one from now on takes its place" in told(run)[0]
    assert not best.exists()
    assert best.with_name("best.safetensors.damaged").exists()


def test_a_checkpoint_without_a_checksum_is_used_with_a_warning(folder: Path) -> None:
    path = RunFolder(folder).last_checkpoint()
    save_format_2(path, checkpoint.load(path))
    with pytest.warns(Ga3cWarning, match="has no checksum, because an older version wrote it"):
        assert ga3c.load(folder, device="cpu").trained.steps == 2000
    with going_on(folder) as run:
        assert "has no checksum" in told(run)[0]


# -- the configuration ------------------------------------------------------------------------------------------------


def remove_lines(path: Path) -> None:
    path.write_text(path.read_text().partition("[engine]")[0])


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        remove_lines,
        lambda path: edit(path, "discount = 0.99", 'discount = "much"'),
        lambda path: edit(path, "[learn]", "[learn"),
        lambda path: path.write_bytes(b"\xff" + path.read_bytes()),
    ],
    ids=["emptied", "cut", "wrong type", "syntax", "no text"],
)
def test_a_damaged_configuration_is_restored_from_the_checkpoint(folder: Path, damage: Callable[[Path], None]) -> None:
    path = folder / "config.toml"
    whole = path.read_text()
    damage(path)
    content = path.read_bytes()
    with pytest.warns(Ga3cWarning, match=r"config\.toml cannot be used: .*2000\.safetensors is used instead\.$"):
        assert ga3c.load(folder, device="cpu").trained.config == cartpole()
    assert path.read_bytes() == content, "evaluation leaves everything as it is"
    with going_on(folder) as run:
        assert run.config == cartpole()
        assert told(run)[1] == f"The damaged file is kept as {path}.damaged."
    assert path.read_text() == whole
    assert (folder / "config.toml.damaged").read_bytes() == content


def test_a_missing_configuration_is_restored_from_the_checkpoint(folder: Path) -> None:
    (folder / "config.toml").unlink()
    assert RunFolder(folder).read_config() == cartpole()
    with going_on(folder) as run:
        assert told(run) == [
            f"{folder / 'config.toml'} is missing; the configuration in step-000000002000.safetensors is used instead."
        ]
    assert (folder / "config.toml").read_text() == to_toml(cartpole())


@pytest.mark.parametrize("content", ["", "[learn]\nrollout = 5\n"])
def test_a_damaged_configuration_without_a_copy_is_refused(folder: Path, content: str) -> None:
    for path in RunFolder(folder).list_checkpoints():
        save_format_2(path, checkpoint.load(path))
    (folder / "config.toml").write_text(content)
    for read in (session.go_on, saved_of):
        with pytest.raises(UserError, match=r"config\.toml cannot be used: it lacks"):
            read(folder)
    assert (folder / "config.toml").read_text() == content


def saved_of(path: Path) -> saved.Saved:
    return saved.read(RunFolder(path))


def test_settings_that_differ_from_the_checkpoints_are_refused(folder: Path) -> None:
    edit(folder / "config.toml", "discount = 0.99", "discount = 0.9")
    edit(folder / "config.toml", "rollout = 5", "rollout = 6")
    for read in (session.go_on, saved_of):
        with pytest.raises(UserError) as caught:
            read(folder)
        assert str(caught.value) == (
            f"{folder / 'config.toml'} and the checkpoint step-000000002000.safetensors differ in discount "
            "(0.9 and 0.99) and rollout (6 and 5); put the checkpoint's values back, or delete config.toml to use them."
        )
    (folder / "config.toml").unlink()
    with going_on(folder) as run:
        assert run.config == cartpole()


def test_limits_may_be_edited_and_are_told(folder: Path) -> None:
    edit(folder / "config.toml", "steps = 5000", "steps = 10000")
    assert not saved_of(folder).notices, "limits are nothing to an evaluation"
    with going_on(folder) as run:
        assert run.config.run.steps == 10_000
        assert told(run)[0] == "config.toml has steps = 10000 where the checkpoint has 5000; config.toml is followed."


def test_an_unknown_setting_stays_an_error(folder: Path) -> None:
    edit(folder / "config.toml", "rollout = 5", "rollout = 5\nspeed = 3")
    for read in (session.go_on, saved_of):
        with pytest.raises(UserError, match=r"config\.toml holds 'speed', which this version of ga3c does not know"):
            read(folder)


def test_settings_that_came_later_need_only_be_added_to_config_toml(folder: Path) -> None:
    """The copies in checkpoints of an older version lack them for good."""
    for path in RunFolder(folder).list_checkpoints():
        old = checkpoint.load(path)
        checkpoint.save(path, dataclasses.replace(old, config=old.config.replace("queue = 16\n", "")))
    assert saved_of(folder).config == cartpole()


def test_a_run_whose_checkpoints_disagree_is_refused(folder: Path) -> None:
    """With no config.toml to judge them by, neither is taken for the other."""
    best, last = checkpoint.best_path(folder / "checkpoints"), RunFolder(folder).last_checkpoint()
    whole = checkpoint.load(last)
    checkpoint.save(best, dataclasses.replace(whole, config=whole.config.replace("CartPole-v1", "Acrobot-v1")))
    (folder / "config.toml").unlink()
    with pytest.raises(
        UserError, match=r"""differ in env_id \("CartPole-v1" and "Acrobot-v1"\); they are of different"""
    ):
        ga3c.load(folder, checkpoint="best", device="cpu")


# -- limits and records -----------------------------------------------------------------------------------------------


def test_a_limit_that_is_given_alone_is_the_only_one_and_what_changes_is_told(folder: Path) -> None:
    with going_on(folder, minutes=10.0) as run:
        assert (run.config.run.steps, run.config.run.minutes) == (0, 10.0)
        assert told(run) == [
            "The limit of 5,000 steps no longer holds; the run ends after 10 minutes.",
            "The learning rate goes from 0.0006 to 0.001, because its schedule now covers 10 minutes.",
            "The entropy weight goes from 0.006 to 0.01, because its schedule now covers 10 minutes.",
        ]


def test_a_schedule_that_jumps_is_told(folder: Path) -> None:
    """The learning rate has come down to 0 where the run ended, and goes up again with a higher limit."""
    edit(folder / "config.toml", "steps = 5000", "steps = 2000")
    for path in RunFolder(folder).list_checkpoints():
        old = checkpoint.load(path)
        checkpoint.save(path, dataclasses.replace(old, config=old.config.replace("steps = 5000", "steps = 2000")))
    with pytest.raises(UserError, match=r"is complete: 2,000 steps .* \(--steps 2000\)"):
        session.go_on(folder)
    with going_on(folder, steps=4000) as run:
        assert told(run)[0] == "The learning rate goes from 0 to 0.0005, because its schedule now covers 4,000 steps."
    with going_on(folder, steps=4000, minutes=9.0) as run:
        assert (run.config.run.steps, run.config.run.minutes) == (4000, 9.0)
        assert "now covers 4,000 steps or 9 minutes." in told(run)[-1]


def test_rows_after_the_checkpoint_are_counted(folder: Path) -> None:
    sink = CsvSink(folder)
    for steps in (500, 1500, 2000, 2100, 2200, 2300, 2400):
        sink.write(make_snapshot(steps, seconds=0.0 if steps <= 2000 else 1.0), [])
    sink.close()
    with going_on(folder) as run:
        assert [text.partition(" from after")[0] for text in told(run)] == [f"4 rows of {folder / 'metrics.csv'}"]
    assert [row["steps"] for row in read_metrics(folder)] == [500, 1500, 2000]


# -- from the outside -------------------------------------------------------------------------------------------------


def test_people_see_warnings_as_sentences_and_programs_as_warnings(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    flip(RunFolder(folder).last_checkpoint())
    assert cli.main(["eval", str(folder), "--episodes", "1", "--device", "cpu", "--json"]) == 0
    said = capfd.readouterr()
    assert re.fullmatch(
        r"ga3c: The checkpoint .* is damaged; step-000000001000\.safetensors is used instead\.\n", said.err
    )
    assert said.out.startswith('{"env": "CartPole-v1"')
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ga3c.evaluate(folder, 1, device="cpu")
    assert [warning.category for warning in caught] == [Ga3cWarning]


def test_a_resumed_run_tells_of_damage_when_it_begins(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    flip(RunFolder(folder).last_checkpoint())
    (folder / "config.toml").write_text("")
    assert cli.main(["resume", str(folder), "--steps", "1500", "--ui", "none"]) == 0
    events = read_events(folder / "events.jsonl")
    assert [event["kind"] for event in events[:6]] == ["start", *["warning"] * 4, "note"]
    assert "is damaged; step-000000001000.safetensors is used instead" in capfd.readouterr().err
    assert checkpoint.load(RunFolder(folder).last_checkpoint()).config == (folder / "config.toml").read_text()
