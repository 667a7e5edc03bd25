"""Attention read between words: the token weights of a forced pass, pooled. Every score against gold links reads it so.

H heads · L, S tokens of target and source, the source's end-of-sentence counted · T, W words of target and source; in
the encoder's self-attention both are the source's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from torch import Tensor

from study.attention import AttentionCall
from study.models import Translator
from study.training import decode
from study.training.batches import Example
from study.training.diagnostics import observe
from study.training.vocabulary import Vocabulary

Sides = tuple[list[int], list[int]]
"""The word of every token: of the slots' side, and of the queries'."""


class Words(NamedTuple):
    """One sentence's cross-attention between its words, end-of-sentence left out on both sides."""

    weights: np.ndarray
    """[H, T, W]: the mean over the tokens of a target word, the sum over those of a source word."""
    share: np.ndarray
    """[H, T, W], pooled alike: each weight's size over that of its row, end-of-sentence counted there. The weights
    themselves where they are a distribution."""
    visible: np.ndarray
    """[H, T, W]: some token of the target word sees some token of the source word."""

    def of(self, head: int | None) -> Words:
        """One head, or for None the mean over heads: the same without the first axis."""
        if head is None:
            return Words(self.weights.mean(0), self.share.mean(0), np.asarray(self.visible.any(0)))
        return Words(self.weights[head], self.share[head], self.visible[head])


def readings(model: Translator, data: Sequence[Example], vocabulary: Vocabulary, site: str) -> dict[int, list[Words]]:
    """A site by forced decoding: layer ↦ one reading a sentence, without words where the model can't read it.

    Empty where the memory's slots are not made of source tokens.
    """
    out: dict[int, list[Words]] = {}
    for chosen, batch in decode.fitting(model, data):
        between = [sides(data[i], vocabulary, site) for i in chosen]
        for (at, layer), call in observe(model, batch).items():
            read = of_words(call, batch.source.shape[1], between) if at == site else None
            if read is None:
                continue
            nothing = np.zeros((call.weights.shape[1], 0, 0))
            found = out.setdefault(layer, [Words(nothing, nothing, nothing > 0)] * len(data))
            for i, reading in zip(chosen, read, strict=True):
                found[i] = reading
    return out


def sides(example: Example, vocabulary: Vocabulary, site: str) -> Sides:
    """The words of the slots and of the queries of a site."""
    source = vocabulary.words(example.pair.source)
    return source, vocabulary.words(example.pair.target) if site == "cross" else source


def of_words(call: AttentionCall, count: int, between: Sequence[Sides]) -> list[Words] | None:
    """One call over `count` source tokens, each sentence between its words; None where slots are not made of them."""
    weights = call.over_tokens(count)
    if weights is None:
        return None
    token, visible = weights.double().cpu().numpy(), visible_tokens(call).expand_as(weights).cpu().numpy()
    return [pooled(token[row], visible[row], *words) for row, words in enumerate(between)]


def pooled(weights: np.ndarray, visible: np.ndarray, source: Sequence[int], target: Sequence[int]) -> Words:
    """Token weights [H, L, S] of one sentence, and which tokens see which, between words.

    `source` and `target` give every token's word.
    """
    to_target, to_source = _membership(target), _membership(source)
    of_target = to_target / to_target.sum(1, keepdims=True).clip(min=1)
    size = np.abs(weights)
    total = size.sum(-1, keepdims=True)
    share = np.divide(size, total, out=np.zeros_like(size), where=total > 0)
    inside = np.s_[:, : len(target), : len(source)]
    return Words(
        of_target @ weights[inside] @ to_source.T,
        of_target @ share[inside] @ to_source.T,
        to_target @ visible[inside].astype(float) @ to_source.T > 0,
    )


def _membership(tokens: Sequence[int]) -> np.ndarray:
    """[words, tokens]: 1 where a token belongs to a word."""
    count = max(tokens, default=-1) + 1
    return np.asarray(np.equal.outer(np.arange(count), np.asarray(tokens, dtype=int)), dtype=float)


def visible_tokens(call: AttentionCall) -> Tensor:
    """Return the source tokens that each query sees, through the slots made of them: [B, H or 1, L or 1, S], bool."""
    if call.origin is None:
        return call.mask
    through: Tensor = call.mask.to(call.origin.dtype) @ (call.origin > 0).to(call.origin.dtype)[:, None]
    return through > 0
