"""Attention read as an alignment: forced decoding, token weights pooled to words, scored against gold links.

The weights are those of the query that predicts y_t, in both families. Alignment follows Och and Ney (2003).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from study.corpora import Link
from study.models import Translator
from study.models.translator import EOS
from study.scoring import alignment_error_rate
from study.training import decode
from study.training.batches import Example, collate
from study.training.diagnostics import observe
from study.training.vocabulary import Vocabulary


def pooled_weights(weights: Tensor, source: list[int], target: list[int]) -> np.ndarray:
    """Token weights [L, S] of one sentence as word weights [target words, source words].

    `source` and `target` give every token's word.

    The row of a word is the mean over its tokens, a source word gets the sum over its tokens, and
    end-of-sentence is left out on both sides.
    """
    out = np.zeros((max(target, default=-1) + 1, max(source, default=-1) + 1))
    count = np.bincount(target, minlength=len(out)).clip(min=1)
    token = weights.double().cpu().numpy()
    for t, row in enumerate(target):
        np.add.at(out[row], source, token[t, : len(source)] / count[row])
    return out


def alignments(model: Translator, data: Sequence[Example], vocabulary: Vocabulary) -> dict[int, list[np.ndarray]]:
    """Cross-attention by forced decoding, heads averaged, word level: layer ↦ one [target, source] a sentence.

    Empty where the memory's slots are not made of source tokens.
    """
    out: dict[int, list[np.ndarray]] = {}
    for chosen, batch in decode.fitting(model, data):
        for (site, layer), seen in observe(model, batch).items():
            weights = seen.over_tokens(batch.source.shape[1]) if site == "cross" else None
            if weights is None:
                continue
            found = out.setdefault(layer, [np.zeros((0, 0))] * len(data))
            for row, i in enumerate(chosen):
                pair = data[i].pair
                sides = vocabulary.words(pair.source), vocabulary.words(pair.target)
                found[i] = pooled_weights(weights[row].mean(0), *sides)
    return out


def links(weights: np.ndarray) -> set[tuple[int, int]]:
    """Each target word with the source word it attends to most: {(source, target)}."""
    return {(int(row.argmax()), t) for t, row in enumerate(weights) if row.size and row.sum() > 0}


def alignment_error(found: Sequence[np.ndarray], gold: Sequence[Sequence[Link]]) -> float:
    """AER of the argmax links."""
    return alignment_error_rate([links(weights) for weights in found], gold).value


def aligning_layer(model: Translator, valid: Sequence[Example], vocabulary: Vocabulary) -> int | None:
    """The layer of cross-attention with the lowest AER on validation; None without gold, or slots to align."""
    gold = [example.pair.alignment for example in valid]
    if any(links is None for links in gold):
        return None
    errors = {
        layer: alignment_error(found, [links or () for links in gold])
        for layer, found in alignments(model, valid, vocabulary).items()
    }
    return min(errors, key=lambda layer: (errors[layer], layer)) if errors else None


def attention_map(
    model: Translator, data: Sequence[Example], vocabulary: Vocabulary, layer: int | None
) -> dict[str, Any] | None:
    """Cross-attention (heads averaged) over the tokens of the first sentence of about ten words."""
    readable = [example for example in data if decode.fits(model, example)]
    if not readable:
        return None
    example = min(readable, key=lambda example: abs(len(example.source) - 10))
    batch = collate([example]).to(next(model.parameters()).device)
    crosses = {at: seen for (site, at), seen in observe(model, batch).items() if site == "cross"}
    at = max(crosses) if layer is None else layer
    over_tokens = crosses[at].over_tokens(batch.source.shape[1])
    if over_tokens is None:
        return None
    weights = over_tokens[0].mean(0)
    gold = None
    if example.pair.alignment is not None:
        gold = [
            [s, t]
            for link in example.pair.alignment
            for s in _tokens_of(vocabulary.words(example.pair.source), link.source)
            for t in _tokens_of(vocabulary.words(example.pair.target), link.target)
        ]
    return {
        "site": "cross",
        "layer": at,
        "head": None,
        "source": vocabulary.tokens([*example.source, EOS]),
        "target": vocabulary.tokens([*example.target, EOS]),
        "weights": [[round(w, 4) for w in row] for row in weights.tolist()],
        "gold": gold,
        "text": {"source": example.pair.source, "target": example.pair.target},
    }


def _tokens_of(words: list[int], word: int) -> list[int]:
    return [i for i, w in enumerate(words) if w == word]
