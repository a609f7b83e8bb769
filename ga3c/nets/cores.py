"""What remembers: a recurrent core between the torso and the heads. A network without one lives in the moment.

What a core remembers of an agent is one vector, so that it is kept, carried and forgotten in one operation each.
"""

import torch
from torch import Tensor, nn


class Lstm(nn.Module):
    """Long short-term memory with forget gates (Gers et al. 2000), as A3C's FF+LSTM has it. It remembers its output and
    its cells, [h | c]."""

    def __init__(self, num_features: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.state_size = 2 * size
        # All gates in one product: input, forget, output, and what is offered to the cells, in this order.
        self.input = nn.Linear(num_features, 4 * size)
        self.hidden = nn.Linear(size, 4 * size, bias=False)

    def forward(self, features: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One moment: features [N, F] and what was remembered [N, 2H] to the output [N, H] and what is now."""
        h, c = self._cell(self.input(features), *state.chunk(2, dim=1))
        return h, torch.cat((h, c), dim=1)

    def unroll(self, features: Tensor, state: Tensor, begins: Tensor) -> Tensor:
        """Successive moments: features [B, T, F] and what was remembered before them [B, 2H] to outputs [B, T, H].
        Where an episode `begins` [B, T], nothing is remembered of what was before."""
        offered = self.input(features)  # [B, T, 4H]: what does not wait for the moment before is one product for all
        remains = (~begins).to(features.dtype).unsqueeze(2)  # [B, T, 1]
        h, c = state.chunk(2, dim=1)
        outputs = []
        for gates, remain in zip(offered.unbind(1), remains.unbind(1), strict=True):
            h, c = self._cell(gates, h * remain, c * remain)
            outputs.append(h)
        return torch.stack(outputs, dim=1)

    def _cell(self, offered: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Output and cells [N, H] after the input's part of the gates [N, 4H] and the output and cells before."""
        gates = torch.addmm(offered, h, self.hidden.weight.T)
        i, f, o = gates[:, : 3 * self.size].sigmoid().chunk(3, dim=1)
        c = torch.addcmul(f * c, i, gates[:, 3 * self.size :].tanh())
        return o * c.tanh(), c
