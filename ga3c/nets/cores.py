"""What remembers: a recurrent core between the torso and the heads. A network without one lives in the moment.

What a core remembers of an agent is one vector, so that it is kept, carried and forgotten in one operation each.
"""

from typing import Any

import torch
from torch import Tensor, nn


class Lstm(nn.Module):
    """Long short-term memory with forget gates (Gers et al. 2000), as A3C's FF+LSTM has it. It remembers its output and
    its cells, [h | c]."""

    def __init__(self, num_features: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.state_size = 2 * size
        # All gates in one product: output, input, forget, and what is offered to the cells, in this order.
        self.input = nn.Linear(num_features, 4 * size)
        self.hidden = nn.Linear(size, 4 * size, bias=False)

    def forward(self, features: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One moment: features [N, F] and what was remembered [N, 2H] to the output [N, H] and what is now."""
        h, c = state.chunk(2, dim=1)
        gates, _, c, seen = _cell(self.input(features), self.hidden.weight, h, c)
        h = gates[:, : self.size] * seen
        return h, torch.cat((h, c), dim=1)

    def unroll(self, features: Tensor, state: Tensor, begins: Tensor) -> Tensor:
        """Successive moments: features [B, T, F] and what was remembered before them [B, 2H] to outputs [B, T, H].
        Where an episode `begins` [B, T], nothing is remembered of what was before."""
        driven = self.input(features)  # [B, T, 4H]: what does not wait for the moment before is one product for all
        remains = (~begins).to(features.dtype).unsqueeze(2)  # [B, T, 1]
        outputs: Tensor = _Unrolled.apply(driven, self.hidden.weight, state, remains)  # type: ignore[no-untyped-call]
        return outputs


def _cell(driven: Tensor, weight: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The input's part of the gates [N, 4H], and output and cells [N, H] before, to: the gates o, i and f [N, 3H], what
    is offered to the cells, the cells now, and what of them is to be seen."""
    gates, offer = torch.addmm(driven, h, weight.T).split_with_sizes((3 * h.shape[1], h.shape[1]), dim=1)
    gates, offer = gates.sigmoid(), offer.tanh()
    _, i, f = gates.chunk(3, dim=1)
    c = torch.addcmul(f * c, i, offer)
    return gates, offer, c, c.tanh()


class _Unrolled(torch.autograd.Function):
    """Many moments of the cell, with the gradient written out: what does not wait for the moment after, such as the
    gradient by the weights, is then done for all at once, which leaves 17 operations to each moment instead of 31."""

    @staticmethod
    def forward(ctx: Any, driven: Tensor, weight: Tensor, state: Tensor, remains: Tensor) -> Tensor:
        """[B, T, 4H], [4H, H], [B, 2H] and [B, T, 1] to outputs [B, T, H]."""
        h, c = state.chunk(2, dim=1)
        outputs, kept = [], []
        for drive, remain in zip(driven.unbind(1), remains.unbind(1), strict=True):
            before = h * remain, c * remain
            gates, offer, c, seen = _cell(drive, weight, *before)
            h = gates[:, : h.shape[1]] * seen
            outputs.append(h)
            kept.append((gates, offer, seen, *before))
        stacked = [torch.stack(parts, dim=1) for parts in zip(*kept, strict=True)]
        ctx.save_for_backward(weight, remains, *stacked)
        return torch.stack(outputs, dim=1)

    @staticmethod
    def backward(ctx: Any, by_outputs: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        weight, remains, gates, offer, seen, h, c = ctx.saved_tensors
        o, i, f = gates.chunk(3, dim=2)
        slope_o, slope_i, slope_f = (gates - gates.square()).chunk(3, dim=2)
        to_cells = o - o * seen.square()  # [B, T, H]: h by c
        to_output_gate = seen * slope_o  # h by the product behind o
        # [B, T, 3, H]: c by the products behind i, f and what is offered
        to_other_gates = torch.stack((offer * slope_i, c * slope_f, i - i * offer.square()), dim=2)
        lasting = f * remains  # c by the c before
        by_h = by_c = torch.zeros_like(by_outputs[:, 0])
        by_driven = []
        moments = zip(
            *(part.unbind(1) for part in (by_outputs, to_cells, to_output_gate, to_other_gates, lasting, remains)),
            strict=True,
        )
        for by_output, cells, output_gate, other_gates, lasts, remain in reversed(list(moments)):
            by_h = by_output + by_h
            by_c = torch.addcmul(by_c, by_h, cells)
            others = (by_c.unsqueeze(1) * other_gates).flatten(1)
            by_driven.append(torch.cat((by_h * output_gate, others), dim=1))
            by_h = by_driven[-1] @ weight * remain
            by_c = by_c * lasts
        by_all = torch.stack(by_driven[::-1], dim=1)
        by_weight = by_all.flatten(0, 1).T @ h.flatten(0, 1)
        return by_all, by_weight, torch.cat((by_h, by_c), dim=1), None
