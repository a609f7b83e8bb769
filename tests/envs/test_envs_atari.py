"""Atari on the real emulator: pixels, starts, ends, and what an agent is told."""

import subprocess
import sys
from typing import Any

import ale_py
import gymnasium
import numpy as np
import pytest
from ale_py import roms
from numpy.typing import NDArray

from ga3c import envs
from ga3c.config import EnvConfig
from ga3c.envs import atari, catalog, screens
from ga3c.envs.spec import Environment
from ga3c.errors import UserError

Pixels = NDArray[np.uint8]
PLAIN = EnvConfig(noop_max=0)


def frame(raw: bool = False, height: int = 210) -> Pixels:
    return np.zeros((2, height, 160) if raw else (84, 84), np.uint8)


def as_device(pair: Pixels) -> Pixels:
    """What the device makes of two raw screens: table, maximum, two matrix products, round."""
    _, height, width = pair.shape
    grey = screens.grey_table(height)[pair].max(axis=0).astype(np.float32)
    # einsum, because a matrix product of this size wakes threads that fight over a busy machine
    rows = np.einsum("ij,jk->ik", screens.area_weights(height, 84), grey)
    picture = np.einsum("ik,lk->il", rows, screens.area_weights(width, 84))
    shrunk: Pixels = np.floor(picture + screens.ROUNDING).astype(np.uint8)
    return shrunk


def play(env: Environment, actions: list[int], raw: bool = False) -> list[tuple[Any, Pixels]]:
    """Steps, and what each gave, until the actions or the episode end."""
    seen, out = [], frame(raw)
    for action in actions:
        transition = env.step(action, out)
        seen.append((transition, out.copy()))
        if transition.terminated or transition.truncated:
            break
    return seen


def choices(seed: int, count: int, actions: int) -> list[int]:
    return [int(action) for action in np.random.default_rng(seed).integers(actions, size=count)]


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize(("env_id", "grey"), [("ALE/Pong-v5", 87), ("ALE/Breakout-v5", 0), ("ALE/Boxing-v5", 132)])
def test_the_background_is_what_most_of_a_picture_shows(env_id: str, grey: int, raw: bool) -> None:
    assert envs.describe(env_id, PLAIN, raw).layout.parts[0].background == grey
    env, picture = envs.make(env_id, PLAIN, raw_screens=False, seed=1), frame()
    env.reset(picture)
    for action in choices(seed=1, count=50, actions=4):
        env.step(action, picture)
    assert np.bincount(picture.ravel()).argmax() == grey
    assert np.mean(picture == grey) > 0.5


@pytest.mark.parametrize("env_id", ["ALE/Breakout-v5", "ALE/SpaceInvaders-v5", "ALE/Carnival-v5", "ALE/Klax-v5"])
def test_pixels_are_those_of_gymnasium(env_id: str) -> None:
    pytest.importorskip("cv2")
    theirs = gymnasium.wrappers.AtariPreprocessing(
        gymnasium.make(env_id, frameskip=1, repeat_action_probability=0.0), noop_max=0
    )
    ours = envs.make(env_id, PLAIN, raw_screens=False, seed=1)
    out = frame()
    expected, _ = theirs.reset(seed=1)
    ours.reset(out)
    assert np.abs(out.astype(int) - expected).max() <= 1
    for action in choices(0, 150, envs.describe(env_id, PLAIN, False).action.num):
        expected, reward, terminated, _, _ = theirs.step(action)
        transition = ours.step(action, out)
        assert transition.reward == reward
        assert transition.terminated == terminated
        if terminated:
            break  # Gymnasium shows old screens then, we the last one
        assert np.abs(out.astype(int) - expected).max() <= 1


@pytest.mark.parametrize("env_id", ["ALE/Pong-v5", "ALE/Klax-v5", "ALE/JourneyEscape-v5"])
@pytest.mark.parametrize("frame_skip", [1, 4])
def test_raw_screens_become_the_same_pixels(env_id: str, frame_skip: int) -> None:
    config = EnvConfig(frame_skip=frame_skip)
    spec = envs.describe(env_id, config, raw_screens=True)
    raw = envs.make(env_id, config, raw_screens=True, seed=5)
    small = envs.make(env_id, config, raw_screens=False, seed=5)
    pair, picture = np.zeros(spec.frame_shape, np.uint8), frame()
    raw.reset(pair)
    small.reset(picture)
    assert np.array_equal(pair[0], pair[1])
    for action in choices(1, 60, spec.action.num):
        difference = np.abs(as_device(pair).astype(int) - picture)
        assert difference.max() <= (0 if spec.frame_shape[1] == 210 else 1)
        assert raw.step(action, pair) == small.step(action, picture)
        assert frame_skip > 1 or np.array_equal(pair[0], pair[1])


def test_raw_screens_are_the_last_two() -> None:
    skipping = envs.make("ALE/Pong-v5", EnvConfig(noop_max=0, frame_skip=4), raw_screens=True, seed=1)
    single = envs.make("ALE/Pong-v5", EnvConfig(noop_max=0, frame_skip=1), raw_screens=True, seed=1)
    pair, each = frame(raw=True), frame(raw=True)
    skipping.reset(pair)
    single.reset(each)
    moved = False
    for action in choices(2, 60, 6):
        skipping.step(action, pair)
        frames = [screen[1] for _, screen in play(single, [action] * 4, raw=True)]
        assert np.array_equal(pair, np.stack(frames[2:]))
        moved |= not np.array_equal(pair[0], pair[1])
    assert moved


@pytest.mark.parametrize(("game", "ways"), [("breakout", 1), ("seaquest", 2), ("freeway", 2)])
def test_a_start_is_a_reset_and_its_noops(game: str, ways: int) -> None:
    other = atari._load(atari.Game(game, None, None), seed=4)
    starts = atari._starts(atari.Game(game, None, None), 30)
    assert [len(one) for one in starts] == [31] * atari.RESETS
    assert len({id(one) for one in starts}) == ways
    ale = atari._load(atari.Game(game, None, None), seed=3)
    for reset, noops in enumerate((0, 1, 17, 30)):
        ale.reset_game()
        for _ in range(noops):
            ale.act(ale_py.Action.NOOP)
        # The other emulator comes from somewhere else, so nothing agrees by chance.
        for _ in range(40):
            other.act(ale_py.Action.RIGHTFIRE)
        start = starts[reset][noops]
        other.restoreState(start.state)
        assert np.array_equal(start.screen, ale.getScreen())
        actions = ale.getMinimalActionSet()
        for action in choices(noops, 100, len(actions)):
            assert ale.act(actions[action]) == other.act(actions[action])
            assert np.array_equal(ale.getScreen(), other.getScreen())
            assert np.array_equal(ale.getRAM(), other.getRAM())
            assert (ale.lives(), ale.game_over()) == (other.lives(), other.game_over())


def test_a_restored_start_of_qbert_is_one_frame_late() -> None:
    """A saved state of this game, alone of the 57, does not have all of the emulator: its course is that of a start
    with one no-op less."""
    game = atari.Game("qbert", None, None)
    restored, played = atari._load(game, seed=3), atari._load(game, seed=3)
    restored.restoreState(atari._starts(game, 30)[0][14].state)
    played.reset_game()
    for _ in range(13):
        played.act(ale_py.Action.NOOP)
    actions = played.getMinimalActionSet()
    for number, action in enumerate(choices(1, 300, len(actions))):
        assert played.act(actions[action]) == restored.act(actions[action])
        assert number == 0 or np.array_equal(played.getRAM(), restored.getRAM())


def test_starts_without_noops_are_all_the_same() -> None:
    assert len(atari._starts(atari.Game("freeway", None, None), 0)) == 1


def test_starts_vary_within_the_limit_and_by_seed() -> None:
    env_id, config = "ALE/Seaquest-v5", EnvConfig(noop_max=30)
    game = atari.Game("seaquest", None, None)
    starts = {id(one): one for one in atari._starts(game, 30)}
    known = [start.screen.tobytes() for one in starts.values() for start in one]
    firsts = []
    for seed in (1, 2):
        env, pair, seen = envs.make(env_id, config, raw_screens=True, seed=seed), frame(raw=True), []
        for _ in range(40):
            env.reset(pair)
            seen.append(known.index(pair[0].tobytes()))
        assert len(set(seen)) > 5
        firsts.append(seen)
    assert firsts[0] != firsts[1]


def test_an_episode_after_a_lost_one_is_whole() -> None:
    env, out = envs.make("ALE/Breakout-v5", PLAIN, raw_screens=False, seed=1), frame()
    records = []
    for _ in range(2):
        env.reset(out)
        first = out.copy()
        seen = play(env, [1 if step % 10 == 0 else 3 for step in range(3000)])
        assert seen[-1][0].terminated
        assert not seen[-1][0].truncated
        assert sum(transition.life_lost for transition, _ in seen) == 5
        records.append((first, [transition for transition, _ in seen]))
    assert np.array_equal(records[0][0], records[1][0])
    assert records[0][1] == records[1][1]


def test_starts_stop_where_noops_end_the_game(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fragile:
        """An emulator whose game is over after three frames."""

        frames = 0

        def reset_game(self) -> None:
            self.frames = 0

        def getRAM(self) -> Pixels:
            return np.zeros(128, np.uint8)

        def cloneState(self) -> int:
            return self.frames

        def getScreen(self) -> Pixels:
            return np.full((210, 160), self.frames, np.uint8)

        def act(self, action: ale_py.Action) -> int:
            self.frames += 1
            return 0

        def game_over(self) -> bool:
            return self.frames >= 3

    monkeypatch.setattr(atari, "_load", lambda *_, **__: Fragile())
    for _ in range(2):
        starts = atari._starts(atari.Game("fragile", None, None), 30)
        assert [start.state for start in starts[0]] == [0, 1, 2]
        assert starts == (starts[0],) * atari.RESETS


def test_cut_off_at_max_frames() -> None:
    config = EnvConfig(noop_max=30, max_frames=42)
    env, out = envs.make("ALE/Pong-v5", config, raw_screens=False, seed=1), frame()
    for _ in range(2):
        env.reset(out)
        ends = [transition for transition, _ in play(env, [0] * 100)]
        assert len(ends) == 11  # ten steps of four frames, and one of the two that are left
        assert ends[-1].truncated
        assert not any(end.truncated for end in ends[:-1])
        assert not any(end.terminated for end in ends)


def test_rewards_are_raw() -> None:
    env, out = envs.make("ALE/SpaceInvaders-v5", PLAIN, raw_screens=False, seed=1), frame()
    env.reset(out)
    rewards = {transition.reward for transition, _ in play(env, choices(0, 400, 6))}
    assert max(rewards) >= 5.0
    assert all(isinstance(reward, float) for reward in rewards)


@pytest.mark.parametrize(("sticky", "alike"), [(0.0, True), (0.25, False)])
def test_sticky_actions_differ_by_seed_only(sticky: float, alike: bool) -> None:
    config = EnvConfig(noop_max=0, sticky=sticky)

    def episode(seed: int) -> bytes:
        env, out = envs.make("ALE/Breakout-v5", config, raw_screens=False, seed=seed), frame()
        env.reset(out)
        return b"".join(picture.tobytes() for _, picture in play(env, choices(0, 100, 4)))

    assert episode(1) == episode(1)
    assert (episode(1) == episode(2)) == alike


def test_sticky_episodes_of_one_environment_differ() -> None:
    env = envs.make("ALE/Breakout-v5", EnvConfig(noop_max=0, sticky=0.25), raw_screens=False, seed=1)
    episodes, out = [], frame()
    for _ in range(2):
        env.reset(out)
        episodes.append(b"".join(picture.tobytes() for _, picture in play(env, choices(0, 100, 4))))
    assert episodes[0] != episodes[1]


def test_no_action_sticks_into_the_next_episode() -> None:
    """With actions that nearly always stick, the first steps of an episode are those of no action, whatever was done at
    the end of the last one."""
    config, out = EnvConfig(noop_max=0, sticky=0.999), frame()
    env = envs.make("ALE/Breakout-v5", config, raw_screens=False, seed=1)
    unmoved = envs.make("ALE/Breakout-v5", EnvConfig(noop_max=0), raw_screens=False, seed=1)
    unmoved.reset(out)
    expected = play(unmoved, [0] * 3)[-1][1]
    for action in (2, 3):  # right, left
        env.reset(out)
        env._last_action = env._actions[action]  # type: ignore[attr-defined]
        moved = play(env, [0] * 10)[-1][1]
        env.reset(out)
        began = play(env, [0] * 3)[-1][1]
        assert not np.array_equal(moved, expected)
        assert np.array_equal(began, expected)


def test_actions_stick_as_often_as_the_emulator_s_own() -> None:
    """Counts how often an action is repeated: the emulator draws once per frame, and so does the environment."""
    env = envs.make("ALE/Pong-v5", EnvConfig(noop_max=0, sticky=0.25, frame_skip=1), raw_screens=False, seed=5)
    left, right = ale_py.Action.LEFT, ale_py.Action.RIGHT
    stuck = [env._stuck(right if i % 2 else left) == (left if i % 2 else right) for i in range(20_000)]  # type: ignore[attr-defined]
    # An action differs from the one asked for if an odd number of draws in a row repeated: 0.25 / 1.25.
    assert np.mean(stuck) == pytest.approx(0.2, abs=0.02)


def test_describe() -> None:
    spec = envs.describe("ALE/Breakout-v5", EnvConfig(stack=3, frame_skip=2), raw_screens=False)
    assert (spec.source, spec.frame_shape, spec.observation_shape) == ("atari", (84, 84), (3, 84, 84))
    assert (spec.action.num, spec.frames_per_step, spec.frame_rate, spec.raw_screens) == (4, 2, 60.0, False)
    assert spec.is_picture
    assert spec.frame_dtype == "uint8"
    assert spec.stack == 3
    raw = envs.describe("BreakoutNoFrameskip-v4", EnvConfig(full_actions=True), raw_screens=True)
    assert (raw.frame_shape, raw.action.num, raw.raw_screens) == ((2, 210, 160), 18, True)
    assert envs.describe("ALE/AirRaid-v5", PLAIN, raw_screens=True).frame_shape == (2, 250, 160)


def test_full_actions_are_the_joystick() -> None:
    """Number 3 of all actions is right, which is number 2 of Pong's own."""
    seen = []
    for full, action in ((True, 3), (False, 2), (True, 0)):
        env = envs.make("ALE/Pong-v5", EnvConfig(full_actions=full, noop_max=0), raw_screens=False, seed=1)
        out = frame()
        env.reset(out)
        seen.append(np.stack([screen for _, screen in play(env, [action] * 40)]))
    assert np.array_equal(seen[0], seen[1])
    assert not np.array_equal(seen[0], seen[2])
    env = envs.make("ALE/Pong-v5", EnvConfig(full_actions=True), raw_screens=False, seed=1)
    env.reset(frame())
    with pytest.raises(IndexError):
        env.step(18, frame())


@pytest.mark.parametrize("env_id", ["ALE/Pong-v5", "ALE/KingKong-v5"])
def test_render_shows_every_emulated_frame(env_id: str) -> None:
    config = EnvConfig(noop_max=30)
    spec = envs.describe(env_id, config, raw_screens=True)
    env = envs.make(env_id, config, raw_screens=True, seed=1, render=True)
    pair = np.zeros(spec.frame_shape, np.uint8)
    colours = screens.colour_table(spec.frame_shape[1])
    for _ in range(3):
        env.reset(pair)
        (picture,) = env.render()
        assert np.array_equal(picture, colours[pair[1]])
        for _ in range(5):
            env.step(1, pair)
            pictures = env.render()
            assert len(pictures) == 4
            assert np.array_equal(pictures[2:], colours[pair])
    env.close()


def test_modes_reach_the_emulator() -> None:
    gymnasium.register("Ga3cFlavour-v0", "ale_py.env:AtariEnv", kwargs={"game": "breakout", "mode": 12})
    out, plain = frame(raw=True), frame(raw=True)
    envs.make("Ga3cFlavour-v0", PLAIN, raw_screens=True, seed=1).reset(out)
    envs.make("ALE/Breakout-v5", PLAIN, raw_screens=True, seed=1).reset(plain)
    assert not np.array_equal(out, plain)


def test_continuous_joysticks_are_refused() -> None:
    gymnasium.register("Ga3cAnalog-v0", "ale_py.env:AtariEnv", kwargs={"game": "pong", "continuous": True})
    with pytest.raises(UserError, match="continuous"):
        envs.describe("Ga3cAnalog-v0", PLAIN, raw_screens=False)


def test_memory_dumps_are_vectors() -> None:
    gymnasium.register("Ga3cRam-v0", "ale_py.env:AtariEnv", kwargs={"game": "pong", "obs_type": "ram"})
    spec = envs.describe("Ga3cRam-v0", PLAIN, raw_screens=True)
    assert (spec.source, spec.frame_shape, spec.raw_screens) == ("gym", (128,), False)


def test_a_missing_rom_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roms, "get_rom_path", lambda _: None)
    with pytest.raises(UserError, match=r"pong\.bin"):
        envs.describe("ALE/Pong-v5", PLAIN, raw_screens=False)
    assert "ALE/Pong-v5" not in [entry.id for entry in catalog.list_ids("pong")]


@pytest.mark.parametrize("wrong", ["Pong", "ALE/Pnog-v5", "ale/pong-v5", "pong-v9"])
def test_unknown_names_suggest_near_ones(wrong: str) -> None:
    assert catalog.suggest(wrong)[0] == "ALE/Pong-v5"
    with pytest.raises(UserError, match=r"did you mean ALE/Pong-v5"):
        envs.describe(wrong, PLAIN, raw_screens=False)


def test_catalog_lists_games() -> None:
    everything = catalog.list_ids(None)
    ids = [entry.id for entry in everything]
    assert "ALE/Pong-v5" in ids
    assert "PongNoFrameskip-v4" not in ids
    assert len(ids) == len(set(ids))
    assert {entry.kind for entry in everything} == {"atari", "gym"}
    assert [entry.id for entry in catalog.list_ids("PONG")] == ["ALE/Pong-v5"]
    assert "PongNoFrameskip-v4" in [entry.id for entry in catalog.list_ids("pongnoframeskip")]
    assert {entry.id for entry in catalog.list_ids("pong-v?")} == {"ALE/Pong-v5", "Pong-v0", "Pong-v4"}


def test_agents_never_load_torch() -> None:
    code = """
import sys
import ga3c.envs
assert not {"gymnasium", "ale_py"} & set(sys.modules), "too much at import"
import numpy as np
from ga3c.config import EnvConfig
for env_id, shape in (("ALE/Pong-v5", (84, 84)), ("CartPole-v1", (4,))):
    env = ga3c.envs.make(env_id, EnvConfig(), False, 1)
    env.reset(np.zeros(shape, np.uint8 if len(shape) > 1 else np.float32))
assert "torch" not in sys.modules
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == ""
    assert "A.L.E" not in ran.stderr
