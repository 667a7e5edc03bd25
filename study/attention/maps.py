"""Maps: from states to per-head queries, keys and values.

B batch · T positions · H heads · D width of the states · K width per head.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Projected(nn.Module):
    """x W_hᵀ for every head h, without bias: [B, T, D] → [B, H, T, K].

    The weight is stored (H, K, D), so that a head is a slice of it and its fan-in is its last axis.
    """

    def __init__(self, width: int, heads: int, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, size, width))

    def forward(self, states: Tensor) -> Tensor:
        return split(F.linear(states, self.weight.flatten(0, 1)), len(self.weight))

    @torch.no_grad()
    def rescale(self, factor: Tensor) -> None:
        """Multiply head h by factor[h]."""
        self.weight.mul_(factor[:, None, None])


class Raw(nn.Module):
    """The states themselves, sliced among the heads: [B, T, D] → [B, H, T, D/H]."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, states: Tensor) -> Tensor:
        return split(states, self.heads)


def split(x: Tensor, heads: int) -> Tensor:
    """The last axis sliced among the heads: [B, T, H·K] → [B, H, T, K]."""
    return x.view(*x.shape[:2], heads, x.shape[-1] // heads).transpose(1, 2)
