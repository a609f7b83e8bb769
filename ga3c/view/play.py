"""Watching a trained agent: in a window, or recorded to a video file."""

import contextlib
import importlib
import itertools
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from ga3c.envs.spec import EnvSpec
from ga3c.errors import RunFailed, UserError
from ga3c.files import check_file
from ga3c.run import protocols
from ga3c.run import trust as trusting
from ga3c.run.folder import RunFolder
from ga3c.run.policy import Policy
from ga3c.run.trained import ActionChoice, Trained, Which, check_request, load, torch_threads

Picture = NDArray[np.uint8]

ATARI_ENLARGED = (2, 4)
"""Copies of each row and column: televisions showed Atari's pixels nearly twice as wide as high, so 210 x 160 becomes
420 x 640."""
COMFORTABLE = 480
"""Other pictures are enlarged as long as both sides stay within this many pixels."""
FASTEST_GIF = 50.0
"""Pictures per second: a GIF counts hundredths of a second, and browsers slow down pictures shown for less than two."""

# A palette for each picture keeps the game's colours and needs no second pass over the video. Pictures are stored
# whole: ffmpeg finds changes by the numbers of colours, which mean other colours in the next palette.
_GIF_PALETTES = "split[a][b];[a]palettegen=stats_mode=single[p];[b][p]paletteuse=new=1:dither=none"


class Scene(NamedTuple):
    """One picture of an episode."""

    picture: Picture  # [H, W, 3], of even sides
    episode: int
    score: float
    over: bool
    """Whether the episode ended with this picture."""


def show(
    folder: Path,
    video: Path | None,
    *,
    episodes: int,
    max_seconds: float,
    policy: ActionChoice,
    checkpoint: Which,
    seed: int,
    trust: bool = False,
) -> None:
    """Plays episodes at the game's own speed, in a window, or into a file if `video` is given. Only with `trust` is a
    module imported that the folder names."""
    check_request(episodes, seed)
    if not 0.0 <= max_seconds < math.inf:
        raise UserError(f"--max-seconds is {max_seconds:g}, but must be 0 (no limit) or more.")
    if video is not None:
        check_video(video)
    run = RunFolder.of(folder)
    config = run.read_config()
    trusting.settle(config.env_id, config.env.wrap, config.net.net, run.path, trust)
    trained = load(folder, checkpoint, torch.device("cpu"))
    rate = trained.spec.frame_rate
    rules = protocols.name(trained.config.env, trained.spec.source == "atari")
    most = max(1, round(max_seconds * rate)) if max_seconds else None
    with torch_threads(1), contextlib.closing(scenes(trained, episodes, policy, seed)) as playing:
        watched = itertools.islice(playing, most)
        if video is None:
            show_window(watched, trained.config.env_id, rate)
        else:
            record(watched, video, rate, most, rules)


def scenes(trained: Trained, episodes: int, policy: ActionChoice, seed: int) -> Generator[Scene]:
    """Every picture of some episodes, from the first frame to the last. It uses no `Agent`, which would start the next
    episode in the step that ends one, before the last picture can be shown."""
    spec = trained.spec
    acting = Policy(trained, policy, seed)
    frames = np.zeros((1, *spec.frame_shape), spec.frame_dtype)
    environment = trained.environment(seed, 0, render=True)
    try:
        for episode in range(1, episodes + 1):
            environment.reset(frames[0])
            score, state, over = 0.0, None, False
            for picture in environment.render():
                yield Scene(enlarge(picture, spec), episode, score, over)
            while not over:
                (action,), state = acting.act_on_frames(frames, state, np.array([state is None]))
                reward, terminated, truncated, _ = environment.step(action, frames[0])
                score, over = score + reward, terminated or truncated
                *pictures, last = environment.render()
                for picture in pictures:
                    yield Scene(enlarge(picture, spec), episode, score, over=False)
                yield Scene(enlarge(last, spec), episode, score, over)
    finally:
        environment.close()


def enlarge(picture: Picture, spec: EnvSpec) -> Picture:
    """Repeats each pixel, so that the picture stays sharp, and makes both sides even, as video codecs need them."""
    height, width, _ = picture.shape
    rows = columns = max(1, COMFORTABLE // max(height, width))
    if spec.source == "atari":
        rows, columns = ATARI_ENLARGED
    large = picture.repeat(rows, axis=0).repeat(columns, axis=1)
    odd = (large.shape[0] % 2, large.shape[1] % 2)
    return np.pad(large, ((0, odd[0]), (0, odd[1]), (0, 0)), mode="edge") if any(odd) else large


# -- in a window ------------------------------------------------------------------------------------------------------


def show_window(watched: Iterator[Scene], title: str, rate: float) -> None:
    """Shows scenes until they end, the window is closed or Esc is pressed."""
    pygame = _open_display()
    clock = pygame.time.Clock()
    try:
        for scene in watched:
            height, width, _ = scene.picture.shape
            window = pygame.display.get_surface()
            if window is None or window.get_size() != (width, height):
                window = pygame.display.set_mode((width, height))
            window.blit(pygame.image.frombuffer(scene.picture.tobytes(), (width, height), "RGB"), (0, 0))
            pygame.display.set_caption(f"{title}  episode {scene.episode}  score {scene.score:g}")
            pygame.display.flip()
            clock.tick(rate)
            if any(_asks_to_end(pygame, event) for event in pygame.event.get()):
                return
    finally:
        pygame.display.quit()


def _open_display() -> Any:
    """The module pygame, with its display initialised."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    try:
        pygame = importlib.import_module("pygame")
    except ImportError as error:
        raise UserError(
            f"A window needs pygame; install it with {sys.executable} -m pip install pygame-ce, "
            "or record with --video FILE.mp4."
        ) from error
    with contextlib.suppress(pygame.error):
        pygame.display.init()
    # Without a display SDL draws to memory, which is useful only to those who ask for it.
    driver = pygame.display.get_driver() if pygame.display.get_init() else "none"
    if driver == "none" or (driver in ("dummy", "offscreen") and "SDL_VIDEODRIVER" not in os.environ):
        pygame.display.quit()
        raise UserError("There is no display to open a window on; record with --video FILE.mp4 instead.")
    return pygame


def _asks_to_end(pygame: Any, event: Any) -> bool:
    return bool(event.type == pygame.QUIT or (event.type == pygame.KEYDOWN and event.key == pygame.K_ESCAPE))


# -- to a file --------------------------------------------------------------------------------------------------------


def check_video(path: Path) -> None:
    """Refuses a video that could not be written, before anything is played."""
    check_file(path, "--video", (".mp4", ".gif"))
    temporary = _beside(path)
    try:
        temporary.touch()  # only a try shows whether the system lets a file be written here
        temporary.unlink()
    except OSError as error:
        raise UserError(f"--video is {path}, which cannot be written: {error.strerror}.") from error
    _ffmpeg()


def _beside(path: Path) -> Path:
    """The file that a video is written to until it is complete. ffmpeg chooses the format by the suffix."""
    return path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")


def record(watched: Iterator[Scene], path: Path, rate: float, most: int | None, rules: str) -> None:
    """Writes scenes to a video and prints its length, size and scores. The file appears whole or not at all."""
    temporary = _beside(path)
    console = Console(stderr=True)
    columns = (TextColumn("Recording"), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    first = next(watched)
    scores: list[str] = []
    count = 0
    try:
        with (
            Encoder(temporary, first.picture, rate) as encoder,
            Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress,
        ):
            bar = progress.add_task("", total=most)
            for count, scene in enumerate(itertools.chain([first], watched), start=1):
                encoder.write(scene.picture)
                seen = f"{count / rate:.1f} s, episode {scene.episode}, score {scene.score:g}"
                progress.update(bar, advance=1, description=seen)
                if scene.over:
                    scores.append(f"{scene.score:g}")
        if not scene.over:
            scores.append(f"{scene.score:g} (not finished)")
        os.replace(temporary, path)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"Interrupted after {count / rate:.1f} s of play; {path} was not written.") from None
    finally:
        temporary.unlink(missing_ok=True)
    height, width, _ = first.picture.shape
    size = f"{count / rate:.1f} s of {width} x {height} at {rate:g} pictures/s"
    print(f"{path}: {size}; scores under {rules}: {', '.join(scores)}")


class Encoder:
    """Writes pictures of one size to a video, through ffmpeg."""

    def __init__(self, path: Path, picture: Picture, rate: float) -> None:
        self._shape = picture.shape
        height, width, _ = picture.shape
        source = ("-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"{rate:.6f}", "-i", "-")
        if path.suffix.lower() == ".gif":
            target = [
                "-vf",
                _GIF_PALETTES,
                "-gifflags",
                "-offsetting-transdiff",
                "-r",
                f"{min(rate, FASTEST_GIF):.6f}",
                "-loop",
                "0",
            ]
        else:
            # Every player can show yuv420p.
            target = ["-c:v", "libx264", "-crf", "16", "-pix_fmt", "yuv420p", "-movflags", "+faststart"]
        command = (_ffmpeg(), "-y", "-v", "error", *source, *target, str(path.absolute()))
        # Errors go to a file: a pipe that nothing reads could fill up.
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115  (closed in __exit__)
        # In a session of its own ffmpeg gets no Ctrl-C: this process decides whether it ends early.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stderr=self._complaints, start_new_session=True
        )
        assert self._process.stdin is not None
        self._pictures = self._process.stdin

    def write(self, picture: Picture) -> None:
        if picture.shape != self._shape:
            was, now = self._shape[:2], picture.shape[:2]
            raise UserError(f"The pictures change size, from {was} to {now}; a video cannot, so leave out --video.")
        try:
            self._pictures.write(picture.tobytes())
        except BrokenPipeError:
            self._fail()

    def __enter__(self) -> "Encoder":
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """Finishes the file, or ends ffmpeg if something went wrong."""
        try:
            if kind is None:
                self._process.communicate()
                if self._process.returncode != 0:
                    self._fail()
        finally:
            self._process.kill()
            self._process.wait()
            with contextlib.suppress(BrokenPipeError):  # ffmpeg no longer reads what was buffered
                self._pictures.close()
            self._complaints.close()

    def _fail(self) -> None:
        self._process.wait()
        self._complaints.seek(0)
        said = self._complaints.read().decode(errors="replace").strip().splitlines()
        raise RunFailed(f"ffmpeg could not write the video: {said[-1] if said else 'it gave no reason'}.")


def _ffmpeg() -> str:
    """The path of the ffmpeg that the package imageio-ffmpeg contains."""
    try:
        return str(importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe())
    except (ImportError, RuntimeError) as error:
        raise UserError(
            f"Recording needs ffmpeg; install it with {sys.executable} -m pip install imageio-ffmpeg."
        ) from error
