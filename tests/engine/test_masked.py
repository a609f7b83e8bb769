"""Action masks and products of actions through predictor, store and trainer, as plain calls and as captured graphs; and
actions that are not finite."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from lanes import KINDS, OPEN, Side, settle
from specs import vector_spec

from ga3c import nets
from ga3c.agents.flags import FIRST, TERMINAL
from ga3c.agents.pool import AgentPool
from ga3c.agents.prediction_queue import Request
from ga3c.config import LearnConfig
from ga3c.envs.spec import ActionSpec
from ga3c.errors import Diverged

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("full_precision")]
BOX = ActionSpec.box(-np.ones(2, np.float32), np.ones(2, np.float32))
ACTIONS = {
    "discrete": ActionSpec.discrete(5),
    "choices": ActionSpec.choices(np.array([3, 5, 2]), np.zeros(3)),
    "product": ActionSpec.product([ActionSpec.discrete(4), BOX, ActionSpec.discrete(2)]),
}


@pytest.fixture(autouse=True)
def _unlock() -> Iterator[None]:
    yield
    if OPEN:
        torch.cuda.synchronize()
    while OPEN:
        OPEN.pop().close()


@pytest.fixture
def make_side(make_pool: Callable[..., AgentPool], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Side]:
    monkeypatch.setattr(AgentPool, "reply", lambda self, requests: None)

    def make(kind: str, action: ActionSpec, learn: LearnConfig | None = None) -> Side:
        pool = make_pool("", 6, 2, spec=vector_spec(4, action=action))
        return Side(kind, pool, learn or LearnConfig(rollout=3, correction="vtrace"), predictors=1, net="mlp")

    return make


def masked(action: ActionSpec) -> ActionSpec:
    return ActionSpec(**{**vars(action), "masked": True})


def random_masks(action: ActionSpec, count: int, random: np.random.Generator) -> Any:
    """At least one action of each choice is legal."""
    masks = random.integers(0, 2, (count, sum(action.nums)), np.uint8)
    for num, end in zip(action.nums, np.cumsum(action.nums), strict=True):
        masks[range(count), end - num + random.integers(0, num, count)] = 1
    return masks


@pytest.mark.parametrize("has_masks", [True, False])
@pytest.mark.parametrize("name", ACTIONS)
@pytest.mark.parametrize("kind", ["cpu", *KINDS])
def test_what_is_decided_stored_and_learned(
    make_side: Callable[..., Side], kind: str, name: str, has_masks: bool
) -> None:
    """Actions are legal and have the log-probabilities of the masked policy, with the masks they were chosen under; an
    update of rollouts is the same as one that is written out."""
    action, random = ACTIONS[name], np.random.default_rng(1)
    side = make_side(kind, masked(action) if has_masks else action)
    slots, agents = side.pool.slots, 6
    requests, shown, blocks = [Request(group, 0) for group in side.pool.groups], [], []
    slots.flags[:] = FIRST
    for _ in range(5):
        slots.frames[:] = random.normal(size=(agents, 4))
        slots.rewards[:] = random.normal(size=agents)
        if has_masks:
            slots.masks[:] = random_masks(action, agents, random)
            shown.append(slots.masks.copy())
        side.predict(requests)
        slots.flags[:] = random.choice([0, 0, FIRST | TERMINAL], agents)
    while len(side.queue):
        blocks += side.queue.take()
    assert len(blocks) == agents
    batch = side.store.gather(torch.tensor(blocks, device=side.model.device))
    settle(side)
    assert (batch.masks is None) == (not has_masks)
    with torch.no_grad():
        parameters, _ = side.model.network.unroll(batch.observations, batch.state, batch.begins)
        head, parameters = side.model.network.head, nets.masked(parameters[:, :-1], batch.masks)
        expected = head.log_prob(parameters, batch.actions)
    torch.testing.assert_close(batch.log_probs, expected, atol=1e-4, rtol=1e-4)
    chosen = batch.actions.cpu().reshape(agents, 3, -1)[..., : len(action.nums)].long()
    if has_masks:
        assert torch.equal(batch.masks.cpu(), torch.from_numpy(np.stack(shown[:3], axis=1)))
        legal = [mask.gather(-1, chosen[..., [n]]) for n, mask in enumerate(batch.masks.cpu().split(action.nums, -1))]
        assert all(each.all() for each in legal)
        assert parameters[..., : sum(action.nums)][batch.masks == 0].eq(-1e9).all()
    before = side.model.weights.clone()
    side.train(blocks[:1])
    settle(side)
    assert side.model.weights.isfinite().all()
    assert not torch.equal(before, side.model.weights)


@pytest.mark.parametrize("name", ["box", "product"])
@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_number_that_is_not_finite_reaches_no_agent(make_side: Callable[..., Side], name: str, number: float) -> None:
    side = make_side("cpu", BOX if name == "box" else ACTIONS[name])
    slots = side.pool.slots
    slots.flags[:], slots.actions[:] = FIRST, 0.25
    side.model.weights.fill_(number)
    with pytest.raises(Diverged, match=r"^The policy chose (nan|-?inf) as a number of an action"):
        side.predict([Request(group, 0) for group in side.pool.groups])
    assert (slots.actions == 0.25).all()
    side.stats.fail("predictor-0", Diverged("The policy chose nan."))
    assert (side.stats.failure, side.stats.diverged) == ("The policy chose nan.", True)
