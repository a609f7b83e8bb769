"""A run that is steered while it trains, through its socket and by a program, and what holds after a resume."""

import contextlib
import dataclasses
import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ga3c.agents.gallery import Gallery
from ga3c.config import RunConfig
from ga3c.engine.ga3c import Ga3c
from ga3c.envs.pictures import Kind
from ga3c.metrics.sinks.csv import read_metrics
from ga3c.metrics.sinks.events import read_events
from ga3c.metrics.sinks.status import read_status
from ga3c.run import checkpoint, commands, session, settings
from ga3c.run.commands import CommandQueue, Outcome, Pause, SetRates
from ga3c.run.control_client import NAME, Control, Refused, Unreachable
from ga3c.run.session import Run
from ga3c.run.steered import Steered
from ga3c.tune.tuner import Setting

pytestmark = pytest.mark.timeout(120)
WaitUntil = Callable[..., None]


def begin(path: Path, *, run: RunConfig | None = None, **engine: Any) -> Run:
    config = settings.preset_config("CartPole-v1", "fast", "cpu")
    chosen = {"device": "cpu", "agents": 4, "workers": 1, "predictors": 2, "trainers": 2} | engine
    changed = dataclasses.replace(config.engine, **chosen)
    run = run or RunConfig(steps=10**9, checkpoint_seconds=600.0, log="csv")
    return session.begin(dataclasses.replace(config, engine=changed, run=run), path)


@contextlib.contextmanager
def training(run: Run) -> Iterator[Run]:
    """The run trains within the block, in a thread."""
    errors: list[BaseException] = []

    def train() -> None:
        try:
            run.train()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=train)
    thread.start()
    try:
        yield run
    finally:
        run.stop()
        thread.join(60)
    assert not thread.is_alive()
    assert not errors, errors


def wait_for_steps(run: Run, wait_until: WaitUntil, more: int = 100) -> None:
    target = run.steps + more
    wait_until(lambda: run.reason or run.steps >= target)
    assert not run.reason


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A run that trains through many tests, each of which leaves it as it was."""
    with training(begin(tmp_path_factory.mktemp("live") / "run")) as run:
        while run.steps < 50:
            assert not run.reason
            time.sleep(0.01)
        yield run


@pytest.fixture
def control(live: Run) -> Iterator[Control]:
    with Control.connect(live.folder) as control:
        yield control


def commands_of(run: Run) -> list[dict[str, Any]]:
    events = read_events(run.folder / "events.jsonl")
    return [event["details"] for event in events if event["kind"] == "command"]


# -- what is asked and answered ---------------------------------------------------------------------------------------


def test_hello_says_what_runs_and_what_can_be_set(live: Run, control: Control) -> None:
    state = control.ask("hello")
    assert state["env"] == "CartPole-v1"
    assert state["setting"] == {"agents": 4, "predictors": 2, "trainers": 2}
    assert state["space"] == {"agents": [1, 2, 3, 4], "predictors": [1, 2], "trainers": [1, 2]}
    assert (state["paused"], state["tuning"], state["profile"]) == (False, False, 0.0)
    assert state["held"] == {"learning_rate": None, "entropy_weight": None}
    assert 0 < state["rates"]["learning_rate"] <= live.config.learn.learning_rate
    assert state["gallery"]["places"] == 4


def test_numbers_and_rates_are_set_and_released(live: Run, control: Control, wait_until: WaitUntil) -> None:
    system = live.server.system
    assert isinstance(system, Ga3c)
    answer = control.ask("set", trainers=1, agents=2, learning_rate=1e-5)
    assert answer["text"] == "Done: the run has 2 agents and 1 trainer now and the learning rate is held at 1e-05."
    assert system.setting == Setting(2, 2, 1)
    assert system.rates.held == {"learning_rate": 1e-5, "entropy_weight": None}
    control.ask("set", entropy_weight=0.5)
    assert system.rates() == (1e-5, 0.5)
    control.ask("set", learning_rate="schedule")
    assert system.rates.held == {"learning_rate": None, "entropy_weight": 0.5}
    control.ask("set", agents=4, trainers=2, schedule=True)
    assert system.rates.held == {"learning_rate": None, "entropy_weight": None}
    assert system.setting == Setting(4, 2, 2)
    told = commands_of(live)
    assert {"command": "SetNumbers", "agents": 2, "trainers": 1} in told
    assert {"command": "SetRates", "learning_rate": 1e-5} in told
    assert {"command": "ReleaseRates", "names": ["learning_rate", "entropy_weight"]} in told


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"agents": 5}, "agents is 5, but this run has room for 1 to 4; start it with more."),
        ({"agents": "x"}, "agents is x, but must be a whole number."),
        ({"agents": True}, "agents is True, but must be a whole number."),
        ({"agents": 1.5}, "agents is 1.5, but must be a whole number."),
        ({"trainers": None}, "trainers is None, but must be a whole number."),
        ({"learning_rate": -1}, "learning_rate is -1, but must be 0 or more."),
        ({"learning_rate": [1]}, "learning_rate is [1], but must be a number."),
        ({"learning_rate": 10**400}, "learning_rate is too large."),
        ({"learning_rate": 1, "schedule": True}, "either held or follows its schedule"),
        ({"schedule": 1}, "schedule is 1, but must be true."),
        ({"tuning": "maybe"}, "tuning is 'maybe', but must be on or off."),
        ({"workers": 1}, "There is no 'workers' to set; there are agents, predictors,"),
        ({}, "There is nothing to set;"),
        ({"agents": 2, "entropy_weight": -1}, "entropy_weight is -1, but must be 0 or more."),
    ],
)
def test_what_cannot_be_set_changes_nothing(live: Run, control: Control, asked: Any, said: str) -> None:
    before = live.server.system.setting, live.server.system.rates.held  # type: ignore[attr-defined]
    with pytest.raises(Refused) as caught:
        control.ask("set", **asked)
    assert said in str(caught.value)
    assert (live.server.system.setting, live.server.system.rates.held) == before  # type: ignore[attr-defined]


def test_other_requests_are_refused_in_a_sentence(live: Run, control: Control) -> None:
    for do, asked, said in (
        ("dance", {}, "There is no request 'dance'; there are hello, set, pause,"),
        ("pause", {"seconds": 5}, "pause takes no arguments, but got seconds."),
        ("trace", {}, "this run keeps no trace; start one with --profile SECONDS."),
        ("look", {}, "look takes the number of an agent."),
        ("look", {"agent": "1"}, "look takes the number of an agent."),
        ("look", {"agent": 4}, "There is no agent 4; this run has agents 0 to 3."),
    ):
        with pytest.raises(Refused) as caught:
            control.ask(do, **asked)
        assert said in str(caught.value), do
    assert not live.paused


def test_a_checkpoint_is_written_before_the_answer(live: Run, control: Control) -> None:
    steps = control.ask("checkpoint")["steps"]
    assert checkpoint.load(live.run_folder.last_checkpoint()).counters.steps == steps


def test_followers_hear_figures_events_and_changes_of_state(live: Run, control: Control) -> None:
    with Control.connect(live.folder) as follower:
        messages = follower.follow()
        kinds: list[str] = []
        control.ask("set", learning_rate=2e-5)
        control.ask("set", schedule=True)
        while not {"snapshot", "event", "state"} <= set(kinds) or kinds.count("state") < 2:
            message = next(messages)
            kinds += [kind for kind in ("snapshot", "event", "state") if kind in message]
            if "event" in message:
                assert set(message["event"]) == {"time", "seconds", "steps", "kind", "text", "details"}
            if "snapshot" in message:
                assert message["snapshot"]["agents"] == 4
                assert {"bottleneck", "stage"} < set(message)
    held = [state for state in kinds if state == "state"]
    assert len(held) == 2


def test_a_program_changes_the_run_too(live: Run, wait_until: WaitUntil) -> None:
    live.set(learning_rate=3e-5, agents=3)
    wait_until(lambda: live.server.system.setting.agents == 3)  # type: ignore[attr-defined]
    live.pause()
    wait_until(lambda: live.paused)
    live.resume()
    wait_until(lambda: not live.paused)
    live.set(agents=4, learning_rate="schedule")
    wait_until(lambda: live.server.system.rates.held["learning_rate"] is None)


# -- pauses -----------------------------------------------------------------------------------------------------------


def test_a_pause_rests_everything_and_is_no_training_time(live: Run, control: Control, wait_until: WaitUntil) -> None:
    answer = control.ask("pause")
    assert answer["text"] == "Done: the run is paused."
    status = read_status(live.folder / "status.json")
    assert status is not None
    assert (status["state"], status["steps"]) == ("paused", live.steps)
    stats = live.server.stats
    before = stats.steps, stats.updates, stats.seconds
    rows = len(read_metrics(live.folder))
    time.sleep(1.5)
    assert (stats.steps, stats.updates, stats.seconds) == before
    assert len(read_metrics(live.folder)) == rows, "there is nothing to record"
    later = read_status(live.folder / "status.json")
    assert later is not None
    assert later["updated"] > status["updated"], "one sees that it lives"
    assert control.ask("hello")["paused"] is True
    assert control.ask("pause")["ok"], "again"
    assert control.ask("checkpoint")["steps"] == before[0]
    assert control.ask("set", learning_rate=1e-5)["ok"]
    resumed = time.monotonic()
    assert control.ask("resume")["text"] == "Done: the run goes on."
    wait_for_steps(live, wait_until)
    assert stats.seconds - before[2] <= time.monotonic() - resumed + 0.1
    control.ask("set", schedule=True)
    control.ask("resume")
    seconds = [row["seconds"] for row in read_metrics(live.folder)]
    assert seconds == sorted(seconds)
    wait_until(lambda: (read_status(live.folder / "status.json") or {})["state"] == "running")


def test_a_paused_run_neither_completes_nor_hangs(tmp_path: Path, wait_until: WaitUntil) -> None:
    run = begin(tmp_path / "run", run=RunConfig(minutes=1.5 / 60.0, log="csv"), step_timeout=0.5)
    began = time.monotonic()
    with training(run):
        wait_for_steps(run, wait_until, 20)
        with Control.connect(run.folder) as control:
            control.ask("pause")
            paused = time.monotonic()
            time.sleep(1.8)
            assert run.reason == ""
            paused = time.monotonic() - paused
            with contextlib.suppress(Unreachable):  # it may be complete by the time of the answer
                control.ask("resume")
        wait_until(lambda: run.reason)
    took = time.monotonic() - began
    assert run.complete, run.reason
    warnings = [event for event in read_events(run.folder / "events.jsonl") if event["kind"] in ("warning", "restart")]
    assert warnings == []
    assert 1.5 <= read_metrics(run.folder)[-1]["seconds"] <= took - paused


def test_a_run_that_is_stopped_in_a_pause_ends_in_order(tmp_path: Path, wait_until: WaitUntil) -> None:
    run = begin(tmp_path / "run", trainers=1, predictors=1)
    with training(run):
        wait_for_steps(run, wait_until)
        with Control.connect(run.folder) as control:
            control.ask("pause")
            messages = control.follow()
            assert control.ask("stop")["text"] == "Done: the run ends."
            kinds = [message["event"]["kind"] for message in messages if "event" in message]
        assert kinds[-1] == "stop", "those who follow hear how it ended"
    assert run.reason == "Stopped by a command."
    assert checkpoint.load(run.run_folder.last_checkpoint()).counters.steps == run.steps
    status = read_status(run.folder / "status.json")
    assert status is not None
    assert status["state"] == "stopped"
    assert not (run.folder / NAME).exists()
    with pytest.raises(Unreachable):
        Control.connect(run.folder)


def test_the_learners_of_a3c_are_paused_too(tmp_path: Path, wait_until: WaitUntil) -> None:
    config = settings.preset_config("CartPole-v1", "fast", "cpu", "a3c-threads")
    engine = dataclasses.replace(config.engine, agents=2)
    config = dataclasses.replace(config, engine=engine, run=RunConfig(steps=10**9, log="csv"))
    with training(session.begin(config, tmp_path / "run")) as run:
        wait_for_steps(run, wait_until)
        with Control.connect(run.folder) as control:
            state = control.ask("hello")
            assert state["setting"] == {"agents": 2, "predictors": 2, "trainers": 2}
            assert (state["space"], state["gallery"]) == (None, None)
            control.ask("pause")
            wait_until(lambda: run.server.system.rests)
            before = run.server.system.model.version
            time.sleep(0.2)
            assert run.server.system.model.version == before
            assert not run.server.system.find_silent(0.0)
            control.ask("resume")
            wait_until(lambda: run.server.system.model.version > before)
            control.ask("set", learning_rate=1e-5)
            for do, asked, said in (
                ("set", {"agents": 1}, "The numbers of agents and threads of --system a3c-threads are fixed."),
                ("set", {"tuning": "on"}, "the numbers of --system a3c-threads are fixed."),
                ("look", {"agent": 0}, "The agents of --system a3c-threads cannot be looked into"),
                ("gallery", {}, "The agents of this run do not draw"),
            ):
                with pytest.raises(Refused, match=said):
                    control.ask(do, **asked)


# -- looking ----------------------------------------------------------------------------------------------------------


def test_agents_draw_while_somebody_looks(live: Run, control: Control, wait_until: WaitUntil) -> None:
    memory = live.server.system.gallery
    assert memory is not None
    own = memory.gallery
    assert int(own.lookers[0]) == 0
    gallery = Gallery.attach(control.gallery())
    assert control.ask("gallery")["ok"], "again"
    assert (int(gallery.lookers[0]), int(gallery.wanted[0])) == (1, 1)
    kinds: dict[int, int] = {}

    def look() -> bool:
        found = {place: gallery.read(place) for place in range(4)}
        kinds.update({place: seen.picture.kind for place, seen in found.items() if seen is not None})
        return list(kinds.values()) == 4 * [Kind.RGB]

    wait_until(look)
    seen = next(filter(None, (gallery.read(2) for _ in range(10**6))))
    assert seen.agent == gallery.agents[2]
    assert seen.picture.pixels.shape == (200, 300, 3)
    assert len(np.unique(seen.picture.pixels)) > 2, "there is something on it"
    assert seen.score == seen.length >= 0
    with pytest.raises(ValueError, match="read-only"):
        gallery.lookers[0] = 5
    control.close()
    wait_until(lambda: int(own.lookers[0]) == 0)
    wait_for_steps(live, wait_until)  # a drawing may be under way
    sequences = [own.read(place).sequence for place in range(4)]  # type: ignore[union-attr]
    wait_for_steps(live, wait_until, 300)
    assert [own.read(place).sequence for place in range(4)] == sequences  # type: ignore[union-attr]


def test_one_looks_at_an_agent(live: Run, control: Control, wait_until: WaitUntil) -> None:
    memory = live.server.system.gallery
    assert memory is not None
    looks = control.follow("look", agent=1)
    assert (int(memory.gallery.lookers[0]), int(memory.gallery.wanted[0])) == (1, 0)
    began = time.monotonic()
    seen = [next(looks)["look"] for _ in range(4)]
    assert time.monotonic() - began >= 0.5, "at most five a second"
    for look in seen:
        assert look["agent"] == 1
        assert look["actions"] == [0, 1]
        assert sum(look["probabilities"]) == pytest.approx(1.0, abs=1e-4)
        assert (look["mean"], look["deviation"]) == (None, None)
        assert math.isfinite(look["value"])
        assert (look["frames"]["shape"], look["frames"]["dtype"]) == ([4], "float32")
    assert len({look["step"] for look in seen}) > 1
    control.ask("look", agent=2)
    while next(looks)["look"]["agent"] != 2:
        pass
    control.close()
    wait_until(lambda: int(memory.gallery.lookers[0]) == 0)


# -- after a resume ---------------------------------------------------------------------------------------------------


def test_steering_survives_a_resume(tmp_path: Path, wait_until: WaitUntil) -> None:
    run = begin(tmp_path / "run", tune="on")
    with training(run):
        wait_for_steps(run, wait_until)
        with Control.connect(run.folder) as control:
            assert control.ask("hello")["tuning"]
            control.ask("set", agents=3, predictors=1, trainers=1, learning_rate=2e-5)
            steered = lambda: checkpoint.load(run.run_folder.last_checkpoint()).steered  # noqa: E731
            wait_until(lambda: steered() is not None)
    found = steered()
    held = {"learning_rate": 2e-5, "entropy_weight": None}
    assert found == Steered(Setting(3, 1, 1), held, tuning=False)  # type: ignore[arg-type]
    again = session.go_on(run.folder, minutes=1.0)
    with training(again):
        wait_for_steps(again, wait_until)
        with Control.connect(again.folder) as control:
            state = control.ask("hello")
            assert state["setting"] == {"agents": 3, "predictors": 1, "trainers": 1}
            assert (state["tuning"], state["paused"]) == (False, False)
            assert state["held"] == held
            control.ask("set", tuning="on", schedule=True)
            assert control.ask("hello")["tuning"] is True
    told = [event["text"] for event in read_events(run.folder / "events.jsonl")]
    assert any(
        text.endswith("goes on with 3 agents, 1 predictor, 1 trainer, learning rate 2e-05, tuning off.")
        for text in told
    )
    assert not any("The learning rate goes from" in text for text in told), "a held rate has no schedule"
    last = session.go_on(run.folder, minutes=2.0)
    assert last.server.steering.tunes
    assert last.server.system.setting == Setting(3, 1, 1)  # type: ignore[attr-defined]
    assert last.server.system.rates.held == {"learning_rate": None, "entropy_weight": None}
    last.run_folder.unlock()
    last.server.system.stop(0.0)


def test_tuning_begins_and_ends(tmp_path: Path, wait_until: WaitUntil) -> None:
    run = begin(tmp_path / "run", run=RunConfig(steps=10**9, log="csv"))
    system = run.server.system
    with training(run):
        wait_for_steps(run, wait_until)
        with Control.connect(run.folder) as control:
            assert control.ask("set", trainers=1, tuning="on")["text"].endswith("and the run tunes its numbers.")
            tuning = run.server.steering.tuning
            assert tuning is not None
            assert tuning.accepted == Setting(4, 2, 1)
            control.ask("set", tuning="on")
            assert run.server.steering.tuning is tuning
            system.set(Setting(1, 1, 1))  # type: ignore[attr-defined]
            control.ask("set", tuning="off")
            assert run.server.steering.tuning is None
            assert system.setting == Setting(4, 2, 1), "the accepted setting is kept"  # type: ignore[attr-defined]


def test_a_run_without_room_has_nothing_to_tune(tmp_path: Path) -> None:
    run = begin(tmp_path / "run", agents=1, predictors=1, trainers=1)
    with pytest.raises(ValueError, match="room for one setting only"):
        run.server.steering.set_tuning(True)
    run.run_folder.unlock()
    run.server.system.stop(0.0)


def test_a_run_goes_on_where_there_can_be_no_socket(tmp_path: Path) -> None:
    run = begin(tmp_path / "run", run=RunConfig(steps=50, log="csv"))
    (run.folder / NAME).mkdir()
    run.train()
    assert run.complete
    told = [event["text"] for event in read_events(run.folder / "events.jsonl") if event["kind"] == "note"]
    assert [text for text in told if text.endswith("takes no control socket (Address already in use).")]
    assert (run.folder / NAME).is_dir()


# -- what a checkpoint keeps ------------------------------------------------------------------------------------------

STEERED = Steered(Setting(3, 1, 2), {"learning_rate": 1e-4, "entropy_weight": None}, tuning=True)


@pytest.mark.parametrize("steered", [STEERED, Steered(None, {"learning_rate": None, "entropy_weight": 0.0}, False)])
def test_what_was_steered_is_read_as_it_was_written(steered: Steered) -> None:
    assert Steered.from_json(steered.to_json()) == steered


@pytest.mark.parametrize(
    "change",
    [
        {"agents": 0}, {"agents": "3"}, {"agents": True}, {"agents": None}, {"agents": 10**9}, {"learning_rate": -1},
        {"learning_rate": "x"}, {"entropy_weight": 1e999}, {"tuning": 1}, {"tuning": None}, {"more": 1},
    ],
)  # fmt: skip
def test_other_values_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"steered|tuning"):
        Steered.from_json(json.dumps({**json.loads(STEERED.to_json()), **change}))


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", "1"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        Steered.from_json(text)


# -- the queue of commands --------------------------------------------------------------------------------------------


def test_commands_that_come_too_late_are_answered() -> None:
    queue, answers = CommandQueue(), list[Outcome]()
    queue.put(Pause(), done=answers.append)
    assert answers == []
    queue.close()
    queue.put(Pause(), done=answers.append)
    assert [(answer.ok, answer.text) for answer in answers] == 2 * [(False, "The run is ending.")]
    assert queue.take() == []


def test_commands_are_told_in_words() -> None:
    assert str(commands.SetNumbers(4, 1, 2)) == "the run has 4 agents, 1 predictor and 2 trainers now"
    assert str(SetRates(1e-4, 0.5)) == "the learning rate is held at 0.0001 and the entropy weight is held at 0.5"
    assert commands.details(commands.SetTuning(False)) == {"tuning": False}
