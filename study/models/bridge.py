"""What the decoder may look at: all encoder states, one slot, or nothing. Source side only.

B batch · S source tokens · D width of the states.
"""

from __future__ import annotations

import torch
from torch import Tensor

from study.models.translator import lengths


def masked_mean(states: Tensor, mask: Tensor) -> Tensor:
    """Mean over tokens that are not padding: [B, S, D] → [B, D]."""
    return (states * mask[..., None]).sum(1) / lengths(mask).clamp(min=1)[:, None]


def last(states: Tensor, mask: Tensor) -> Tensor:
    """The state of the last token that is not padding: [B, S, D] → [B, D]."""
    return states[torch.arange(len(states), device=states.device), lengths(mask) - 1]


def slots(memory: str, states: Tensor, final: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The slots that a memory offers, and their mask.

    Args:
        memory: states | final | mean | empty.
        states: [B, S, D].
        final: [B, D], what the family calls its final state.
        mask: [B, S].

    Returns:
        [B, S', D] and [B, S'] with S' = S, 1, 1 or 0.
    """
    match memory:
        case "states":
            return states, mask
        case "final":
            return final[:, None], mask[:, :1]
        case "mean":
            return masked_mean(states, mask)[:, None], mask[:, :1]
        case "empty":
            return states[:, :0], mask[:, :0]
    raise AssertionError(memory)
