"""The gallery and who draws in it: what readers see, what it costs, and what is drawn of each kind of environment."""

import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from specs import mixed_frames, mixed_spec, picture_spec, vector_spec

from ga3c import envs
from ga3c.agents import painter as painting
from ga3c.agents.gallery import PLACES, Gallery, GalleryMemory, GalleryPlan, choose
from ga3c.agents.painter import Painter
from ga3c.agents.pool import AgentPool
from ga3c.config import EnvConfig
from ga3c.envs import pictures, screens
from ga3c.envs.pictures import Kind, Picture

pytestmark = pytest.mark.timeout(60)


def grey(value: int, height: int = 4, width: int = 6) -> Picture:
    return Picture(Kind.GREY, np.full((height, width), value, np.uint8))


@pytest.fixture
def memory() -> Any:
    memory = GalleryMemory(GalleryPlan(8, (0, 4, 1)))
    yield memory
    memory.close()


# -- the memory -------------------------------------------------------------------------------------------------------


def test_a_reader_with_the_descriptor_alone_sees_what_was_drawn(memory: GalleryMemory) -> None:
    descriptor = memory.open_to_read()
    gallery = Gallery.attach(descriptor)
    os.close(descriptor)
    assert (len(gallery), gallery.agents) == (3, [0, 4, 1])
    nothing = gallery.read(1)
    assert nothing is not None
    assert (nothing.picture.kind, nothing.picture.pixels.shape) == (Kind.NOTHING, (0, 0))
    random = np.random.default_rng(1)
    for kind, shape in ((Kind.PALETTE, (210, 160)), (Kind.RGB, (96, 95, 3)), (Kind.GREY, (7, 9))):
        pixels = random.integers(0, 256, shape, np.uint8)
        memory.gallery.write(1, Picture(kind, pixels), -2.5, 17)
        seen = gallery.read(1, nothing.sequence)
        assert seen is not None
        assert (seen.agent, seen.score, seen.length, seen.picture.kind) == (4, -2.5, 17, kind)
        assert np.array_equal(seen.picture.pixels, pixels)
        assert gallery.read(1, seen.sequence) is None, "nothing newer"
    assert gallery.read(0, 0) is None


@pytest.mark.parametrize("shape", [(400, 600, 3), (1080, 1920, 3), (4000, 4000), (1, 200_000)])
def test_large_pictures_are_thinned_out(memory: GalleryMemory, shape: tuple[int, ...]) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, shape, np.uint8)
    memory.gallery.write(0, Picture(Kind.RGB if len(shape) == 3 else Kind.GREY, pixels), 0.0, 0)
    seen = memory.gallery.read(0)
    assert seen is not None
    step = -(-shape[1] // seen.picture.pixels.shape[1])
    assert step > 1
    assert np.array_equal(seen.picture.pixels, pixels[::step, ::step])
    assert pixels[:: step - 1, :: step - 1].nbytes > memory.gallery.pixels, "no more than needed"


def test_pictures_in_any_order_of_memory_are_drawn(memory: GalleryMemory) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (3, 20, 30), np.uint8).transpose(1, 2, 0)
    for given in (pixels, pixels[::-1], pixels[:, ::2]):
        memory.gallery.write(0, Picture(Kind.RGB, given), 0.0, 0)
        seen = memory.gallery.read(0)
        assert seen is not None
        assert np.array_equal(seen.picture.pixels, given)


def test_no_reader_sees_half_a_picture(memory: GalleryMemory) -> None:
    """The writer is another process, as agents are."""
    context = multiprocessing.get_context("fork")
    stop = context.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number = (number + 1) % 200
            memory.gallery.write(0, grey(number, 100 + number % 3, 50), float(number), number)

    writer = context.Process(target=write)
    writer.start()
    try:
        seen: set[int] = set()
        after, deadline = -1, time.monotonic() + 30
        while len(seen) < 100 and time.monotonic() < deadline:
            found = memory.gallery.read(0, after)
            if found is None or found.picture.kind == Kind.NOTHING:
                continue
            after = found.sequence
            assert found.sequence % 2 == 0
            assert (found.picture.pixels == found.length).all()
            assert found.picture.pixels.shape == (100 + found.length % 3, 50)
            assert found.score == found.length
            seen.add(found.length)
        assert len(seen) == 100
    finally:
        stop.set()
        writer.join(10)


def test_a_place_whose_writer_died_is_written_again(memory: GalleryMemory) -> None:
    gallery = memory.gallery
    gallery.write(0, grey(1), 0.0, 1)
    gallery._words[0][0][0] |= 1  # a process that is killed while it writes leaves it so
    assert gallery.read(0) is None
    gallery.write(0, grey(2), 0.0, 2)
    seen = gallery.read(0)
    assert seen is not None
    assert seen.length == 2
    assert seen.sequence % 2 == 0


@pytest.mark.parametrize(
    "content", [b"", b"x" * 8, b"\xff" * 4096, np.array([0, 0, 16, 2**40, 8], np.int64).tobytes() * 100]
)
def test_memory_that_is_no_gallery_is_refused(content: bytes) -> None:
    descriptor = os.memfd_create("test")
    try:
        os.write(descriptor, content)
        with pytest.raises(ValueError, match="no memory of a gallery"):
            Gallery.attach(descriptor)
    finally:
        os.close(descriptor)


def test_memory_can_only_be_read_by_those_who_look(memory: GalleryMemory) -> None:
    descriptor = memory.open_to_read()
    gallery = Gallery.attach(descriptor)
    with pytest.raises(ValueError, match="read-only"):
        gallery.lookers[0] = 1
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.write(descriptor, b"x")
    os.close(descriptor)
    memory.close()
    with pytest.raises(OSError, match="the agents have ended"):
        memory.open_to_read()
    memory.close = lambda: None  # type: ignore[method-assign]


def test_lookers_are_counted(memory: GalleryMemory) -> None:
    counts = memory.gallery.lookers, memory.gallery.wanted
    for drawn, expected in ((True, (1, 1)), (False, (2, 1)), (True, (3, 2))):
        memory.look(drawn)
        assert tuple(int(count[0]) for count in counts) == expected
    for drawn, expected in ((True, (2, 1)), (True, (1, 0)), (False, (0, 0))):
        memory.look_away(drawn)
        assert tuple(int(count[0]) for count in counts) == expected


def test_memory_takes_room_once_it_is_drawn_in() -> None:
    memory = GalleryMemory(GalleryPlan(64, tuple(range(PLACES))))
    before = os.fstat(memory.fd).st_blocks
    memory.gallery.write(0, grey(1, 200, 200), 0.0, 0)
    assert before * 512 <= 128 * 1024 < memory.gallery.place_size * PLACES
    assert os.fstat(memory.fd).st_blocks > before
    memory.close()


def test_those_who_play_longest_draw() -> None:
    groups = [range(0, 3), range(3, 5), range(5, 6)]
    assert choose(groups) == (0, 3, 5, 1, 4, 2)
    assert choose(groups, most=4) == (0, 3, 5, 1)


# -- the painter ------------------------------------------------------------------------------------------------------


class Model:
    """In the place of an agent: a drawing takes a time by the clock."""

    score, length = 3.0, 5

    def __init__(self, clock: "Nanoseconds", costs: float, draws: bool = True) -> None:
        self.clock, self.costs, self.draws = clock, costs, draws
        self.drawn: list[int] = []

    def picture(self) -> Picture | None:
        self.clock.now += int(1e9 * self.costs)
        self.drawn.append(self.clock.now)
        return grey(1) if self.draws else None


class Nanoseconds:
    now = 10**12

    def monotonic_ns(self) -> int:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Nanoseconds:
    clock = Nanoseconds()
    monkeypatch.setattr(painting, "time", clock)
    return clock


def play(painter: Painter, clock: Nanoseconds, seconds: float, step: float = 0.001) -> None:
    end = clock.now + 1e9 * seconds
    while clock.now < end:
        painter.look()
        clock.now += int(1e9 * step)


@pytest.mark.parametrize("costs", [1e-5, 1e-3, 0.02])
def test_drawing_takes_a_hundredth_of_the_time_at_most(memory: GalleryMemory, clock: Nanoseconds, costs: float) -> None:
    agents = {number: Model(clock, costs) for number in (0, 1)}
    memory.look(pictures=True)
    painter = Painter(memory.gallery, agents)  # type: ignore[arg-type]
    painter.look()  # the first one imports what draws
    play(painter, clock, 20.0)
    drawn = [agent.drawn for agent in agents.values()]
    assert 0.5 * min(0.01, 20 * costs) * 20 <= sum(map(len, drawn)) * costs <= 0.0101 * 20 + 2 * costs
    assert abs(len(drawn[0]) - len(drawn[1])) <= 1, "in turn"
    for moments in drawn:
        assert min(np.diff(moments)) >= 0.099e9, "ten times a second at most"


def test_nothing_is_drawn_for_those_who_want_scores(memory: GalleryMemory, clock: Nanoseconds) -> None:
    agents = {number: Model(clock, 0.001) for number in (0, 4, 7)}
    memory.look(pictures=False)
    painter = Painter(memory.gallery, agents)  # type: ignore[arg-type]
    play(painter, clock, 1.0)
    assert not any(agent.drawn for agent in agents.values())
    assert memory.gallery.scores.tolist() == [3.0, 0, 0, 0, 3.0, 0, 0, 3.0]
    assert memory.gallery.lengths.tolist() == [5, 0, 0, 0, 5, 0, 0, 5]


def test_what_cannot_be_drawn_is_tried_once(
    memory: GalleryMemory, clock: Nanoseconds, capsys: pytest.CaptureFixture[str]
) -> None:
    memory.look(pictures=True)
    for draws in (False, True):
        agents = {number: Model(clock, 0.001, draws) for number in (0, 1)}
        if draws:
            agents[0].picture = lambda: 1 / 0  # type: ignore[assignment, method-assign, return-value]
        play(Painter(memory.gallery, agents), clock, 3.0)  # type: ignore[arg-type]
        assert len(agents[0].drawn) == (0 if draws else 1)
        assert agents[1].drawn == []
    assert capsys.readouterr().err == "This environment cannot be drawn: ZeroDivisionError: division by zero\n"


# -- what is drawn ----------------------------------------------------------------------------------------------------


def make(env_id: str, gallery: Any = "auto", **args: Any) -> tuple[Any, Any]:
    spec = envs.describe(env_id, EnvConfig(), raw_screens=False, env_args=args)
    frame = np.empty(spec.frame_shape, spec.frame_dtype)
    environment = envs.make(env_id, EnvConfig(), False, 1, args, gallery=gallery)
    environment.reset(frame)
    return environment, frame


@pytest.mark.parametrize("raw", [True, False])
def test_an_atari_game_is_drawn_as_the_emulator_shows_it(raw: bool) -> None:
    spec = envs.describe("ALE/Breakout-v5", EnvConfig(), raw_screens=raw)
    environments = [envs.make("ALE/Breakout-v5", EnvConfig(), raw, 3, render=render) for render in (False, True)]
    frame = np.empty(spec.frame_shape, np.uint8)
    for environment in environments:
        environment.reset(frame)
    for step in range(6):
        picture = environments[0].picture(frame)
        assert picture is not None
        assert picture.kind == Kind.PALETTE
        in_colour = screens.colour_table(210)[picture.pixels]
        assert np.array_equal(in_colour, environments[1].render()[-1]), step
        for environment in environments:
            environment.step(np.int64(1), frame)


def test_a_new_episode_does_not_show_the_end_of_the_last() -> None:
    environment, frame = make("ALE/Pong-v5")
    first = environment.picture(frame).pixels
    for _ in range(60):
        environment.step(np.int64(2), frame)
    environment._random = np.random.default_rng(1)
    again, _ = make("ALE/Pong-v5")
    assert not np.array_equal(environment.picture(frame).pixels, first)
    environment.reset(frame)
    assert np.array_equal(environment.picture(frame).pixels, environment._start.screen)
    assert np.array_equal(again.picture(frame).pixels, first)


def test_pictures_that_agents_see_are_shown_as_they_are() -> None:
    shown = np.arange(60, dtype=np.uint8).reshape(3, 4, 5)
    for spec, frame, kind, pixels in (
        (picture_spec(4, 5), shown[0], Kind.GREY, shown[0]),
        (picture_spec(1, 4, 5), shown[:1], Kind.GREY, shown[0]),
        (picture_spec(3, 4, 5), shown, Kind.RGB, shown.transpose(1, 2, 0)),
        (picture_spec(2, 4, 5), shown[:2], Kind.GREY, shown[1]),
    ):
        picture = pictures.of_frame(spec.layout, frame)
        assert picture is not None
        assert picture.kind == kind
        assert np.array_equal(picture.pixels, pixels)
    assert pictures.of_frame(vector_spec(3).layout, np.zeros(3, np.float32)) is None
    spec = mixed_spec()
    frame = mixed_frames(spec, 1)[0]
    picture = pictures.of_frame(spec.layout, frame)
    assert picture is not None
    assert np.array_equal(picture.pixels, spec.layout.views(frame)[1].transpose(1, 2, 0))


def test_other_environments_are_rendered_where_that_costs_nothing() -> None:
    environment, frame = make("CartPole-v1")
    picture = environment.picture(frame)
    assert (picture.kind, picture.pixels.shape) == (Kind.RGB, (400, 600, 3))
    assert make("CartPole-v1", "off")[0].picture(frame) is None
    assert make("CartPole-v1", "off", render_mode="rgb_array")[0].picture(frame) is None
    assert make("CartPole-v1", "auto", render_mode="rgb_array")[0].picture(frame) is not None
    assert make("toys:Countdown-v0", "auto")[0].picture(frame) is None
    assert make("toys:Countdown-v0", "on")[0].picture(frame) is None, "it does not take a render_mode"
    drawn, frame = make("toys:Drawn-v0", "on")
    assert drawn.picture(frame).pixels.tolist() == [[[1, 2, 3]]]
    assert make("toys:Drawn-v0", "auto")[0].picture(frame) is None


def test_an_environment_that_may_render_plays_as_one_that_may_not() -> None:
    """Also while it is drawn."""
    for env_id in ("CartPole-v1", "Acrobot-v1", "MountainCar-v0", "LunarLander-v3"):
        if not is_there(env_id):
            continue
        (one, seen), (other, drawn) = make(env_id, "off"), make(env_id, "auto")
        random = np.random.default_rng(2)
        for step in range(200):
            assert np.array_equal(seen, drawn)
            if step % 20 == 0:
                assert other.picture(drawn) is not None
            action = np.int64(random.integers(2))
            results = one.step(action, seen), other.step(action, drawn)
            assert results[0] == results[1]
            if results[0].terminated or results[0].truncated:
                one.reset(seen)
                other.reset(drawn)


def is_there(env_id: str) -> bool:
    try:
        gymnasium.make(env_id).close()
    except gymnasium.error.DependencyNotInstalled:
        return False
    return True


@pytest.mark.parametrize("env_id", ["CartPole-v1", "LunarLander-v3", "Blackjack-v1"])
def test_nothing_that_draws_is_imported_before_the_first_drawing(env_id: str) -> None:
    """And what it steps is the same environment, without a wrapper or a branch more."""
    if not is_there(env_id):
        pytest.skip("it needs another package")
    program = f"""
import sys
import numpy as np
from ga3c import envs
from ga3c.config import EnvConfig
made = [envs.make("{env_id}", EnvConfig(), False, 1, gallery=gallery) for gallery in ("off", "auto")]
for environment in made:
    observation, _ = environment._env.reset(seed=1)
    for _ in range(50):
        _, _, terminated, truncated, _ = environment._env.step(environment._env.action_space.sample())
        if terminated or truncated:
            environment._env.reset()
layers = []
for environment in made:
    layer, names = environment._env, []
    while hasattr(layer, "env"):
        names.append(type(layer).__name__)
        layer = layer.env
    layers.append([*names, type(layer).__name__])
assert layers[0] == layers[1], layers
assert [environment._env.unwrapped.render_mode for environment in made] == [None, None]
assert "{env_id}" == "LunarLander-v3" or "pygame" not in sys.modules  # its package imports it for another game
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=50)


# -- agent processes --------------------------------------------------------------------------------------------------


def test_agent_processes_draw_while_somebody_looks(tmp_path: Any, wait_until: Callable[..., None]) -> None:
    spec = envs.describe("CartPole-v1", EnvConfig(), raw_screens=False)
    pool = AgentPool(
        spec, EnvConfig(), agents=4, workers=2, max_agents=64, seed=0, log_folder=tmp_path, gallery=True,
        renders="auto",
    )  # fmt: skip
    memory = pool.gallery
    assert memory is not None
    gallery, stop = memory.gallery, threading.Event()
    assert gallery.agents == [0, 1, 2, 3]

    def answer() -> None:
        while not stop.is_set():
            if pool.queue.wait(0.1):
                requests = pool.queue.take() or []
                pool.queue.done(requests)
                pool.reply(requests)

    try:
        pool.start()
        thread = threading.Thread(target=answer)
        thread.start()
        wait_until(lambda: (pool.slots.asked[:4] > 20).all())
        assert [gallery._words[place][0][0] for place in range(4)] == [0] * 4, "nobody looks"
        memory.look(pictures=True)
        wait_until(lambda: all(gallery._words[place][0][0] > 2 for place in range(4)))
        wait_until(lambda: (gallery.lengths > 0).all())  # while somebody looks: an episode may just have begun
        memory.look_away(pictures=True)
    finally:
        stop.set()
        thread.join(20)
        pool.stop(5.0)
    with pytest.raises(OSError, match="the agents have ended"):
        memory.open_to_read()
