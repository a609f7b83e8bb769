"""Files: replaced as a whole, and refused before any work where they could not be written."""

import os
from pathlib import Path

import pytest

from ga3c.errors import UserError
from ga3c.files import check_file, check_folder, replacing


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
