"""Maps from states to queries, keys and values of heads.

B batch · T positions · H heads · D width of the states · K width per head.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from study.attention.part import Part
from study.config import Attention as Config
from study.config.mechanisms import MAPS, SCORE, VALUES


class Map(Part):
    """Map from states [B, T, D] to the vectors of every head, [B, H, T, K]."""


class Projected(Map):
    """x W_hᵀ for every head h, without bias: [B, T, D] → [B, H, T, K].

    The weight is stored (H, K, D), so that a head is a slice of it and its fan-in is its last axis.
    """

    formula = "W x"

    def __init__(self, width: int, heads: int, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, size, width))

    def forward(self, states: Tensor) -> Tensor:
        return split(F.linear(states, self.weight.flatten(0, 1)), len(self.weight))


class Signed(Map):
    """diag(s) W x with s = +1, −1, +1, …, for the map W of the queries. Then q·k = yᵀ Wᵀ diag(s) W x.

    The score is symmetric, as with tied maps, but not semidefinite: a state does not score highest with itself.
    """

    formula = "diag(+1, −1, …) W x"
    sign: Tensor

    def __init__(self, base: Projected) -> None:
        super().__init__()
        self.base = base
        self.register_buffer("sign", 1.0 - 2.0 * (torch.arange(base.weight.shape[1]) % 2), persistent=False)

    def keep(self, heads: Sequence[int]) -> None:
        """Keep the signs, which all heads share."""

    def forward(self, states: Tensor) -> Tensor:
        signed: Tensor = self.base(states) * self.sign
        return signed


class Raw(Map):
    """The states themselves, sliced among the heads: [B, T, D] → [B, H, T, D/H]."""

    formula = "x"

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.kept = list(range(heads))

    def keep(self, heads: Sequence[int]) -> None:
        """Read the slices of these heads alone."""
        self.kept = [self.kept[head] for head in heads]

    def forward(self, states: Tensor) -> Tensor:
        slices = split(states, self.heads)
        return slices if len(self.kept) == self.heads else slices[:, self.kept]


class Absent(Map):
    """Map of width 0, for a score that does not read its input: [B, T, D] → [B, H, T, 0]."""

    formula = "none"

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def keep(self, heads: Sequence[int]) -> None:
        """Return as many heads of width 0."""
        self.heads = len(heads)

    def forward(self, states: Tensor) -> Tensor:
        return states.new_zeros(len(states), self.heads, states.shape[1], 0)


def split(x: Tensor, heads: int) -> Tensor:
    """Slice the last axis among the heads: [B, T, H·K] → [B, H, T, K]."""
    return x.view(*x.shape[:2], heads, x.shape[-1] // heads).transpose(1, 2)


def build_maps(config: Config, query_width: int, memory_width: int) -> tuple[Map, Map]:
    """Build the maps of queries and of keys that a resolved site declares."""
    heads = config.heads
    query, key = config.map_widths(query_width, memory_width)
    score, maps = SCORE[config.score], MAPS[config.maps]
    if score.content_free:
        return Absent(heads), Absent(heads)
    of_query: Map = Projected(query_width, heads, query) if maps.weights else Raw(heads)
    if "key" not in score.reads:
        return of_query, Absent(heads)
    if not maps.weights:
        return of_query, Raw(heads)
    if not maps.one:
        return of_query, Projected(memory_width, heads, key)
    if not maps.signed:
        return of_query, of_query
    assert isinstance(of_query, Projected)
    return of_query, Signed(of_query)


def build_values(config: Config, memory_width: int) -> Map:
    """Build the map of values that a resolved site declares."""
    if not VALUES[config.values].weights:
        return Raw(config.heads)
    return Projected(memory_width, config.heads, config.mixed_width(memory_width))
