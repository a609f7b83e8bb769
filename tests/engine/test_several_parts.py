"""Observations of several parts through the store, predictors and trainers: captured steps do what plain calls do."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from lanes import DISCOUNT, FUSED, KINDS, OPEN, ROLLOUT, Side, settle
from specs import mixed_frames, mixed_spec

from ga3c.agents.flags import FIRST
from ga3c.agents.pool import AgentPool
from ga3c.agents.prediction_queue import Request
from ga3c.config import LearnConfig, NetName
from ga3c.envs.spec import ActionSpec

pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("full_precision")]
SPEC = mixed_spec(stack=2, action=ActionSpec.discrete(6))
NETS: list[NetName] = ["auto", "tiny-lstm"]


@pytest.fixture
def pool(make_pool: Callable[..., AgentPool], monkeypatch: pytest.MonkeyPatch) -> Iterator[AgentPool]:
    """Four agents without processes."""
    monkeypatch.setattr(AgentPool, "reply", lambda self, requests: None)
    yield make_pool("", 4, 1, spec=SPEC)
    while OPEN:
        OPEN.pop().close()


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("kind", KINDS)
def test_captured_predictions_store_and_see_what_plain_ones_do(pool: AgentPool, kind: str, net: NetName) -> None:
    learn, slots = LearnConfig(rollout=ROLLOUT), pool.slots
    plain, graphs = (Side(side, pool, learn, predictors=1, net=net) for side in ("cpu", kind))
    shown = []
    for turn in range(2 * ROLLOUT + 1):
        slots.frames[:] = mixed_frames(SPEC, 4, seed=turn)
        slots.flags[:] = FIRST if turn in (0, 4) else 0
        shown.append(slots.frames.copy())
        for side in (plain, graphs):
            side.predict([Request(group, 0) for group in pool.groups])
    compared = 0
    while len(plain.queue):
        blocks = plain.queue.take()
        assert graphs.queue.take() == blocks
        one, other = (
            plain.store.gather(torch.tensor(blocks)),
            graphs.store.gather(torch.tensor(blocks).to(graphs.model.device)),
        )
        assert torch.equal(one.observations, other.observations.cpu())
        begin = ROLLOUT * (compared // 4)
        for step, (before, last) in enumerate(one.observations[0].numpy()):
            turn = begin + step
            assert np.array_equal(last, shown[turn][compared % 4])
            assert np.array_equal(before, shown[turn if turn in (0, 4) else turn - 1][compared % 4])
        with torch.no_grad():
            logits, _ = plain.model.network.unroll(other.observations.cpu(), one.state, one.begins)
        expected = logits.log_softmax(-1)[0, :-1].gather(1, other.actions[0].cpu()[:, None])[:, 0]
        torch.testing.assert_close(other.log_probs[0].cpu(), expected, atol=1e-4, rtol=1e-4)
        compared += 1
    assert compared == 8


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("kind", [*KINDS, FUSED])
def test_a_captured_update_is_the_plain_update(pool: AgentPool, kind: str, net: NetName) -> None:
    learn = LearnConfig(
        rollout=ROLLOUT, batch_rollouts=4, correction="vtrace", reduction="mean", optimiser="adam",
        optimiser_epsilon=1e-3, clip_norm=0.5,
    )  # fmt: skip
    plain, graphs = (Side(side, pool, learn, net=net) for side in ("cpu", kind))
    generator, store = torch.Generator().manual_seed(3), plain.store
    store.frames.copy_(torch.from_numpy(mixed_frames(SPEC, len(store.frames))))
    store.ages.random_(0, 3, generator=generator)
    store.actions.random_(0, 6, generator=generator)
    store.log_probs.uniform_(-3.0, -1.0, generator=generator)
    store.rewards.normal_(generator=generator)
    store.learn.fill_(1.0)
    store.discounts.fill_(DISCOUNT)
    if store.states is not None:
        store.states.uniform_(-1.0, 1.0, generator=generator)
        graphs.store.states.copy_(store.states)
    for name in ("frames", "ages", "actions", "log_probs", "results"):
        getattr(graphs.store, name).copy_(getattr(store, name))
    settle(graphs)
    for blocks in ([3, 0, 7, 11], [1, 2, 4, 20]):
        plain.train(blocks)
        graphs.train(blocks)
    got = graphs.model.state()
    for name, value in plain.model.state().items():
        assert not torch.equal(value, plain.untouched[name]), f"{name} was not trained"
        torch.testing.assert_close(
            got[name], value, atol=1e-4, rtol=1e-3, msg=lambda text, name=name: f"{name}: {text}"
        )
