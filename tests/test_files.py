"""Files: replaced as a whole, and refused before any work where they could not be written."""

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ga3c import files
from ga3c.errors import UserError
from ga3c.files import NotAFile, check_file, check_folder, make_folder, read_file, replacing, set_aside


def test_a_file_is_replaced_only_if_the_block_succeeds(tmp_path: Path) -> None:
    path = tmp_path / "kept.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError), replacing(path) as temporary:  # noqa: PT012
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    with replacing(path) as temporary:
        temporary.write_text("new")
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["kept.txt"]


def test_a_folder_is_created_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"^--out is .*file, which cannot be created: File exists\.$"):
        check_folder(tmp_path / "file")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(UserError, match=r"^--results is .*, but the folder .* is not writable\.$"):
        check_folder(tmp_path, "--results")


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    endings = (".mp4", ".gif")
    check_file(tmp_path / "a.MP4", "--video", endings)
    (tmp_path / "folder.gif").mkdir()
    for name, said in (
        ("a.txt", "but must end in .mp4 or .gif."),
        ("folder.gif", "which is a folder; name a file."),
        ("none/a.gif", "create it first."),
    ):
        with pytest.raises(UserError, match=rf"^--video is .*{name}, .*{said}$"):
            check_file(tmp_path / name, "--video", endings)
    with pytest.raises(UserError, match=r"but must end in \.mp4 and others\.$"):
        check_file(tmp_path / "a.txt", "--video", endings, listed=".mp4 and others")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(UserError, match=r"is not writable\.$"):
        check_file(tmp_path / "a.gif", "--video", endings)


def test_a_file_is_synced_before_it_replaces_the_old_one_and_its_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, done = tmp_path / "config.toml", []
    sync, replace = os.fsync, os.replace

    def fsync(descriptor: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        sync(descriptor)

    def move(source: Path, target: Path) -> None:
        done.append("replace")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", move)
    with replacing(path) as temporary:
        temporary.write_text("whole")
    assert done == ["file", "replace", "folder"]
    done.clear()
    with replacing(path, durable=False) as temporary:
        temporary.write_text("whole")
    assert done == ["replace"]
    done.clear()
    make_folder(tmp_path / "a" / "b")
    assert done == ["folder", "folder"], "the names of both new folders"


def test_threads_that_replace_the_same_file_do_not_meet(
    tmp_path: Path, in_threads: Callable[..., list[threading.Thread]]
) -> None:
    path, all_in = tmp_path / "kept.txt", threading.Barrier(4)

    def write(number: int) -> None:
        with replacing(path) as temporary:
            temporary.write_text(str(number))
            all_in.wait(20)
            assert temporary.read_text() == str(number)

    for thread in in_threads(4, write):
        thread.join(20)
    assert path.read_text() in "0123"
    assert os.listdir(tmp_path) == ["kept.txt"]


def test_a_link_in_the_place_of_a_temporary_file_leads_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "precious").write_text("precious")
    monkeypatch.setattr(files, "_numbers", iter([7]))
    (tmp_path / f".kept.txt.{os.getpid()}.7").symlink_to(tmp_path / "precious")
    with replacing(tmp_path / "kept.txt") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "precious").read_text() == "precious"
    assert (tmp_path / "kept.txt").read_text() == "new"


def test_only_plain_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert read_file(tmp_path / "file", 5) == b"12345"
    os.mkfifo(tmp_path / "pipe")
    for name, limit in (("file", 4), ("pipe", 5), ("", 5)):
        with pytest.raises(NotAFile):
            read_file(tmp_path / name, limit)
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "none", 5)


def test_damaged_files_are_set_aside_and_none_is_lost(tmp_path: Path) -> None:
    names = []
    for content in ("one", "two", "three"):
        (tmp_path / "config.toml").write_text(content)
        names.append(set_aside(tmp_path / "config.toml").name)
    assert names == ["config.toml.damaged", "config.toml.damaged-2", "config.toml.damaged-3"]
    assert [(tmp_path / name).read_text() for name in names] == ["one", "two", "three"]
