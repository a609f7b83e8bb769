"""Cards as files: the evaluation, the pictures beside the card, and the card."""

import contextlib
import importlib.util
import io
from pathlib import Path

import torch

from ga3c.errors import UserError
from ga3c.export import card, scores
from ga3c.export.card import Facts
from ga3c.files import replacing
from ga3c.run.folder import RunFolder
from ga3c.run.trained import Which, load
from ga3c.view import play, plot

_VIDEO_SECONDS = 60.0


def write(
    run: Path, path: Path, *, which: Which = "last", episodes: int = 30, video: bool = False, called: str = "",
    record: Path | None = None,
) -> None:  # fmt: skip
    """Writes the card of a checkpoint to `path`, and its pictures beside it. `called` is how commands find the policy,
    its folder unless given; `record` is the folder of the run that has the learning curve, where that is another."""
    if video:
        play.check_video(path.with_name("replay.mp4"))
    trained = load(run, which, torch.device("cpu"))
    found = scores.of(run, trained, which, episodes)
    pictures = []
    if curve(record or RunFolder.of(run).path, path.with_name("curve.png")):
        pictures.append(("curve.png", "The scores of training"))
    if video:
        play.show(
            run, path.with_name("replay.mp4"), episodes=1, max_seconds=_VIDEO_SECONDS, policy="sample",
            checkpoint=which, seed=1000, trust=True,
        )  # fmt: skip
        pictures.append(("replay.mp4", "An episode"))
    facts = Facts(called or str(run), trained.config, trained.steps, trained.score, found, pictures)
    with replacing(path) as temporary:
        temporary.write_text(card.text(facts), encoding="utf-8")


def check_new(path: Path) -> None:
    """Refuses to replace a file that is no card."""
    try:
        is_card = path.read_text(encoding="utf-8", errors="replace").startswith(card.FIRST_LINES)
    except FileNotFoundError:
        return
    if not is_card:
        raise UserError(f"{path} is there and is no card of ga3c, so nothing is written there; choose another --out.")


def curve(run: Path, path: Path) -> bool:
    """Draws the learning curve of a run. Returns whether there is one, and matplotlib."""
    if importlib.util.find_spec("matplotlib") is None or not (run / "metrics.csv").is_file():
        return False
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # it would print the picture's name
            plot.show([run], "steps", "score", out=path)
    except UserError:
        return False  # no row has a score
    return True
