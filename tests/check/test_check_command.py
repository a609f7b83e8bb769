"""The command `ga3c check`: its exit code, its report and its JSON."""

import io
import json
import math

import pytest
from rich.console import Console

from ga3c import cli
from ga3c.check import report
from ga3c.check.command import Report
from ga3c.check.evidence import Evidence, Numbers, Play
from ga3c.check.finding import Finding
from ga3c.check.learning import Curve

pytestmark = pytest.mark.timeout(300)
PLAY = Play(
    steps=5000, step_seconds=0.4, resets=50, reset_seconds=0.1, lengths=[100] * 49, returns=[2.0] * 49, truncated=3,
    rewards=5000, zero_rewards=2500, largest_reward=1.0, observations=5050,
    numbers=[Numbers("['a']", "float32", 4, False, -1.0, 1.0, 0)],
)  # fmt: skip
CURVE = Curve(
    seconds=30.0, steps=30_000, updates=300, pps=1000.0, entropy=(0.6, 0.5, 0.3), value_loss=(1.0, 0.8, 0.25),
    scores=tuple(map(float, range(9))), values_scaled=True,
)  # fmt: skip


def shown(found: Report) -> str:
    out = io.StringIO()
    report.show(found, Console(file=out, width=120))
    return out.getvalue()


def test_the_report_says_what_was_played_trained_and_found() -> None:
    finding = Finding("doubtful", "prints", "5000 lines were printed", "printing is slow", "take the print out")
    text = shown(Report(Evidence("m:Env", time_limit=100, play=PLAY), (finding,), 4, CURVE))
    for words in (
        "m:Env, played at random for 5,000 steps", "49 ended, 3 of them truncated; time limit 100 steps",
        "100 steps and a return of 2 on average", "0 to 1, 50% of them 0", "4 numbers of float32 from -1 to 1",
        "80 us; 10k steps per second in one process", "at most 40k PPS from the 4 cores", "Trained for 30 s",
        "explain 75% of the variance", "fell by 50%", "1 at first, 7 at the end, over 9 episodes",
        "5000 lines were printed.", "Printing is slow.", "-> take the print out",
        "m:Env can be trained; 1 thing to look at.",
    ):  # fmt: skip
        assert words in text


def test_an_environment_that_could_not_be_made_is_reported_too() -> None:
    finding = Finding("fault", "refused", "it could not be made", "why", "do")
    found = Report(Evidence("m:Env"), (finding,), 2, None)
    assert "m:Env must be repaired before it is trained: 1 fault." in shown(found)
    assert not found.is_sound
    assert found.expected_pps is None


def test_json_has_all_that_was_seen_and_the_exit_code_says_whether_it_is_sound(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["check", "broken:InfoIsNone", "--wrap", "wraps:first_two", "--play-seconds", "0.2", "--json"]
    assert cli.main(words) == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["env"], said["sound"], said["training"]) == ("broken:InfoIsNone", False, None)
    assert [finding["name"] for finding in said["findings"] if finding["level"] == "fault"] == ["info"]
    assert said["evidence"]["play"]["steps"] > 0


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["CartPole-v9"], "did you mean CartPole-v1?"),
        (["CartPole-v1", "--seconds", "-1"], "--seconds is -1.0, but must be 0 or more"),
        (["CartPole-v1", "--play-seconds", "0"], "--play-seconds is 0.0, but must be above 0"),
        (["CartPole-v1", "--env-args", "3"], "--env-args has '3', but takes key=value"),
    ],
)
def test_bad_input_is_refused(words: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", *words]) == 2
    assert text in capsys.readouterr().err


@pytest.mark.slow
def test_a_sound_environment_is_trained(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "broken:Sound", "--seconds", "10", "--device", "cpu", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["training"]["steps"] > 0
    assert said["training"]["problem"] is None
    assert said["training"]["values_scaled"]
    assert said["learned"] is not None
    assert not math.isnan(said["expected_pps"])
