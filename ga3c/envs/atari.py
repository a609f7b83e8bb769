"""Atari games, stepped on the emulator (ALE) without Gymnasium's wrappers."""

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import ale_py
import numpy as np
from ale_py import roms
from numpy.typing import NDArray

from ga3c.config import EnvConfig
from ga3c.envs import screens
from ga3c.envs.layout import Layout
from ga3c.envs.pictures import Kind, Picture
from ga3c.envs.spec import Action, ActionSpec, EnvSpec, Frame, Transition
from ga3c.errors import UserError

FRAMES_PER_SECOND = 60.0
RESETS = 8
"""Resets whose states episodes begin in. Each takes 3 to 10 ms once per process, and a start about 40 kB."""


class Game(NamedTuple):
    """A game as Gymnasium's registry knows it."""

    name: str
    """The ROM's name, in snake_case."""
    mode: int | None
    difficulty: int | None


class Start(NamedTuple):
    """A state of the emulator in which an episode may begin."""

    state: ale_py.ALEState
    screen: NDArray[np.uint8]
    """Palette bytes [h, w]. After a state is restored, the emulator still shows the old screen until it steps."""


def is_atari(entry_point: object, kwargs: Mapping[str, Any]) -> bool:
    """Whether a registered environment is an ALE game with pictures. (Games seen as RAM go through Gymnasium.)"""
    return str(entry_point).startswith("ale_py") and "game" in kwargs and kwargs.get("obs_type") != "ram"


def game_of(kwargs: Mapping[str, Any]) -> Game:
    return Game(kwargs["game"], kwargs.get("mode"), kwargs.get("difficulty"))


def has_rom(name: str) -> bool:
    try:
        return roms.get_rom_path(name) is not None
    except OSError:
        return False


def describe(
    env_id: str, game: Game, config: EnvConfig, raw_screens: bool, env_args: Mapping[str, Any] | None = None
) -> EnvSpec:
    if not has_rom(game.name):
        raise UserError(f"{env_id} needs the ROM {game.name}.bin, which this ale-py lacks; reinstall ale-py.")
    ale = _load(game, seed=0)
    actions = _actions(ale, config)
    return EnvSpec(
        id=env_id,
        args=env_args or {},
        source="atari",
        layout=Layout.picture((screens.SIZE, screens.SIZE), background=_background(ale)),
        stack=config.stack,
        action=ActionSpec.discrete(len(actions)),
        action_names=tuple(action.name for action in actions),
        frames_per_step=config.frame_skip,
        frame_rate=FRAMES_PER_SECOND,
        screen=ale.getScreenDims() if raw_screens else None,
    )


def _background(ale: ale_py.ALEInterface) -> int:
    """The most common grey on the screen one second into a game."""
    for _ in range(int(FRAMES_PER_SECOND)):
        ale.act(ale_py.Action.NOOP)
    return int(np.bincount(ale.getScreenGrayscale().ravel()).argmax())


class AtariEnvironment:
    """One game. A frame is 84 x 84 greys, or with `raw_screens` the two last screens in palette bytes."""

    def __init__(self, game: Game, config: EnvConfig, *, raw_screens: bool, seed: int, render: bool) -> None:
        self._ale = _load(game, seed)
        self._actions = _actions(self._ale, config)
        self._sticky = config.sticky
        self._last_action: ale_py.Action = ale_py.Action.NOOP
        """What the emulator did in the last frame."""
        self._game = game
        self._config = config
        self._raw = raw_screens
        self._random = np.random.default_rng(seed)
        self._height, width = self._ale.getScreenDims()
        self._older = np.empty((self._height, width), np.uint8)
        self._newer = np.empty((self._height, width), np.uint8)
        self._shrinker = screens.Shrinker(self._height, width)
        self._frames = 0
        self._lives = 0
        self._start: Start | None = None
        """The state in which the episode began."""
        self._render = render
        self._pictures: list[NDArray[np.uint8]] = []
        """All emulated frames of the last step in colour, if they are rendered."""

    def reset(self, out: Frame) -> None:
        after_resets = _starts(self._game, self._config.noop_max)
        after_noops = after_resets[self._random.integers(len(after_resets))]
        start = after_noops[self._random.integers(len(after_noops))]
        # Takes 0.03 ms; reset_game and the no-ops would take 5 ms or more.
        self._ale.restoreState(start.state)
        self._start = start
        self._last_action = ale_py.Action.NOOP
        self._frames = 0
        self._lives = self._ale.lives()
        if self._render:
            self._pictures = [screens.colour_table(self._height)[start.screen]]
        if self._raw:
            out[...] = start.screen  # as both screens
        else:
            np.take(screens.grey_table(self._height), start.screen, out=self._newer)
            self._shrinker.shrink(self._newer, out)

    def step(self, action: Action, out: Frame) -> Transition:
        ale, joystick = self._ale, self._actions[int(action)]
        frames = min(self._config.frame_skip, self._config.max_frames - self._frames)
        reward, over, paired = 0, False, False
        self._pictures = []
        for left in reversed(range(frames)):
            reward += ale.act(self._stuck(joystick) if self._sticky else joystick)
            if self._render:
                self._pictures.append(ale.getScreenRGB())
            over = ale.game_over()
            if over:
                break
            if left == 1:
                self._see_older(out)
                paired = True
        self._see_newer(out, paired)
        self._frames += frames
        lives = ale.lives()
        life_lost, self._lives = lives < self._lives, lives
        return Transition(float(reward), over, not over and self._frames >= self._config.max_frames, life_lost)

    def _stuck(self, joystick: ale_py.Action) -> ale_py.Action:
        """The action of the next frame, which is the last one again with the probability of `--sticky`. The emulator's
        own sticky actions have the same distribution, but keep an episode's last action when a state is restored."""
        if self._random.random() >= self._sticky:
            self._last_action = joystick
        action: ale_py.Action = self._last_action
        return action

    def render(self) -> list[NDArray[np.uint8]]:
        return self._pictures

    def picture(self, frame: Frame) -> Picture | None:
        # After a state is restored, the emulator still shows the end of the episode before.
        screen = self._ale.getScreen() if self._frames or self._start is None else self._start.screen
        return Picture(Kind.PALETTE, screen)

    def close(self) -> None:
        """Nothing to do: the emulator is freed with the object."""

    def _see_older(self, out: Frame) -> None:
        if self._raw:
            self._ale.getScreen(out[0])
        else:
            self._ale.getScreenGrayscale(self._older)

    def _see_newer(self, out: Frame, paired: bool) -> None:
        """Writes the frame, from two screens because games draw some sprites only every other time, or from the last
        screen alone."""
        if self._raw:
            self._ale.getScreen(out[1])
            if not paired:
                out[0] = out[1]
            return
        self._ale.getScreenGrayscale(self._newer)
        if paired:
            np.maximum(self._older, self._newer, out=self._newer)
        self._shrinker.shrink(self._newer, out)


def _load(game: Game, seed: int) -> ale_py.ALEInterface:
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    ale = ale_py.ALEInterface()
    ale.setInt("random_seed", seed % 2**31)
    ale.setFloat("repeat_action_probability", 0.0)
    path = roms.get_rom_path(game.name)
    assert path is not None, game.name
    ale.loadROM(path)
    if game.mode is not None:
        ale.setMode(game.mode)
    if game.difficulty is not None:
        ale.setDifficulty(game.difficulty)
    if game.mode is not None or game.difficulty is not None:
        ale.reset_game()  # mode and difficulty take effect with the next game
    return ale


def _actions(ale: ale_py.ALEInterface, config: EnvConfig) -> list[ale_py.Action]:
    return ale.getLegalActionSet() if config.full_actions else ale.getMinimalActionSet()


@functools.cache
def _starts(game: Game, noop_max: int) -> tuple[tuple[Start, ...], ...]:
    """For each of some resets of the emulator, the states after 0 to `noop_max` no-ops. They are recorded once for all
    environments of this process that play the game; resets that give equal states share them.

    A reset gives the console's timer a value from a random sequence of the emulator, which is the same in every
    emulator and does not depend on its seed. Games that wait for the timer or read it begin in one of several ways:
    in Freeway and Seaquest, a frame counter differs by one. Without no-ops, only the first reset is recorded, because
    starts are then to be the same each time."""
    ale = _load(game, seed=0)
    by_ram: dict[bytes, tuple[Start, ...]] = {}
    after_resets = []
    for _ in range(RESETS if noop_max else 1):
        ale.reset_game()
        ram = ale.getRAM().tobytes()
        if ram not in by_ram:
            by_ram[ram] = _after_noops(ale, noop_max)
        after_resets.append(by_ram[ram])
    return tuple(after_resets)


def _after_noops(ale: ale_py.ALEInterface, noop_max: int) -> tuple[Start, ...]:
    starts: list[Start] = []
    while len(starts) <= noop_max and not ale.game_over():
        starts.append(Start(ale.cloneState(), ale.getScreen()))
        ale.act(ale_py.Action.NOOP)
    return tuple(starts)
