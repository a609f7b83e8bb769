"""A run's folder: nothing of others is deleted, overwritten or written through, and one process has the lock."""

import errno
import os
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from saved_runs import save_run

from ga3c import cli
from ga3c.config import Config
from ga3c.errors import UserError
from ga3c.run import session, settings
from ga3c.run.folder import RunFolder
from ga3c.run.server import Server

CONFIG = Config(env_id="CartPole-v1")


def contents(folder: Path) -> dict[str, bytes]:
    """Every file in a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# -- a new run --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "files",
    [
        {"metrics.csv": "mine", "episodes.csv": "mine", "tuning.csv": "mine"},
        {"config.toml": "title = 'another program'"},
        {"config.toml": "not even TOML", ".lock": ""},
        {"config.toml": "", "metrics.csv": "mine", ".lock": ""},
        {".lock": "", "metrics.csv": "mine"},
        {"thesis.tex": "mine"},
    ],
)
def test_a_folder_that_is_not_empty_and_not_a_runs_is_refused(
    tmp_path: Path, files: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    before = contents(tmp_path)
    assert cli.main(["train", "CartPole-v1", "--device", "cpu", "--steps", "100", "--out", str(tmp_path)]) == 2
    assert capfd.readouterr().err == (
        f"ga3c: {tmp_path} is not empty and holds no run of ga3c, so nothing is written there; choose another --out.\n"
    )
    with pytest.raises(UserError, match="is not empty"):
        RunFolder(tmp_path).create(CONFIG)
    assert contents(tmp_path) == before


def test_a_folder_of_a_run_that_was_killed_before_its_first_checkpoint_is_used_again(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.create(CONFIG)  # in a folder that is empty
    folder.unlock()
    for name in ("metrics.csv", "episodes.csv", "events.jsonl"):
        (tmp_path / name).write_text("of the killed run\n")
    (tmp_path / "logs").mkdir()
    folder.create(CONFIG)
    folder.unlock()
    assert set(contents(tmp_path)) == {"config.toml", ".lock"}
    (tmp_path / "config.toml").rename(tmp_path / ".config.toml.123.0")  # killed while it wrote its configuration
    (tmp_path / "logs").rmdir()
    folder.create(CONFIG)
    folder.unlock()
    assert folder.read_config() == CONFIG


@pytest.mark.parametrize(
    ("name", "lines"),
    [("metrics.csv", ("names", "0", "100")), ("episodes.csv", ("names", "7")), ("tuning.csv", ("n", ""))],
)
def test_the_record_of_a_run_without_its_checkpoints_is_not_replaced(
    tmp_path: Path, name: str, lines: tuple[str, ...]
) -> None:
    """They were left out of a copy, or removed to make room."""
    folder = RunFolder(save_run(tmp_path / "run", CONFIG))
    shutil.rmtree(folder.checkpoints)
    (folder.path / name).write_text("".join(f"{line}\n" for line in lines))
    before = contents(folder.path)
    with pytest.raises(UserError, match="holds the record of a run whose checkpoints are missing, so nothing is writ"):
        folder.create(CONFIG)
    assert contents(folder.path) == before
    (folder.path / name).write_text("".join(f"{line}\n" for line in lines[:-1]))
    folder.create(CONFIG)
    folder.unlock()


@pytest.mark.parametrize("command", ["train CartPole-v1 --device cpu --out", "resume", "eval"])
def test_a_name_that_no_file_system_takes_is_refused(command: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*command.split(), "x" * 300]) == 2
    said = capfd.readouterr().err
    assert said.startswith(f"ga3c: {'x' * 300}")
    assert said.count("\n") == 1


def test_a_killed_process_leaves_nothing_behind_for_good(tmp_path: Path) -> None:
    folder = save_run(tmp_path / "run", CONFIG)
    names = (".config.toml.77.1", ".metrics.csv.77.2", ".status.json.78.0", ".trace.json.7.1")
    for name in (*names, ".plot.png.77.1"):
        (folder / name).write_text("half")
    RunFolder(folder).lock()
    assert {path.name for path in folder.glob(".*")} == {".lock", ".plot.png.77.1"}, "others may still write theirs"


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "nowhere").symlink_to(tmp_path / "none")
    (tmp_path / "file").write_text("mine")
    os.mkfifo(tmp_path / "pipe")
    for name, said in (
        ("nowhere", "is a symbolic link to nowhere; remove it, or choose another --out"),
        ("file", "is not a folder that can be written to; choose another --out"),
        ("pipe", "is not a folder that can be written to; choose another --out"),
        ("file/run", "file is not a folder that can be written to; choose another --out"),
    ):
        with pytest.raises(UserError, match=said):
            RunFolder(tmp_path / name).create(CONFIG)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.fixture
def disk_that_fills(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Once a run's parts are built, no byte can be written to a file. Folders and empty files can be made, as on a full
    disk."""
    build, (soft, hard) = session.build, resource.getrlimit(resource.RLIMIT_FSIZE)

    def build_then_fill(config: Config, folder: RunFolder, start: int) -> Server:
        server = build(config, folder, start)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
        return server

    monkeypatch.setattr(session, "build", build_then_fill)
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.usefixtures("disk_that_fills")
@pytest.mark.parametrize("resumes", [False, True])
def test_a_full_disk_at_the_start_is_told_of_in_a_sentence(tmp_path: Path, resumes: bool) -> None:
    folder = tmp_path / "run"
    config = settings.resolve("CartPole-v1", "fast", {"device": "cpu", "agents": 2, "workers": 1})
    if resumes:
        save_run(folder, config)
    before = contents(tmp_path)
    with pytest.raises(UserError, match=rf"^{folder} cannot be .*File too large"):
        session.go_on(folder) if resumes else session.begin(config, folder)
    resource.setrlimit(resource.RLIMIT_FSIZE, resource.getrlimit(resource.RLIMIT_FSIZE)[1:] * 2)
    assert {name: text for name, text in contents(tmp_path).items() if text} == {n: t for n, t in before.items() if t}
    if not resumes:
        RunFolder(folder).create(config)  # once there is room again


def test_a_system_that_refuses_threads_is_told_of_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(session, "Ga3c", refuse)
    config = settings.preset_config("CartPole-v1", "fast", "cpu")
    with pytest.raises(UserError, match=r"cannot hold such a run \(can't start new thread\); use fewer --agents"):
        session.begin(config, tmp_path / "run")


def test_a_configuration_is_durable_before_its_run_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced, sync = list[str](), os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    RunFolder(tmp_path / "run").create(CONFIG)
    assert synced[0] == tmp_path.name, "the name of the folder"
    assert synced[1].startswith(".config.toml.")
    assert synced[2] == "run", "the name of the file"


def test_a_folder_that_cannot_be_written_is_told_of_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As on a read-only file system, also for the superuser."""
    folder, real_open, real_access = save_run(tmp_path / "run", CONFIG), os.open, os.access

    def open_to_read(path: str, flags: int, *more: int, **names: int) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY | os.O_CREAT) and str(path).startswith(str(tmp_path)):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return real_open(path, flags, *more, **names)

    monkeypatch.setattr(os, "open", open_to_read)
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and real_access(path, mode))
    before = contents(folder)
    assert cli.main(["resume", str(folder), "--steps", "5000"]) == 2
    assert capfd.readouterr().err == (
        f"ga3c: {folder}/.lock cannot be opened (Read-only file system), so the run cannot be locked.\n"
    )
    assert cli.main(["train", "CartPole-v1", "--device", "cpu", "--out", str(tmp_path / "new")]) == 2
    assert capfd.readouterr().err == f"ga3c: {tmp_path} is not a folder that can be written to; choose another --out.\n"
    assert contents(folder) == before


# -- the lock, and links ----------------------------------------------------------------------------------------------


def test_the_lock_is_never_a_link_and_nothing_is_truncated(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    folder = save_run(tmp_path / "run", CONFIG)
    (folder / ".lock").unlink()
    (folder / ".lock").symlink_to(precious)
    with pytest.raises(UserError, match=r"\.lock is a symbolic link, and a run writes to plain files only"):
        session.go_on(folder)
    (folder / ".lock").unlink()
    os.mkfifo(folder / ".lock")
    with pytest.raises(UserError, match=r"\.lock is not a plain file"):
        session.go_on(folder)
    (folder / ".lock").unlink()
    (folder / ".lock").write_text("somebody's")
    locked = RunFolder(folder)
    locked.lock()
    with pytest.raises(UserError, match="is in use by another ga3c process"):
        session.go_on(folder)
    locked.unlock()
    assert (folder / ".lock").read_text() == "somebody's"
    assert precious.read_text() == "precious"


@pytest.mark.parametrize(
    "name", ["metrics.csv", "events.jsonl", "status.json", "config.toml", "logs", "checkpoints/.x", "tensorboard"]
)
def test_a_run_writes_through_no_link(tmp_path: Path, name: str) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    folder = save_run(tmp_path / "run", CONFIG)
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(precious)
    with pytest.raises(UserError, match="is a symbolic link, and a run writes to plain files only; move it elsewhere"):
        session.go_on(folder)
    assert precious.read_text() == "precious"


def test_a_folder_that_holds_no_run_gets_no_lock(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no run"):
        session.go_on(tmp_path)
    assert os.listdir(tmp_path) == []
