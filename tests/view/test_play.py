"""Playing: every step of an episode in its colours and at its speed, in a window or in a whole file."""

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from ga3c import cli, envs, nets
from ga3c.config import Config, EnvConfig, to_toml
from ga3c.engine.model import Model
from ga3c.errors import RunFailed, UserError
from ga3c.metrics.snapshot import Counters
from ga3c.run import checkpoint, trained
from ga3c.run.folder import RunFolder
from ga3c.view import play

CPU = torch.device("cpu")
RED, BLUE = (250, 0, 0), (0, 0, 250)


class Lamp(gymnasium.Env[Any, Any]):
    """A red picture, then blue ones, for six steps with a reward of 5 each; the fourth step can be made to fail."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, render_mode: str | None = None, breaks: bool = False, **_: Any) -> None:
        self.observation_space = spaces.Box(-1, 1, (2,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.render_mode, self._breaks, self._step = render_mode, breaks, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._step = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._step += 1
        if self._breaks and self._step == 4:
            raise RuntimeError("the bulb is broken")
        return np.zeros(2, np.float32), 5.0, self._step == 6, False, {}

    def render(self) -> Any:
        picture = np.zeros((33, 21, 3), np.uint8)
        picture[:] = BLUE if self._step else RED
        return picture


@pytest.fixture(autouse=True)
def lamps() -> Iterator[None]:
    for name, breaks in {"Lamp-v0": False, "BrokenLamp-v0": True}.items():
        gymnasium.register(name, entry_point=Lamp, kwargs={"breaks": breaks})
    yield
    for name in ("Lamp-v0", "BrokenLamp-v0"):
        del gymnasium.registry[name]


def save_run(path: Path, env_id: str, env: EnvConfig | None = None) -> Path:
    """A run with an untrained model in its last checkpoint."""
    config = Config(env_id=env_id, env=env or EnvConfig())
    spec = envs.describe(env_id, config.env, raw_screens=False)
    model = Model(nets.build(spec, config.net), config.learn, CPU)
    folder = RunFolder(path)
    folder.create(config)
    saved = checkpoint.Checkpoint(model.state(), Counters(steps=10), math.nan, math.nan, to_toml(config))
    checkpoint.save(checkpoint.path_for(folder.checkpoints, 10), saved)
    return path


@pytest.fixture
def lamp(tmp_path: Path) -> Path:
    return save_run(tmp_path / "run", "Lamp-v0")


def show(folder: Path, video: Path | None = None, episodes: int = 1, max_seconds: float = 0.0) -> None:
    play.show(folder, video, episodes=episodes, max_seconds=max_seconds, policy="sample", checkpoint="last", seed=1000)


def read_video(path: Path) -> tuple[dict[str, Any], play.Picture]:
    """The metadata of a video, and its pictures [N, H, W, 3]."""
    imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")
    reader = imageio_ffmpeg.read_frames(str(path))
    about = next(reader)
    width, height = about["size"]
    return about, np.stack([np.frombuffer(data, np.uint8).reshape(height, width, 3) for data in reader])


# -- scenes -----------------------------------------------------------------------------------------------------------


def test_scenes_show_each_episode_from_its_first_frame_to_its_last(lamp: Path) -> None:
    seen = list(play.scenes(trained.load(lamp, "last", CPU), 2, "sample", 0))
    assert [(s.episode, s.score, s.over) for s in seen] == [(e, 5.0 * k, k == 6) for e in (1, 2) for k in range(7)]
    assert [tuple(s.picture[0, 0]) for s in seen] == 2 * [RED, *6 * [BLUE]]


def test_pictures_are_enlarged_by_whole_pixels_to_even_sides(lamp: Path) -> None:
    spec = trained.load(lamp, "last", CPU).spec
    picture = np.random.default_rng(0).integers(0, 256, (33, 21, 3), np.uint8)
    large = play.enlarge(picture, spec)
    assert large.shape == (14 * 33, 14 * 21, 3)
    assert np.array_equal(large[7::14, 7::14], picture)
    assert play.enlarge(np.zeros((401, 603, 3), np.uint8), spec).shape == (402, 604, 3)


def test_atari_shows_what_the_emulator_shows_even_before_the_first_step(tmp_path: Path) -> None:
    game = trained.load(save_run(tmp_path, "ALE/Pong-v5", EnvConfig(noop_max=0)), "last", CPU)
    screen, _ = gymnasium.make("ALE/Pong-v5").reset()
    playing = play.scenes(game, 1, "sample", 0)
    first = next(playing).picture
    playing.close()
    assert first.shape == (420, 640, 3)
    assert np.array_equal(first[::2, ::4], screen)


# -- videos -----------------------------------------------------------------------------------------------------------


def test_mp4_of_atari(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("imageio_ffmpeg")
    video = tmp_path / "pong.mp4"
    save_run(tmp_path, "ALE/Pong-v5")
    assert cli.main(["play", str(tmp_path), "--video", str(video), "--max-seconds", "3"]) == 0
    about, pictures = read_video(video)
    assert (about["fps"], about["size"]) == (60.0, (640, 420))
    assert len(pictures) == 180
    brown = pictures[-1, 200, 320].astype(int)
    assert np.abs(brown - (144, 72, 17)).max() < 10  # the table
    assert f"{video}: 3.0 s of 640 x 420" in capsys.readouterr().out


@pytest.mark.parametrize("suffix", [".gif", ".mp4", ".MP4"])
def test_whole_episodes_are_recorded_in_colour(lamp: Path, tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("imageio_ffmpeg")
    video = tmp_path / f"lamp{suffix}"
    video.write_text("an older file is replaced")
    show(lamp, video, episodes=2)
    about, pictures = read_video(video)
    assert pictures.shape == (14, 462, 294, 3)
    assert about["fps"] == 10.0
    expected = np.array(2 * [RED, *6 * [BLUE]])
    assert np.abs(pictures[:, 200, 100].astype(int) - expected).max() < 10
    assert sorted(p.name for p in tmp_path.iterdir()) == [video.name, "run"]


def test_a_broken_environment_leaves_no_file(tmp_path: Path) -> None:
    pytest.importorskip("imageio_ffmpeg")
    folder = save_run(tmp_path / "run", "BrokenLamp-v0")
    with pytest.raises(
        UserError, match=r"BrokenLamp-v0 failed in step: RuntimeError: the bulb is broken \(.*in step\)"
    ):
        show(folder, tmp_path / "lamp.mp4")
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("episodes", [1, 20])
def test_a_failure_of_ffmpeg_is_told_and_leaves_no_file(
    lamp: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, episodes: int
) -> None:
    script = tmp_path / "run" / "ffmpeg"
    script.write_text("#!/bin/sh\nhead -c 100 >/dev/null\necho 'No space left on device' >&2\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setattr(play, "_ffmpeg", lambda: str(script))
    with pytest.raises(RunFailed, match="No space left on device"):
        show(lamp, tmp_path / "lamp.mp4", episodes=episodes)
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_videos_that_cannot_be_written(lamp: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder.mp4").mkdir()
    for name, what in (
        ("a.avi", ".mp4 or .gif"),
        ("a", ".mp4 or .gif"),
        ("no/a.mp4", "no folder"),
        ("folder.mp4", "is a"),
    ):
        with pytest.raises(UserError, match=what):
            show(lamp, tmp_path / name)
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(UserError, match="pip install imageio-ffmpeg"):
        show(lamp, tmp_path / "a.mp4")


def test_pictures_that_change_size_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("imageio_ffmpeg")
    pictures = [np.zeros((side, 20, 3), np.uint8) for side in (20, 22)]
    watched = iter([play.Scene(picture, 1, 0.0, False) for picture in pictures])
    with pytest.raises(UserError, match="change size"):
        play.record(watched, tmp_path / "a.mp4", 10.0, None, "no-op starts")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("episodes", "max_seconds"), [(0, 0.0), (1, -1.0), (1, math.nan), (1, math.inf)])
def test_numbers_that_make_no_sense(lamp: Path, episodes: int, max_seconds: float) -> None:
    with pytest.raises(UserError, match="episodes" if episodes < 1 else "max-seconds"):
        show(lamp, None, episodes, max_seconds)


# -- windows ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def pygame(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setenv("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    return pytest.importorskip("pygame")


def test_window_shows_pictures_and_score(lamp: Path, pygame: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, tuple[int, ...]]] = []

    def flip() -> None:
        seen.append((pygame.display.get_caption()[0], tuple(pygame.display.get_surface().get_at((5, 5)))[:3]))

    monkeypatch.setattr(pygame.display, "flip", flip)
    show(lamp)
    assert [colour for _, colour in seen] == [RED, *6 * [BLUE]]
    assert seen[-1][0] == "Lamp-v0  episode 1  score 30"
    assert not pygame.display.get_init()


@pytest.mark.parametrize("way", ["escape", "close"])
def test_window_ends_when_asked(lamp: Path, pygame: Any, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    event = pygame.event.Event(pygame.QUIT)
    if way == "escape":
        event = pygame.event.Event(pygame.KEYDOWN, key=pygame.K_ESCAPE)
    shown: list[None] = []

    def flip() -> None:
        shown.append(None)
        if len(shown) == 3:
            pygame.event.post(event)

    monkeypatch.setattr(pygame.display, "flip", flip)
    show(lamp, episodes=100)
    assert len(shown) == 3


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there always is a display")
def test_no_window_without_a_display_or_pygame(lamp: Path, pygame: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SDL_VIDEODRIVER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UserError, match="no display"):
        show(lamp)
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(UserError, match="pip install pygame-ce"):
        show(lamp)
