"""Networks of a user's own: what is built of them, what is refused, and that whole runs use them."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import own_nets
import pytest
import torch
from lanes import FUSED, KINDS, OPEN, Side, settle
from runs import ROOT
from specs import mixed_frames, mixed_spec, picture_spec, vector_spec
from toys import Signpost

import ga3c
from ga3c import nets
from ga3c.agents.pool import AgentPool
from ga3c.config import LearnConfig, NetConfig
from ga3c.engine.model import Model
from ga3c.envs.spec import ActionSpec, EnvSpec
from ga3c.errors import UserError
from ga3c.nets.own import OwnTorso

torch.set_num_threads(1)
pytestmark = pytest.mark.timeout(180)
CPU = torch.device("cpu")


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(
    ("spec", "net", "features"),
    [
        (picture_spec(3, 9, 11), "own_nets:Picture", 24),
        (vector_spec(5), "own_nets:vector", 16),
        (vector_spec(5), "own_nets:vector-lstm", 16),
        (mixed_spec(), "own_nets:Picture-lstm", None),
        (mixed_spec(screen=True), "own_nets:Picture", None),
    ],
    ids=["picture", "vector", "vector lstm", "parts lstm", "parts"],
)
def test_an_own_torso_is_built_for_the_shape_and_its_features_are_counted(
    spec: EnvSpec, net: str, features: int | None, precision: Any
) -> None:
    config = NetConfig(net, precision=precision, separate_value=not net.endswith("-lstm"))
    model = Model(nets.build(spec, config), LearnConfig(), CPU)
    if features is not None:
        layer = model.network.core.input if model.network.core is not None else model.network.value
        assert layer.in_features == features
    shape = (6, *spec.observation_shape)
    if spec.frame_dtype == "float32":
        batch = torch.randn(shape)
    elif len(spec.layout.parts) > 1:
        batch = torch.from_numpy(mixed_frames(spec, 6 * spec.stack)).view(shape)
    else:
        batch = torch.randint(0, 256, shape, dtype=torch.uint8)
    learner, reader = model.learner(), model.reader()
    for one, other in zip(learner(batch), reader(batch), strict=True):
        torch.testing.assert_close(one, other, rtol=0.05, atol=0.05)
    loss = sum(output.square().sum() for output in learner(batch))
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(loss, list(learner.parameters())))


def test_numbers_beside_pictures_have_the_mlp_and_own_layers_keep_their_weights() -> None:
    vector, *pictures = nets.build(
        mixed_spec(screen=True), NetConfig("own_nets:Picture", init="orthogonal")
    ).torso.parts
    assert not isinstance(vector, OwnTorso)
    assert all(isinstance(part, OwnTorso) and part.module.convolution.bias.any() for part in pictures)


@pytest.mark.parametrize(
    ("net", "told"),
    [
        ("no_such_nets:Torso", "but no module named 'no_such_nets' can be imported here; `cd` to the folder"),
        ("own_nets:Missing", "but own_nets has no class or function Missing"),
        ("own_nets:CONSTANT", "but own_nets has no class or function CONSTANT"),
        ("own_nets:number", "which gives int, but must give a torch.nn.Module"),
        (
            "own_nets:Refuses",
            r"but it failed with \(12, 6, 7\) as the shape .*: ValueError: not this shape \(.*own_nets.py",
        ),
        ("own_nets:Raises", r"but it failed with zeros of the shape \[2, 12, 6, 7\]: RuntimeError: out of layers"),
        ("own_nets:Viewed", r"but it failed with zeros of the shape .*: RuntimeError: view size is not compatible"),
        ("own_nets:Flat", r"which makes the shape \[2\] of zeros of the shape .*, but must make features \[2, F\]"),
        ("own_nets:Pair", r"which makes tuple of zeros of the shape \[2, 12, 6, 7\], but must make features"),
        ("own_nets:Infinite", "which makes features that are not finite of zeros"),
        ("own_nets:Idle", "which has the parameter unused.weight, which its output does not depend on; remove it"),
        ("own_nets:Frozen", "which has the parameter linear.bias without a gradient; make it a buffer"),
        ("own_nets:Counts", "which changes its buffer seen, which is neither shared nor saved"),
    ],
)
def test_a_mistake_is_one_sentence(net: str, told: str) -> None:
    with pytest.raises(UserError, match=f"^--net is {net}, {told}"):
        nets.build(picture_spec(3, 6, 7), NetConfig(net))


def test_a_module_that_fails_is_told_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_nets.py").write_text("import torch\n\nraise ValueError('no ideas')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(
        UserError, match=r"importing 'broken_nets' failed: ValueError: no ideas \(.*broken_nets.py, line 3"
    ):
        nets.build(vector_spec(3), NetConfig("broken_nets:Torso"))


@pytest.mark.parametrize("name", ["smal", "my nets:Torso", "own_nets:", ":Torso", "a/b:c", "mlp-gru"])
def test_a_name_of_no_network_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=r"must be one of auto, small, .*, or MODULE:NAME of a network of your own"):
        NetConfig(name)


def test_a_class_is_known_by_its_import_path() -> None:
    assert nets.named(own_nets.Picture) == "own_nets:Picture"
    assert nets.named("small") == "small"
    with pytest.raises(UserError, match=r"The network .* cannot be found by other processes"):
        nets.named(lambda shape: own_nets.Picture(shape))


@pytest.fixture
def pool(make_pool: Callable[..., AgentPool]) -> Iterator[AgentPool]:
    yield make_pool("", 4, 1, spec=picture_spec(3, 9, 9, stack=1, action=ActionSpec.discrete(6)))
    while OPEN:
        OPEN.pop().close()


@pytest.mark.parametrize("kind", [*KINDS, FUSED])
@pytest.mark.usefixtures("full_precision")
def test_a_captured_update_is_the_plain_update(pool: AgentPool, kind: str) -> None:
    learn = LearnConfig(rollout=3, batch_rollouts=4, reduction="mean", optimiser="adam", optimiser_epsilon=1e-3)
    plain, graphs = (Side(side, pool, learn, net="own_nets:Picture") for side in ("cpu", kind))
    generator = torch.Generator().manual_seed(3)
    plain.store.frames.random_(0, 256, generator=generator)
    plain.store.rewards.normal_(generator=generator)
    plain.store.learn.fill_(1.0)
    for name in ("frames", "results"):
        getattr(graphs.store, name).copy_(getattr(plain.store, name))
    settle(graphs)
    for side in (plain, graphs):
        side.train([3, 0, 7, 11])
    got = graphs.model.state()
    for name, value in plain.model.state().items():
        assert not torch.equal(value, plain.untouched[name]), f"{name} was not trained"
        torch.testing.assert_close(got[name], value, atol=1e-4, rtol=1e-3)


@pytest.mark.slow
def test_a_run_with_an_own_network_is_resumed_and_played_from_elsewhere(tmp_path: Path) -> None:
    """Its module is found above the run's folder, and imported only if it is trusted."""
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    project.mkdir()
    elsewhere.mkdir()
    (project / "far_nets.py").write_text((ROOT / "tests" / "own_nets.py").read_text() + "open('ran', 'a').close()\n")
    more = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}

    def run(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-P", "-m", "ga3c", *words]
        return subprocess.run(
            command, cwd=folder, env=os.environ | more, capture_output=True, text=True, timeout=150, check=False
        )

    words = "train CartPole-v1 --net far_nets:vector --device cpu --agents 2 --steps 60 --ui none --out runs/a/b"
    done = run(project, *words.split())
    assert done.returncode == 0, done.stderr
    evaluation = ["eval", str(project / "runs/a/b"), "--episodes", "1", "--device", "cpu"]
    refused = run(elsewhere, *evaluation)
    assert refused.returncode == 2
    assert (
        f"This run's network is far_nets:vector: to play it, the code in {project / 'far_nets.py'} is run"
        in refused.stderr
    )
    assert not (elsewhere / "ran").exists()
    played = run(elsewhere, *evaluation, "--trust")
    assert played.returncode == 0, played.stderr
    assert (elsewhere / "ran").exists()
    (elsewhere / "far_nets.py").write_text("raise AssertionError('imported')\n")
    named = run(elsewhere, "train", "CartPole-v1", "--config", str(project / "runs/a/b/config.toml"))
    assert named.returncode == 2
    assert "is for far_nets:vector: to play it, the code in" in named.stderr, "settings in a file name code too"


@pytest.mark.slow
@pytest.mark.parametrize("system", ["ga3c", "a3c-cpu"])
def test_an_own_network_learns(tmp_path: Path, system: str) -> None:
    settings: dict[str, Any] = {
        "net": own_nets.Picture, "system": system, "device": "cpu", "agents": 4, "rollout": 4, "reduction": "mean",
        "optimiser": "adam", "learning_rate": 3e-3, "optimiser_epsilon": 1e-5, "precision": "fp32", "stack": 1,
        "explore_after": 0, "ui": "none", "log": "csv",
    }  # fmt: skip
    run = ga3c.train("toys:Signpost-v0", steps=16_000, out=tmp_path / "run", **settings)
    policy = ga3c.load(run.folder, policy="greedy", device="cpu")
    signs = [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert policy.act([Signpost.shown(*one) for one in signs])[0].tolist() == [one ^ other for one, other in signs]
    assert ga3c.resume(run.folder, steps=16_500, ui="none").complete
