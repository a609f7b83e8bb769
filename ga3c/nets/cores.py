"""Recurrent cores, between the torso and the heads.

The state of a core is one vector per agent, so that it is stored, copied and cleared in one operation each.
"""

from typing import Any

import torch
from torch import Tensor, nn


class Lstm(nn.Module):
    """Long short-term memory with forget gates (Gers et al. 2000), as in A3C's FF+LSTM. Its state is its output and its
    cells, [h | c]."""

    def __init__(self, num_features: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.state_size = 2 * size
        # All gates in one product: output, input, forget, and the candidates for the cells, in this order.
        self.input = nn.Linear(num_features, 4 * size)
        self.hidden = nn.Linear(size, 4 * size, bias=False)

    def forward(self, features: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step: features [N, F] and the state before [N, 2H] to the output [N, H] and the state after."""
        h, c = state.chunk(2, dim=1)
        gates, _, c, tanh_c = _cell(self.input(features), self.hidden.weight, h, c)
        h = gates[:, : self.size] * tanh_c
        return h, torch.cat((h, c), dim=1)

    def unroll(self, features: Tensor, state: Tensor, begins: Tensor) -> Tensor:
        """Successive steps: features [B, T, F] and the state before them [B, 2H] to outputs [B, T, H]. The state is
        cleared where an episode `begins` [B, T]."""
        driven = self.input(features)  # [B, T, 4H]: one product for all steps, since it needs no state
        remains = (~begins).to(features.dtype).unsqueeze(2)  # [B, T, 1]
        outputs: Tensor = _Unrolled.apply(driven, self.hidden.weight, state, remains)  # type: ignore[no-untyped-call]
        return outputs


def _cell(driven: Tensor, weight: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The input's part of the gates [N, 4H], and output and cells before [N, H], to the gates o, i and f [N, 3H], the
    candidates for the cells, the cells after, and their tanh."""
    gates, candidate = torch.addmm(driven, h, weight.T).split_with_sizes((3 * h.shape[1], h.shape[1]), dim=1)
    gates, candidate = gates.sigmoid(), candidate.tanh()
    _, i, f = gates.chunk(3, dim=1)
    c = torch.addcmul(f * c, i, candidate)
    return gates, candidate, c, c.tanh()


class _Unrolled(torch.autograd.Function):
    """Many steps of the cell, with the gradient written out. Whatever needs no other step, such as the gradient by the
    weights, is computed for all steps at once, which leaves 17 operations per step instead of 31."""

    @staticmethod
    def forward(ctx: Any, driven: Tensor, weight: Tensor, state: Tensor, remains: Tensor) -> Tensor:
        """[B, T, 4H], [4H, H], [B, 2H] and [B, T, 1] to outputs [B, T, H]."""
        h, c = state.chunk(2, dim=1)
        outputs, kept = [], []
        for drive, remain in zip(driven.unbind(1), remains.unbind(1), strict=True):
            before = h * remain, c * remain
            gates, candidate, c, tanh_c = _cell(drive, weight, *before)
            h = gates[:, : h.shape[1]] * tanh_c
            outputs.append(h)
            kept.append((gates, candidate, tanh_c, *before))
        stacked = [torch.stack(parts, dim=1) for parts in zip(*kept, strict=True)]
        ctx.save_for_backward(weight, remains, *stacked)
        return torch.stack(outputs, dim=1)

    @staticmethod
    def backward(ctx: Any, by_outputs: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        weight, remains, gates, candidate, tanh_c, h, c = ctx.saved_tensors
        o, i, f = gates.chunk(3, dim=2)
        slope_o, slope_i, slope_f = (gates - gates.square()).chunk(3, dim=2)
        to_cells = o - o * tanh_c.square()  # [B, T, H]: h by c
        to_output_gate = tanh_c * slope_o  # h by the product behind o
        # [B, T, 3, H]: c by the products behind i, f and the candidates
        to_other_gates = torch.stack((candidate * slope_i, c * slope_f, i - i * candidate.square()), dim=2)
        lasting = f * remains  # c by the c before
        by_h = by_c = torch.zeros_like(by_outputs[:, 0])
        by_driven = []
        steps = zip(
            *(part.unbind(1) for part in (by_outputs, to_cells, to_output_gate, to_other_gates, lasting, remains)),
            strict=True,
        )
        for by_output, cells, output_gate, other_gates, lasts, remain in reversed(list(steps)):
            by_h = by_output + by_h
            by_c = torch.addcmul(by_c, by_h, cells)
            others = (by_c.unsqueeze(1) * other_gates).flatten(1)
            by_driven.append(torch.cat((by_h * output_gate, others), dim=1))
            by_h = by_driven[-1] @ weight * remain
            by_c = by_c * lasts
        by_all = torch.stack(by_driven[::-1], dim=1)
        by_weight = by_all.flatten(0, 1).T @ h.flatten(0, 1)
        return by_all, by_weight, torch.cat((by_h, by_c), dim=1), None
