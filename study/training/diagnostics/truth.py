"""Gold attention between tokens: gold links between words, spread over the tokens of both words.

B batch · L target tokens · S source tokens, end-of-sentence counted on both sides.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from study.corpora import Link
from study.training.batches import Batch, Example
from study.training.vocabulary import Vocabulary

Truth = dict[str, Tensor]
"""site ↦ 1/n at a query's gold slots, n the tokens of its word, and 0 beside them: a mean so weighted is over words.

cross [B, L, S], encoder_self [B, S, S]; sites without gold are missing.

Sure and possible links count alike. End-of-sentence has no gold, neither as query nor as slot.
"""


def truth(data: Sequence[Example], vocabulary: Vocabulary, batch: Batch) -> Truth:
    """Gold of the examples that `batch` was collated from: `Pair.alignment` at cross, `Pair.attends` in the encoder."""
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
    """Links between words as a mask over tokens [queries, slots]; `asking` and `source` give every token's word."""
    linked = {(link.target, link.source) for link in links}
    out = torch.zeros(shape)
    for row, asks in enumerate(asking):
        for slot, word in enumerate(source):
            out[row, slot] = ((asks, word) in linked) / asking.count(asks)
    return out
