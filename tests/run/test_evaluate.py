"""Evaluation: raw scores of exactly the episodes asked for, from the observations that training saw."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from saved_runs import save_run

from ga3c import cli, envs
from ga3c.agents.flags import FIRST
from ga3c.config import Config, EnvConfig, NetConfig
from ga3c.engine.lane import Lane
from ga3c.engine.store import ExperienceStore
from ga3c.envs.seeding import environment_seed
from ga3c.errors import UserError
from ga3c.metrics.snapshot import Counters
from ga3c.run import checkpoint, evaluate, protocols
from ga3c.run import trained as networks
from ga3c.run.folder import RunFolder
from ga3c.run.policy import Policy, PolicyState

CPU = torch.device("cpu")


class Metronome(gymnasium.Env[Any, Any]):
    """Pays 5 a step. Environments made one after another last 3 and 9 steps in turn; pictures tell the step."""

    made = 0

    def __init__(self, truncates: bool = False, **_: Any) -> None:
        self.observation_space = spaces.Box(0, 255, (40, 40), np.uint8)
        self.action_space = spaces.Discrete(3)
        self._truncates = truncates
        self._length = 9 if Metronome.made % 2 else 3
        self._step = 0
        Metronome.made += 1

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._step = 0
        return self._picture(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._step += 1
        over = self._step == self._length
        return self._picture(), 5.0, over and not self._truncates, over and self._truncates, {}

    def _picture(self) -> Any:
        return np.full((40, 40), self._step, np.uint8)


@pytest.fixture(autouse=True)
def metronomes() -> Iterator[None]:
    ids = {"MetronomeTerminates-v0": False, "MetronomeTruncates-v0": True}
    for name, truncates in ids.items():
        gymnasium.register(name, entry_point=Metronome, kwargs={"truncates": truncates})
    yield
    for name in ids:
        del gymnasium.registry[name]


@pytest.fixture
def cartpole(tmp_path: Path) -> Path:
    return save_run(tmp_path / "run", Config(env_id="CartPole-v1"))


def results(evaluation: evaluate.Evaluation) -> list[tuple[int, float, int]]:
    return [(p.episode, p.score, p.length) for p in evaluation.played]


# -- scores -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env_id", ["MetronomeTerminates-v0", "MetronomeTruncates-v0"])
@pytest.mark.parametrize("episodes", [1, 16, 40])
def test_scores_are_raw_and_every_episode_counts_once(tmp_path: Path, env_id: str, episodes: int) -> None:
    folder = save_run(tmp_path, Config(env_id=env_id, env=EnvConfig(clip_rewards=True)))
    told: list[evaluate.Played] = []
    evaluation = evaluate.evaluate(folder, episodes, device="cpu", on_episode=told.append)
    assert [p.episode for p in evaluation.played] == list(range(1, episodes + 1))
    assert all(p.score == 5.0 * p.length and p.length in (3, 9) for p in evaluation.played)
    assert sorted(told, key=lambda p: p.episode) == list(evaluation.played)


def test_short_episodes_are_not_counted_more_often(tmp_path: Path) -> None:
    folder = save_run(tmp_path, Config(env_id="MetronomeTerminates-v0"))
    lengths = [p.length for p in evaluate.evaluate(folder, 48, device="cpu").played]
    assert sorted(lengths) == [3] * 24 + [9] * 24


def test_summary_is_over_the_episodes(tmp_path: Path) -> None:
    folder = save_run(tmp_path, Config(env_id="MetronomeTruncates-v0"))
    evaluation = evaluate.evaluate(folder, 32, device="cpu")
    assert (evaluation.mean, evaluation.std, evaluation.mean_length) == (30.0, 15.0, 6.0)
    assert (evaluation.best.score, evaluation.best.length) == (45.0, 9)
    assert (evaluation.worst.score, evaluation.worst.length) == (15.0, 3)


def test_same_seed_gives_the_same_scores(cartpole: Path) -> None:
    again = [results(evaluate.evaluate(cartpole, 20, seed=seed, device="cpu")) for seed in (7, 7, 8)]
    assert again[0] == again[1] != again[2]


def test_the_starts_are_not_those_of_a_training_with_the_same_seed(cartpole: Path) -> None:
    trained, starts = networks.load(cartpole, "last", CPU), np.zeros((3, 4), np.float32)
    trained.environment(1, 0).reset(starts[0])
    trained.environment(1, 0).reset(starts[1])
    envs.make("CartPole-v1", EnvConfig(), False, environment_seed(1, 0)).reset(starts[2])
    assert np.array_equal(starts[0], starts[1])
    assert not np.array_equal(starts[0], starts[2])


def test_greedy_is_another_policy_than_sampling(cartpole: Path) -> None:
    sample, greedy = (evaluate.evaluate(cartpole, 20, policy=p, device="cpu") for p in ("sample", "greedy"))
    assert results(sample) != results(greedy)
    trained = networks.load(cartpole, "last", CPU)
    frames = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    actions, _ = Policy(trained, "greedy", 0).act(frames)
    likeliest = trained.network(torch.from_numpy(frames))[0].argmax(dim=-1)
    assert actions.tolist() == likeliest.tolist()


def test_atari_games_are_whole_and_repeatable(tmp_path: Path) -> None:
    """A life lost ends nothing, whatever was learned from."""
    config = Config(env_id="ALE/Breakout-v5")
    whole = save_run(tmp_path / "whole", config)
    lives = save_run(tmp_path / "lives", dataclasses.replace(config, env=EnvConfig(life_loss=True)))
    played = [results(evaluate.evaluate(folder, 2, device="cpu")) for folder in (whole, whole, lives)]
    assert played[0] == played[1] == played[2]
    assert all(length > 100 for _, _, length in played[0])  # a single life of a novice lasts some 30 steps


def test_sticky_actions_are_seeded(tmp_path: Path) -> None:
    folder = save_run(tmp_path, Config(env_id="ALE/Breakout-v5", env=EnvConfig(sticky=0.25, noop_max=3)))
    seen: list[list[float]] = []
    for _ in range(2):
        environment = networks.load(folder, "last", CPU).environment(seed=1, index=0)
        frame = np.zeros((84, 84), np.uint8)
        environment.reset(frame)
        seen.append([(environment.step(2 + step % 2, frame), frame.sum(dtype=float))[1] for step in range(60)])
    assert seen[0] == seen[1]


def test_threads_are_put_back(cartpole: Path) -> None:
    torch.set_num_threads(2)
    seen: list[int] = []
    evaluate.evaluate(cartpole, 1, device="cpu", on_episode=lambda _: seen.append(torch.get_num_threads()))
    assert (seen, torch.get_num_threads()) == ([1], 2)


# -- observations -----------------------------------------------------------------------------------------------------


def test_stacks_are_those_of_the_experience_store(tmp_path: Path) -> None:
    agents, rollout = 3, 5
    trained = networks.load(save_run(tmp_path, Config(env_id="MetronomeTerminates-v0")), "last", CPU)
    acting = Policy(trained, "sample", 0)
    stacks = np.zeros((agents, trained.spec.stack, *trained.spec.frame_shape), np.uint8)
    store = ExperienceStore(trained.spec, agents, rollout, spare_blocks=100, discount=0.9, device=CPU)
    random = np.random.default_rng(1)
    for step in range(60):
        rows = np.sort(random.permutation(agents)[: random.integers(1, agents + 1)]) if step else np.arange(agents)
        frames = random.integers(0, 256, (len(rows), *trained.spec.frame_shape), np.uint8)
        first = random.random(len(rows)) < 0.2 if step else np.ones(agents, np.bool_)
        table = store.tables(Lane(CPU, 0), agents).fitting(len(rows))
        table.fill(store.place(rows, first.astype(np.uint8) * FIRST), np.zeros(len(rows), np.float32))
        stored = table.send()
        store.write_frames(stored, torch.from_numpy(frames))
        expected = store.observe(stored)
        store.carry(stored, table.carried)
        _, state = acting.act_on_frames(frames, PolicyState(stacks[rows], None), first)
        stacks[rows] = state.stacks
        assert np.array_equal(state.stacks.reshape(expected.shape), expected.numpy()), step


@pytest.mark.parametrize("env_id", ["MetronomeTerminates-v0", "MetronomeTruncates-v0"])
def test_each_episode_begins_with_a_stack_of_its_own(
    tmp_path: Path, env_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[int]] = []
    act = Policy.act_on_frames

    def spy(self: Policy, *arguments: Any) -> Any:
        actions, state = act(self, *arguments)
        seen.extend(state.stacks.reshape(len(actions), 4, 40, 40)[:, :, 0, 0].tolist())
        return actions, state

    monkeypatch.setattr(Policy, "act_on_frames", spy)
    evaluate.evaluate(save_run(tmp_path, Config(env_id=env_id)), 40, device="cpu")
    assert seen
    for stack in seen:
        assert stack == [max(0, stack[-1] - back) for back in (3, 2, 1, 0)]


# -- what is printed --------------------------------------------------------------------------------------------------


def test_json_is_one_object_with_everything(cartpole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["eval", str(cartpole), "--episodes", "5", "--json", "--device", "cpu"]) == 0
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert list(told) == [
        "env", "checkpoint", "steps", "policy", "protocol", "episodes", "mean", "std", "best", "worst", "mean_length",
        "scores", "lengths", "seconds",
    ]  # fmt: skip
    assert (told["env"], told["steps"], told["policy"], told["episodes"]) == ("CartPole-v1", 1000, "sample", 5)
    assert told["mean"] == pytest.approx(np.mean(told["scores"]))
    assert told["std"] == pytest.approx(np.std(told["scores"]))
    best = int(np.argmax(told["scores"]))
    assert told["best"] == {"episode": best + 1, "score": max(told["scores"]), "length": told["lengths"][best]}
    rules = "the environment's own rules"
    assert told["protocol"] == {"name": rules, "source": "gym", "num_actions": 2, "seed": 1000}
    assert err == ""


def test_people_are_told_the_protocol(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    env = EnvConfig(noop_max=7, sticky=0.25, full_actions=True, max_frames=40)
    save_run(tmp_path, Config(env_id="ALE/Pong-v5", env=env), steps=12_345)
    words = ["--episodes", "2", "--policy", "greedy", "--seed", "3", "--device", "cpu"]
    assert cli.main(["eval", str(tmp_path), *words]) == 0
    out = " ".join(capsys.readouterr().out.split())
    for part in (
        "sticky actions, full action set, up to 7 no-ops",
        "sticky 0.25",
        "greedy actions",
        "full action set (18)",
        "12,345 steps",
    ):
        assert part in out, part
    for part in (
        "ALE/Pong-v5: 2 episodes, sticky",
        "mean score",
        "standard deviation",
        "best",
        "worst",
        "episode 1, 10 steps",
    ):
        assert part in out, part


PAPER, TODAY = "no-op starts", "sticky actions, full action set"


@pytest.mark.parametrize(
    ("trained", "protocol", "name"),
    [
        (EnvConfig(), "trained", PAPER),
        (EnvConfig(), "noop", PAPER),
        (EnvConfig(noop_max=7, sticky=0.1, max_frames=400), "noop", PAPER),
        (EnvConfig(full_actions=True), "noop", f"{PAPER}, full action set"),
        (EnvConfig(full_actions=True), "sticky", TODAY),
        (EnvConfig(), "sticky", "sticky actions, minimal action set"),
        (EnvConfig(sticky=0.25, full_actions=True), "trained", f"{TODAY}, {PAPER}"),
        (EnvConfig(sticky=0.1, noop_max=5), "trained", "sticky actions 0.1, minimal action set, up to 5 no-ops"),
        (EnvConfig(noop_max=0), "trained", "no random starts"),
    ],
)
def test_scores_are_named_by_the_rules_they_were_made_under(
    trained: EnvConfig, protocol: protocols.Protocol, name: str
) -> None:
    played = protocols.applied(protocol, trained)
    assert protocols.name(played, atari=True) == name
    assert (played.full_actions, played.frame_skip) == (trained.full_actions, trained.frame_skip)
    if protocol != "trained":
        assert played.max_frames == 108_000
    assert protocols.name(played, atari=False) == "the environment's own rules"


def test_a_policy_is_evaluated_under_other_rules_than_it_was_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocols, "MAX_FRAMES", 40)  # a game takes some seconds
    save_run(tmp_path, Config(env_id="ALE/Pong-v5", env=EnvConfig(noop_max=3)))
    told = {}
    for protocol in ("noop", "sticky"):
        assert cli.main(["eval", str(tmp_path), "--episodes", "1", "--protocol", protocol, "--json"]) == 0
        told[protocol] = json.loads(capsys.readouterr().out)["protocol"]
    rules = {name: (one["noop_max"], one["sticky"], one["action_set"], one["name"]) for name, one in told.items()}
    assert rules == {
        "noop": (30, 0.0, "minimal", PAPER),
        "sticky": (0, 0.25, "minimal", "sticky actions, minimal action set"),
    }
    assert cli.main(["eval", str(tmp_path), "--episodes", "1", "--protocol", "sticky"]) == 0
    assert "1 episodes, sticky actions, minimal action set" in " ".join(capsys.readouterr().out.split())


def test_protocols_are_for_atari(cartpole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["eval", str(cartpole), "--protocol", "sticky"]) == 2
    assert "--protocol is sticky, which is for Atari games; CartPole-v1 has its own rules." in capsys.readouterr().err


def test_best_and_last_are_different_checkpoints(cartpole: Path) -> None:
    folder = RunFolder(cartpole)
    assert networks.load(cartpole, "best", CPU).steps == 1000  # before there is a best one
    last = checkpoint.load(folder.last_checkpoint())
    checkpoint.save(checkpoint.best_path(folder.checkpoints), dataclasses.replace(last, counters=Counters(steps=600)))
    assert networks.load(cartpole, "best", CPU).steps == 600
    assert networks.load(cartpole, "last", CPU).steps == 1000


# -- mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("flag", "value"), [("--episodes", "0"), ("--episodes", "-3"), ("--seed", "-1")])
def test_numbers_that_make_no_sense(cartpole: Path, flag: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["eval", str(cartpole), flag, value]) == 2
    assert f"{flag} is {value}" in capsys.readouterr().err


def test_folders_that_hold_no_run(cartpole: Path, tmp_path: Path) -> None:
    for folder in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(UserError, match="holds no run"):
            evaluate.evaluate(folder, 1)
    (tmp_path / "letter.txt").write_text("not a run's")
    with pytest.raises(UserError, match=r"letter\.txt is no checkpoint of a run\.$"):
        evaluate.evaluate(tmp_path / "letter.txt", 1)
    RunFolder(cartpole).last_checkpoint().unlink()
    with pytest.raises(UserError, match="no checkpoint"):
        evaluate.evaluate(cartpole, 1)


def test_damaged_checkpoint(cartpole: Path) -> None:
    path = RunFolder(cartpole).last_checkpoint()
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserError, match="damaged"):
        evaluate.evaluate(cartpole, 1)


def test_checkpoint_of_another_network(tmp_path: Path) -> None:
    config = Config(env_id="MetronomeTerminates-v0")
    folder = RunFolder(save_run(tmp_path, config))
    folder.write_config(dataclasses.replace(config, net=NetConfig(net="nature")))
    with pytest.raises(UserError, match=r"""differ in net \("nature" and "auto"\); put the checkpoint's values back"""):
        evaluate.evaluate(tmp_path, 1)
    path = folder.last_checkpoint()
    checkpoint.save(path, dataclasses.replace(checkpoint.load(path), config=""))
    with pytest.raises(UserError, match=r"cannot be used.*does not fit"):
        evaluate.evaluate(tmp_path, 1)


# -- which checkpoint, and how ----------------------------------------------------------------------------------------


def test_a_checkpoint_is_chosen_by_its_steps_its_name_or_its_file(
    cartpole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = RunFolder(cartpole).last_checkpoint()
    saved = checkpoint.load(first)
    second = checkpoint.path_for(first.parent, 2000)
    checkpoint.save(second, dataclasses.replace(saved, counters=Counters(steps=2000)))
    elsewhere = tmp_path / "elsewhere.safetensors"
    elsewhere.write_bytes(first.read_bytes())
    wanted = {
        "last": second, "best": second, "1000": first, "2_000": second, first.name: first, first.stem: first,
        str(elsewhere): elsewhere,
    }  # fmt: skip
    for which, path in wanted.items():
        assert networks.load(cartpole, which, CPU).path == path
    assert networks.load(cartpole, 1000, CPU).path == first
    assert cli.main(["eval", str(cartpole), "--episodes", "1", "--checkpoint", "1500"]) == 2
    said = capsys.readouterr().err
    assert (
        "--checkpoint is 1500, but must be one of last, best, the file of a checkpoint or its number of steps" in said
    )
    assert "has those of 1000, 2000." in said


def test_a_policy_needs_no_statistics_of_the_optimiser(cartpole: Path) -> None:
    path = RunFolder(cartpole).last_checkpoint()
    before = results(evaluate.evaluate(cartpole, 3, device="cpu"))
    saved = checkpoint.load(path)
    weights = {name: tensor for name, tensor in saved.tensors.items() if name.startswith("network.")}
    assert len(weights) < len(saved.tensors)
    checkpoint.save(path, dataclasses.replace(saved, tensors=weights))
    assert results(evaluate.evaluate(cartpole, 3, device="cpu")) == before


def test_an_evaluation_uses_one_thread_and_tells_its_steps(cartpole: Path) -> None:
    """Several threads would wait for each other longer than such small batches take."""
    torch.set_num_threads(2)
    threads: list[int] = []
    steps: list[int] = []
    evaluation = evaluate.evaluate(
        cartpole, 20, device="cpu", on_episode=lambda _: threads.append(torch.get_num_threads()), on_steps=steps.append
    )
    assert set(threads) == {1}
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)
    assert steps == sorted(steps)
    assert 0 < steps[-1] <= sum(p.length for p in evaluation.played) + 20
