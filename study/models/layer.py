"""Attention as an ordinary layer, for models of a user's own.

B batch · L queries · S slots · H heads · D width of queries · Dk width of the memory.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor, nn
from torch.func import functional_call

from study.attention import AttentionCall, Lengths, Terms, View
from study.attention.site import Whole, build_site
from study.attention.weighting import to_float32
from study.config import AttentionConfig, plugins
from study.config.mechanisms import LOGIT_INIT, MAP_RATE
from study.config.overrides import one_line
from study.errors import InputError
from study.models.build import initialise

HALF = (torch.bfloat16, torch.float16)


class Attention(nn.Module):
    """One attention site of this study: projections, score, scale, weights, reach and combination of heads.

    Without fields it is o = [o_1; …; o_H] W_O with o_h = softmax(q_h k_hᵀ / √K) v_h and one head. Parameters are drawn
    from the seed and their names, as in the models of the study. `explain` prints formulas. A layer in bfloat16 or
    float16 stores its parameters so, and computes in float32.

    Args:
        width: D, the width of queries and, with a projected output, of the result.
        memory_width: Dk (default: D).
        longest: the most slots that there will be; needed by scores that store something for each position.
        seed: of the initial values.
        fields: those of `model.attention` in an experiment, such as `score="additive"`, `heads=4`, `key_width=16` or
            `score="my_scores.py:Distance"`. `docs/mechanisms.md` lists them.

    Raises:
        InputError: a field or value that no attention takes, or that does not fit the widths.
    """

    terms: Terms
    """Terms that the last call adds to a loss, such as log-probabilities of sampled slots. Most have none."""

    def __init__(
        self, width: int, *, memory_width: int | None = None, longest: int | None = None, seed: int = 1, **fields: Any
    ) -> None:
        super().__init__()
        memory_width = width if memory_width is None else memory_width
        for name, size in (("width", width), ("memory_width", memory_width), ("longest", longest or 1)):
            if type(size) is not int or size < 1:
                raise InputError(f"{name}: expected a whole number from 1, got {size!r}.")
        plugins.allow(fields.values())
        self.config = _resolved(fields, width, memory_width)
        lengths = None if longest is None else Lengths(longest, longest)
        self.site = build_site(self.config, width, memory_width, lengths)
        self.terms = Terms()
        initialise(self.site, seed)
        if not isinstance(self.site, Whole):
            self.site.reach.reseed(seed)

    def forward(
        self,
        query: Tensor,
        memory: Tensor | None = None,
        mask: Tensor | None = None,
        causal: bool = False,
        *,
        weights: bool = False,
    ) -> Any:
        """Attend to the memory.

        Args:
            query: states [B, L, D], at the positions 0 … L − 1.
            memory: states [B, S, Dk] (default: the queries, which is self-attention).
            mask: True where a slot may be seen: [B, S], or [B, L, S] for each query. A query that sees no slot gets 0
                from every head. `torch.nn.MultiheadAttention` has the opposite sign. Local reaches take the visible
                slots to be the first ones.
            causal: query t sees the slots s ≤ t alone.
            weights: also return the weights, in float32 or better. They are not computed by the fused kernel.

        Returns:
            The contexts [B, L, D]; with `weights`, also the weights [B, H, L, S].

        Raises:
            InputError: the mask is not of True and False or has another shape, or the site shows no weights.
        """
        stored = dict(itertools.chain(self.named_parameters(), self.named_buffers()))
        if any(tensor.dtype in HALF for tensor in stored.values()):
            states = [None if x is None else to_float32(x) for x in (query, memory)]
            full = {name: to_float32(x) if x.dtype in HALF else x for name, x in stored.items()}
            output = functional_call(self, full, (*states, mask, causal), {"weights": weights})
            return (output[0].to(query.dtype), output[1]) if weights else output.to(query.dtype)
        memory = query if memory is None else memory
        visible = _visible(query, memory, mask)
        queries, slots = query.shape[1], memory.shape[1]
        position = torch.arange(queries, device=query.device)
        if causal:
            visible = visible & (torch.arange(slots, device=query.device) <= position[:, None])
        if weights and isinstance(self.site, Whole):
            own = plugins.read(self.config.site).name
            raise InputError(f"weights: expected a site of parts, got {own}, which shows none.")
        seen: list[AttentionCall] = []
        self.site.tap = seen.append if weights else None
        try:
            remembered = self.site.remember(memory, visible.any(2)[:, 0])
            contexts, self.terms = self.site(query, remembered, View(visible, position))
        finally:
            self.site.tap = None
        return (contexts, seen[0].weights.expand(-1, -1, queries, slots)) if weights else contexts

    def extra_repr(self) -> str:
        """The fields that differ from the defaults."""
        default, own = AttentionConfig().model_dump(), self.config.model_dump()
        return ", ".join(f"{name}={value!r}" for name, value in own.items() if value != default[name])


def _resolved(fields: dict[str, Any], width: int, memory_width: int) -> AttentionConfig:
    try:
        config = AttentionConfig(**fields).resolved(width, memory_width)
    except ValidationError as error:
        raise InputError(one_line(error, fields)) from None
    except ValueError as problem:
        raise InputError(str(problem)) from None
    if LOGIT_INIT[config.logit_init].measured:
        raise InputError(f"logit_init: expected standard, got {config.logit_init}, which needs a model and its data.")
    if MAP_RATE[config.map_rate].power:
        raise InputError(f"map_rate: expected common, got {config.map_rate}. Set it in your optimiser.")
    return config


def _visible(query: Tensor, memory: Tensor, mask: Tensor | None) -> Tensor:
    """The visible slots of every query: [B, 1, 1 or L, S]."""
    batch, queries, slots = len(query), query.shape[1], memory.shape[1]
    if mask is None:
        return torch.ones(batch, 1, 1, slots, dtype=torch.bool, device=query.device)
    if mask.dtype != torch.bool or mask.shape not in ((batch, slots), (batch, queries, slots)):
        shapes = f"{[batch, slots]} or {[batch, queries, slots]}"
        raise InputError(f"mask: expected torch.bool of shape {shapes}, got {mask.dtype} of shape {list(mask.shape)}.")
    return mask[:, None, None] if mask.ndim == 2 else mask[:, None]
