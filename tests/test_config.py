"""Settings: to disk and back, and a clear word about every value that makes no sense."""

import dataclasses
import math
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from runs import parse_train

from ga3c import cli, machine
from ga3c.config import (
    Config,
    EngineConfig,
    EnvConfig,
    LearnConfig,
    NetConfig,
    RunConfig,
    UnknownSetting,
    differences,
    from_toml,
    to_toml,
)
from ga3c.errors import UserError
from ga3c.flags import spelled_out
from ga3c.view import crowd

SECTIONS: dict[str, type] = {
    "env": EnvConfig,
    "net": NetConfig,
    "learn": LearnConfig,
    "engine": EngineConfig,
    "run": RunConfig,
}

OUT_OF_RANGE: dict[str, dict[str, list[Any]]] = {
    "env": {
        "frame_skip": [0, -1, 61],
        "stack": [0, 17],
        "noop_max": [-1, 1001],
        "sticky": [-0.1, 1.0, math.nan],
        "max_frames": [3, 0],
    },
    "net": {"stride": [0, 5, -1], "width": [0, 17, -1]},
    "learn": {
        "discount": [-0.1, 1.01, math.nan],
        "rollout": [0, 1025],
        "batch_rollouts": [0, 4097],
        "log_epsilon": [0.0, 0.1, math.nan],
        "rho_clip": [0.0, math.inf, math.nan],
        "trace_decay": [-0.1, 1.1, math.nan],
        "ratio_clip": [-0.1, 1.0, math.nan],
        "explore_after": [-1, 2**31 + 1],
        "explore_rate": [0.0, 1.0],
        "reuse": [0, 65],
        "reuse_window": [0, 70_000],
        "c_clip": [0.0, -1.0, math.inf],
        "value_weight": [-0.5, math.inf],
        "entropy_weight": [-0.01, math.nan],
        "entropy_weight_end": [-0.01, math.inf],
        "learning_rate": [0.0, -1e-3, math.inf, math.nan],
        "learning_rate_end": [-1e-9, math.inf],
        "rmsprop_decay": [-0.1, 1.0],
        "optimiser_epsilon": [0.0, -1.0, math.nan],
        "clip_norm": [-1.0, math.inf],
    },
    "engine": {
        "agents": [0, 65_537],
        "max_agents": [-1, 65_537],
        "workers": [-1, 4097],
        "predictors": [0, 65],
        "trainers": [0, 65],
        "prediction_batch": [0, 65_537],
        "queue": [0, 1_000_001],
        "delay": [-1, 100_001],
        "torch_threads": [-1, 1025],
        "restarts": [-1],
        "step_timeout": [-1.0, math.inf, math.nan],
        "tune_seconds": [-1.0, 3601.0, math.nan],
        "lag_limit": [-0.1, math.inf, math.nan],
    },
    "run": {
        "steps": [-1],
        "minutes": [-0.5, math.inf, math.nan],
        "seed": [-1, 2**31],
        "checkpoint_seconds": [0.0, -1.0, math.inf],
        "keep": [0, -3],
        "profile": [-1.0, 60.5, math.nan],
    },
}
CASES = [
    (section, name, value)
    for section, names in OUT_OF_RANGE.items()
    for name, values in names.items()
    for value in values
]


@pytest.mark.parametrize(("section", "name", "value"), CASES)
def test_a_value_out_of_range_is_named_with_its_flag(section: str, name: str, value: Any) -> None:
    with pytest.raises(UserError) as caught:
        SECTIONS[section](**{name: value})
    assert str(caught.value).startswith(f"--{name.replace('_', '-')} is {value}, but must be ")


def test_every_number_has_a_range() -> None:
    for section, cls in SECTIONS.items():
        numbers = {f.name for f in dataclasses.fields(cls) if f.type in (int, float)}
        assert numbers == set(OUT_OF_RANGE[section]), section


def test_more_workers_than_agents_are_refused() -> None:
    with pytest.raises(UserError, match=r"^--workers is 5, but must be at most the number of agents, which is 4\.$"):
        Config(engine=EngineConfig(agents=4, workers=5))
    assert Config(engine=EngineConfig(agents=4, workers=4)).engine.workers == 4


def with_values(**values: Any) -> str:
    """The default configuration as TOML, with other values."""
    text = to_toml(Config())
    for name, value in values.items():
        text = re.sub(f"^{name} = .*$", f"{name} = {value!r}", text, flags=re.MULTILINE)
    return text


def test_a_window_that_holds_no_batch_to_draw_is_refused() -> None:
    sentence = r"--reuse-window is 7, but must be at least --batch-rollouts, which is 8\.$"
    with pytest.raises(UserError, match=sentence):
        LearnConfig(correction="vtrace", reuse=2, reuse_window=7, batch_rollouts=8)
    with pytest.raises(UserError, match=sentence):
        from_toml(with_values(correction="vtrace", reuse=2, reuse_window=7, batch_rollouts=8))
    assert LearnConfig(correction="vtrace", reuse=2, reuse_window=8, batch_rollouts=8).reuse == 2
    assert LearnConfig(reuse=1, reuse_window=7, batch_rollouts=8).reuse == 1, "nothing is drawn"


def unusual() -> Config:
    return Config(
        env_id='my "odd" \\ module:Env-v0',
        preset="paper",
        env=EnvConfig(frame_skip=1, sticky=0.25, full_actions=True, clip_rewards=False, life_loss=True),
        net=NetConfig("large", 2, "orthogonal", "bf16", "signed"),
        learn=LearnConfig(
            discount=1.0, learning_rate=1e-5, learning_rate_end=0.0, log_epsilon=1e-12, rho_clip=1 / 3,
            trace_decay=0.95, ratio_clip=0.1, normalise_advantages=True, reuse=5, reuse_window=77,
        ),
        engine=EngineConfig("ga3c", "cpu", 7, 3),
        run=RunConfig(steps=10**12, minutes=0.125, seed=2**31 - 1),
    )  # fmt: skip


@pytest.mark.parametrize("config", [Config(), unusual()], ids=["defaults", "unusual"])
def test_toml_gives_the_same_settings_back(config: Config) -> None:
    tables = tomllib.loads(to_toml(config))
    assert set(tables) == {"env_id", "env_args", "preset", *SECTIONS}
    assert from_toml(to_toml(config)) == config
    for section, cls in SECTIONS.items():
        assert set(tables[section]) == {f.name for f in dataclasses.fields(cls)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it lacks env_id and 7 more"),
        (to_toml(Config()).split("[engine]")[0], "it lacks engine and 2 more"),
        (to_toml(Config()).replace("rollout = 5\n", ""), "older version of ga3c wrote it, add rollout = 5 in [learn]."),
        (to_toml(Config())[:-40], "Invalid value"),
    ],
)
def test_a_configuration_that_lacks_settings_is_refused(text: str, said: str) -> None:
    """Defaults in their place would make another run of it."""
    with pytest.raises(UserError, match=r"^config\.toml cannot be used: ") as caught:
        from_toml(text)
    assert said in str(caught.value)


def test_a_configuration_of_an_older_version_means_what_it_meant() -> None:
    later = ("action_bounds", "normalise_observations", "layer_norm")
    lines = to_toml(Config()).splitlines(True)
    without = [line for line in lines if not line.startswith(later)]
    assert len(without) == len(lines) - len(later)
    assert from_toml("".join(without)) == Config()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("agents", '"many"', "--agents is many, but must be a whole number"),
        ("agents", "2.5", "--agents is 2.5, but must be a whole number"),
        ("account", "1", "--account is 1, but must be true or false"),
        ("discount", '"0.9"', "--discount is 0.9, but must be a number"),
        ("discount", "7", "--discount is 7"),
        ("minutes", "nan", "--minutes is nan"),
        ("log", "[]", "--log is [], but must be a text"),
        ("net", "[1]", "--net is [1], but must be one of"),
        ("agents", "9" * 5000, ""),
        ("learning_rate", "9" * 4000, ""),
        ("log", "[" * 5000, ""),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_in_a_sentence(name: str, value: str, said: str) -> None:
    with pytest.raises(UserError, match=r"^config\.toml cannot be used: ") as caught:
        from_toml(re.sub(f"^{name} = .*$", f"{name} = {value}", to_toml(Config()), flags=re.MULTILINE))
    assert said in str(caught.value)


@pytest.mark.parametrize("name", ["learn", "env_args"])
def test_a_value_in_the_place_of_a_table_is_refused(name: str) -> None:
    head, _, _ = to_toml(Config()).partition(f"[{name}]")
    with pytest.raises(
        UserError, match=rf"^config\.toml cannot be used: (--)?{name.replace('_', '.')} is 3, but must be"
    ):
        from_toml(f"{name} = 3\n" + head + to_toml(Config()).partition(f"[{name}]")[2].partition("\n\n")[2])


def test_arguments_that_toml_cannot_give_back_are_refused() -> None:
    with pytest.raises(UserError, match=r"^config\.toml cannot be used: The environment's argument day is"):
        from_toml(to_toml(Config()) + "day = 2026-11-18\n")


@pytest.mark.parametrize(
    "text", ["speed = 3\n" + to_toml(Config()), to_toml(Config()).replace("[net]", "[net]\nspeed = 3")]
)
def test_an_unknown_key_is_named(text: str) -> None:
    with pytest.raises(
        UnknownSetting, match=r"^config.toml holds 'speed', which this version of ga3c does not know\.$"
    ):
        from_toml(text)


def test_differences_are_named_with_both_values_and_settings_of_one_version_only_are_left_out() -> None:
    config = Config(env_args={"size": 3, "deep": True})
    other = dataclasses.replace(config, learn=LearnConfig(discount=0.5), env_args={"size": 4, "wide": 1.5})
    text = to_toml(other).replace("rollout = 5\n", "") + "\n[later]\nspeed = 3\n"
    assert differences(config, to_toml(config)) == {}
    assert differences(config, text) == {
        "discount": ("0.99", "0.5"),
        "env_args.size": ("3", "4"),
        "env_args.deep": ("true", "nothing"),
        "env_args.wide": ("nothing", "1.5"),
    }


@pytest.mark.parametrize(
    ("run", "steps", "seconds", "progress"),
    [
        (RunConfig(), 10**9, 1e9, 0.0),
        (RunConfig(steps=1000), 0, 500.0, 0.0),
        (RunConfig(steps=1000), 250, 500.0, 0.25),
        (RunConfig(steps=1000), 5000, 0.0, 1.0),
        (RunConfig(minutes=2.0), 10**9, 30.0, 0.25),
        (RunConfig(steps=1000, minutes=2.0), 250, 60.0, 0.5),
        (RunConfig(steps=1000, minutes=2.0), 900, 60.0, 0.9),
        (RunConfig(steps=1000, minutes=2.0), 10, 121.0, 1.0),
    ],
)
def test_progress_follows_the_nearer_limit(run: RunConfig, steps: int, seconds: float, progress: float) -> None:
    assert Config(run=run).progress(steps, seconds) == pytest.approx(progress)


def test_settings_cannot_be_changed_in_place() -> None:
    for part in (Config(), *(cls() for cls in SECTIONS.values())):
        name = dataclasses.fields(part)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(part, name, 1)


def test_rollouts_are_used_again_only_with_something_against_their_age() -> None:
    for correction in ("none", "epsilon", "clipped-is"):
        with pytest.raises(
            UserError, match=r"^--reuse is 2, but must be 1 without --correction vtrace or --ratio-clip"
        ):
            Config(learn=LearnConfig(reuse=2, correction=correction))
        assert Config(learn=LearnConfig(reuse=2, correction=correction, ratio_clip=0.2)).learn.reuse == 2
    assert Config(learn=LearnConfig(reuse=2, correction="vtrace")).learn.reuse == 2


def test_a_flag_is_judged_beside_its_presets_others_and_not_beside_the_defaults() -> None:
    assert parse_train(["CartPole-v1", "--reuse", "2"]).learn.reuse == 2


def test_a_preset_heeds_the_network() -> None:
    asked = (["ALE/Pong-v5", "--device", "cpu"], ["ALE/Pong-v5", "--device", "cpu", "--net", "small-lstm"])
    plain, remembers = map(parse_train, asked)
    assert (plain.learn.learning_rate, remembers.learn.learning_rate) == (5e-4, 2e-4)
    assert dataclasses.replace(remembers.learn, learning_rate=5e-4) == plain.learn
    assert (plain.net.pixels, remembers.net.pixels) == ("contrast", "unit")
    assert (plain.run.steps, remembers.run.steps) == (1_500_000, 2_500_000)
    assert parse_train(["--net", "small-lstm", "--learning-rate", "3e-4"]).learn.learning_rate == 3e-4
    assert parse_train(["--net", "small-lstm", "--preset", "paper"]).learn.learning_rate == 1e-3


def test_training_tunes_itself_unless_its_numbers_are_given() -> None:
    assert parse_train(["CartPole-v1"]).engine.tune == "on"
    assert parse_train(["CartPole-v1", "--preset", "paper"]).engine.tune == "on"
    assert parse_train(["CartPole-v1", "--tune", "off"]).engine.tune == "off"
    assert parse_train(["CartPole-v1", "--system", "a3c-cpu"]).engine.tune == "off"
    for flag in ("--agents", "--predictors", "--trainers", "--delay"):
        assert parse_train(["CartPole-v1", flag, "4"]).engine.tune == "off"
        assert parse_train(["CartPole-v1", f"{flag}=4"]).engine.tune == "off"
    assert parse_train(["CartPole-v1", "--tune", "on"]).engine.tune == "on"
    assert parse_train(["CartPole-v1", "--tune"]).engine.tune == "on"
    assert parse_train(["CartPole-v1", "--tune", "--agents", "4"]).engine.tune == "on"
    assert spelled_out(["--tune", "CartPole-v1", "--tune", "paper"]) == [
        "--tune",
        "on",
        "CartPole-v1",
        "--tune",
        "paper",
    ]
    assert parse_train(["CartPole-v1", "--preset", "paper", "--tune", "paper"]).engine.tune == "paper"
    with pytest.raises(UserError, match=r"^--tune is on, but must be left out: --system a3c-cpu has no use for it\.$"):
        Config(engine=EngineConfig("a3c-cpu", "cpu", 4, tune="on"), learn=LearnConfig())


def test_tuning_may_begin_with_few_of_the_agents_that_there_is_room_for() -> None:
    few = parse_train(["CartPole-v1", "--agents", "2", "--predictors", "1", "--trainers", "1", "--tune", "on"]).engine
    assert (few.agents, few.room) == (2, 16), "as many as the preset has"
    assert parse_train(["CartPole-v1", "--agents", "2", "--tune", "--max-agents", "5"]).engine.room == 5
    assert parse_train(["CartPole-v1", "--agents", "64", "--tune"]).engine.room == 64
    assert parse_train(["CartPole-v1", "--agents", "2"]).engine.room == 2
    assert parse_train(["CartPole-v1", "--agents", "2", "--preset", "paper", "--tune", "paper"]).engine.room == 2
    with pytest.raises(UserError, match=r"^--max-agents is 3, but must be at least --agents, which is 4\.$"):
        Config(engine=EngineConfig(agents=4, max_agents=3, tune="on"))
    with pytest.raises(UserError, match=r"^--max-agents is 8, but must be left out without --tune on\.$"):
        Config(engine=EngineConfig(agents=4, max_agents=8))
    assert parse_train(["CartPole-v1", "--tune", "on", "--max-agents", "24"]).engine.room == 24, "the preset has 16"


@pytest.mark.parametrize("name", ["predictors", "trainers", "prediction_batch", "queue"])
def test_a3c_refuses_what_it_has_no_use_for_also_if_it_is_the_default(name: str) -> None:
    flag = "--" + name.replace("_", "-")
    default = str(getattr(EngineConfig, name))
    with pytest.raises(
        UserError, match=f"{flag} is {default}, but must be left out: --system a3c-cpu has no use for it"
    ):
        parse_train(["CartPole-v1", "--system", "a3c-cpu", flag, default])
    assert parse_train(["CartPole-v1", "--system", "a3c-cpu", "--tune", "off"]).engine.system == "a3c-cpu"


def test_compiled_updates_on_a_cpu_are_refused() -> None:
    with pytest.raises(UserError, match="--fuse compiles updates for CUDA, but this run is on the CPU"):
        parse_train(["CartPole-v1", "--device", "cpu", "--fuse"])
    assert not parse_train(["CartPole-v1", "--device", "cpu", "--no-fuse"]).engine.fuse


def test_more_agents_than_the_cores_have_a_use_for_are_noted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(machine, "num_cores", lambda: 2)
    crowd.note(128)
    assert capsys.readouterr().err == ""
    crowd.note(5000)
    assert "5,000 agents on 2 cores are more than 64 for each" in capsys.readouterr().err
    monkeypatch.setattr(crowd, "_CROWD", 1)
    small = ["--agents", "4", "--workers", "1", "--steps", "50", "--device", "cpu", "--ui", "none"]
    assert cli.main(["train", "CartPole-v1", *small, "--out", str(tmp_path / "run")]) == 0
    assert "4 agents on 2 cores" in capsys.readouterr().err
