"""Projections from states to queries, keys and values of heads.

B batch · T positions · H heads · D width of the states · K width per head.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from study.attention.part import Part
from study.config import AttentionConfig, plugins
from study.config.mechanisms import MAPS, SCORE, VALUES


class Map(Part):
    """Map from states [B, T, D] to the vectors of every head, [B, H, T, K]."""


class Maps(Map):
    """Projection of queries or of keys by a class of a user's own. Each site has one of either.

    Args:
        width: D.
        heads: H.
        size: K.
        of: "query" or "key".
    """

    axis = "maps"

    def __init__(self, width: int, heads: int, size: int, of: str) -> None:
        super().__init__()


class Values(Map):
    """Projection of values by a class of a user's own: [B, S, D] → [B, H, S, V].

    Args:
        width: D.
        heads: H.
        size: V.
    """

    axis = "values"

    def __init__(self, width: int, heads: int, size: int) -> None:
        super().__init__()


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


class Grouped(Projected):
    """x W_gᵀ for G keys or values, each shared by H/G heads (Shazeer 2019; Ainslie et al. 2023): → [B, H, T, K].

    Group g has the initial values that head g has without groups.
    """

    formula = "W,g x, g the group of the head"

    def __init__(self, width: int, heads: int, size: int, groups: int) -> None:
        super().__init__(width, groups, size)
        self.stored = {"weight": ((heads, size, width), slice(groups))}
        self.group = [head * groups // heads for head in range(heads)]

    def keep(self, heads: Sequence[int]) -> None:
        """Keep the groups of these heads."""
        chosen = [self.group[head] for head in heads]
        left = sorted(set(chosen))
        super().keep(left)
        self.group = [left.index(group) for group in chosen]

    def forward(self, states: Tensor) -> Tensor:
        return super().forward(states)[:, self.group]


class Signed(Map):
    """diag(s) W x with s = +1, −1, +1, …, for the projection W of the queries. Then q·k = yᵀ Wᵀ diag(s) W x.

    The score is symmetric, as with tied projections, but not semidefinite: a state does not score highest with itself.
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


class Norm(Part):
    """Queries and keys as the projections make them.

    Args:
        heads: H.
        query: Kq.
        key: Kk.
        one: True if queries and keys have one projection, and so one gain.
    """

    axis = "norm"
    name = "none"

    def __init__(self, heads: int, query: int, key: int, one: bool) -> None:
        super().__init__()

    def query(self, q: Tensor) -> Tensor:
        """Normalise queries [B, H, L, Kq]."""
        return q

    def key(self, k: Tensor) -> Tensor:
        """Normalise keys [B, H, S, Kk]."""
        return k

    def rescale(self, factor: Tensor) -> bool:
        """Multiply q·k of head h by factor[h] through a parameter; return False if there is none."""
        return False


class RMSNorm(Norm):
    """γ ⊙ x / rms(x), with a gain γ per head and component, 1 at the start (Dehghani et al. 2023; QK-norm).

    The paper subtracts the mean, too (LayerNorm); the form without it is that of most models since.
    """

    name = "rms"

    def __init__(self, heads: int, query: int, key: int, one: bool) -> None:
        super().__init__(heads, query, key, one)
        self.of_query = nn.Parameter(torch.empty(heads, query))
        self.of_key = None if one or not key else nn.Parameter(torch.empty(heads, key))

    def start(self) -> None:
        for gain in self.parameters():
            gain.fill_(1.0)

    def query(self, q: Tensor) -> Tensor:
        return rms_norm(q, self.of_query)

    def key(self, k: Tensor) -> Tensor:
        return rms_norm(k, self.of_query if self.of_key is None else self.of_key) if k.shape[-1] else k

    @torch.no_grad()
    def rescale(self, factor: Tensor) -> bool:
        for gain in self.parameters():
            gain.mul_(factor.sqrt()[:, None])
        return True


def rms_norm(x: Tensor, gain: Tensor) -> Tensor:
    """γ_h ⊙ x / √(mean x² + 1e-6): x [B, H, T, K], γ [H, K]."""
    return F.rms_norm(x, x.shape[-1:], eps=1e-6) * gain[:, None]


def build_maps(config: AttentionConfig, query_width: int, memory_width: int) -> tuple[Map, Map]:
    """Build the projections of queries and of keys that a resolved site declares."""
    heads = config.score_heads
    query, key = config.map_widths(query_width, memory_width)
    score, maps = SCORE[config.score], MAPS[config.maps]
    if score.content_free:
        return Absent(heads), Absent(heads)
    if plugins.is_own(config.maps):
        own = Maps.named(config.maps)
        keyed = Absent(heads) if "key" not in score.reads else own(memory_width, heads, key, "key")
        return own(query_width, heads, query, "query"), keyed
    of_query: Map = Projected(query_width, heads, query) if maps.weights else Raw(heads)
    if "key" not in score.reads:
        return of_query, Absent(heads)
    if not maps.weights:
        return of_query, Raw(heads)
    if not maps.one:
        return of_query, _projected(config, memory_width, heads, key)
    if not maps.signed:
        return of_query, of_query
    assert isinstance(of_query, Projected)
    return of_query, Signed(of_query)


def build_values(config: AttentionConfig, memory_width: int, keys: Map) -> Map:
    """Build the projection of values that a resolved site declares: that of the keys, if they are the values."""
    if plugins.is_own(config.values):
        return Values.named(config.values)(memory_width, config.heads, config.mixed_width(memory_width))
    if VALUES[config.values].keys:
        return keys
    if not VALUES[config.values].weights:
        return Raw(config.heads)
    return _projected(config, memory_width, config.heads, config.mixed_width(memory_width))


def _projected(config: AttentionConfig, width: int, heads: int, size: int) -> Projected:
    """Build a projection of slots, for G groups if heads share it. A head with two score maps has two keys a group."""
    if config.groups is None:
        return Projected(width, heads, size)
    return Grouped(width, heads, size, config.groups * heads // config.heads)
