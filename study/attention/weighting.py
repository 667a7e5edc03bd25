"""Weights: mask, then normalise, in float32 whatever the precision. The only mask and the only softmax."""

from __future__ import annotations

import torch
from torch import Tensor


def precise(x: Tensor) -> Tensor:
    """In float32, or float64 where it is that already."""
    return x if x.dtype == torch.float64 else x.float()


def unmask_empty(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Rows with nothing to attend to, and a mask that a softmax can take: those rows are opened.

    Such a row would be NaN under −∞ and a mean over padding under a large negative number: it is opened before
    the softmax, and zeroed after it by the caller.

    Args:
        mask: [B, 1, L, S], True where a slot is visible.

    Returns:
        The opened mask [B, 1, L, S] and the empty rows [B, 1, L, 1].
    """
    empty = ~mask.any(-1, keepdim=True)
    return mask | empty, empty


def softmax(logits: Tensor, mask: Tensor) -> Tensor:
    """Softmax over visible slots, in float32; a row with none is zero.

    Args:
        logits: [B, H, L, S].
        mask: broadcastable to it, True where a slot is visible.
    """
    opened, empty = unmask_empty(mask)
    weights = precise(logits).masked_fill(~opened, float("-inf")).softmax(-1)
    return weights.masked_fill(empty, 0.0)
