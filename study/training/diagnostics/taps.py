"""Taps: record the values that pass every attention, without changing them.

B batch · L queries · S slots · H heads · D, K widths of memory states and of a head's key.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from study.attention import AttentionCall
from study.models import Translator
from study.training.batches import Batch

Site = tuple[str, int]
"""A site and its layer."""


class SiteObservation(NamedTuple):
    """Values at one site of one layer during a teacher-forced pass."""

    call: AttentionCall
    states: Tensor | None
    """[B, S, D]: the memory's states, what the keys are made of."""
    keys: Tensor | None
    """[B, H, S, K]: the keys as the map makes them, before a score prepares them."""


@contextmanager
def taps(model: Translator) -> Iterator[dict[Site, list[AttentionCall]]]:
    """Every call of every attention while the context is open: a decoder that goes step by step calls L times."""
    seen: dict[Site, list[AttentionCall]] = {(site, layer): [] for site, layer, _ in model.sites()}
    for site, layer, attention in model.sites():
        attention.tap = seen[site, layer].append
    try:
        yield seen
    finally:
        for _, _, attention in model.sites():
            attention.tap = None


@contextmanager
def _memories(model: Translator) -> Iterator[dict[Site, tuple[Tensor, Tensor]]]:
    """(states, keys) of every memory. A map shared by queries and keys is called for the keys first."""
    made: dict[Site, tuple[Tensor, Tensor]] = {}

    def keep(site: Site, module: nn.Module, given: tuple[Tensor], keys: Tensor) -> None:
        made.setdefault(site, (given[0], keys))

    handles = [
        attention.map_key.register_forward_hook(partial(keep, (site, i))) for site, i, attention in model.sites()
    ]
    try:
        yield made
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def look(model: Translator, batch: Batch) -> dict[Site, SiteObservation]:
    """Return the values at every site, all queries together, of a teacher-forced pass in evaluation mode."""
    training = model.training
    model.eval()
    with taps(model) as calls, _memories(model) as made:
        model.decode(model.encode(batch.source, batch.mask), batch.given)
    model.train(training)
    return {site: SiteObservation(_together(seen), *made.get(site, (None, None))) for site, seen in calls.items()}


def observe(model: Translator, batch: Batch) -> dict[Site, AttentionCall]:
    """Return the tapped calls of `look`, without the memories."""
    return {site: observation.call for site, observation in look(model, batch).items()}


def _together(calls: list[AttentionCall]) -> AttentionCall:
    """Calls of one query each as one call of many."""
    if len(calls) == 1:
        return calls[0]
    first = calls[0]
    along: dict[str, Any] = {
        name: torch.cat([getattr(c, name) for c in calls], 2)
        for name in ("query", "logits", "normalised", "weights", "heads", "mask")
    }
    return first._replace(**along)
