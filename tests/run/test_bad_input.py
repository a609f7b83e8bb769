"""Bad input of every kind, in each system: one clear sentence, and nothing of the run is lost."""

from pathlib import Path
from typing import Any

import pytest
import spoilt
from runs import last_counters, rows

from ga3c import cli, envs
from ga3c.agents.agent import Agent
from ga3c.agents.slots import SlotPlan, Slots
from ga3c.config import EnvConfig
from ga3c.errors import UserError
from ga3c.metrics.sinks.events import read_events
from ga3c.run import checkpoint
from ga3c.run.folder import RunFolder

pytestmark = pytest.mark.timeout(180)
ENV = "spoilt:Spoilt"
SYSTEMS = ("ga3c", "a3c-cpu", "a3c-threads")

UNSUPPORTED = {
    "text observations": "has the observation space Text, but only",
    "a sequence as an observation": "has the observation space Sequence, but only",
    "text actions": "actions of the space Text",
    "a sequence as an action": "actions of the space Sequence",
}
FAULTS = {
    "a NaN in an observation": "gave an observation['numbers'] that is not finite: it has nan.",
    "infinity in an observation": "gave an observation['numbers'] that is not finite: it has -inf.",
    "numbers of another shape": "gave an observation['numbers'] of the shape [3], but its observation space has [2].",
    "a picture of another shape": "gave an observation['picture'] of the shape [3, 6, 6], but its observation",
    "a picture of floats": "gave an observation['picture'] of float64 from 300.5 to 300.5, but its",
    "a part that is missing": "gave an observation of the keys ['numbers'], but its observation space has",
    "no dict": "gave an observation of ndarray, but its observation space has the keys ['pict",
    "a NaN as a reward": "gave a reward of nan; rewards must be finite.",
    "infinity as a reward": "gave a reward of -inf; rewards must be finite.",
    "a reward too large": "gave a reward of 1e+30, too large for float32; scale the rewards to about 1.",
    "a reward that is no number": "gave a reward of 'much', not a number.",
    "a mask without a legal action": "action_mask forbids all actions of a choice, but must allow one at least.",
    "no mask": "gave no action_mask in its info, but did so when it was tried; give one with",
}
"""What an environment gives in the middle of a run, and the sentence about it."""
CASES = [
    pytest.param(
        system,
        fault,
        id=f"{system}: {fault}",
        marks=() if (system, fault) == ("ga3c", "a NaN in an observation") else pytest.mark.slow,
    )
    for system in SYSTEMS
    for fault in FAULTS
]


def train(folder: Path, system: str, fault: str, *words: object, at_once: bool = False) -> int:
    args = ("--env-args", f'fault="{fault}"', *(("at_once=true",) if at_once else ()))
    small = ("--system", system, "--agents", 2, "--rollout", 5, "--tune", "off", "--device", "cpu", "--log", "csv")
    small += ("--workers", 1) if system == "ga3c" else ()
    return cli.main([*map(str, ("train", ENV, *args, *small, "--ui", "plain", "--out", folder, *words))])


def the_sentence(capfd: pytest.CaptureFixture[str]) -> str:
    """What a command that failed has said: a line, and no traceback anywhere."""
    out, err = capfd.readouterr()
    assert "Traceback" not in out + err
    (line,) = err.strip().splitlines()
    assert line.startswith("ga3c: ")
    return line


@pytest.mark.parametrize("system", ["ga3c", pytest.param("a3c-cpu", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "fault", [pytest.param(fault, marks=() if "text" in fault else pytest.mark.slow) for fault in UNSUPPORTED]
)
def test_a_space_that_is_not_supported_is_refused_before_anything_is_written(
    tmp_path: Path, system: str, fault: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert train(tmp_path / "run", system, fault) == 2
    assert UNSUPPORTED[fault] in the_sentence(capfd)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize(
    # Without a mask in the trial, none is needed; a reward of any size may be learned from where it is clipped.
    "fault",
    [fault for fault in FAULTS if fault not in ("no mask", "a reward too large")],
)
def test_a_bad_value_in_the_first_steps_is_refused_before_anything_is_written(
    tmp_path: Path, system: str, fault: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert train(tmp_path / "run", system, fault, at_once=True) == 2
    assert ENV in the_sentence(capfd)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("fault", FAULTS)
def test_an_agent_refuses_a_bad_value_with_a_sentence(fault: str) -> None:
    alike = "no mask" if "mask" in fault else "no dict"  # one examination for all that have the same spaces
    spec = envs.describe(ENV, EnvConfig(), raw_screens=False, env_args={"fault": alike})
    plan = SlotPlan.of(spec, agents=1, workers=1)
    slots = Slots(bytearray(plan.size), plan)
    environment = envs.make(ENV, EnvConfig(), False, seed=1, env_args={"fault": fault}, masked=spec.action.masked)
    agent = Agent(environment, slots, 0, clip_rewards=False, life_loss=False)
    play(agent, spoilt.AFTER)
    with pytest.raises(UserError) as raised:
        play(agent, 2)
    assert FAULTS[fault] in str(raised.value)
    assert "\n" not in str(raised.value)


def play(agent: Agent, steps: int) -> None:
    for _ in range(steps):
        agent.step()


@pytest.mark.parametrize(("system", "fault"), CASES)
def test_a_bad_value_in_a_run_is_a_sentence_and_nothing_is_lost(
    tmp_path: Path, system: str, fault: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, repaired = tmp_path / "run", tmp_path / "repaired"
    monkeypatch.setenv(spoilt.REPAIRED, str(repaired))
    assert train(folder, system, fault, "--restarts", 0, "--steps", 100_000) == 1
    said = the_sentence(capfd)
    assert "more than --restarts 0 allows" in said
    assert FAULTS[fault] in said
    before = check_kept(folder)
    assert before >= 4  # episodes of 10 steps each, before the 41st step

    repaired.touch()
    limit = last_counters(folder).steps + 200
    assert cli.main(["resume", str(folder), "--steps", str(limit), "--ui", "none"]) == 0
    assert last_counters(folder).steps >= limit
    assert check_kept(folder) >= before


def check_kept(folder: Path) -> int:
    """The number of episodes: all that were played are on record, and the checkpoint has the record's last state."""
    counters, episodes = last_counters(folder), rows(folder, "episodes.csv")
    assert int(rows(folder)[-1]["steps"]) == counters.steps
    assert [int(row["number"]) for row in episodes] == list(range(1, counters.episodes + 1))
    assert {row["length"] for row in episodes} <= {"10"}
    return counters.episodes


@pytest.mark.slow
@pytest.mark.parametrize("system", ["ga3c", "a3c-cpu"])
def test_a_process_that_got_a_bad_value_is_replaced_and_the_run_completes(
    tmp_path: Path, system: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every instance gives one, so processes fail again and again."""
    assert train(tmp_path / "run", system, "a NaN in an observation", "--restarts", 1000, "--steps", 300) == 0
    out, err = capfd.readouterr()
    assert "Traceback" not in out + err
    assert FAULTS["a NaN in an observation"] in out
    check_kept(tmp_path / "run")
    assert last_counters(tmp_path / "run").restarts >= 1
    restart = next(e for e in read_events(tmp_path / "run" / "events.jsonl") if e["kind"] == "restart")
    assert restart["details"]["output"].endswith(FAULTS["a NaN in an observation"])


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
def test_an_action_that_is_not_finite_ends_the_run_with_a_sentence(
    tmp_path: Path, system: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """No environment sees it, and the weights on disk are from before."""
    folder = tmp_path / "run"
    small: tuple[Any, ...] = ("--system", system, "--agents", 2, "--rollout", 8, "--device", "cpu", "--log", "csv")
    small += ("--learning-rate", 1e30, "--clip-norm", 0, "--steps", 100_000, "--ui", "plain", "--out", folder)
    assert cli.main([*map(str, ("train", "Pendulum-v1", *small))]) == 1
    said = the_sentence(capfd)
    assert "as a number of an action: its weights are no longer finite, or too large; lower --learning-rate" in said
    saved = checkpoint.load(RunFolder(folder).last_checkpoint())
    assert all(bool(tensor.isfinite().all()) for tensor in saved.tensors.values())
