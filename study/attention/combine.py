"""Combinations of H heads into one output, without bias: [B, H, L, V] → [B, L, D].

B batch · H heads · L queries · V value width per head · D width of the model.
Every combination draws W_O as one (H, V, D) tensor of variance 1/(H·V), so that arms share its values.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from study.attention.part import Part
from study.config import Attention as Config
from study.config.mechanisms import OUTPUT


class Combine(Part):
    """Combination of heads o_n into one output.

    Args:
        heads: H.
        size: V.
        width: D.
    """

    axis = "combine"

    def __init__(self, heads: int, size: int, width: int) -> None:
        super().__init__()
        self.count = heads

    def forward(self, heads: Tensor) -> Tensor:
        """Combine heads [B, H, L, V] → [B, L, D]."""
        raise NotImplementedError


class Concat(Combine):
    """[o_1; …; o_H] W_O (Vaswani et al. 2017)."""

    name = "concat"

    def __init__(self, heads: int, size: int, width: int) -> None:
        super().__init__(heads, size, width)
        self.fan_in = heads * size
        self.weight = nn.Parameter(torch.empty(heads, size, width))

    def forward(self, heads: Tensor) -> Tensor:
        return heads.transpose(1, 2).flatten(2) @ self.weight.flatten(0, 1)


class SumOwn(Concat):
    """Σ_n o_n W_O^n (Michel et al. 2019). A control: the same function as concat, with other rounding."""

    name = "sum_own"

    def forward(self, heads: Tensor) -> Tensor:
        return (heads @ self.weight).sum(1)


class SumShared(Combine):
    """(Σ_n o_n) W_O: one W_O for all heads, of rank V at most.

    It stores V·D parameters: the first head's block of concat's W_O, with variance 1/(H·V). So the sum over H heads has
    the size of concat's output.
    """

    name = "sum_shared"

    def __init__(self, heads: int, size: int, width: int) -> None:
        super().__init__(heads, size, width)
        self.fan_in = heads * size
        self.weight = nn.Parameter(torch.empty(size, width))
        self.stored = {"weight": ((heads, size, width), 0)}

    def keep(self, heads: Sequence[int]) -> None:
        """Keep W_O, which the remaining heads share. H stays, because a removed head counts as 0."""
        if not heads:
            self.weight = nn.Parameter(self.weight.detach()[:0].clone())

    def forward(self, heads: Tensor) -> Tensor:
        return heads.sum(1) @ self.weight


class MeanShared(SumShared):
    """(1/H Σ_n o_n) W_O: sum_shared with another size of W_O. A control for initial value and learning rate."""

    name = "mean_shared"

    def forward(self, heads: Tensor) -> Tensor:
        return heads.sum(1) / self.count @ self.weight


class SumWide(Combine):
    """Σ_n o_n with V = D: no W_O."""

    name = "sum_wide"

    def forward(self, heads: Tensor) -> Tensor:
        return heads.sum(1)


class RawConcat(Combine):
    """[o_1; …; o_H] as it is: [B, H, L, V] → [B, L, H·V]. This is concat without W_O."""

    formula = "[o_1; …; o_H]"

    def __init__(self, heads: int, size: int, width: int) -> None:
        super().__init__(heads, size, width)
        self.kept = list(range(heads))

    def keep(self, heads: Sequence[int]) -> None:
        """Keep the shape of the output: a head that was removed leaves zeros in its place."""
        self.kept = [self.kept[head] for head in heads]

    def forward(self, heads: Tensor) -> Tensor:
        if len(self.kept) < self.count:
            batch, _, queries, size = heads.shape
            heads = heads.new_zeros(batch, self.count, queries, size).index_copy(1, self._places(heads), heads)
        return heads.transpose(1, 2).flatten(2)

    def _places(self, like: Tensor) -> Tensor:
        return torch.tensor(self.kept, device=like.device)


def build_combine(config: Config, size: int, width: int) -> Combine:
    """Build the combination that a resolved site declares, for heads of `size` and a model of `width`."""
    chosen = Combine.named(config.combine)
    if chosen is Concat and not OUTPUT[config.output].weights:
        return RawConcat(config.heads, size, width)
    return chosen(config.heads, size, width)
