"""Heads beside `torch.distributions`: values and gradients of log-probabilities and entropies, samples, modes."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from specs import vector_spec
from torch import Tensor
from torch import distributions as known

from ga3c.config import NetConfig
from ga3c.envs.spec import ActionSpec
from ga3c.nets import GaussianHead, Head, build, make_head, masked

LEADING = (4, 3)
LOW, HIGH = np.array([-1.0, 0.0, -np.inf], np.float32), np.array([1.0, 4.0, np.inf], np.float32)
BOX, SQUASHED = ActionSpec.box(LOW, HIGH), ActionSpec.box(LOW, HIGH, "tanh")


class Case(NamedTuple):
    """A kind of action, and its distribution as torch has it."""

    action: ActionSpec
    known: Callable[[Tensor], Any]


class Factors:
    """Independent distributions, each of some columns of a row."""

    def __init__(self, *factors: tuple[Any, Any]) -> None:
        self._factors = factors

    def log_prob(self, rows: Tensor) -> Tensor:
        return torch.stack([each.log_prob(rows[..., columns]) for each, columns in self._factors]).sum(0)

    def entropy(self) -> Tensor:
        return torch.stack([each.entropy() for each, _ in self._factors]).sum(0)

    @property
    def mode(self) -> Tensor:
        modes = [each.mode.double() for each, _ in self._factors]
        return torch.cat([mode.unsqueeze(-1) if mode.shape == LEADING else mode for mode in modes], dim=-1)


def gaussian(params: Tensor) -> Any:
    means, log_stds = params.chunk(2, dim=-1)
    return known.Independent(known.Normal(means, log_stds.exp()), 1)


def categoricals(params: Tensor, nums: Sequence[int]) -> list[tuple[Any, int]]:
    return [(known.Categorical(logits=logits), column) for column, logits in enumerate(params.split(nums, dim=-1))]


def coins(params: Tensor) -> Any:
    """Two logits a coin, the second for 1."""
    return known.Independent(known.Bernoulli(logits=params[..., 1::2] - params[..., ::2]), 1)


RAGGED, EQUAL = (4, 2, 3, 1), (3, 3)
NUMS = (2, 5)
PRODUCT = ActionSpec.product(
    [ActionSpec.discrete(NUMS[0], 3), BOX, ActionSpec.product([ActionSpec.discrete(NUMS[1])], ["choice"])]
)
CASES = {
    "box": Case(BOX, gaussian),
    "discrete": Case(ActionSpec.discrete(5), lambda params: known.Categorical(logits=params)),
    "choices among equally many": Case(
        ActionSpec.choices(np.array(EQUAL), np.zeros(2)),
        lambda params: known.Independent(known.Categorical(logits=params.unflatten(-1, (2, 3))), 1),
    ),
    "choices": Case(
        ActionSpec.choices(np.array(RAGGED), np.zeros(4)), lambda params: Factors(*categoricals(params, RAGGED))
    ),
    "binary": Case(ActionSpec.choices(np.full(3, 2), np.zeros(3)), coins),
    "product": Case(
        PRODUCT,
        lambda params: Factors(
            *categoricals(params[..., : sum(NUMS)], NUMS), (gaussian(params[..., sum(NUMS) :]), slice(2, None))
        ),
    ),
}


def parameters_of(head: Head) -> Tensor:
    """What the head makes of random features, with random weights."""
    torch.manual_seed(1)
    for weight in head.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    params: Tensor = head(torch.randn(*LEADING, 5)).detach().double().requires_grad_()
    return params


def check_same(ours: Tensor, theirs: Tensor, params: Tensor) -> None:
    """Equal values and gradients."""
    assert ours.shape == LEADING
    weights = torch.linspace(-1.0, 2.0, ours.numel(), dtype=torch.float64).view(ours.shape)
    gradients = [torch.autograd.grad((weights * each).sum(), params, retain_graph=True)[0] for each in (ours, theirs)]
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("name", CASES)
def test_log_probabilities_and_entropies(name: str) -> None:
    action, of = CASES[name]
    head = make_head(5, action)
    params = parameters_of(head)
    head.double()
    actions, log_probs = head.sample(params.detach(), torch.Generator().manual_seed(3))
    assert actions.shape == (*LEADING, *action.shape)
    theirs, drawn = of(params), actions.double() if name == "binary" else actions
    torch.testing.assert_close(log_probs, theirs.log_prob(drawn).detach())
    for log_probs, entropies in (
        (head.log_prob(params, actions), head.entropy(params)),
        head.evaluate(params, actions),
    ):
        check_same(log_probs, theirs.log_prob(drawn), params)
        check_same(entropies, theirs.entropy(), params)
    torch.testing.assert_close(head.mode(params), theirs.mode, check_dtype=False)


@pytest.mark.parametrize("action", [case.action for case in CASES.values()] + [SQUASHED], ids=str)
def test_samples_are_the_generators(action: ActionSpec) -> None:
    head = make_head(5, action)
    params = parameters_of(head).float()
    first, again, other = (head.sample(params, torch.Generator().manual_seed(seed))[0] for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


# -- choices ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["choices", "product"])
def test_samples_of_choices_have_their_probabilities_and_are_independent(name: str) -> None:
    action, count = CASES[name].action, 40_000
    head = make_head(5, action)
    params = parameters_of(head)[0, 0].detach().float()
    rows = head.sample(params.expand(count, -1), torch.Generator().manual_seed(5))[0][:, : len(action.nums)]
    policies = [logits.softmax(-1) for logits in params[: sum(action.nums)].split(action.nums)]
    for first, other in ((0, 1), (1, 0)):
        wanted = torch.outer(policies[first], policies[other])
        pairs = rows[:, first] * action.nums[other] + rows[:, other]
        shares = torch.bincount(pairs.long(), minlength=wanted.numel()).view_as(wanted) / count
        assert (shares - wanted).abs().max() < 4.0 * 0.5 / math.sqrt(count)
    assert (rows < torch.tensor(action.nums)).all()


def test_an_action_that_a_choice_does_not_have_is_never_chosen() -> None:
    """However improbable those are that it has."""
    head = make_head(5, CASES["choices"].action)
    params = torch.tensor([[0.0] * 4 + [-1e4] * 6]).expand(1000, -1)
    rows, log_probs = head.sample(params, torch.Generator().manual_seed(5))
    for chosen in (rows, head.mode(params)):
        assert (chosen < torch.tensor(RAGGED)).all()
    assert log_probs.isfinite().all()
    assert head.entropy(params)[0].item() == pytest.approx(math.log(4) + math.log(2) + math.log(3))


@pytest.mark.parametrize("name", ["discrete", "choices", "product"])
def test_epsilon_bounds_the_probability_of_each_choice(name: str) -> None:
    """As in the 2016 code, written out for one action after the other."""
    action, epsilon = CASES[name].action, 0.2
    head = make_head(5, action)
    params = parameters_of(head)
    head.double()
    rows, _ = head.sample(params.detach(), torch.Generator().manual_seed(3))
    columns = rows.unsqueeze(-1) if action.shape == () else rows
    log_probs, entropies = torch.zeros(LEADING).double(), torch.zeros(LEADING).double()
    for column, logits in enumerate(params[..., : sum(action.nums)].split(action.nums, dim=-1)):
        policy = logits.softmax(-1)
        logarithms = policy.clamp(min=epsilon).log()
        log_probs = log_probs + logarithms.gather(-1, columns[..., column : column + 1].long()).squeeze(-1)
        entropies = entropies - (policy * logarithms).sum(-1)
    if action.low:
        numbers = make_head(5, BOX).double()
        densities, of_numbers = numbers.evaluate(params[..., sum(NUMS) :], rows[..., 2:], epsilon)
        log_probs, entropies = log_probs + densities, entropies + of_numbers
    ours = head.evaluate(params, rows, epsilon)
    check_same(ours[0], log_probs, params)
    check_same(ours[1], entropies, params)


# -- real numbers -----------------------------------------------------------------------------------------------------


def test_samples_have_the_mean_and_the_deviation() -> None:
    head, count = make_head(5, BOX), 100_000
    means, log_stds = torch.tensor([1.0, -2.0, 0.0]), torch.tensor([0.0, 0.5, -1.0])
    params = torch.cat((means, log_stds)).expand(count, 6)
    actions, _ = head.sample(params, torch.Generator().manual_seed(5))
    errors = (actions.mean(0) - means) / log_stds.exp() * math.sqrt(count)
    assert errors.abs().max() < 4.0
    assert (actions.std(0) / log_stds.exp() - 1.0).abs().max() < 4.0 / math.sqrt(2 * count)


def squashed_of(params: Tensor) -> list[Any]:
    """Of each number: squashed where it has two bounds."""
    columns = zip(params.chunk(2, dim=-1)[0].unbind(-1), params.chunk(2, dim=-1)[1].exp().unbind(-1), strict=True)
    normals = [known.Normal(mean, std) for mean, std in columns]
    return [known.TransformedDistribution(each, [known.TanhTransform()]) for each in normals[:2]] + normals[2:]


def test_a_squashed_gaussian_has_the_probabilities_of_the_squashed_numbers() -> None:
    head = make_head(5, SQUASHED)
    params = parameters_of(head)
    rows, log_probs = head.double().sample(params.detach(), torch.Generator().manual_seed(3))
    squashed = [rows[..., 0].tanh(), rows[..., 1].tanh(), rows[..., 2]]
    theirs = sum(each.log_prob(number) for each, number in zip(squashed_of(params), squashed, strict=True))
    torch.testing.assert_close(log_probs, theirs.detach())
    check_same(head.log_prob(params, rows), theirs, params)
    assert torch.equal(head.mode(params), params.chunk(2, dim=-1)[0])


@pytest.mark.parametrize("deviation", [0.1, 1.0, 2.0])
def test_the_entropy_of_a_squashed_gaussian(deviation: float) -> None:
    """Beside the entropy as an integral over a fine grid, and its gradient as that of the integral."""
    head = GaussianHead(5, [True]).double()
    params = torch.tensor([[0.3, math.log(deviation)], [-2.0, math.log(deviation)]], dtype=torch.float64)
    params.requires_grad_()
    means, stds = params[:, :1], params[:, 1:].exp()
    noise = torch.linspace(-9.0, 9.0, 20_001, dtype=torch.float64)
    weights = known.Normal(0.0, 1.0).log_prob(noise).exp() * (noise[1] - noise[0])
    log_slopes = torch.log1p(-torch.tanh(means + stds * noise).square().clamp(max=1.0 - 1e-16))
    theirs = gaussian(params).entropy() + (weights * log_slopes).sum(-1)
    ours = head.entropy(params)
    torch.testing.assert_close(ours, theirs, atol=1e-3, rtol=1e-3)
    gradients = [torch.autograd.grad(each.sum(), params)[0] for each in (ours, theirs)]
    torch.testing.assert_close(*gradients, atol=1e-2, rtol=1e-2)


def test_far_numbers_stay_finite() -> None:
    head = make_head(5, SQUASHED)
    params = torch.tensor([[40.0, -40.0, 1e4, 0.0, 2.0, 0.0]], requires_grad=True)
    log_probs, entropies = head.evaluate(params, torch.tensor([[-40.0, 60.0, 0.0]]))
    (gradient,) = torch.autograd.grad((log_probs + entropies).sum(), params)
    assert log_probs.isfinite().all()
    assert entropies.isfinite().all()
    assert gradient.isfinite().all()


@pytest.mark.parametrize("action", [BOX, SQUASHED])
def test_epsilon_bounds_the_density_of_each_number(action: ActionSpec) -> None:
    head, params = make_head(5, action), torch.zeros(1, 6, requires_grad=True)
    near, far = torch.tensor([[0.0, 0.5, 0.0]]), torch.tensor([[0.0, 0.5, 9.0]])
    for row in (near, far):
        each = head.evaluate(params, row)[0].item()
        last = -0.5 * row[0, 2].item() ** 2 - 0.5 * math.log(2 * math.pi)
        wanted = each - last + max(last, math.log(1e-6))
        assert head.evaluate(params, row, 1e-6)[0].item() == pytest.approx(wanted, rel=1e-5)
    (gradient,) = torch.autograd.grad(head.evaluate(params, far, 1e-6)[0].sum(), params)
    assert gradient[0, 1].item() == pytest.approx(0.5)
    assert gradient[0, 2].item() == gradient[0, 5].item() == 0.0


@pytest.mark.parametrize("init", ["fan-in", "orthogonal"])
def test_deviations_begin_at_one_for_all_observations(init: Any) -> None:
    network = build(vector_spec(4, action=BOX), NetConfig(init=init))
    params, _ = network(torch.randn(7, 4))
    assert params.shape == (7, 6)
    assert not params[:, 3:].any()
    if init == "orthogonal":
        assert params[:, :3].abs().max() < 0.1


# -- masks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["discrete", "choices", "product"])
def test_a_masked_policy_is_that_of_the_legal_actions(name: str) -> None:
    """Beside distributions over the legal actions alone; illegal logits have no gradient."""
    action = CASES[name].action
    head = make_head(5, action)
    params = parameters_of(head)
    head.double()
    random = torch.Generator().manual_seed(2)
    masks = torch.randint(0, 2, (*LEADING, sum(action.nums)), generator=random, dtype=torch.uint8)
    for last in np.cumsum(action.nums) - 1:
        masks[..., last] = 1
    masked_params = masked(params, masks)
    rows, log_probs = head.sample(masked_params.detach(), random)
    logits = torch.where(masks == 1, params[..., : sum(action.nums)], -math.inf)
    choices = [known.Categorical(logits=each) for each in logits.split(action.nums, dim=-1)]
    columns = rows.unsqueeze(-1) if action.shape == () else rows
    expected = sum(each.log_prob(columns[..., n].long()) for n, each in enumerate(choices))
    entropies = sum(torch.special.entr(each.probs).sum(-1) for each in choices)
    if action.low:
        numbers = gaussian(params[..., sum(NUMS) :])
        expected, entropies = expected + numbers.log_prob(rows[..., 2:]), entropies + numbers.entropy()
    torch.testing.assert_close(log_probs, expected.detach())
    ours = head.evaluate(masked_params, rows)
    check_same(ours[0], expected, params)
    torch.testing.assert_close(ours[1], entropies)
    (gradient,) = torch.autograd.grad(sum(each.sum() for each in ours), params)
    assert gradient.isfinite().all()
    assert not gradient[..., : sum(action.nums)][masks == 0].any()
    assert torch.equal(masked(params, None), params)
