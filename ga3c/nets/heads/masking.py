"""Action masks: illegal actions get no probability, and what is left is a distribution of the same kind."""

import torch
from torch import Tensor

from ga3c.nets.heads.categorical import FORBIDDEN


def masked(params: Tensor, masks: Tensor | None) -> Tensor:
    """The parameters of a head [..., A], without the choices that masks [..., sum of n] forbid by 0. In the parameters
    of every head the logits come first. Without masks they stay as they are."""
    if masks is None:
        return params
    count = masks.shape[-1]
    logits = params[..., :count].masked_fill(masks == 0, FORBIDDEN)
    return logits if count == params.shape[-1] else torch.cat((logits, params[..., count:]), dim=-1)
