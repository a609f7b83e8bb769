"""The doctor: what it finds on a machine, what it reads, what it suggests, and the command."""

import dataclasses
import importlib.metadata
import json
import math
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from runs import parse_train

from ga3c import cli, machine
from ga3c.config import Config, EngineConfig, EnvConfig
from ga3c.doctor import facts as reading
from ga3c.doctor import measuring, requirements
from ga3c.doctor.advice import suggest
from ga3c.doctor.facts import Facts, Gpu, Torch
from ga3c.doctor.findings import Finding, Needs, can_train, judge
from ga3c.doctor.requirements import Package
from ga3c.envs import atari
from ga3c.flags import keywords
from ga3c.machine import nvml
from ga3c.metrics.bottleneck import Bottleneck, Stage, Use

pytestmark = pytest.mark.timeout(120)
GB = 2**30
NEEDS = Needs(device="auto", agents=240, workers=15, shared=240 * 2 * 210 * 160)
H200 = Gpu("NVIDIA H200", 143_771.0, 143_000.0, (9, 0))

HEALTHY = Facts(
    system="Linux", python="3.12.1", processor="a processor", cores=16, cores_there=16, core_quota=math.inf, load=0.1,
    bf16=True, memory=128.0 * GB, memory_free=120.0 * GB, shared_free=120.0 * GB, dev_shm=64.0 * GB,
    dev_shm_free=64.0 * GB, open_files=1024.0, processes=100_000.0, folder_writable=True, disk_free=50.0 * GB, gpu=H200,
    driver=nvml.Driver("570.1", (12, 8)), torch=Torch("2.11.0", (12, 8), True, None), triton=True,
    compiler="/usr/bin/gcc", roms=108, packages=(Package("torch", ">=2.7", "2.11.0", True),), python_range=">=3.11",
    python_fits=True, unread=(),
)  # fmt: skip


def found_with(device: Any = "auto", **changes: Any) -> list[Finding]:
    return judge(dataclasses.replace(HEALTHY, **changes), dataclasses.replace(NEEDS, device=device))


BLIND = Torch("2.11.0", (12, 8), False, None)
BROKEN = Torch("2.11.0", (12, 8), True, "CUDA error: no kernel image is available")
NO_DRIVER: dict[str, Any] = {"gpu": None, "driver": None, "torch": BLIND}
OLD_TORCH = Package("torch", ">=2.7", "2.3.0", False)
NO_ALE = Package("ale-py", ">=0.10", None, False)
NO_VIDEO = Package("imageio-ffmpeg", ">=0.5", None, False, "video")


# -- findings ---------------------------------------------------------------------------------------------------------


def test_a_healthy_machine_has_no_findings() -> None:
    assert found_with() == []
    assert found_with("cuda") == []
    assert found_with("cpu", **NO_DRIVER) == []
    assert found_with("auto", **NO_DRIVER) == []  # training on the CPU is nothing to repair


@pytest.mark.parametrize(
    ("level", "about", "words", "remedy", "device", "changes"),
    [
        ("repair", "python", "3.10.1, but >=3.11", "newer Python", "auto",
         {"python": "3.10.1", "python_fits": False}),
        ("repair", "torch", "torch is 2.3.0, but torch>=2.7 is needed", 'install --upgrade "torch>=2.7"', "auto",
         {"packages": (OLD_TORCH,)}),
        ("repair", "ale-py", "ale-py is not installed", 'pip install --upgrade "ale-py>=0.10"', "auto",
         {"packages": (NO_ALE,)}),
        ("note", "video", "`ga3c play --video` is not available without imageio-ffmpeg>=0.5",
         'pip install "ga3c[video]"',
         "auto", {"packages": (NO_VIDEO,)}),
        ("warning", "cores", "only one core", "taskset", "auto", {"cores": 1, "load": 0.0}),
        ("note", "cores", "limited to the CPU time of 2.5 of 16 cores", "raise", "auto",
         {"cores": 3, "core_quota": 2.5, "load": 0.0}),
        ("note", "cores", "may use 4 of 16 cores", "taskset", "auto", {"cores": 4, "load": 0.0}),
        ("warning", "load", "load of other processes is 12.0 on 16 cores", "stop them", "auto", {"load": 12.0}),
        ("repair", "shared memory", "240 agents need 15 MB of shared memory, but only 8 MB is free", "fewer --agents",
         "auto", {"shared_free": 8.0 * 2**20}),
        ("warning", "memory", "need about 1.9 GB of memory, but only 1.0 GB is free", "fewer --workers", "auto",
         {"memory_free": 1.0 * GB}),
        ("note", "/dev/shm", "/dev/shm has only 32 MB", "--shm-size", "auto", {"dev_shm": 32.0 * 2**20}),
        ("repair", "open files", "the limit is 100 open files", "ulimit -n 128", "auto", {"open_files": 100.0}),
        ("warning", "processes", "the limit is 50 processes and threads", "ulimit -u 158", "auto", {"processes": 50.0}),
        ("repair", "folder", "current folder, which is not writable", "--out", "auto", {"folder_writable": False}),
        ("warning", "disk", "only 100 MB of disk space", "another disk", "auto", {"disk_free": 100.0 * 2**20}),
        ("repair", "GPU", "needs an NVIDIA GPU and its driver", "--device cpu", "cuda", NO_DRIVER),
        ("repair", "GPU", "built without CUDA, so it cannot use the NVIDIA H200", "with CUDA", "cuda",
         {"torch": Torch("2.11.0+cpu", None, False, None)}),
        ("warning", "GPU", "built without CUDA, so it cannot use the NVIDIA H200", "with CUDA", "auto",
         {"torch": Torch("2.11.0+cpu", None, False, None)}),
        ("repair", "GPU", "driver 470.9 supports CUDA up to 11.4, but torch 2.11.0 is built for CUDA 12.8",
         "update the driver, or install a torch built for CUDA 11.4", "cuda",
         {"torch": BLIND, "driver": nvml.Driver("470.9", (11, 4))}),
        ("warning", "GPU", "does not find the NVIDIA H200", "CUDA_VISIBLE_DEVICES", "auto", {"torch": BLIND}),
        ("warning", "GPU", "no kernel image is available", "a torch built for this GPU", "auto", {"torch": BROKEN}),
        ("warning", "GPU", "no kernel image is available", "a torch built for this GPU", "auto",
         {"torch": BROKEN, "gpu": None}),
        ("warning", "GPU", "only 900 of 143771 MB", "nvidia-smi", "auto",
         {"gpu": dataclasses.replace(H200, free_mb=900.0)}),
        ("note", "--fuse", "not available without triton and a C compiler", "install", "auto",
         {"triton": False, "compiler": None}),
        ("warning", "ROMs", "has no game ROMs", "ale-py", "auto", {"roms": 0}),
        ("warning", "doctor", "could not read the load: OSError: no", "fix this first", "auto",
         {"unread": ("the load: OSError: no",)}),
    ],
)  # fmt: skip
def test_each_finding(level: str, about: str, words: str, remedy: str, device: str, changes: dict[str, Any]) -> None:
    found = found_with(device, **changes)
    (one,) = found
    assert (one.level, one.about) == (level, about)
    assert words in one.problem
    assert remedy in one.remedy
    assert can_train(found) == (level != "repair")


def test_the_worst_comes_first() -> None:
    levels = [f.level for f in found_with(packages=(NO_VIDEO, OLD_TORCH), load=12.0)]
    assert levels == ["repair", "warning", "note"]


# -- what is read -----------------------------------------------------------------------------------------------------


def test_this_machine_is_read_without_gaps() -> None:
    facts = reading.gather()
    assert facts.unread == ()
    assert facts.cores == machine.num_cores() <= facts.cores_there
    assert facts.torch is not None
    assert facts.torch.version == torch.__version__
    assert 0 < facts.memory_free <= facts.memory
    assert facts.roms is not None
    assert facts.roms > 50
    required = {package.name for package in facts.packages if not package.extra}
    assert {"torch", "numpy", "ale-py", "gymnasium", "tensorboard"} <= required
    assert {package.extra for package in facts.packages} == {
        "", "video", "play", "bench", "sweep", "export", "hub", "wandb", "mlflow", "ray", "web",
    }  # fmt: skip
    assert facts.python_fits


def test_what_cannot_be_read_is_told_and_the_rest_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Any:
        raise OSError("the file is broken")

    for name in ("num_cores", "cpu_model", "multiplies_bf16"):
        monkeypatch.setattr(machine, name, fail)
    monkeypatch.setattr(nvml, "driver", fail)
    monkeypatch.setattr(reading, "read_ranges", fail)
    facts = reading.gather()
    assert len(facts.unread) == 5
    assert "the driver: OSError: the file is broken" in facts.unread
    assert facts.roms is not None
    assert can_train(judge(facts, NEEDS))


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({}, math.inf),
        ({"memory.max": "max", "memory.current": "5"}, math.inf),
        ({"memory.max": "3000", "memory.current": "1000"}, 2000.0),
        ({"memory/memory.limit_in_bytes": "9223372036854771712", "memory/memory.usage_in_bytes": "1"}, math.inf),
    ],
)
def test_what_a_container_leaves_of_its_memory(
    files: dict[str, str], free: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    monkeypatch.setattr(reading, "_CGROUP", tmp_path)
    assert reading._group_free() == free


def test_versions_are_held_against_their_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.metadata.version
    changed = {"torch": "2.6.1+cu124", "rich": "14.0.0rc1"}
    monkeypatch.setattr(importlib.metadata, "version", lambda name: changed.get(name) or real(name))
    found = {package.name: package for package in requirements.read_ranges().packages}
    assert (found["torch"].installed, found["torch"].fits) == ("2.6.1+cu124", False)
    assert found["rich"].fits
    assert found["numpy"].fits


def test_the_ranges_of_an_installed_package(monkeypatch: pytest.MonkeyPatch) -> None:
    class Metadata:
        def get_all(self, name: str) -> list[str]:
            return {"Requires-Python": [">=3.11"], "Provides-Extra": ["bench", "dev", "docs"]}[name]

    texts = [
        "numpy>=1.26",
        'pytest>=8; extra == "dev"',
        'mkdocs>=1.6; extra == "docs"',
        'matplotlib>=3.8; extra == "bench"',
    ]
    monkeypatch.setattr(importlib.metadata, "metadata", lambda name: Metadata())
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: texts)
    monkeypatch.setattr(Path, "is_file", lambda path: False)
    ranges = requirements.read_ranges()
    assert [(p.name, p.wanted, p.extra) for p in ranges.packages] == [
        ("numpy", ">=1.26", ""),
        ("matplotlib", ">=3.8", "bench"),
    ]
    assert (ranges.python, ranges.python_fits) == (">=3.11", True)


# -- what is suggested ------------------------------------------------------------------------------------------------


def bottleneck(stage: Stage) -> Bottleneck:
    return Bottleneck(stage, "something is seen", "something is to be done")


@pytest.mark.parametrize(
    ("stage", "use", "changes", "command"),
    [
        (None, Use(), {}, "ga3c train ALE/Pong-v5"),
        ("predictors", Use(0.5, 0.5), {}, "ga3c train ALE/Pong-v5 --predictors 2 --tune"),
        ("predictors", Use(0.5, 0.97), {}, "ga3c train ALE/Pong-v5"),
        ("trainers", Use(0.5, 0.97), {}, "ga3c train ALE/Pong-v5 --fuse"),
        ("trainers", Use(0.5, 0.5), {"triton": False}, "ga3c train ALE/Pong-v5 --trainers 3 --tune"),
        ("trainers", Use(0.97, 0.5), {"triton": False}, "ga3c train ALE/Pong-v5"),
        ("agents", Use(0.5, 0.5), {}, "ga3c train ALE/Pong-v5 --agents 480 --tune"),
        ("environments", Use(0.5, 0.5), {}, "ga3c train ALE/Pong-v5 --workers 16"),
        ("environments", Use(0.97, 0.5), {}, "ga3c train ALE/Pong-v5"),
    ],
)
def test_the_command_that_is_suggested(stage: Stage | None, use: Use, changes: dict[str, Any], command: str) -> None:
    config = Config(engine=EngineConfig(device="cuda", agents=240, workers=15, predictors=1, trainers=2))
    facts = dataclasses.replace(HEALTHY, **changes)
    suggested = suggest(config, "auto", facts, bottleneck(stage) if stage else None, use)
    assert suggested.command == command
    assert suggested.reasons
    words = [word for word in suggested.command.split()[2:] if word != "--fuse"]  # which a CPU refuses
    parse_train([*words, "--device", "cpu"])  # what is pasted is understood


def test_the_suggested_command_has_the_arguments_and_wrappers_of_the_environment() -> None:
    env = EnvConfig(wrap=("m:W(a=1)",))
    config = Config("CartPole-v1", env=env, env_args={"render_fps": 3, "name": "3", "desc": None})
    words = shlex.split(suggest(config, "auto", HEALTHY).command)
    assert words[3:] == ["--env-args", "render_fps=3", 'name="3"', "desc=null", "--wrap", "m:W(a=1)"]
    assert keywords.env_args(words[4:7]) == config.env_args


# -- the command ------------------------------------------------------------------------------------------------------

KEYS = {"env", "device", "can_train", "machine", "measured", "bottleneck", "suggestion", "findings"}


@pytest.mark.slow
def test_a_second_of_cartpole_as_one_json_object(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "CartPole-v1", "--seconds", "1", "--device", "cpu", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert set(found) == KEYS
    assert (found["env"], found["device"], found["can_train"]) == ("CartPole-v1", "cpu", True)
    assert set(found["machine"]) == {field.name for field in dataclasses.fields(Facts)}
    measured = found["measured"]
    assert measured["ceiling"]["pps"] > 0
    assert measured["acting"]["pps"] > 0
    assert measured["training"]["tps"] > 0
    assert found["bottleneck"]["stage"] in ("environments", "predictors", "trainers", "agents")
    assert ": " in found["bottleneck"]["sentence"]
    assert found["suggestion"]["command"].startswith("ga3c train CartPole-v1 --device cpu")
    assert all(set(finding) == {"level", "about", "problem", "remedy"} for finding in found["findings"])


def test_pong_without_a_measurement(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--seconds", "0"]) == 0
    told = capfd.readouterr().out
    for word in ("processor", "shared memory", "GPU", "games in ale-py", "torch", "ga3c train ALE/Pong-v5"):
        assert word in told


def test_a_game_without_its_rom_must_be_repaired(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(atari, "has_rom", lambda name: False)
    assert cli.main(["doctor", "--json"]) == 1
    output = capfd.readouterr()
    found = json.loads(output.out)
    assert found["can_train"] is False
    assert found["measured"] is found["suggestion"] is None
    assert "needs the ROM pong.bin" in found["findings"][0]["problem"]
    assert "ale-py has no game ROMs" in {finding["problem"] for finding in found["findings"]}
    assert "must be repaired" in output.err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_cuda_where_there_is_none_must_be_repaired(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "CartPole-v1", "--device", "cuda"]) == 1
    told = " ".join(capfd.readouterr().out.split())
    assert "--device cuda needs an NVIDIA GPU" in told
    assert "Suggested" not in told


def test_an_unknown_environment_is_a_finding(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "CartPole-v9", "--json"]) == 1
    (finding, *_) = json.loads(capfd.readouterr().out)["findings"]
    assert (finding["level"], finding["about"]) == ("repair", "environment")
    assert "did you mean CartPole-v1" in finding["problem"]


def test_a_measurement_that_fails_is_a_finding(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> Any:
        raise RuntimeError("the device is gone")

    monkeypatch.setattr(measuring.harness, "measure", fail)
    monkeypatch.setattr(measuring, "Steppers", fail)
    assert cli.main(["doctor", "CartPole-v1", "--json"]) == 1
    found = json.loads(capfd.readouterr().out)
    problems = {f["about"]: (f["level"], f["problem"]) for f in found["findings"]}
    assert problems["training"] == ("repair", "training failed: the device is gone")
    assert problems["acting"][0] == problems["environments alone"][0] == "warning"
    assert found["bottleneck"] is None


WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == sys.argv[1]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from ga3c import cli
sys.exit(cli.main(sys.argv[2:]))
"""
"""The command line where a package cannot be imported."""


@pytest.mark.parametrize(
    "missing",
    [
        "torch",
        "packaging",
        pytest.param("numpy", marks=pytest.mark.slow),
        pytest.param("ale_py", marks=pytest.mark.slow),
    ],
)
def test_it_has_something_to_say_where_a_package_cannot_be_imported(missing: str) -> None:
    words = [missing, "doctor", "ALE/Pong-v5", "--seconds", "0", "--json"]
    ran = subprocess.run([sys.executable, "-c", WITHOUT, *words], capture_output=True, text=True, check=False)
    assert ran.returncode == (0 if missing == "packaging" else 1), ran.stderr
    found = json.loads(ran.stdout)
    assert found["machine"]["cores"] == machine.num_cores()
    assert any(missing in finding["problem"] for finding in found["findings"])
    assert "Traceback" not in ran.stderr


def test_bad_seconds_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--seconds", "-1"]) == 2
    assert "--seconds is -1" in capsys.readouterr().err
