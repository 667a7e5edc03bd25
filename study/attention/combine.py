"""Combination: from H heads to one output.

B batch · H heads · L queries · V value width per head · D width of the model.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from study.config import Attention as Config


class Concat(nn.Module):
    """[o_1; …; o_H] W_O, without bias: [B, H, L, V] → [B, L, D].

    W_O is stored as one (H, V, D) tensor, so that other combinations can share its initial values; its fan-in is H·V.
    """

    def __init__(self, heads: int, size: int, width: int) -> None:
        super().__init__()
        self.fan_in = heads * size
        self.weight = nn.Parameter(torch.empty(heads, size, width))

    def forward(self, heads: Tensor) -> Tensor:
        return heads.transpose(1, 2).flatten(2) @ self.weight.flatten(0, 1)


class RawConcat(nn.Module):
    """[o_1; …; o_H] as it is: [B, H, L, V] → [B, L, H·V]."""

    def forward(self, heads: Tensor) -> Tensor:
        return heads.transpose(1, 2).flatten(2)


def build_combine(config: Config, size: int, width: int) -> nn.Module:
    """The combination that a resolved site declares, for heads of `size` and a model of `width`."""
    match (config.combine, config.output):
        case ("concat", "projected"):
            return Concat(config.heads, size, width)
        case ("concat", "raw"):
            return RawConcat()
    raise AssertionError(config.combine)
