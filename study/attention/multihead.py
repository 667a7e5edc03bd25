"""Multi-head attention over a memory: maps → reach → score · scale → weigh → reweight → mix → gate → combine.

B batch · L queries · S slots · H heads · Dq, Dk widths of query and memory states · K, V widths per head.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from study.attention.combine import build_combine
from study.attention.maps import Projected, build_maps, build_values
from study.attention.part import Part
from study.attention.reach import build_reach, without_self
from study.attention.scores import build_scale, build_score
from study.attention.view import AttentionCall, Lengths, Memory, Terms, View, gather
from study.attention.weighting import build_weights, to_float32, unmask_empty, without_autocast
from study.config import Attention as Config
from study.config.mechanisms import LOGIT_INIT, MAP_RATE

FUSED_GATHER_FROM = 28.0
"""`Score.gather_from` against torch's fused kernel with a mask."""


class Attention(Part):
    """One attention site of one layer.

    It computes weights(scale · score(W_Q x, W_K m)) (W_V m) for every head, and combines the heads. The configuration
    decides which parts exist. If every part allows it, PyTorch's fused kernel computes the site. If a window is much
    smaller than the memory, its slots are gathered. With a tap, the site computes the weights explicitly.

    Args:
        config: a resolved site.
        query_width: Dq.
        memory_width: Dk.
        lengths: lengths of the training sentences, for scores that need them.
    """

    def __init__(self, config: Config, query_width: int, memory_width: int, lengths: Lengths | None = None) -> None:
        super().__init__()
        self.config = config
        self.map_query, self.map_key = build_maps(config, query_width, memory_width)
        self.map_value = build_values(config, memory_width)
        query, key = config.map_widths(query_width, memory_width)
        self.score = build_score(config, query, key, lengths)
        self.scale = build_scale(config, self.score.d)
        self.weights = build_weights(config)
        self.reach = build_reach(config, query)
        self.gather_from = max(self.score.gather_from, FUSED_GATHER_FROM if self.fusable else 0.0)
        self.gate: nn.Module = nn.Identity()
        self.combine = build_combine(config, config.mixed_width(memory_width), query_width)
        self.tap: Callable[[AttentionCall], None] | None = None
        self.width = config.output_width(query_width, memory_width)
        self.kept: tuple[int, ...] = tuple(range(config.heads))
        """The remaining heads, by their numbers in the configuration."""

    def start(self) -> None:
        if self.config.equal_start:
            assert isinstance(self.map_query, Projected)
            assert isinstance(self.map_key, Projected)
            self.map_key.weight.copy_(self.map_query.weight)
        if power := LOGIT_INIT[self.config.logit_init].power:
            self.rescale(torch.full((self.config.heads,), self.score.d ** (-2 * power)))

    def remember(self, states: Tensor, mask: Tensor, valued: Tensor | None = None) -> Memory:
        """Return the memory of states [B, S, Dk] and their mask [B, S]. Keys are computed in float32.

        Args:
            states: read by keys.
            mask: True where a slot is no padding.
            valued: states that values read instead.
        """
        if not self.kept:
            nothing = states.new_zeros(len(states), 0, states.shape[1], 0)
            return Memory(nothing, nothing, mask)
        with without_autocast(states.device):
            keys = self.score.prepare(self.map_key(to_float32(states)))
        return Memory(keys, self.map_value(states if valued is None else valued), mask)

    def extend(self, memory: Memory, states: Tensor) -> Memory:
        """Return a copy of the memory with the slots of further states [B, T, Dk], none of them padding.

        Search copies every memory at each step anyway, to reorder its beams. Room reserved in advance would be copied,
        too; it was tried and is slower.
        """
        new = self.remember(states, states.new_ones(states.shape[:2], dtype=torch.bool))
        return Memory(
            torch.cat([memory.keys, new.keys], 2),
            torch.cat([memory.values, new.values], 2),
            torch.cat([memory.mask, new.mask], 1),
        )

    def forward(self, query: Tensor, memory: Memory, view: View) -> tuple[Tensor, Terms]:
        """Return the contexts [B, L, D] of queries [B, L, Dq], and their terms of the loss."""
        if not self.kept:
            return query.new_zeros(*query.shape[:2], self.width), Terms()
        view = self.score.narrow(view, memory.mask.shape[1])
        with without_autocast(query.device):
            mapped = self.map_query(to_float32(query))
            view = self.reach.window(mapped, view, self.gather_from if self.tap is None else math.inf)
            if self.config.exclude_self:
                view = without_self(view)
            if view.gathered is not None:
                heads, terms = self._gathered(mapped, memory, view, view.gathered)
            elif self.fusable and self.tap is None and memory.mask.shape[1]:
                heads, terms = self._fused(mapped, memory, view), Terms()
            else:
                heads, terms = self._explicit(mapped, memory, view)
        return self.combine(heads.to(memory.values.dtype)), terms

    @property
    def fusable(self) -> bool:
        """Return True if PyTorch's fused kernel can compute this attention."""
        return self.score.fusable and self.weights.fusable and self.reach.fusable

    def _fused(self, query: Tensor, memory: Memory, view: View) -> Tensor:
        scale, query = self.scale(), self.score.prepare_query(query)
        if isinstance(scale, Tensor):
            query, scale = query * scale, 1.0
        mask, empty = unmask_empty(view.mask)
        mixed = F.scaled_dot_product_attention(query, memory.keys, to_float32(memory.values), mask, scale=scale)
        if not empty.is_cpu or bool(empty.any()):  # a GPU would have to be waited for
            mixed = mixed.masked_fill(empty, 0.0)
        heads: Tensor = self.gate(mixed)
        return heads

    def _explicit(self, query: Tensor, memory: Memory, view: View) -> tuple[Tensor, Terms]:
        logits = self.score(self.score.prepare_query(query), memory.keys, view) * self.scale()
        normalised = self.weights(logits, view.mask)
        weights, terms = self.reach.reweight(normalised, query, view)
        heads: Tensor = self.gate(weights @ to_float32(memory.values))
        if self.tap is not None:
            facts = self.weights.facts.sums_to_one, self.weights.facts.softmax
            self.tap(
                AttentionCall(query, memory.keys, logits, normalised, weights, heads, view.mask, *facts, memory.origin)
            )
        return heads, terms

    def _gathered(self, query: Tensor, memory: Memory, view: View, slots: Tensor) -> tuple[Tensor, Terms]:
        """Compute `_explicit` over the gathered slots of each query, [B, 1 or H, L, W]. L joins the batch."""
        batch, heads, queries, width = query.shape
        keys, values = gather(memory.keys, slots), gather(to_float32(memory.values), slots)
        alone = self.score.prepare_query(query.transpose(1, 2).reshape(batch * queries, heads, 1, width))
        # One product of vectors each: elementwise is faster than many small matrix products.
        logits = (alone * keys).sum(-1)[:, :, None] if self.score.fusable else self.score(alone, keys, view)
        logits = (logits * self.scale()).view(batch, queries, heads, -1).transpose(1, 2)
        weights, terms = self.reach.reweight(self.weights(logits, view.mask), query, view)
        mixed = (weights.transpose(1, 2).reshape(batch * queries, heads, -1, 1) * values).sum(2)
        contexts: Tensor = self.gate(mixed.view(batch, queries, heads, -1).transpose(1, 2))
        return contexts, terms

    def keep(self, heads: Sequence[int]) -> None:
        """Remove all other heads from every part, in place. Heads are counted among those that remain now.

        The output is the one with o_h = 0 for removed heads. Without any head it is 0.
        """
        self.kept = tuple(self.kept[head] for head in heads)
        for part in self.modules():
            if isinstance(part, Part) and part is not self:
                part.keep(heads)

    def reduced(self, heads: Sequence[int]) -> Attention:
        """Return a copy with these heads alone, without gate and tap."""
        smaller = copy.deepcopy(self, {id(self.gate): nn.Identity(), id(self.tap): None})
        smaller.keep(heads)
        return smaller

    def reseed(self, seed: int) -> None:
        """Seed the random numbers of the reach, at the beginning of a training step."""
        self.reach.reseed(seed)

    def shares(self) -> dict[nn.Parameter, float]:
        """Return the parameters with a learning rate of their own, and its share of the common rate."""
        share = self.score.d ** -MAP_RATE[self.config.map_rate].power
        maps = (self.map_query, self.map_key) if share != 1 else ()
        return {parameter: share for module in maps for parameter in module.parameters()}

    @torch.no_grad()
    def rescale(self, factor: Tensor) -> None:
        """Multiply the logits of head h by factor[h]: through the score's parameter, else through both maps.

        Raises:
            ValueError: neither has a parameter.
        """
        if self.score.rescale(factor):
            return
        weights = {id(p): p for m in (self.map_query, self.map_key) for p in m.parameters()}.values()
        if not weights:
            raise ValueError(f"score {self.config.score} on maps {self.config.maps} has no parameter to rescale")
        for weight in weights:
            weight.mul_(factor.sqrt()[:, None, None])
