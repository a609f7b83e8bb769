"""Agents at play: what agents draw, as a page gets it."""

import io
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from control_rooms import Room, opened
from fake_control import FakeRun
from numpy.typing import NDArray
from PIL import Image
from reports import make_run

from ga3c.agents.gallery import GalleryMemory, GalleryPlan
from ga3c.envs.pictures import Kind, Picture
from ga3c.envs.screens import colour_table
from ga3c.machine import processes
from ga3c.web import png, wall
from ga3c.web.run_files import identity

HEAD = struct.Struct("<HHIqdqII")


class Shown(NamedTuple):
    place: int
    agent: int
    change: int
    score: float
    length: int
    picture: NDArray[np.uint8]


@pytest.fixture
def drawn(tmp_path: Path) -> Iterator[tuple[FakeRun, GalleryMemory]]:
    """A run whose agents 3, 5 and 7 draw."""
    memory = GalleryMemory(GalleryPlan(8, (3, 5, 7)))
    run = FakeRun(tmp_path / "run")
    run.gallery = memory.open_to_read()
    yield run, memory
    run.end("stopped")
    memory.close()


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Room]:
    monkeypatch.setattr(wall, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(wall, "_REST_SECONDS", 0.05)
    with opened(tmp_path) as room:
        yield room


def shown(room: Room, run: FakeRun, since: int = 0) -> list[Shown]:
    answer = room.ask(f"/api/runs/{identity(run.folder.resolve())}/wall?since={since}")
    if answer.status == 204:
        return []
    assert answer.status == 200, answer
    assert answer.headers["Content-Type"] == "application/octet-stream"
    found, data = [], answer.body
    while data:
        place, kind, agent, change, score, length, size, nothing = HEAD.unpack(data[: HEAD.size])
        assert (kind, nothing) == (1, 0)
        picture = np.asarray(Image.open(io.BytesIO(data[HEAD.size : HEAD.size + size])).convert("RGB"))
        found.append(Shown(place, agent, change, score, length, picture))
        data = data[HEAD.size + size :]
    return found


def test_what_changed_is_shown_once(room: Room, drawn: tuple[FakeRun, GalleryMemory]) -> None:
    run, memory = drawn
    assert shown(room, run) == []
    colours = np.random.default_rng(1).integers(0, 256, (20, 30, 3), np.uint8)
    memory.gallery.write(1, Picture(Kind.RGB, colours), 4.5, 17)
    (one,) = shown(room, run)
    assert (one.place, one.agent, one.score, one.length) == (1, 5, 4.5, 17)
    np.testing.assert_array_equal(one.picture, colours)
    assert shown(room, run, one.change) == []
    screen = np.random.default_rng(2).integers(0, 256, (210, 160), np.uint8)
    memory.gallery.write(0, Picture(Kind.PALETTE, screen), 0.0, 1)
    (other,) = shown(room, run, one.change)
    assert other.agent == 3
    np.testing.assert_array_equal(other.picture, colour_table(210)[screen])
    assert {each.place for each in shown(room, run)} == {0, 1}
    memory.gallery.write(1, Picture(Kind.GREY, screen[:9, :8]), 5.5, 18)
    (third,) = shown(room, run, other.change)
    assert third.change > other.change
    np.testing.assert_array_equal(third.picture[..., 0], screen[:9, :8])


def test_a_picture_is_looked_at_so_often_and_no_more(
    room: Room, drawn: tuple[FakeRun, GalleryMemory], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, memory = drawn
    monkeypatch.setattr(wall, "_LOOK_SECONDS", 1_000.0)
    assert shown(room, run) == []
    memory.gallery.write(0, Picture(Kind.GREY, np.zeros((4, 4), np.uint8)), 0.0, 1)
    assert shown(room, run) == []
    assert [request["do"] for request in run.asked] == ["gallery"]


def test_nobody_looks_any_more_when_no_page_asks(
    room: Room, drawn: tuple[FakeRun, GalleryMemory], monkeypatch: pytest.MonkeyPatch, wait_until: Callable[..., None]
) -> None:
    run, _ = drawn
    monkeypatch.setattr(wall, "_PATIENCE_SECONDS", 0.2)
    shown(room, run)
    assert run.followers == 1
    wait_until(lambda: run.followers == 0)
    shown(room, run)
    assert run.followers == 1


def test_a_run_that_is_resumed_shows_its_new_gallery(
    room: Room, drawn: tuple[FakeRun, GalleryMemory], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, memory = drawn
    memory.gallery.write(0, Picture(Kind.GREY, np.full((4, 4), 1, np.uint8)), 0.0, 1)
    (before,) = shown(room, run)
    other = GalleryMemory(GalleryPlan(8, (2,)))
    other.gallery.write(0, Picture(Kind.GREY, np.full((4, 4), 9, np.uint8)), 0.0, 1)
    run.gallery = other.open_to_read()
    monkeypatch.setattr(processes, "holds", lambda pid, path: True)
    run.set_state("running", pid=1)  # another process
    (after,) = shown(room, run, before.change)
    assert (after.agent, int(after.picture[0, 0, 0])) == (2, 9)
    other.close()


def test_a_run_without_pictures_or_without_life_is_told_of(room: Room, tmp_path: Path) -> None:
    over = make_run(tmp_path / "over", rows=2)
    run = FakeRun(tmp_path / "run")
    run.refusal = "The agents of this run do not draw."
    assert room.ask(f"/api/runs/{identity(over.resolve())}/wall").status == 409
    answer = room.ask(f"/api/runs/{identity(run.folder.resolve())}/wall")
    assert (answer.status, answer.json["error"]) == (404, run.refusal)
    run.end("stopped")


@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (210, 160), (5, 6, 3), (1, 1, 3)])
def test_pictures_are_png_files(shape: tuple[int, ...]) -> None:
    picture = np.random.default_rng(3).integers(0, 256, shape, np.uint8)
    read = np.asarray(Image.open(io.BytesIO(png.encode(picture))))
    np.testing.assert_array_equal(read, picture)


def test_numbers_become_greys_from_the_least_to_the_greatest() -> None:
    assert png.fitting(np.array([[-1.0, 0.0, 1.0]])).tolist() == [[0, 127, 255]]
    assert png.fitting(np.full((2, 2), 3.0)).tolist() == [[0, 0], [0, 0]]
    assert png.fitting(np.array([[np.nan, 1.0, 2.0]])).tolist() == [[0, 0, 255]]
