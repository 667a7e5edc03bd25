"""A whole attention site of a user's own, in place of projections, scores and all other parts.

B batch · L queries · S slots · D width of queries and contexts · Dk width of the memory's states.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from study.attention.multihead import MultiHeadAttention
from study.attention.part import Part
from study.attention.positions import Positions
from study.attention.view import Lengths, Terms, View, longer
from study.config import AttentionConfig


class Site(Part):
    """A class that computes a whole site.

    Attributes:
        config: the resolved fields of the site. It reads those that `facts.options` lists.
        lengths: of the training sentences, if they are known.
        layer: number of the layer, from 1.
        causal: True where no query sees a later slot: in the decoder's self-attention, and at joint with a causal
            source mask.
        positions: relative positions of the language; None at cross and for absolute ones.
    """

    axis = "site"

    def __init__(self, config: AttentionConfig, query_width: int, memory_width: int) -> None:
        super().__init__()
        self.config, self.width = config, query_width
        self.lengths: Lengths | None = None
        self.layer, self.causal = 1, False
        object.__setattr__(self, "positions", None)  # a module of the model, not of this one

    def remember(self, states: Tensor, mask: Tensor) -> Any:
        """Return the memory of states [B, S, Dk] and their mask [B, S].

        It is a tensor, or a tuple of tensors. Their first axis is the batch, because search reorders it.
        """
        raise NotImplementedError

    def extend(self, memory: Any, states: Tensor) -> Any:
        """Return the memory with the slots of further states [B, T, Dk]; by default, they join axis 1 of each tensor.

        Step-by-step decoding calls it. The result must do for the queries of these states alone.
        """
        return _joined(memory, self.remember(states, states.new_ones(states.shape[:2], dtype=torch.bool)))

    def forward(self, query: Tensor, memory: Any, view: View) -> Tensor:
        """Return the contexts [B, L, D] of queries [B, L, D]."""
        raise NotImplementedError


def _joined(one: Any, other: Any) -> Any:
    if isinstance(one, Tensor):
        return torch.cat([one, other], 1)
    return tuple(_joined(first, second) for first, second in zip(one, other, strict=True))


class Held(NamedTuple):
    """Memory of a site of a user's own."""

    memory: Any
    mask: Tensor
    """[B, S]: True for slots that are not padding."""
    origin: Tensor | None = None
    """As in `Memory`."""


class Whole(nn.Module):
    """A site of a user's own, called as `Attention` is.

    It has no logits, weights or heads that taps, diagnostics and pruning could read, so `Translator.sites` leaves it
    out.
    """

    def __init__(self, own: Site) -> None:
        super().__init__()
        self.own, self.width = own, own.width

    def remember(self, states: Tensor, mask: Tensor) -> Held:
        """Return the memory of states [B, S, Dk] and their mask [B, S]."""
        return Held(self.own.remember(states, mask), mask)

    def extend(self, held: Held, states: Tensor) -> Held:
        """Return the memory with the slots of further states [B, T, Dk], none of them padding."""
        mask = torch.cat([held.mask, held.mask.new_ones(states.shape[:2])], 1)
        return Held(self.own.extend(held.memory, states), mask, longer(held.origin, states.shape[1]))

    def forward(self, query: Tensor, held: Held, view: View) -> tuple[Tensor, Terms]:
        """Return the contexts [B, L, D], and no terms of the loss."""
        contexts: Tensor = self.own(query, held.memory, view)
        return contexts, Terms()


def build_site(
    config: AttentionConfig,
    query_width: int,
    memory_width: int,
    lengths: Lengths | None = None,
    layer: int = 1,
    positions: Positions | None = None,
    causal: bool = False,
) -> MultiHeadAttention | Whole:
    """Build the site that a resolved configuration declares: `Attention`, or `Whole` for a class of a user's own."""
    if not config.whole:
        return MultiHeadAttention(config, query_width, memory_width, lengths, layer, positions)
    own = Site.named(config.site)(config, query_width, memory_width)
    own.lengths, own.layer, own.causal = lengths, layer, causal
    inside = positions if positions is not None and positions.inside else None
    object.__setattr__(own, "positions", inside)
    return Whole(own)
