"""The memory that agents and predictors share: who sits where, and that nothing of it is left over."""

import gc
import mmap
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ga3c.agents.slots import SharedMemory, SlotPlan, Slots, arrange
from ga3c.errors import UserError
from ga3c.machine import memory


@pytest.mark.parametrize(("agents", "workers"), [(1, 1), (2, 1), (5, 2), (7, 7), (16, 3), (240, 15)])
def test_every_agent_sits_in_one_group(agents: int, workers: int) -> None:
    groups = arrange(agents, workers)
    assert [index for group in groups for index in range(group.start, group.stop)] == list(range(agents))
    assert [group.number for group in groups] == list(range(len(groups)))
    shares = []
    for worker in range(workers):
        sizes = [group.size for group in groups if group.worker == worker]
        shares.append(sum(sizes))
        assert len(sizes) == min(2, sum(sizes))
        assert max(sizes) - min(sizes) <= 1
    assert max(shares) - min(shares) <= 1


@pytest.mark.parametrize("action", [((), "int64"), ((700,), "float32")])
@pytest.mark.parametrize(("shape", "dtype"), [((2, 210, 160), "uint8"), ((3,), "float32")])
def test_processes_that_map_the_memory_see_the_same_arrays(
    shape: tuple[int, ...], dtype: str, action: tuple[tuple[int, ...], str]
) -> None:
    plan = SlotPlan(
        agents=5, workers=2, frame_shape=shape, frame_dtype=dtype, action_shape=action[0], action_dtype=action[1]
    )
    memory = SharedMemory(plan.size)
    ours, theirs = Slots(memory.buffer, plan), Slots(mmap.mmap(memory.fd, 0), plan)
    assert (ours.actions.shape, ours.actions.dtype) == ((5, *action[0]), action[1])
    names = [name for name, value in vars(ours).items() if isinstance(value, np.ndarray)]
    assert len(names) == 17
    rows = dict.fromkeys(("playing", "asking", "asked", "taken_ns", "ready_ns"), 4)
    rows |= {"stepping_ns": 2, "waiting_ns": 2, "resumed_ns": 2, "progress": 2, "account": 2}
    for number, name in enumerate(names):
        getattr(ours, name)[...] = number + 1
    for number, name in enumerate(names):
        array = getattr(theirs, name)
        assert len(array) == rows.get(name, 5)
        assert (array == number + 1).all(), f"{name} overlaps another array"
        assert array.__array_interface__["data"][0] % 64 == 0
    memory.close()


FORKS = """
import os, sys
from ga3c.agents.slots import map_memory
memory = map_memory(int(sys.argv[1]))
if os.fork() == 0:
    memory[0] = 1
    os._exit(0)
sys.exit(-os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.mark.skipif(not hasattr(mmap, "MADV_DONTFORK"), reason="this system gives all memory to a forked process")
def test_a_process_that_an_environment_forks_cannot_write_into_slots() -> None:
    """If it came back from the environment's step, it would answer for the same agents as its parent."""
    memory = SharedMemory(4096)
    done = subprocess.run([sys.executable, "-c", FORKS, str(memory.fd)], pass_fds=[memory.fd], timeout=60, check=False)
    assert done.returncode == signal.SIGSEGV
    assert memory.buffer[0] == 0
    memory.close()


def test_memory_has_no_name_and_goes_with_its_last_user() -> None:
    def mapped() -> int:
        gc.collect()
        return Path("/proc/self/maps").read_text().count("ga3c-slots")

    def in_shm() -> set[str]:
        return {name for name in os.listdir("/dev/shm") if "ga3c" in name}

    plan = SlotPlan(agents=4, workers=1, frame_shape=(8,), frame_dtype="float32")
    mapped_before = mapped()  # other tests' objects may not be gone yet
    descriptors = len(os.listdir("/proc/self/fd"))
    memory = SharedMemory(plan.size)
    arrays = Slots(memory.buffer, plan)
    assert mapped() == mapped_before + 1
    assert not in_shm()
    assert not os.get_inheritable(memory.fd)
    memory.close()
    arrays.frames[...] = 3.0  # the mapping lives on for whoever still looks at it
    assert arrays.frames.sum() == 96.0
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 1  # mmap holds a descriptor of its own
    del memory, arrays
    assert mapped() == mapped_before
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert not in_shm()


def test_too_much_memory_is_refused_before_the_kernel_kills(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: 2 * 2**30)
    memory.check_memory(int(1.7 * 2**30), "This")
    with pytest.raises(UserError, match=r"^This needs 1.9 GiB .* only 2.0 GiB are available; use fewer --agents"):
        memory.check_memory(int(1.9 * 2**30), "This")
    descriptors = len(os.listdir("/proc/self/fd"))
    with pytest.raises(UserError, match=r"Sharing frames between processes needs 4\.0 GiB"):
        SharedMemory(2**32)
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_available_memory_is_what_the_kernel_says(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 2**20 < memory.available_memory() < 2**50

    def missing(*_: object, **__: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", missing)
    assert memory.available_memory() > 2**60
