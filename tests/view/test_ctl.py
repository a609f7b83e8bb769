"""`ga3c ctl`: what its words ask for, what it prints, and its exit codes."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from runs import run, started, wait_for

from ga3c import cli
from ga3c.errors import UserError
from ga3c.flags import asking
from ga3c.metrics.sinks.status import read_status
from ga3c.run import checkpoint
from ga3c.run.control_client import NAME
from ga3c.run.folder import RunFolder
from ga3c.run.steered import Steered
from ga3c.tune.tuner import Setting
from ga3c.view import ctl

pytestmark = pytest.mark.timeout(240)
STATE = {
    "id": 1, "ok": True, "text": "This run listens.", "version": "0.6.0", "env": "ALE/Pong-v5", "pid": 17,
    "paused": False, "tuning": True, "setting": {"agents": 8, "predictors": 1, "trainers": 2},
    "space": {"agents": [1, 2, 8], "predictors": [1], "trainers": [1, 2]},
    "rates": {"learning_rate": 1e-4, "entropy_weight": 0.01}, "held": {"learning_rate": 1e-4, "entropy_weight": None},
    "profile": 0.0, "gallery": None,
}  # fmt: skip


# -- words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ("pause", ("pause", {})),
        ("status", ("status", {})),
        (
            "set trainers=4 learning_rate=1e-4 tuning=on",
            ("set", {"trainers": 4, "learning_rate": 1e-4, "tuning": "on"}),
        ),
        ("set agents=1e2 entropy-weight=schedule", ("set", {"agents": 100, "entropy_weight": "schedule"})),
        ("set learning_rate=0", ("set", {"learning_rate": 0.0})),
    ],
)
def test_words_become_a_request(words: str, asked: Any) -> None:
    assert asking.request(words.split()) == asked


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "Say what the run should do: set, pause, resume, checkpoint, stop, trace, status."),
        ("paus", "ga3c ctl has no command 'paus'; did you mean pause?"),
        ("xyz", "ga3c ctl has no command 'xyz'; there are set,"),
        ("pause 5", "pause takes no more words, but got '5'."),
        ("set", "set needs what to set: NAME=VALUE of agents,"),
        ("set agents", "set got 'agents'; did you mean agents=...?"),
        ("set speed=1", "set got 'speed=1'; it takes NAME=VALUE of agents,"),
        ("set trainer=1", "set got 'trainer=1'; did you mean trainers=...?"),
        ("set agents=1 agents=2", "set got agents twice"),
        ("set agents=x", "agents is x, but must be a whole number, such as 1000 or 1e6."),
        ("set learning_rate=x", "learning_rate is x, but must be a number, or schedule."),
        ("set learning_rate=", "learning_rate is empty, but must be a number, or schedule."),
        ("set tuning=1", "tuning is 1, but must be on or off."),
    ],
)
def test_wrong_words_are_told_in_a_sentence(words: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        asking.request(words.split())
    assert str(caught.value).startswith(said)


# -- what is printed --------------------------------------------------------------------------------------------------


class Answers:
    """In the place of a connection: answers as a run would."""

    asked: list[tuple[str, dict[str, Any]]]

    def __init__(self, answer: dict[str, Any]) -> None:
        self.answer, self.asked = answer, []

    def __enter__(self) -> "Answers":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        self.asked.append((do, arguments))
        return self.answer


def test_status_says_what_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = Answers(STATE)
    monkeypatch.setattr(ctl.Control, "connect", lambda folder: answers)
    status = {"steps": 12345, "seconds": 65.0, "score": None, "pps": 4321.0, "tps": 12.5}
    (tmp_path / "status.json").write_text(json.dumps(status))
    assert cli.main(["ctl", str(tmp_path), "status"]) == 0
    assert answers.asked == [("hello", {})]
    assert capsys.readouterr().out.splitlines() == [
        "ALE/Pong-v5 trains (process 17).",
        "65 s, 12,345 steps, score -, 4,321 PPS, 12.5 TPS",
        "agents 8 (1 to 8), predictors 1, trainers 2 (1 to 2); tuning on",
        "learning rate 0.0001 (held), entropy weight 0.01 (by schedule)",
    ]
    answers.answer = STATE | {"paused": True, "space": None}
    (tmp_path / "status.json").unlink()
    assert cli.main(["ctl", str(tmp_path), "status"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == [
        "ALE/Pong-v5 is paused (process 17).",
        "agents 8, predictors 1, trainers 2; tuning on",
    ]
    assert cli.main(["ctl", str(tmp_path), "status", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["setting"] == STATE["setting"]
    assert printed["status"] is None
    assert "id" not in printed


def test_no_run_is_a_sentence_and_an_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["ctl", str(tmp_path), "pause"]) == 1
    assert capsys.readouterr().err.startswith(f"ga3c: No run trains in {tmp_path}")
    assert cli.main(["ctl", str(tmp_path), "pose"]) == 2
    assert cli.main(["ctl"]) == 2


# -- a run in another process -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_is_steered_killed_and_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    small = ("--agents", 4, "--workers", 1, "--predictors", 1, "--trainers", 2, "--device", "cpu", "--ui", "none")

    def asks(*words: object) -> str:
        done = run("ctl", folder, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def steered() -> Steered | None:
        return checkpoint.load(RunFolder(folder).last_checkpoint()).steered

    def trains() -> bool:
        return ((read_status(folder / "status.json") or {}).get("steps") or 0) > 0

    with started("train", "CartPole-v1", *small, "--profile", 1, "--out", folder) as process:
        wait_for(trains, "training")
        assert asks("set", "trainers=1", "learning_rate=1e-5") == (
            "Done: the run has 1 trainer now and the learning rate is held at 1e-05.\n"
        )
        wait_for(lambda: steered() is not None, "a checkpoint after it was steered")
        assert asks("trace") == "Done: the trace was written.\n"
        assert len(json.loads((folder / "trace.json").read_text())["traceEvents"]) > 10
        assert asks("pause") == "Done: the run is paused.\n"
        refused = run("ctl", folder, "set", "agents=99")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert refused.stderr == "ga3c: agents is 99, but this run has room for 1 to 4; start it with more.\n"
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert (folder / NAME).is_socket(), "a run that is killed leaves it"
    gone = run("ctl", folder, "status")
    assert gone.returncode == 1
    assert "the one that did was killed; continue it with `ga3c resume" in gone.stderr
    (folder / "status.json").unlink()
    with started("resume", folder, "--minutes", 5, "--ui", "none") as process:
        wait_for(trains, "training")
        state = json.loads(asks("status", "--json"))
        assert state["setting"] == {"agents": 4, "predictors": 1, "trainers": 1}
        assert (state["paused"], state["held"]["learning_rate"]) == (False, 1e-5)
        assert asks("stop") == "Done: the run ends.\n"
        assert process.wait(60) == 0
    assert steered() == Steered(Setting(4, 1, 1), {"learning_rate": 1e-5, "entropy_weight": None}, tuning=False)
    assert not (folder / NAME).exists()
