"""The pixels: tables against the emulator, resizing against its formula and against OpenCV."""

from typing import Any

import ale_py
import numpy as np
import pytest
from ale_py import roms
from numpy.typing import NDArray

from ga3c.envs import screens

# Two-player ROMs: the emulator ends the process when asked to load one alone.
GAMES = [game for game in roms.get_all_rom_ids() if game not in {"combat", "joust", "maze_craze", "warlords"}]
UNUSUAL = [
    *("adventure", "air_raid", "keystone_kapers", "king_kong", "klax", "laser_gates", "mr_do", "pacman"),
    *("sir_lancelot", "space_war", "carnival", "journey_escape", "pooyan"),
]
HEIGHTS = [210, 214, 220, 230, 250]


def emulator(game: str) -> ale_py.ALEInterface:
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    ale = ale_py.ALEInterface()
    path = roms.get_rom_path(game)
    assert path is not None
    ale.loadROM(path)
    return ale


def noise(height: int, seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (height, 160), dtype=np.uint8)


def dense(grey: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """What the device computes."""
    left, right = (screens.area_weights(side, screens.SIZE) for side in grey.shape)
    # einsum, because a matrix product of this size wakes threads that fight over a busy machine
    rows = np.einsum("ij,jk->ik", left, grey.astype(np.float32))
    picture: NDArray[np.uint8] = np.floor(np.einsum("ik,lk->il", rows, right) + screens.ROUNDING).astype(np.uint8)
    return picture


@pytest.mark.slow
def test_tables_are_the_emulators() -> None:
    seen: dict[int, set[int]] = {}
    # Loading a ROM takes 85 ms, so: every third game, and all of unusual height.
    for game in sorted({*GAMES[::3], *UNUSUAL}):
        ale = emulator(game)
        height, _ = ale.getScreenDims()
        bytes_seen = seen.setdefault(height, set())
        for frame in range(8):
            ale.act(ale_py.Action.FIRE if frame % 2 else ale_py.Action.NOOP)
            if frame % 4 == 3:
                screen = ale.getScreen()
                assert np.array_equal(screens.grey_table(height)[screen], ale.getScreenGrayscale()), game
                assert np.array_equal(screens.colour_table(height)[screen], ale.getScreenRGB()), game
                bytes_seen.update(np.unique(screen).tolist())
    assert sorted(seen) == HEIGHTS
    assert len(seen[210]) > 80


@pytest.mark.parametrize("game", ["breakout", "klax"])
def test_tables_hold_for_colours_forced_into_memory(game: str) -> None:
    ale = emulator(game)
    height, _ = ale.getScreenDims()
    random = np.random.default_rng(0)
    for _ in range(200):
        ale.act(ale_py.Action(int(random.integers(18))))  # past the title, where memory becomes colour
    start = ale.cloneState()
    seen: set[int] = set()
    for _ in range(150):
        ale.restoreState(start)
        for cell in random.integers(0, 128, 6):
            ale.setRAM(int(cell), int(random.integers(256)))
        ale.act(ale_py.Action.NOOP)
        screen = ale.getScreen()
        assert np.array_equal(screens.grey_table(height)[screen], ale.getScreenGrayscale())
        seen.update(np.unique(screen).tolist())
    assert len(seen) > 40


def test_grey_is_the_ntsc_table() -> None:
    assert screens.GREY.shape == (256,)
    assert screens.GREY.dtype == np.uint8
    assert screens.GREY[[0, 2, 8, 14]].tolist() == [0, 74, 170, 236]
    assert not np.array_equal(screens.GREY, screens.grey_table(screens.PAL_HEIGHT))


@pytest.mark.parametrize("source", [84, 85, 160, *HEIGHTS])
def test_area_weights_follow_the_definition(source: int) -> None:
    weights = screens.area_weights(source, 84)
    assert weights.shape == (84, source)
    assert weights.dtype == np.float32
    assert np.allclose(weights.sum(axis=1), 1.0, atol=1e-6)
    # Each pixel cut into 84 slivers, each target pixel is the plain mean of `source` slivers.
    slivers = np.repeat(np.eye(source), 84, axis=0).reshape(84, source, source).mean(axis=1)
    assert np.allclose(weights, slivers, atol=1e-6)


@pytest.mark.parametrize("height", HEIGHTS)
def test_shrink_is_the_dense_product(height: int) -> None:
    shrinker = screens.Shrinker(height, 160)
    out = np.zeros((84, 84), np.uint8)
    for seed in range(20):
        grey = noise(height, seed)
        shrinker.shrink(grey, out)
        difference = np.abs(out.astype(int) - dense(grey))
        assert difference.max() <= (0 if height == 210 else 1)
        assert (difference > 0).mean() < 1e-3


@pytest.mark.parametrize("height", HEIGHTS)
@pytest.mark.parametrize("level", [0, 1, 127, 254, 255])
def test_shrink_keeps_an_even_grey(height: int, level: int) -> None:
    out = np.zeros((84, 84), np.uint8)
    screens.shrink(np.full((height, 160), level, np.uint8), out)
    assert (out == level).all()


@pytest.mark.parametrize("height", HEIGHTS)
def test_shrink_is_opencv_to_one_level(height: int) -> None:
    cv2: Any = pytest.importorskip("cv2")
    out = np.zeros((84, 84), np.uint8)
    for seed in range(10):
        grey = noise(height, seed)
        screens.shrink(grey, out)
        theirs = cv2.resize(grey, (84, 84), interpolation=cv2.INTER_AREA)
        assert np.abs(out.astype(int) - theirs).max() <= 1
