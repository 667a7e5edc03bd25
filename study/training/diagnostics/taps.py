"""Observations of attention: values recorded by taps, without changing them, and gold attention between tokens.

B batch · L queries or target tokens · S slots or source tokens, end-of-sentence counted · H heads · D, K widths of
memory states and of a head's key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from study.attention import AttentionCall
from study.corpora import Link
from study.models import Translator
from study.training.batches import Batch, Example
from study.training.vocabulary import Vocabulary

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
    """Record every call of every attention within the context. A decoder that goes step by step calls L times."""
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
    """Record (states, keys) of every memory. A map shared by queries and keys is called for the keys first."""
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
    """Join calls of one query each to one call with all queries."""
    if len(calls) == 1:
        return calls[0]
    first = calls[0]
    along: dict[str, Any] = {
        name: torch.cat([getattr(c, name) for c in calls], 2)
        for name in ("query", "logits", "normalised", "weights", "heads", "mask")
    }
    return first._replace(**along)


Truth = dict[str, Tensor]
"""site ↦ 1/n at a query's gold slots, n the tokens of its word, and 0 beside them: a mean so weighted is over words.

cross [B, L, S], encoder_self [B, S, S]; sites without gold are missing.

Sure and possible links count alike. End-of-sentence has no gold, neither as query nor as slot.
"""


def truth(data: Sequence[Example], vocabulary: Vocabulary, batch: Batch) -> Truth:
    """Return the gold links of the examples of a batch: `Pair.alignment` at cross, `Pair.attends` in the encoder."""
    pairs = [example.pair for example in data]
    source = [vocabulary.words(pair.source) for pair in pairs]
    target = [vocabulary.words(pair.target) for pair in pairs]
    slots = batch.source.shape[1]
    shapes = {"cross": batch.wanted.shape[1], "encoder_self": slots}
    links = {"cross": [p.alignment for p in pairs], "encoder_self": [p.attends for p in pairs]}
    asks = {"cross": target, "encoder_self": source}
    out: Truth = {}
    for site, queries in shapes.items():
        if all(known is not None for known in links[site]):
            rows = zip(links[site], asks[site], source, strict=True)
            masks = [_tokens(known or (), asking, words, (queries, slots)) for known, asking, words in rows]
            out[site] = torch.stack(masks).to(batch.source.device)
    return out


def _tokens(links: Sequence[Link], asking: list[int], source: list[int], shape: tuple[int, int]) -> Tensor:
    """Return links between words as a mask over tokens [queries, slots]. `asking` and `source` map tokens to words."""
    linked = {(link.target, link.source) for link in links}
    out = torch.zeros(shape)
    for row, asks in enumerate(asking):
        for slot, word in enumerate(source):
            out[row, slot] = ((asks, word) in linked) / asking.count(asks)
    return out
