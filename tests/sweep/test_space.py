"""What a sweep searches: the words of --search, the default space, and one sentence for what is wrong."""

import pytest

from ga3c.config import Config, EngineConfig, LearnConfig, NetConfig, changed
from ga3c.errors import UserError
from ga3c.sweep import space
from ga3c.sweep.space import Choice, Range

BASE = Config(learn=LearnConfig(correction="vtrace", reuse=3, reuse_window=32, batch_rollouts=4))


def test_ranges_and_choices_have_the_type_of_their_setting() -> None:
    words = ["learning_rate=1e-4:1e-2:log", "reuse=1:4", "rollout=8,16,1e2", "fuse=true,false", "net=small,nature"]
    found = space.parse([*words, "batch-rollouts=1:64:log"], BASE, {})
    assert found == {
        "learning_rate": Range(1e-4, 1e-2, log=True),
        "reuse": Range(1, 4),
        "rollout": Choice((8, 16, 100)),
        "fuse": Choice((True, False)),
        "net": Choice(("small", "nature")),
        "batch_rollouts": Range(1, 64, log=True),
    }
    assert space.parse([f"{name}={part}" for name, part in found.items()], BASE, {}) == found, "text gives it back"
    assert found["reuse"].whole  # type: ignore[union-attr]
    assert not found["learning_rate"].whole  # type: ignore[union-attr]
    assert found["learning_rate"].holds(1e-3)
    assert not found["rollout"].holds(9)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("rollout", "--search is rollout, but must be NAME=LOW:HIGH, NAME=LOW:HIGH:log or NAME=A,B,C."),
        ("rollout=", "--search is rollout=, but must be NAME=LOW:HIGH"),
        ("lr=1:2", "--search names lr, which is no setting; did you mean learning_rate?"),
        ("xyzzy=1:2", "--search names xyzzy, which is no setting."),
        ("steps=1:2", "--search names steps, which cannot be searched: it is the length of every run."),
        ("seed=1,2", "--search names seed, which cannot be searched: --seeds trains every trial with several."),
        ("agents=4,8", "--search names agents, but --agents fixes it at 4; leave one of them out."),
        ("rollout=8", "--search is rollout=8, but must name two values or more, each once."),
        ("rollout=8,8", "--search is rollout=8,8, but must name two values or more, each once."),
        ("rollout=8:4", "--search is rollout=8:4, but its first number must be below its second."),
        ("rollout=8:9:lin", "--search is rollout=8:9:lin, but must be rollout=LOW:HIGH or LOW:HIGH:log."),
        ("rollout=1.5:9", "--search of rollout holds 1.5, but must be a whole number"),
        ("rollout=8,many", "--search of rollout holds many, but must be a whole number"),
        ("learning_rate=0:1:log", "--search is learning_rate=0:1:log, but a logarithmic range must begin above 0."),
        ("learning_rate=a:b", "--search of learning_rate holds a, but must be a number"),
        ("learning_rate=1e-3:inf", "its first number must be below its second"),
        ("discount=0.9,7", "--search: --discount is 7.0, but must be between 0 and 1."),
        ("net=small,teeny", "--search of net holds teeny, but must hold some of"),
        ("net=small:large", "--search is net=small:large, but must be net=values with commas between them."),
        ("fuse=yes,no", "--search of fuse holds yes, but must hold some of true, false."),
    ],
)
def test_what_is_wrong_with_a_search_is_said_in_one_sentence(word: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        space.parse([word], BASE, {"agents": 4})
    assert said in str(caught.value)


def test_a_setting_is_searched_once() -> None:
    with pytest.raises(UserError, match="--search names rollout twice"):
        space.parse(["rollout=4,5", "rollout=6,7"], BASE, {})


def test_a_value_that_needs_others_is_allowed() -> None:
    assert "batch_rollouts" in space.parse(["batch_rollouts=64,128", "reuse_window=128,256"], BASE, {})
    wide = Config(net=NetConfig(net="impala"))
    assert "width" in space.parse(["width=1,2"], wide, {})
    with pytest.raises(UserError, match="--width is 2, but must be 1 unless --net is impala"):
        space.parse(["width=1,2"], BASE, {})


def test_the_default_space_leaves_out_what_is_fixed_and_what_a3c_has_no_use_for() -> None:
    found = space.default(BASE, {"rollout": 5})
    assert "rollout" not in found
    assert {"learning_rate", "entropy_weight", "agents", "reuse", "batch_rollouts"} <= set(found)
    assert found["agents"] == Choice((8, 16, 32, 64))
    a3c = Config(engine=EngineConfig("a3c-cpu", "cpu", 2))
    assert not {"batch_rollouts", "reuse"} & set(space.default(a3c, {}))
    assert space.default(a3c, {})["agents"] == Choice((1, 2, 4))


def test_the_presets_own_settings_are_in_the_default_space() -> None:
    odd = changed(BASE, {"learning_rate": 1e-5, "ratio_clip": 0.0, "rollout": 20, "reuse": 6, "entropy_weight": 0.0})
    found = space.default(odd, {})
    assert found["learning_rate"] == Range(1e-5, 5e-3, log=True)
    assert found["ratio_clip"] == Choice((0.0, 0.1, 0.2, 0.3))
    assert found["rollout"].holds(20)
    assert found["reuse"] == Range(1, 6)
    assert found["entropy_weight"] == Range(1e-3, 5e-2, log=True), "0 has no logarithm"
    assert "reuse" not in space.default(Config(), {}), "without V-trace nothing bounds the age of a rollout"


def test_every_corner_of_the_default_space_is_a_run() -> None:
    found = space.default(BASE, {})
    for end in (0, -1):
        params = {name: part.ends[end] for name, part in found.items()}
        assert changed(BASE, params).learn.rollout == found["rollout"].ends[end]
