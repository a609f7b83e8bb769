"""Logs: however much a process prints, a log stays within bounds and keeps its beginning and its end."""

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ga3c.agents import logs
from ga3c.agents.logs import Log

CHATTY = """
import os
for start in range(0, 160_000, 1000):
    os.write(1, "".join(f"{number:063}\\n" for number in range(start, start + 1000)).encode())
raise RuntimeError("the end of it")
"""


@pytest.mark.parametrize("collapses", [True, False], ids=["the file system helps", "it does not"])
def test_a_chatty_process_has_a_short_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, collapses: bool) -> None:
    """With the help of the file system, nothing of the end is lost even if the log is cut while the process prints."""
    path = tmp_path / "agents-000.log"
    path.write_text("of the life before\n")
    log = Log(path)
    assert not log.cut()
    with open(path, "ab") as file:
        process = subprocess.Popen([sys.executable, "-c", CHATTY], stdout=file, stderr=file)
    if not collapses or not _collapses(tmp_path / "tried"):
        monkeypatch.setattr(logs, "_collapse", lambda *_: False)
        process.wait()
    while process.poll() is None:
        log.cut()
        time.sleep(0.001)
    log.cut()
    assert process.returncode == 1
    assert path.stat().st_size < 3 << 20
    text = path.read_text()
    assert text.startswith("of the life before\n" + "0" * 63 + "\n")
    assert len(re.findall(r"\n\[\.\.\. [\d,]+ bytes are cut out here \.\.\.\]\n", text)) == 1
    words = log.last_words()
    assert words.endswith("RuntimeError: the end of it")
    assert f"{159_999:063}\nTraceback (most recent call last)" in words


def _collapses(path: Path) -> bool:
    """Whether the file system of a path can take a range out of a file."""
    path.write_bytes(bytes(1 << 18))
    with open(path, "r+b") as file:
        return logs._collapse(file.fileno(), 1 << 16, 1 << 16)


def test_what_remains_after_a_cut_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "agents-000.log"
    lines = [f"{number:063}\n" for number in range(80_000)]
    path.write_text("".join(lines))
    log = Log(path)
    with open(path, "a") as file:
        file.write("mine\n")
    assert log.cut()
    assert log.last_words() == "mine", "the life before is not quoted after a cut either"
    head, cut, tail = re.split(r"\n\[\.\.\. ([\d,]+) bytes are cut out here \.\.\.\]\n", path.read_text())
    whole = "".join(lines) + "mine\n"
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert len(head) == 1 << 20
    assert len(whole) - path.stat().st_size == int(cut.replace(",", ""))
    assert not log.cut()
