"""Multi-head attention over a memory: project → norm → reach → turn → score · scale → logits → weigh → mix → combine.

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
from study.attention.maps import Norm, Projected, build_maps, build_values
from study.attention.part import Part
from study.attention.positions import Positions
from study.attention.reach import Reach, without_self
from study.attention.scores import Score, build_scale
from study.attention.view import AttentionCall, Lengths, Memory, Terms, View, gather, longer
from study.attention.weighting import Logits, Weighting, to_float32, unmask_empty, without_autocast
from study.config import AttentionConfig
from study.config.mechanisms import COMBINE, LOGIT_INIT, MAP_RATE, MAPS

FUSED_GATHER_FROM = 28.0
"""`Score.gather_from` against torch's fused kernel with a mask."""


class MultiHeadAttention(Part):
    """One attention site of one layer.

    It computes weights(scale · score(W_Q x, W_K m)) (W_V m) for every head, and combines the heads. The configuration
    decides which parts exist. If every part allows it, PyTorch's fused kernel computes the site. If a window is much
    smaller than the memory, its slots are gathered. With a tap, the site computes the weights explicitly.

    Args:
        config: a resolved site.
        query_width: Dq.
        memory_width: Dk.
        lengths: lengths of the training sentences, for scores and scales that need them.
        layer: number of the layer, from 1.
        positions: those of the language, if this is self-attention. They are a module of the model, not of the site,
            because all layers share them.
    """

    positions: Positions | None

    def __init__(
        self,
        config: AttentionConfig,
        query_width: int,
        memory_width: int,
        lengths: Lengths | None = None,
        layer: int = 1,
        positions: Positions | None = None,
    ) -> None:
        super().__init__()
        inside = positions if positions is not None and positions.inside else None
        object.__setattr__(self, "positions", inside)  # not a module of this one
        self.config = config
        self.map_query, self.map_key = build_maps(config, query_width, memory_width)
        self.map_value = build_values(config, memory_width, self.map_key)
        query, key = config.map_widths(query_width, memory_width)
        heads = config.score_heads
        self.norm = Norm.chosen(config, heads, query, key, MAPS[config.maps].one)
        self.score = Score.chosen(config, heads, query, key, lengths=lengths, scale=config.scale)
        self.scale = build_scale(config, self.score.d, lengths)
        self.logits = Logits.chosen(config)
        self.weights = Weighting.chosen(config, heads=heads)
        self.reach = Reach.chosen(config, config.heads, query)
        self.combine = build_combine(config, config.mixed_width(memory_width), query_width, query, layer)
        self.gather_from = max(self.score.gather_from, FUSED_GATHER_FROM if self.fusable else 0.0)
        self.gate: nn.Module = nn.Identity()
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
            self.rescale(torch.full((self.config.score_heads,), self.score.d ** (-2 * power)))

    def remember(self, states: Tensor, mask: Tensor, valued: Tensor | None = None, start: int = 0) -> Memory:
        """Return the memory of states [B, S, Dk] and their mask [B, S]. Keys are computed in float32.

        Args:
            states: read by keys.
            mask: True where a slot is no padding.
            valued: states that values read instead.
            start: number of the first slot.
        """
        if not self.kept:
            nothing = states.new_zeros(len(states), 0, states.shape[1], 0)
            return Memory(nothing, nothing, mask)
        with without_autocast(states.device):
            mapped = self.map_key(to_float32(states))
            keys = self.norm.key(mapped)
            if self.positions is not None:
                slots = torch.arange(start, start + states.shape[1], device=states.device)
                keys = self.positions.rotate(keys, slots)
            keys = self.score.prepare(keys)
        if self.map_value is self.map_key:
            return Memory(keys, mapped, mask)
        return Memory(keys, self.map_value(states if valued is None else valued), mask)

    def extend(self, memory: Memory, states: Tensor) -> Memory:
        """Return a copy of the memory with the slots of further states [B, T, Dk], none of them padding.

        Search copies every memory at each step anyway, to reorder its beams. Room reserved in advance would be copied,
        too; it was tried and is slower.
        """
        real = states.new_ones(states.shape[:2], dtype=torch.bool)
        new = self.remember(states, real, start=memory.mask.shape[1])
        return Memory(
            torch.cat([memory.keys, new.keys], 2),
            torch.cat([memory.values, new.values], 2),
            torch.cat([memory.mask, new.mask], 1),
            longer(memory.origin, states.shape[1]),
        )

    def forward(self, query: Tensor, memory: Memory, view: View) -> tuple[Tensor, Terms]:
        """Return the contexts [B, L, D] of queries [B, L, Dq], and their terms of the loss."""
        if not self.kept:
            return query.new_zeros(*query.shape[:2], self.width), Terms()
        view = self.score.narrow(view, memory.mask.shape[1])
        with without_autocast(query.device):
            mapped = self.norm.query(self.map_query(to_float32(query)))
            view = self.reach.window(mapped, view, self.gather_from if self.tap is None else math.inf)
            if self.config.exclude_self:
                view = without_self(view)
            if self.positions is not None:
                mapped = self.positions.rotate(mapped, view.position)
            call, terms = None, Terms()
            if view.gathered is not None:
                mixed, terms = self._gathered(mapped, memory, view, view.gathered)
            elif self.fusable and self.tap is None and memory.mask.shape[1]:
                mixed = self._fused(mapped, memory, view)
            else:
                call, terms = self._explicit(mapped, memory, view)
                mixed = call.heads
            heads = self.gate(self.combine.transform(mixed, query))
            if call is not None and self.tap is not None:
                self.tap(call._replace(heads=heads))
        return self.combine(heads.to(memory.values.dtype)), terms

    @property
    def fusable(self) -> bool:
        """Return True if PyTorch's fused kernel can compute this attention."""
        parts = (self.score, self.weights, self.reach, self.combine)
        return all(part.fusable for part in parts) and self.config.logits == "plain"

    def _fused(self, query: Tensor, memory: Memory, view: View) -> Tensor:
        scale, query = self.scale.over(view), self.score.prepare_query(query)
        if isinstance(scale, Tensor):
            query, scale = query * scale, 1.0
        mask, empty = unmask_empty(view.mask)
        bias = self._bias(view)
        if bias is not None:
            mask = to_float32(bias).masked_fill(~mask, -math.inf)
        values = to_float32(memory.values)
        if query.shape[1] > values.shape[1]:
            values = values.repeat(1, query.shape[1] // values.shape[1], 1, 1)
        mixed = F.scaled_dot_product_attention(query, memory.keys, values, mask, scale=scale)
        mixed = self.combine.mix_weights(mixed)  # linear over heads, as are the contexts
        if not empty.is_cpu or bool(empty.any()):  # a GPU would have to be waited for
            mixed = mixed.masked_fill(empty, 0.0)
        return mixed

    def _explicit(self, query: Tensor, memory: Memory, view: View) -> tuple[AttentionCall, Terms]:
        scores = self.score(self.score.prepare_query(query), memory.keys, view)
        logits, normalised, weights, terms = self._weigh(scores, query, view)
        mixed, facts = weights @ to_float32(memory.values), self.weights.facts
        parts = (query, memory.keys, logits, normalised, weights, mixed, view.mask)
        return AttentionCall(*parts, facts.sums_to_one, memory.origin), terms

    def _gathered(self, query: Tensor, memory: Memory, view: View, slots: Tensor) -> tuple[Tensor, Terms]:
        """Compute `_explicit` over the gathered slots of each query, [B, 1 or H, L, W]. L joins the batch."""
        batch, heads, queries, width = query.shape
        keys, values = gather(memory.keys, slots), gather(to_float32(memory.values), slots)
        alone = self.score.prepare_query(query.transpose(1, 2).reshape(batch * queries, heads, 1, width))
        # One product of vectors each: elementwise is faster than many small matrix products.
        scores = (alone * keys).sum(-1)[:, :, None] if self.score.fusable else self.score(alone, keys, view)
        weights, terms = self._weigh(scores.view(batch, queries, heads, -1).transpose(1, 2), query, view)[2:]
        mixed = (weights.transpose(1, 2).reshape(batch * queries, values.shape[1], -1, 1) * values).sum(2)
        return mixed.view(batch, queries, values.shape[1], -1).transpose(1, 2), terms

    def _weigh(self, scores: Tensor, query: Tensor, view: View) -> tuple[Tensor, Tensor, Tensor, Terms]:
        """Return logits, normalised weights, weights of the values and terms of the loss."""
        logits = self.logits(scores * self.scale.over(view))
        bias = self._bias(view)
        logits = self.combine.mix_logits(logits if bias is None else logits + bias)
        normalised = self.weights(logits, view.mask)
        weights, terms = self.reach.reweight(self.combine.mix_weights(normalised), query, view)
        return logits, normalised, weights, terms

    def _bias(self, view: View) -> Tensor | None:
        """Return what positions add to the logits of each score map."""
        return (
            None if self.positions is None else self.positions.bias(view, self.kept * COMBINE[self.config.combine].maps)
        )

    def keep(self, heads: Sequence[int]) -> None:
        """Remove all other heads from every part, in place. Heads are counted among those that remain now.

        The output is the one with o_h = 0 for removed heads. Without any head it is 0.
        """
        maps = [i * len(self.kept) + head for i in range(COMBINE[self.config.combine].maps) for head in heads]
        scoring = (self.map_query, self.map_key, self.norm, self.score, self.scale, self.weights)
        by_map = {module for part in scoring for module in part.modules()}
        self.kept = tuple(self.kept[head] for head in heads)
        for part in self.modules():
            if isinstance(part, Part) and part is not self:
                part.keep(maps if part in by_map else heads)

    def reduced(self, heads: Sequence[int]) -> MultiHeadAttention:
        """Return a copy with these heads alone, without gate and tap."""
        smaller = copy.deepcopy(
            self, {id(self.gate): nn.Identity(), id(self.tap): None, id(self.positions): self.positions}
        )
        smaller.keep(heads)
        return smaller

    def shares(self) -> dict[nn.Parameter, float]:
        """Return the parameters with a learning rate of their own, and its share of the common rate."""
        share = self.score.d ** -MAP_RATE[self.config.map_rate].power
        maps = (self.map_query, self.map_key) if share != 1 else ()
        return {parameter: share for module in maps for parameter in module.parameters()}

    @torch.no_grad()
    def rescale(self, factor: Tensor) -> None:
        """Multiply the logits of head h by factor[h]: through the score's parameter, else through both projections.

        Raises:
            ValueError: neither has a parameter.
        """
        if self.score.rescale(factor) or self.norm.rescale(factor):
            return
        weights = list({id(p): p for m in (self.map_query, self.map_key) for p in m.parameters()}.values())
        if not weights:
            raise ValueError(f"score {self.config.score} on maps {self.config.maps} has no parameter to rescale")
        if self.config.groups:  # a key has no factor of its own for each head
            weights, factor = list(self.map_query.parameters()), factor.square()
        for weight in weights:
            weight.mul_(factor.sqrt()[:, None, None])
