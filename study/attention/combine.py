"""Combinations of H heads into one output, without bias: [B, H, L, V] → [B, L, D].

B batch · H heads · L queries · V value width per head · D width of the model.
Combinations with a W_O draw it as one (H, V, D) tensor of variance 1/(H·V), so that arms share its values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from study.attention.maps import Projected
from study.attention.part import Part
from study.attention.weighting import to_float32
from study.config import AttentionConfig, plugins
from study.config.mechanisms import OUTPUT


class Combine(Part):
    """Combination of heads o_n into one output. It may also mix logits and weights of heads, and change heads.

    Args:
        heads: H.
        size: V.
        width: D.
    """

    axis = "combine"
    fusable = True
    """True if PyTorch's fused kernel can compute the heads; False for a class that mixes logits or weights."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if {"mix_logits", "mix_weights"} & vars(cls).keys():
            cls.fusable = vars(cls).get("fusable", False)

    def __init__(self, heads: int, size: int, width: int) -> None:
        super().__init__()
        self.count = heads

    def mix_logits(self, logits: Tensor) -> Tensor:
        """Return the logits [B, H, L, S] that are normalised."""
        return logits

    def mix_weights(self, weights: Tensor) -> Tensor:
        """Return the weights [B, H, L, S] of the values from those of all score maps."""
        return weights

    def transform(self, heads: Tensor, query: Tensor) -> Tensor:
        """Return heads [B, H, L, V] as they are combined. `query` has the states [B, L, D] that ask."""
        return heads

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
            places = torch.tensor(self.kept, device=heads.device)
            heads = heads.new_zeros(batch, self.count, queries, size).index_copy(1, places, heads)
        return heads.transpose(1, 2).flatten(2)


class Output(Part):
    """From heads side by side to the output of a site, by a class of a user's own: [B, L, H·V] → [B, L, D].

    A removed head leaves zeros in its place, and all heads share the parameters.

    Args:
        joined: H·V.
        width: D.
    """

    axis = "output"

    def __init__(self, joined: int, width: int) -> None:
        super().__init__()

    def keep(self, heads: Sequence[int]) -> None:
        """Keep the parameters, which all heads share."""


class Through(RawConcat):
    """A class of a user's own over heads side by side."""

    def __init__(self, heads: int, size: int, output: Output) -> None:
        super().__init__(heads, size, 0)
        self.output = output

    def forward(self, heads: Tensor) -> Tensor:
        contexts: Tensor = self.output(super().forward(heads))
        return contexts


class Gate(Concat):
    """[o_n ⊙ σ(W_G^n x); …] W_O: each component of a head has a gate that reads the query's state (Qiu et al. 2025)."""

    name = "gate"

    def __init__(self, heads: int, size: int, width: int) -> None:
        super().__init__(heads, size, width)
        self.gate = Projected(width, heads, size)

    def transform(self, heads: Tensor, query: Tensor) -> Tensor:
        gate: Tensor = self.gate(to_float32(query))
        return heads * gate.sigmoid()


class Talking(Concat):
    """Σ_n P_nm e_n for logits, Σ_n P'_nm a_n for weights, then concat (Shazeer et al. 2020). P, P' start as identities.

    The paper draws them at random, and may have other numbers of heads for keys and for values.
    """

    name = "talking"

    def __init__(self, heads: int, size: int, width: int) -> None:
        super().__init__(heads, size, width)
        self.of_logits, self.of_weights = (nn.Parameter(torch.empty(heads, heads)) for _ in range(2))

    def start(self) -> None:
        for matrix in (self.of_logits, self.of_weights):
            matrix.copy_(torch.eye(len(matrix)))

    def mix_logits(self, logits: Tensor) -> Tensor:
        return torch.einsum("bnls,nm->bmls", logits, self.of_logits)

    def mix_weights(self, weights: Tensor) -> Tensor:
        return torch.einsum("bnls,nm->bmls", weights, self.of_weights)

    def keep(self, heads: Sequence[int]) -> None:
        """Refuse to remove some of the heads.

        Raises:
            ValueError: some heads are left, and others are not.
        """
        if heads and len(heads) < self.count:
            raise ValueError("combine: talking mixes the logits and weights of all heads, so no head can be removed")
        super().keep(heads)


class Differential(Concat):
    """(1 − λ₀) · [norm(o_1); …] W_O with o_n = (a_n − λ a'_n) v_n, a and a' from two score maps (Ye et al. 2024).

    norm is x / rms(x) times a gain per component, shared by heads; λ is that of `Lambda`.
    """

    name = "differential"
    fusable = True  # o_n = a_n v_n − λ a'_n v_n: the kernel computes both

    def __init__(self, heads: int, size: int, width: int, query: int, layer: int) -> None:
        super().__init__(heads, size, width)
        self.share = Lambda(query, layer)
        self.norm = nn.RMSNorm(size, eps=1e-5)

    def mix_weights(self, weights: Tensor) -> Tensor:
        first, second = weights.chunk(2, 1)
        share: Tensor = self.share()
        return first - share * second

    def transform(self, heads: Tensor, query: Tensor) -> Tensor:
        normed: Tensor = self.norm(heads) * (1 - self.share.base)
        return normed


class Lambda(Part):
    """λ = exp(x·y) − exp(x'·y') + λ₀, λ₀ = 0.8 − 0.6 exp(−0.3 (layer − 1)): vectors of width K that start with sd 0.1.

    All heads of a layer share it.
    """

    fan_in = 100.0

    def __init__(self, query: int, layer: int) -> None:
        super().__init__()
        self.base = 0.8 - 0.6 * math.exp(-0.3 * (layer - 1))
        self.weight = nn.Parameter(torch.empty(4, query))

    def keep(self, heads: Sequence[int]) -> None:
        """Keep λ, which the remaining heads share."""

    def forward(self) -> Tensor:
        x, y, other_x, other_y = self.weight
        share: Tensor = (x @ y).exp() - (other_x @ other_y).exp() + self.base
        return share


def build_combine(config: AttentionConfig, size: int, width: int, query: int, layer: int) -> Combine:
    """Build the combination that a resolved site declares.

    Args:
        config: the site.
        size: V.
        width: D.
        query: Kq.
        layer: number of the layer, from 1.
    """
    if plugins.is_own(config.output):
        return Through(config.heads, size, Output.named(config.output)(config.heads * size, width))
    if Combine.named(config.combine) is Concat and not OUTPUT[config.output].weights:
        return RawConcat(config.heads, size, width)
    return Combine.chosen(config, config.heads, size, width, query=query, layer=layer)
