"""Gymnasium environments: what becomes a picture, what a vector, and what is refused."""

import re
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from ga3c import envs
from ga3c.config import EnvConfig
from ga3c.envs import catalog, gym
from ga3c.envs.description import Description
from ga3c.envs.observation_space import layout_of
from ga3c.envs.packing import Packer
from ga3c.envs.spec import EnvSpec
from ga3c.errors import UserError

CONFIG = EnvConfig()


def described(env_id: str, config: EnvConfig = CONFIG) -> EnvSpec:
    """The spec of an environment that is made in this process, which is quick. `test_examination.py` uses others."""
    return gym.spec_of(env_id, gym.describe(env_id, catalog.find(env_id), {}), config, {})


class Canned(gymnasium.Env[Any, Any]):
    """Shows samples of any space and ends after `length` steps; remembers what it was told."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 12}
    made: list["Canned"] = []

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any] | None = None,
        length: int = 3,
        render_mode: str | None = None,
    ) -> None:
        self.observation_space = observation_space
        self.action_space = action_space or spaces.Discrete(2)
        self.length, self.render_mode = length, render_mode
        self.seeds: list[int | None] = []
        self.actions: list[int] = []
        self.last: Any = None
        Canned.made.append(self)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.seeds.append(seed)
        self.actions = []
        self.last = self.observation_space.sample()
        return self.last, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        self.actions.append(int(action))
        self.last = self.observation_space.sample()
        return self.last, -2.5, len(self.actions) >= self.length, False, {}

    def render(self) -> Any:
        assert self.render_mode == "rgb_array"
        return np.full((20, 30, 3), 7, np.uint8)


def register(name: str, max_episode_steps: int | None = None, **kwargs: Any) -> str:
    """Registers a Canned environment for one test, under a name of its own."""
    env_id = f"{name}-v0"
    gymnasium.registry.pop(env_id, None)
    entry_point: Any = Canned
    gymnasium.register(env_id, entry_point, kwargs=kwargs, max_episode_steps=max_episode_steps)
    return env_id


def test_a_vector() -> None:
    spec = envs.describe("CartPole-v1", CONFIG, raw_screens=True)
    assert (spec.source, spec.frame_shape, spec.frame_dtype) == ("gym", (4,), "float32")
    assert (spec.observation_shape, spec.stack, spec.action.num) == ((4,), 1, 2)
    assert (spec.frames_per_step, spec.raw_screens, spec.is_picture, spec.frame_rate) == (1, False, False, 50.0)
    assert spec.time_limit == 500
    env, out = envs.make("CartPole-v1", CONFIG, False, seed=3), np.zeros(4, np.float32)
    theirs = gymnasium.make("CartPole-v1")
    env.reset(out)
    assert np.array_equal(out, theirs.reset(seed=3)[0])
    for _ in range(5):
        transition = env.step(1, out)
        observation, reward, terminated, truncated, _ = theirs.step(1)
        assert np.array_equal(out, observation)
        assert transition == (reward, terminated, truncated, False, None)
    env.close()


def test_discrete_observations_are_one_hot() -> None:
    assert envs.describe("FrozenLake-v1", CONFIG, False).observation_shape == (16,)
    env, out = envs.make("FrozenLake-v1", CONFIG, False, seed=1), np.full(16, 9, np.float32)
    env.reset(out)
    assert out.tolist() == [1.0] + [0.0] * 15


@pytest.mark.parametrize(
    ("space", "size"),
    [
        (spaces.MultiBinary(5), 5),
        (spaces.MultiDiscrete([3, 2]), 5),
        (spaces.Tuple((spaces.Discrete(3), spaces.Box(-1, 1, (2, 2)))), 7),
        (spaces.Dict(a=spaces.Discrete(2), b=spaces.Box(0, 9, (3,), np.int64)), 5),
        (spaces.Box(0, 255, (4, 9, 3), np.uint8), 108),
        (spaces.Box(-np.inf, np.inf, (40, 40, 3), np.float32), 4800),
        (spaces.Box(0, 1, (), np.float64), 1),
    ],
)
def test_flattened_spaces(space: spaces.Space[Any], size: int) -> None:
    env_id = register("Ga3cFlat", observation_space=space)
    spec = described(env_id)
    assert (spec.frame_shape, spec.frame_dtype, spec.stack) == ((size,), "float32", 1)
    env, out = envs.make(env_id, CONFIG, False, seed=1), np.zeros(size, np.float32)
    env.reset(out)
    bytes_become = 255 if space.dtype == np.uint8 else 1
    assert np.allclose(out, np.asarray(spaces.flatten(space, Canned.made[-1].last), np.float32) / bytes_become)


def test_bytes_are_divided_by_their_range_wherever_they_go() -> None:
    flags = spaces.Box(0, 1, (2,), np.uint8)
    space = spaces.Dict(a=spaces.Box(0, 255, (2,), np.uint8), b=spaces.Discrete(2), c=spaces.Tuple((flags,)))
    out = np.zeros(6, np.float32)
    one = {"a": np.array([255, 51], np.uint8), "b": 1, "c": (np.array([1, 0], np.uint8),)}
    Packer("X", space)(one, out)
    assert out.tolist() == pytest.approx([1.0, 0.2, 0.0, 1.0, 1.0, 0.0])


class Mission(spaces.Space[str]):
    """Of text without being Gymnasium's, as MiniGrid's missions are. It shows itself with an address."""

    def __init__(self, length: int) -> None:
        super().__init__(dtype=str)
        self.length = length

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        return "x" * self.length

    def __repr__(self) -> str:
        return f"Mission({object()})"


@pytest.mark.parametrize(
    ("space", "says"),
    [
        (spaces.Box(0, 255, (4, 9, 3), np.uint8), r"bytes of the shape \[4, 9, 3\], which is no picture, so its 108"),
        (spaces.Box(0, 255, (9, 9, 9), np.uint8), r"which axis has the channels is not plain, so its 729"),
        (spaces.Box(0, 1, (8, 6, 9), np.bool_), r"true and false of the shape \[8, 6, 9\], which axis .* not plain"),
        (spaces.Box(0, 255, (128,), np.uint8), r"bytes of the shape \[128\], which is no picture, so its 128"),
        (spaces.Box(0, 255, (84, 84, 3)), r"\[84, 84, 3\] are float32, .* bytes .* so its 21,168 numbers"),
        (
            spaces.Dict(a=spaces.Box(0, 255, (9,), np.uint8)),
            r"its observations\['a'\] are bytes .*no picture, so its 9",
        ),
        (spaces.Dict(a=spaces.Discrete(3), b=Mission(5)), r"the part \['b'\] of its observations is text, .* left out"),
        (spaces.Box(0, 255, (7, 7, 3), np.uint8), None),
        (spaces.Box(0, 1, (84, 84, 3), np.float32), None),
        (spaces.Box(0, 255, (84, 84, 3), np.uint8), None),
        (spaces.Box(0, 1, (4,)), None),
        (spaces.Box(0, 1, (4, 3)), None),
        (spaces.Discrete(3), None),
    ],
)
def test_the_choice_of_an_mlp_is_told_where_another_network_could_be_expected(
    space: spaces.Space[Any], says: str | None
) -> None:
    notes = described(register("Ga3cNoted", observation_space=space)).notes
    assert len(notes) == (says is not None)
    assert says is None or re.search(says, notes[0])


@pytest.mark.parametrize(
    ("space", "given"),
    [
        (spaces.Box(0, 1, (3,)), 0.5),
        (spaces.Box(0, 1, (4,)), np.zeros((2, 2))),
        (spaces.Box(0, 255, (3, 40, 40), np.uint8), np.zeros((3, 1, 40), np.uint8)),
        (spaces.Box(0, 255, (40, 40), np.uint8), np.uint8(3)),
        (spaces.Box(0, 255, (40, 40), np.uint8), np.full((40, 40), 0.5)),
        (spaces.Box(0, 255, (40, 40), np.uint8), np.full((40, 40), 256)),
        (spaces.Tuple((spaces.Box(0, 1, (2,)), spaces.Box(0, 1, (2,)))), (np.zeros(2), np.zeros(1))),
    ],
)
def test_an_observation_that_does_not_fit_is_never_packed(space: spaces.Space[Any], given: Any) -> None:
    packer, layout = Packer("X", space), layout_of("X", space)
    with pytest.raises(ValueError, match=r"the environment gave .*, but its observation space has "):
        packer(given, np.zeros(layout.frame_shape, layout.frame_dtype))


@pytest.mark.parametrize("missing", ["observation_space", "action_space"])
def test_an_environment_without_spaces(missing: str) -> None:
    env_id = register("Ga3cBare", observation_space=spaces.Box(0, 1, (1,)))
    env = gym.construct(env_id, catalog.find(env_id), {})
    delattr(env.unwrapped, missing)
    with pytest.raises(UserError, match=f"Ga3cBare-v0 has no {missing}; set it to one of gymnasium.spaces"):
        gym.described(env_id, env)


def test_a_text_beside_numbers_is_left_out_and_alone_it_is_refused_without_an_address() -> None:
    space = spaces.Dict(image=spaces.Box(0, 255, (7, 7, 3), np.uint8), direction=spaces.Discrete(4), mission=Mission(5))
    env_id = register("Ga3cMission", observation_space=space)
    description = Description.from_json(gym.describe(env_id, catalog.find(env_id), {}).to_json())
    spec = gym.spec_of(env_id, description, EnvConfig(stack=2), {})
    assert [part.shape for part in spec.layout.parts] == [(4,), (3, 7, 7)]
    assert layout_of(env_id, description.observation_space) == spec.layout
    env, out = envs.make(env_id, CONFIG, False, seed=1), np.zeros(spec.frame_shape, np.uint8)
    env.reset(out)
    direction, image = spec.layout.views(out)
    assert direction.argmax() == Canned.made[-1].last["direction"]
    assert np.array_equal(image, Canned.made[-1].last["image"].transpose(2, 0, 1))
    with pytest.raises(UserError, match=r"has the observation space Mission as its part \['mission'\]") as error:
        described(register("Ga3cSpoken", observation_space=spaces.Dict(mission=Mission(5))))
    assert " at 0x" not in str(error.value)


@pytest.mark.parametrize(
    ("shape", "frame_shape", "axes"),
    [
        ((40, 50), (1, 40, 50), None),
        ((40, 50, 1), (1, 40, 50), (2, 0, 1)),
        ((40, 50, 3), (3, 40, 50), (2, 0, 1)),
        ((40, 50, 4), (4, 40, 50), (2, 0, 1)),
        ((3, 40, 50), (3, 40, 50), (0, 1, 2)),
        ((40, 50, 6), (6, 40, 50), (2, 0, 1)),
        ((2, 40, 50), (2, 40, 50), (0, 1, 2)),
    ],
)
def test_pictures(shape: tuple[int, ...], frame_shape: tuple[int, ...], axes: tuple[int, ...] | None) -> None:
    env_id = register("Ga3cPicture", observation_space=spaces.Box(0, 255, shape, np.uint8))
    spec = described(env_id, EnvConfig(stack=2))
    assert (spec.frame_shape, spec.frame_dtype, spec.stack) == (frame_shape, "uint8", 2)
    assert spec.observation_shape == (2 * frame_shape[0], 40, 50)
    assert spec.is_picture
    env, out = envs.make(env_id, CONFIG, False, seed=1), np.zeros(frame_shape, np.uint8)
    env.reset(out)
    assert np.array_equal(out if axes else out[0], np.transpose(Canned.made[-1].last, axes or (0, 1)))
    env.step(0, out)
    assert np.array_equal(out if axes else out[0], np.transpose(Canned.made[-1].last, axes or (0, 1)))


@pytest.mark.parametrize(
    ("shape", "channels_last"),
    [
        ((7, 7, 3), True), ((10, 10, 4), True), ((10, 10, 7), True), ((8, 8, 111), True), ((9, 12, 2), True),
        ((3, 7, 7), False), ((6, 10, 10), False), ((111, 8, 8), False), ((2, 9, 12), False), ((4, 5, 9), False),
        ((10, 10, 10), None), ((8, 6, 9), None), ((9, 6, 9), None), ((4, 4, 3), None), ((4, 9, 2), None),
    ],
)  # fmt: skip
def test_the_channels_of_a_small_picture_are_the_axis_that_is_plainly_so(
    shape: tuple[int, ...], channels_last: bool | None
) -> None:
    (part,) = layout_of("X", spaces.Box(0, 255, shape, np.uint8)).parts
    if channels_last is None:
        assert part.shape == (int(np.prod(shape)),)
    else:
        assert part.shape == ((shape[2], *shape[:2]) if channels_last else shape)
        assert part.is_small


def test_the_bounds_of_bytes_and_floats_make_a_picture() -> None:
    small = [spaces.Box(0, high, (9, 9, 2), dtype) for high, dtype in ((10, np.uint8), (1, np.bool_), (1, np.float32))]
    parts = [layout_of("X", space).parts[0] for space in small]
    assert [(part.shape, part.dtype) for part in parts] == [((2, 9, 9), "uint8")] * 2 + [((2, 9, 9), "float32")]
    assert [part.largest for part in parts[:2]] == [10, 1]
    for space in (spaces.Box(-1, 1, (9, 9, 3)), spaces.Box(0, 1, (9, 9)), spaces.Box(0, 9, (9, 9, 3), np.int64)):
        assert not layout_of("X", space).has_pictures


def test_ends_are_told_apart_and_rewards_are_raw() -> None:
    out = np.zeros(1, np.float32)
    space = spaces.Box(0, 1, (1,))
    for limit, end in ((None, (-2.5, True, False, False, None)), (2, (-2.5, False, True, False, None))):
        env = envs.make(register("Ga3cEnd", limit, observation_space=space), CONFIG, False, seed=1)
        for _ in range(2):
            env.reset(out)
            steps = [env.step(0, out) for _ in range(limit or 3)]
            assert steps[-1] == end
            assert set(steps[:-1]) == {(-2.5, False, False, False, None)}
            assert out == Canned.made[-1].last  # the final observation, not that of a new episode


def test_seeded_at_the_first_reset_only() -> None:
    env_id = register("Ga3cSeed", observation_space=spaces.Box(0, 1, (1,)))
    env = envs.make(env_id, CONFIG, False, seed=11)
    for _ in range(3):
        env.reset(np.zeros(1, np.float32))
    assert Canned.made[-1].seeds == [11, None, None]


def test_actions_begin_at_start() -> None:
    space = spaces.Discrete(3, start=-1)
    env_id = register("Ga3cStart", observation_space=spaces.Box(0, 1, (1,)), action_space=space, length=9)
    assert described(env_id).action.num == 3
    env, out = envs.make(env_id, CONFIG, False, seed=1), np.zeros(1, np.float32)
    env.reset(out)
    for action in range(3):
        env.step(action, out)
    assert Canned.made[-1].actions == [-1, 0, 1]


def test_render() -> None:
    env_id = register("Ga3cRender", observation_space=spaces.Box(0, 1, (1,)))
    assert described(env_id).frame_rate == 12.0
    env = envs.make(env_id, CONFIG, False, seed=1, render=True)
    env.reset(np.zeros(1, np.float32))
    (picture,) = env.render()
    assert picture.shape == (20, 30, 3)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Text(5),
        spaces.Sequence(spaces.Discrete(2)),
        spaces.Graph(spaces.Discrete(2), None),
        spaces.Dict(words=spaces.Text(5)),
        spaces.Dict(a=spaces.Discrete(2), b=spaces.Sequence(spaces.Discrete(2)), c=spaces.Text(5)),
    ],
)
def test_unsupported_observations(space: spaces.Space[Any]) -> None:
    env_id = register("Ga3cOdd", observation_space=space)
    kind = type(space).__name__
    if isinstance(space, spaces.Dict):
        kind = r"Sequence as its part \['b'\]" if "b" in space.spaces else r"Text as its part \['words'\]"
    with pytest.raises(UserError, match=f"{env_id} has the observation space {kind}"):
        described(env_id)


def test_observations_too_large() -> None:
    env_id = register("Ga3cHuge", observation_space=spaces.Discrete(10**9))
    with pytest.raises(UserError, match="1000000000 numbers"):
        described(env_id)


@pytest.mark.parametrize(
    ("space", "told"),
    [
        (spaces.Text(3), "actions of the space Text, but only"),
        (spaces.Box(0, 9, (2,), np.int64), "Box with the dtype int64; choices of whole numbers must be Discrete"),
        (spaces.Box(-1, 1, (0,)), "the space Box with nothing to choose in it"),
    ],
)
def test_unsupported_actions(space: spaces.Space[Any], told: str) -> None:
    env_id = register("Ga3cAct", observation_space=spaces.Box(0, 1, (1,)), action_space=space)
    with pytest.raises(UserError, match=f"^Ga3cAct-v0 has .*{told}"):
        described(env_id)


def test_a_constructor_that_raises() -> None:
    env_id = register("Ga3cBroken", nonsense=1)
    with pytest.raises(UserError, match=r"Ga3cBroken-v0 could not be made: TypeError: .*nonsense"):
        described(env_id)


def test_a_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "Box2D", None)
    monkeypatch.delitem(sys.modules, "gymnasium.envs.box2d.lunar_lander", raising=False)
    monkeypatch.delitem(sys.modules, "gymnasium.envs.box2d", raising=False)
    with pytest.raises(UserError, match=r"LunarLander-v3 needs a package that is not installed: .*box2d"):
        envs.describe("LunarLander-v3", CONFIG, False)


def test_ids_with_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ga3c_own_env.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('Ga3cOwn-v0', 'gymnasium.envs.classic_control.cartpole:CartPoleEnv', max_episode_steps=7)\n"
    )
    (tmp_path / "ga3c_bad_env.py").write_text("raise RuntimeError('out of coffee')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    spec = envs.describe("ga3c_own_env:Ga3cOwn-v0", CONFIG, False)
    assert (spec.id, spec.frame_shape) == ("ga3c_own_env:Ga3cOwn-v0", (4,))
    env, out = envs.make("ga3c_own_env:Ga3cOwn-v0", CONFIG, False, seed=1), np.zeros(4, np.float32)
    env.reset(out)
    assert [env.step(step % 2, out).truncated for step in range(7)] == [False] * 6 + [True]
    for env_id, reason in (("ga3c_bad_env:X-v0", "out of coffee"), ("ga3c_no_env:X-v0", "No module named")):
        with pytest.raises(UserError, match=reason):
            described(env_id)
    with pytest.raises(UserError, match="did you mean ga3c_own_env:Ga3cOwn-v0"):
        envs.describe("ga3c_own_env:Ga3cOwm-v0", CONFIG, False)
    (tmp_path / "ga3c_maze.py").write_text("import gymnasium\nclass Maze(gymnasium.Env): pass\nclass Wall: pass\n")
    for wrong in ("Mace", "Boxing"):  # not an Atari game of a similar name
        with pytest.raises(UserError, match=rf"'ga3c_maze:{wrong}'; did you mean ga3c_maze:Maze\?$"):
            described(f"ga3c_maze:{wrong}")
    (tmp_path / "ga3c_empty.py").write_text("")
    with pytest.raises(UserError, match=r"'ga3c_empty:X'; the module ga3c_empty has none\.$"):
        described("ga3c_empty:X")


@pytest.mark.parametrize("wrong", ["CartPole", "cartpole-v1", "CartPole-v7", "Cart-Pole-v1"])
def test_unknown_names(wrong: str) -> None:
    with pytest.raises(UserError, match=r"did you mean CartPole-v1"):
        envs.describe(wrong, CONFIG, False)


@pytest.mark.parametrize("wrong", ["zzzzqqqq", ":", ":zzzzqqqq"])
def test_names_like_nothing(wrong: str) -> None:
    with pytest.raises(UserError, match=f"No environment is called '{wrong}'; `ga3c envs`"):
        envs.describe(wrong, CONFIG, False)


def test_catalog() -> None:
    ids = {entry.id: entry for entry in catalog.list_ids(None) if entry.kind == "gym"}
    assert {"CartPole-v1", "MountainCar-v0", "Acrobot-v1", "FrozenLake-v1", "LunarLander-v3"} <= set(ids)
    assert {"Pendulum-v1", "CarRacing-v3", "Ant-v5"} <= set(ids), "with continuous actions"
    assert not {"CartPole-v0", "Humanoid-v2"} & set(ids)
    assert ids["CartPole-v1"].note == ""
    assert {entry.id for entry in catalog.list_ids("cartpole-v?")} >= {"CartPole-v0", "CartPole-v1"}
    assert catalog.list_ids("no such thing") == []


def test_catalog_notes_missing_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    (lander,) = catalog.list_ids("LunarLander-v3")
    assert "box2d" in lander.note
