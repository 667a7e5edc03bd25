"""Multi-head attention over a memory: maps → score · scale → weigh → mix → gate → combine.

B batch · L queries · S slots · H heads · Dq, Dk widths of query and memory states · K, V widths per head.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from study.attention.combine import build_combine
from study.attention.maps import Projected, Raw
from study.attention.scores import build_scale, build_score
from study.attention.weighting import precise, softmax, unmask_empty
from study.config import Attention as Config


class View(NamedTuple):
    """What each query may see, and where it stands."""

    mask: Tensor
    """[B, 1, L, S] or broadcastable to it: True where a slot is visible (padding & causality)."""
    position: Tensor
    """[L]: absolute positions of the queries."""


class Memory(NamedTuple):
    """Slots, mapped and prepared: once per sentence at cross, grown by the step in causal self-attention."""

    keys: Tensor
    """[B, H, S, ·]: keys as the score prepares them."""
    values: Tensor
    """[B, H, S, V]."""
    mask: Tensor
    """[B, S]: True for slots that are not padding."""
    origin: Tensor | None = None
    """[B, S, source positions]: the share of each source token in a slot; None where slots are tokens."""


class Terms(NamedTuple):
    """What a mechanism adds to the loss; empty when nothing is special."""

    penalty: Tensor | None = None
    """A scalar that is added to the loss."""
    log_prob: Tensor | None = None
    """[B, L]: log-probability of what was sampled, for a score-function gradient."""


class Seen(NamedTuple):
    """What a tap is shown of one call."""

    query: Tensor
    """[B, H, L, K]."""
    keys: Tensor
    """[B, H, S, ·], prepared."""
    logits: Tensor
    """[B, H, L, S], scaled, before the mask."""
    weights: Tensor
    """[B, H, L, S]."""
    heads: Tensor
    """[B, H, L, V], after the gate."""
    mask: Tensor
    """Broadcastable to the weights."""


class Attention(nn.Module):
    """One attention site of one layer.

    softmax(scale · score(W_Q x, W_K m)) (W_V m), heads combined; which of these parts exist, the configuration says.
    The fused kernel is taken when the score allows it and nobody taps.

    Args:
        config: a resolved site.
        query_width: Dq.
        memory_width: Dk.
    """

    def __init__(self, config: Config, query_width: int, memory_width: int) -> None:
        super().__init__()
        self.config = config
        query, key = config.map_widths(query_width, memory_width)
        value = config.mixed_width(memory_width)
        self.map_query, self.map_key = (
            Raw(config.heads) if config.maps == "raw" else Projected(states, config.heads, size)
            for states, size in ((query_width, query), (memory_width, key))
        )
        self.map_value = Raw(config.heads) if config.values == "raw" else Projected(memory_width, config.heads, value)
        self.score = build_score(config, query, key)
        self.scale = build_scale(config, self.score.fan)
        self.gate: nn.Module = nn.Identity()
        self.combine = build_combine(config, value, query_width)
        self.tap: Callable[[Seen], None] | None = None

    def remember(self, states: Tensor, mask: Tensor) -> Memory:
        """States [B, S, Dk] and their mask [B, S] as a memory. Keys are computed in float32."""
        with torch.autocast(states.device.type, enabled=False):
            keys = self.score.prepare(self.map_key(precise(states)))
        return Memory(keys, self.map_value(states), mask)

    def extend(self, memory: Memory, states: Tensor) -> Memory:
        """The memory with the slots of further states [B, T, Dk], none of them padding."""
        new = self.remember(states, states.new_ones(states.shape[:2], dtype=torch.bool))
        return Memory(
            torch.cat([memory.keys, new.keys], 2),
            torch.cat([memory.values, new.values], 2),
            torch.cat([memory.mask, new.mask], 1),
        )

    def forward(self, query: Tensor, memory: Memory, view: View) -> tuple[Tensor, Terms]:
        """Queries [B, L, Dq] → contexts [B, L, D], and what they add to the loss."""
        with torch.autocast(query.device.type, enabled=False):
            mapped = self.map_query(precise(query))
            if self.score.fusable and self.tap is None and memory.mask.shape[1]:
                heads = self._fused(mapped, memory, view)
            else:
                heads = self._explicit(mapped, memory, view)
        return self.combine(heads.to(memory.values.dtype)), Terms()

    def _fused(self, query: Tensor, memory: Memory, view: View) -> Tensor:
        scale = self.scale()
        if isinstance(scale, Tensor):
            query, scale = query * scale, 1.0
        mask, empty = unmask_empty(view.mask)
        mixed = F.scaled_dot_product_attention(query, memory.keys, precise(memory.values), mask, scale=scale)
        heads: Tensor = self.gate(mixed.masked_fill(empty, 0.0))
        return heads

    def _explicit(self, query: Tensor, memory: Memory, view: View) -> Tensor:
        logits = self.score(query, memory.keys) * self.scale()
        weights = softmax(logits, view.mask)
        heads: Tensor = self.gate(weights @ precise(memory.values))
        if self.tap is not None:
            self.tap(Seen(query, memory.keys, logits, weights, heads, view.mask))
        return heads

    @torch.no_grad()
    def rescale(self, factor: Tensor) -> None:
        """Multiply the logits of head h by factor[h]: through the score's parameter, else through both maps."""
        if not self.score.rescale(factor):
            assert isinstance(self.map_query, Projected)
            assert isinstance(self.map_key, Projected)
            self.map_query.rescale(factor.sqrt())
            self.map_key.rescale(factor.sqrt())
