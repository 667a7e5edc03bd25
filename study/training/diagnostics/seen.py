"""Seeing what passes every attention, without changing it.

B batch · L queries · S slots · H heads · D, K widths of memory states and of a head's key.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from study.attention import Seen
from study.models import Translator
from study.training.batches import Batch

Site = tuple[str, int]
"""A site and its layer."""


class Sight(NamedTuple):
    """One site of one layer during a teacher-forced pass."""

    seen: Seen
    states: Tensor | None
    """[B, S, D]: the memory's states, what the keys are made of."""
    keys: Tensor | None
    """[B, H, S, K]: the keys as the map makes them, before a score prepares them."""


@contextmanager
def taps(model: Translator) -> Iterator[dict[Site, list[Seen]]]:
    """Every call of every attention while the context is open: a decoder that goes step by step calls L times."""
    seen: dict[Site, list[Seen]] = {(site, layer): [] for site, layer, _ in model.sites()}
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
def look(model: Translator, batch: Batch) -> dict[Site, Sight]:
    """Teacher-forced decoding of a batch, seen at every site with all queries together. In evaluation mode."""
    training = model.training
    model.eval()
    with taps(model) as calls, _memories(model) as made:
        model.decode(model.encode(batch.source, batch.mask), batch.given)
    model.train(training)
    return {site: Sight(_together(seen), *made.get(site, (None, None))) for site, seen in calls.items()}


def observe(model: Translator, batch: Batch) -> dict[Site, Seen]:
    """Return the tapped calls of `look`, without the memories."""
    return {site: sight.seen for site, sight in look(model, batch).items()}


def _together(calls: list[Seen]) -> Seen:
    """Calls of one query each as one call of many."""
    if len(calls) == 1:
        return calls[0]
    first = calls[0]
    along: dict[str, Any] = {
        name: torch.cat([getattr(c, name) for c in calls], 2)
        for name in ("query", "logits", "normalised", "weights", "heads", "mask")
    }
    return first._replace(**along)
