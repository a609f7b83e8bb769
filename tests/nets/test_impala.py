"""IMPALA's residual network against the same network written out, for values and for gradients."""

import pytest
import torch
from specs import picture_spec
from torch import Tensor, nn

from ga3c.config import NetConfig
from ga3c.envs.spec import EnvSpec
from ga3c.errors import UserError
from ga3c.nets import build


def picture(height: int = 84, width: int = 84, channels: int = 4) -> EnvSpec:
    return picture_spec(height, width, stack=channels)


def literal_impala(network: nn.Module, pixels: Tensor) -> Tensor:
    """IMPALA's residual torso written out: weights by name, one function of torch after the other."""
    weights = dict(network.named_parameters())

    def conv(x: Tensor, name: str) -> Tensor:
        return nn.functional.conv2d(x, weights[f"{name}.weight"], weights[f"{name}.bias"], padding=1)

    x = pixels
    for stage in range(3):
        x = nn.functional.max_pool2d(conv(x, f"stages.{stage}.convolution"), 3, 2, 1)
        for block in range(2):
            inner = conv(x.relu(), f"stages.{stage}.blocks.{block}.inner")
            x = x + conv(inner.relu(), f"stages.{stage}.blocks.{block}.outer")
    flat = x.relu().permute(0, 2, 3, 1).flatten(1)
    if "norm_in.weight" in weights:
        flat = normalised(flat) * weights["norm_in.weight"] + weights["norm_in.bias"]
    features = nn.functional.linear(flat, weights["linear.weight"], weights["linear.bias"])
    if "norm_out.weight" in weights:
        features = normalised(features) * weights["norm_out.weight"] + weights["norm_out.bias"]
    return features.relu()


def normalised(x: Tensor) -> Tensor:
    """Each row with mean 0 and variance 1."""
    centred = x - x.mean(dim=1, keepdim=True)
    return centred / (centred.square().mean(dim=1, keepdim=True) + 1e-5).sqrt()


@pytest.mark.parametrize(("width", "layer_norm"), [(1, False), (2, False), (1, True)])
def test_impala_is_what_the_paper_draws(width: int, layer_norm: bool) -> None:
    """Its size, its features and their gradients, for every parameter."""
    torch.manual_seed(1)
    torso = build(picture(), NetConfig(net="impala", width=width, layer_norm=layer_norm)).torso.double()
    sizes, before, expected = [16 * width, 32 * width, 32 * width], 4, 0
    for channels in sizes:
        expected += channels * (9 * before + 1) + 4 * channels * (9 * channels + 1)
        before = channels
    assert sum(parameter.numel() for parameter in torso.parameters()) == expected + 256 * (before * 11 * 11 + 1) + (
        2 * (before * 11 * 11 + 256) if layer_norm else 0
    )
    pixels = torch.rand(2, 4, 84, 84, dtype=torch.float64).contiguous(memory_format=torch.channels_last)
    ours, theirs = torso(pixels), literal_impala(torso, pixels)
    torch.testing.assert_close(ours, theirs)
    draw = torch.randn_like(ours)
    for (name, _), one, other in zip(
        torso.named_parameters(),
        torch.autograd.grad((ours * draw).sum(), list(torso.parameters())),
        torch.autograd.grad((theirs * draw).sum(), list(torso.parameters())),
        strict=True,
    ):
        assert other.abs().max() > 0, name
        torch.testing.assert_close(one, other, msg=lambda text, name=name: f"{name}: {text}")


def test_impalas_gradient_is_that_of_differences() -> None:
    """Every parameter, along one random direction each."""
    torch.manual_seed(2)
    torso = build(picture(20, 17, 2), NetConfig(net="impala", init="orthogonal")).torso.double()
    pixels = torch.rand(3, 2, 20, 17, dtype=torch.float64)
    draw = torch.randn(3, 256, dtype=torch.float64)
    gradients = torch.autograd.grad((torso(pixels) * draw).sum(), list(torso.parameters()))
    for (name, parameter), gradient in zip(torso.named_parameters(), gradients, strict=True):
        direction, sides = torch.randn_like(parameter), []
        for step in (1e-7, -1e-7):
            with torch.no_grad():
                parameter.add_(direction, alpha=step)
                sides.append((torso(pixels) * draw).sum().item())
                parameter.sub_(direction, alpha=step)
        assert (sides[0] - sides[1]) / 2e-7 == pytest.approx((gradient * direction).sum().item(), rel=1e-4), name


def test_only_impala_has_a_width() -> None:
    with pytest.raises(UserError, match="--width is 2, but must be 1 unless --net is impala"):
        NetConfig(net="nature", width=2)


def test_only_impala_has_layer_normalisation() -> None:
    with pytest.raises(UserError, match="--layer-norm is only for --net impala, and --net is nature; leave it out"):
        NetConfig(net="nature", layer_norm=True)


def test_impala_starts_with_features_of_the_size_of_others() -> None:
    torch.manual_seed(1)
    pixels = torch.randint(0, 256, (8, 4, 84, 84), dtype=torch.uint8)
    sizes = []
    for net in ("nature", "impala"):
        network = build(picture(), NetConfig(net=net, init="orthogonal"))  # type: ignore[arg-type]
        with torch.no_grad():
            sizes.append(network.torso(network.unpack(pixels)).square().mean().sqrt().item())
    assert 0.3 < sizes[1] / sizes[0] < 4.0, sizes
