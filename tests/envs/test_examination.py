"""Environments are made in another process: whatever they do there, this process goes on with a sentence."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import ga3c
from ga3c import envs
from ga3c.config import EnvConfig
from ga3c.envs import child, examination, own
from ga3c.envs.description import Description
from ga3c.envs.spec import ActionSpec
from ga3c.errors import UserError
from ga3c.metrics.sinks.events import read_events

CONFIG = EnvConfig()
MODULE = '''
import ctypes, os, signal, subprocess, sys, threading, time
from pathlib import Path
import gymnasium, numpy as np
from gymnasium import spaces

Path(__file__).with_suffix(".imports").open("a").write(f"{os.getpid()}\\n")


class Good(gymnasium.Env):
    observation_space = spaces.Box(0.0, 1.0, (3,))
    action_space = spaces.Discrete(2, start=5)
    metadata = {"render_fps": 7}

    def __init__(self, size=3):
        self.observation_space = spaces.Box(0.0, 1.0, (size,))

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 1.0, False, False, {}


class CloseHangs(Good):
    def close(self):
        time.sleep(3600)


class CloseRaises(Good):
    def close(self):
        raise RuntimeError("the door is stuck")


class StepHangs(Good):
    def step(self, action):
        threading.Event().wait()


class ConstructorHangs(Good):
    def __init__(self):
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        time.sleep(3600)


class Crashes(Good):
    def reset(self, *, seed=None, options=None):
        ctypes.string_at(0)


class Exits(Good):
    def __init__(self):
        os._exit(3)


class SysExits(Good):
    def __init__(self):
        sys.exit("enough")


class Raises(Good):
    def step(self, action):
        raise KeyError("no such room")


class Prints(Good):
    def step(self, action):
        print('{"error": "not this"}\\n' * 20000, flush=True)
        os.write(2, b"x" * 200000)
        return super().step(action)


class Litters(Good):
    """Blocks signals, and leaves a thread, a timer and a program behind. Its observations are bytes."""

    def __init__(self):
        self.observation_space = spaces.Box(0, 255, (3,), np.uint8)
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        signal.setitimer(signal.ITIMER_REAL, 3600)
        threading.Thread(target=time.sleep, args=(3600,)).start()
        child = subprocess.Popen(["sleep", "3600"])
        Path(__file__).with_suffix(".child").write_text(str(child.pid))


for name in ("Good", "Crashes"):
    gymnasium.register(f"Examined{name}-v0", globals()[name])
'''


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("examined") / "examined_env.py"
    path.write_text(MODULE)
    return path


@pytest.fixture(autouse=True)
def _anew(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module can be imported, and nothing was examined before."""
    monkeypatch.syspath_prepend(str(module.parent))
    monkeypatch.setattr(examination, "_examined", {})


def describe(name: str, **args: Any) -> envs.EnvSpec:
    return envs.describe(f"examined_env:{name}", CONFIG, raw_screens=False, env_args=args)


def test_an_environment_is_described_without_its_module_being_imported_here(module: Path) -> None:
    for env_id in ("examined_env:Good", "examined_env:ExaminedGood-v0"):
        spec = envs.describe(env_id, CONFIG, raw_screens=False)
        assert (spec.id, spec.source, spec.frame_shape, spec.frame_rate) == (env_id, "gym", (3,), 7.0)
        assert (spec.action, spec.notes, spec.time_limit) == (ActionSpec.discrete(2, start=5), (), None)
    assert "examined_env" not in sys.modules
    assert not envs.is_atari("examined_env:Good")


def test_an_environment_is_made_once_for_its_arguments_and_again_when_its_module_changes(module: Path) -> None:
    imports = module.with_suffix(".imports")
    imports.write_text("")
    for _ in range(3):
        assert describe("Good").frame_shape == (3,)
        packer = envs.packer("examined_env:Good")
        assert packer.shape == (3,)
        assert not envs.is_atari("examined_env:Good")
    assert len(imports.read_text().split()) == 1
    assert describe("Good", size=4).frame_shape == (4,)
    assert len(imports.read_text().split()) == 2
    os.utime(module, (1, 1))
    assert describe("Good").frame_shape == (3,)
    assert len(imports.read_text().split()) == 3


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Crashes", r"ended its process in reset \(SIGSEGV, .*examined_env.py, line \d+, in reset\)"),
        ("Exits", r"ended its process in its constructor \(exit code 3\)"),
        ("SysExits", r"sys.exit\(enough\) \(.*examined_env.py, line \d+, in __init__\)"),
        ("Raises", r"failed in step: KeyError: 'no such room' \(.*examined_env.py, line \d+, in step\)"),
        ("Nothing", "No environment is called 'examined_env:Nothing'"),
        ("Good", "got an unexpected keyword argument 'speed'"),
    ],
)
def test_an_environment_that_fails_becomes_a_sentence(name: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        describe(name, **({"speed": 3} if name == "Good" else {}))


@pytest.mark.parametrize(
    ("name", "phase", "says"),
    [
        ("StepHangs", "try", r"did not return from step within 0.2 s \(.*examined_env.py, line \d+, in step\)"),
        ("ConstructorHangs", "make", "did not return from (its constructor|the import) within 0.2 s"),
    ],
)
def test_an_environment_that_hangs_becomes_a_sentence(
    name: str, phase: Any, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examination, "LIMITS", examination.LIMITS | {phase: 0.2})
    # One that blocks signals never shows its line; the other does as soon as it can.
    monkeypatch.setattr(child, "_PATIENCE_SECONDS", 0.1 if phase == "make" else 20.0)
    with pytest.raises(UserError, match=says):
        describe(name)


def test_a_close_that_hangs_or_raises_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "LIMITS", examination.LIMITS | {"close": 0.2})
    (note,) = describe("CloseHangs").notes
    assert note.startswith("examined_env:CloseHangs did not return from close within 0.2 s (")
    (note,) = describe("CloseRaises").notes
    assert note.startswith("examined_env:CloseRaises: close failed: RuntimeError: the door is stuck (")


def test_what_an_environment_prints_or_leaves_behind_does_not_matter(
    module: Path, wait_until: Callable[..., None]
) -> None:
    threads = threading.active_count()
    for name in ("Prints", "Litters"):
        assert describe(name).frame_shape == (3,)
    assert threading.active_count() == threads
    left = int(module.with_suffix(".child").read_text())
    wait_until(lambda: not _runs(left))


def test_a_run_does_not_touch_the_environment_in_the_server_and_tells_what_is_doubtful(tmp_path: Path) -> None:
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    run = ga3c.train(
        "examined_env:Litters", steps=100, agents=2, workers=1, ui="none", device="cpu", out=tmp_path / "run"
    )
    assert run.complete
    assert "examined_env" not in sys.modules
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == mask
    notes = [event["text"] for event in read_events(run.folder / "events.jsonl") if event["kind"] == "note"]
    says = "its observations are bytes of the shape [3], which is no picture, so its 3 numbers go to an MLP."
    assert notes == [f"examined_env:Litters: {says}"]


def _runs(pid: int) -> bool:
    """A killed process may be a zombie for a while, where nothing collects it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_no_descriptor_and_no_process_stays() -> None:
    def held() -> tuple[int, set[str]]:
        tasks = Path("/proc/self/task").glob("*/children")
        return len(os.listdir("/proc/self/fd")), {pid for task in tasks for pid in task.read_text().split()}

    describe("Good")
    before = held()
    for name in ("Exits", "Raises"):
        with pytest.raises(UserError):
            describe(name)
    assert held() == before


def test_an_import_that_fails_is_told_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "examined_bad.py").write_text("import examined_missing_package\n")
    (tmp_path / "examined_exits.py").write_text("import os\nos._exit(9)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for env_id, says in {
        "examined_nowhere:X": "No module named 'examined_nowhere' can be imported here, .* `cd` to .*PYTHONPATH",
        "examined_bad:X": r"importing 'examined_bad' failed: ModuleNotFoundError: No module named 'examined_missing_pa",
        "examined_exits:X": r"ended its process in the import \(exit code 9\)",
    }.items():
        with pytest.raises(UserError, match=says):
            envs.describe(env_id, CONFIG, raw_screens=False)


class Local(gymnasium.Env[Any, Any]):
    """Has every kind of space."""

    observation_space = spaces.Dict(
        {
            "z": spaces.Box(np.array([0.0, -1.0], np.float32), np.array([1.0, np.inf], np.float32)),
            "a": spaces.Tuple((spaces.Discrete(3, start=-1), spaces.MultiBinary([2, 2]))),
            "m": spaces.MultiDiscrete([3, 2], start=[1, 0]),
            "b": spaces.Box(0, 255, (2, 3), np.uint8),
        }
    )
    action_space = spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.observation_space.sample(), 1.0, False, False, {}


def test_spaces_travel_as_they_are() -> None:
    for space in (Local.observation_space, spaces.Box(0, 255, (84, 84, 3), np.uint8), spaces.Box(-1, 1, ())):
        told = Description(
            observation_space=space, action_space=spaces.Discrete(4, start=2), frame_rate=30.0, notes=("a",)
        )
        again = Description.from_json(told.to_json())
        assert again == told
        sample = space.sample()
        assert np.array_equal(spaces.flatten(again.observation_space, sample), spaces.flatten(space, sample))


def test_a_class_and_an_id_that_only_this_process_knows_are_sent_along() -> None:
    def make() -> gymnasium.Env[Any, Any]:
        return gymnasium.make("CartPole-v1").unwrapped

    assert envs.describe(own.identify(make), CONFIG, raw_screens=False).frame_shape == (4,)
    gymnasium.register("ExaminedText-v0", "examined_env:Good", kwargs={"size": 6})
    assert envs.describe("ExaminedText-v0", CONFIG, raw_screens=False).frame_shape == (6,)
    del gymnasium.registry["ExaminedText-v0"]
    entry_point: Any = make
    gymnasium.register("ExaminedHere-v0", entry_point, max_episode_steps=9)
    try:
        assert envs.describe("ExaminedHere-v0", CONFIG, raw_screens=False).frame_shape == (4,)
        text = own.pickled("ExaminedHere-v0")
        del gymnasium.registry["ExaminedHere-v0"]
        own.receive(text)
        env, out = envs.make("ExaminedHere-v0", CONFIG, False, seed=1), np.zeros(4, np.float32)
        env.reset(out)
        assert any(env.step(step % 2, out).truncated for step in range(9)), "with its time limit"
    finally:
        gymnasium.registry.pop("ExaminedHere-v0", None)
    assert own.pickled("CartPole-v1") == ""


def test_an_atari_game_behind_a_module_is_played_on_the_emulator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "examined_atari.py").write_text("import ale_py\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    spec = envs.describe("examined_atari:ALE/Pong-v5", CONFIG, raw_screens=False)
    assert (spec.source, spec.action.num, spec.frame_shape) == ("atari", 6, (84, 84))
    assert envs.is_atari("examined_atari:ALE/Pong-v5")
    assert envs.packer("examined_atari:ALE/Pong-v5").shape == (84, 84)


SERVER = """
import sys
from ga3c import envs
from ga3c.config import EnvConfig
envs.describe("examined_env:StepHangs", EnvConfig(), raw_screens=False)
"""


def test_the_process_ends_with_the_server(module: Path, wait_until: Callable[..., None]) -> None:
    path = os.pathsep.join([str(module.parent), *(entry or os.getcwd() for entry in sys.path)])
    imports = module.with_suffix(".imports")
    imports.write_text("")
    with subprocess.Popen([sys.executable, "-c", SERVER], env=os.environ | {"PYTHONPATH": path}) as server:
        wait_until(lambda: imports.read_text().endswith("\n"))
        server.kill()
    child = int(imports.read_text())
    assert child != server.pid
    wait_until(lambda: not _runs(child))
