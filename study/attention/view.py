"""Values that parts of attention pass to each other: visible slots, the memory, terms of the loss.

B batch · L queries · S slots · H heads · K, V widths per head.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F


class Lengths(NamedTuple):
    """Sentence lengths of the training data in tokens, both languages, end-of-sentence counted."""

    longest: int
    """S_max: the number of positions that parameters stored per position have."""
    typical: int
    """L: the 97.5th percentile."""


class View(NamedTuple):
    """Visible slots of each query, and its position."""

    mask: Tensor
    """[B, 1, L, S] or broadcastable to it: True where a slot is visible (padding & causality). [B, H, L, S] if a
    reach gives each head its own window."""
    position: Tensor
    """[L]: absolute positions of the queries."""
    centre: Tensor | None = None
    """[B, H, L, 1]: centre of a predicted window."""
    gathered: Tensor | None = None
    """[B, 1 or H, L, W]: numbers of the W slots that are gathered for a query. The last axis of the mask is W then."""
    offset: int = 0
    """Number of the slot that has row 0 of a table with a row for each slot. 0 but at site joint, where tables count
    from the boundary of source and target, so that padding before the source moves no row."""

    @property
    def slot(self) -> Tensor:
        """Numbers of the slots that the mask covers: [S] or [B, 1 or H, L, W]."""
        if self.gathered is not None:
            return self.gathered
        return torch.arange(self.mask.shape[-1], device=self.mask.device)

    def only(self, slots: Tensor) -> View:
        """Return the view of these slots alone, [B, 1 or H, L, W]."""
        shape = [max(sizes) for sizes in zip(slots.shape[:3], self.mask.shape[:3], strict=True)]
        slots = slots.expand(*shape, -1)
        return self._replace(mask=self.mask.expand(*shape, -1).gather(-1, slots), gathered=slots)


def gather(states: Tensor, slots: Tensor) -> Tensor:
    """Gather the states [B, H, S, K] of slots [B, 1 or H, L, W], separately for each query: [B·L, H, W, K]."""
    batch, heads, count, width = states.shape
    groups, (queries, few) = slots.shape[1], slots.shape[2:]
    rows = states.transpose(1, 2).reshape(batch * count * groups, heads // groups * width)
    first = count * torch.arange(batch, device=slots.device)[:, None, None, None]
    index = (first + slots) * groups + torch.arange(groups, device=slots.device)[:, None, None]
    picked = rows.index_select(0, index.permute(0, 2, 3, 1).flatten())
    return picked.view(batch * queries, few, heads, width).transpose(1, 2)


class Memory(NamedTuple):
    """Mapped and prepared slots: computed once per sentence at cross, extended by steps of causal self-attention."""

    keys: Tensor
    """[B, H, S, ·]: keys as the score prepares them."""
    values: Tensor
    """[B, H, S, V]."""
    mask: Tensor
    """[B, S]: True for slots that are not padding."""
    origin: Tensor | None = None
    """[B, S, source positions]: share of each source token in a slot; None if slots are tokens."""


def longer(origin: Tensor | None, count: int) -> Tensor | None:
    """Return `Memory.origin` with `count` further slots, which come from no source token."""
    return None if origin is None else F.pad(origin, (0, 0, 0, count))


class Terms(NamedTuple):
    """Terms that a mechanism adds to the loss; empty for most mechanisms."""

    penalty: Tensor | None = None
    """A scalar that is added to the loss."""
    log_prob: Tensor | None = None
    """[B, L]: log-probability of the sample, for a score-function gradient."""
    bonus: Tensor | None = None
    """[B, L]: subtracted from the loss, such as the weighted entropy of a sampling distribution."""


def in_sequence(steps: Sequence[Terms]) -> Terms:
    """Join the terms of calls for single queries: add penalties, concatenate the rest along L."""
    present = {name: [part for step in steps if (part := getattr(step, name)) is not None] for name in Terms._fields}
    joined = {name: torch.cat(parts, 1) for name, parts in present.items() if parts and name != "penalty"}
    return Terms(torch.stack(present["penalty"]).sum() if present["penalty"] else None, **joined)


class AttentionCall(NamedTuple):
    """Values of one call that a tap receives. H counts score maps, two a head with combine differential."""

    query: Tensor
    """[B, H, L, K]."""
    keys: Tensor
    """[B, H, S, ·], prepared."""
    logits: Tensor
    """[B, H, L, S]: what is masked and normalised."""
    normalised: Tensor
    """[B, H, L, S]: weights of the normaliser, before the reach changes them."""
    weights: Tensor
    """[B, H, L, S]: weights of the values."""
    heads: Tensor
    """[B, H, L, V], after the gate."""
    mask: Tensor
    """Broadcastable to the weights."""
    sums_to_one: bool = True
    """True if the normalised weights of a query are a distribution."""
    origin: Tensor | None = None
    """[B, S, source positions]: `Memory.origin`."""
    sources: AttentionCall | None = None
    """The call of the source's queries, if the site has both; this one is of the target's then."""

    def over_tokens(self, count: int) -> Tensor | None:
        """Return the weights over `count` source tokens, [B, H, L, count]; None if slots do not come from tokens."""
        weights = self.weights if self.origin is None else self.weights @ self.origin[:, None]
        return weights if weights.shape[-1] == count else None

    def visible_tokens(self) -> Tensor:
        """Return the source tokens that each query sees, through the slots made of them: [B, H or 1, L or 1, S]."""
        if self.origin is None:
            return self.mask
        through: Tensor = self.mask.to(self.origin.dtype) @ (self.origin > 0).to(self.origin.dtype)[:, None]
        return through > 0
