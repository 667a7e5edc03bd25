"""Attention read as an alignment: links between words by forced decoding, scored against gold links.

The weights are those of the query that predicts y_t, in both families. Alignment follows Och and Ney (2003): every
target word is linked to the source word that it attends to most.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from study.corpora import Link, words
from study.models import Translator
from study.models.translator import BOS, EOS
from study.records import Score
from study.scoring import alignment_error_rate
from study.training import decode
from study.training.batches import Example, collate
from study.training.diagnostics import observe
from study.training.reading import Words, readings, visible_tokens
from study.training.vocabulary import Vocabulary

Gold = Sequence[Sequence[Link]]


class Choice(NamedTuple):
    """Layer and head with the lowest AER on validation. Among equal values, the first is taken."""

    layer: int
    """Best layer by the mean over its heads."""
    best: tuple[int, int]
    """Layer and head of the best single head."""


class Row(NamedTuple):
    """The scores of one head, or for None of the mean over heads."""

    layer: int
    head: int | None
    aer: float
    mass: float | None


def alignments(model: Translator, data: Sequence[Example], vocabulary: Vocabulary) -> dict[int, list[Words]]:
    """Cross-attention by forced decoding, as `readings` has it."""
    return readings(model, data, vocabulary, "cross")


def links(reading: Words) -> set[tuple[int, int]]:
    """Each target word with the visible source word of largest weight: {(source, target)}. None for one that sees none.

    A weight may have any sign, so what is hidden is left out by the mask; its weight of 0 could be the largest.
    """
    seeing = reading.visible.any(-1)
    if not seeing.any():
        return set()
    best = np.where(reading.visible, reading.weights, -np.inf).argmax(-1)
    return {(int(best[t]), int(t)) for t in np.flatnonzero(seeing)}


def alignment_error(found: Sequence[Words], gold: Gold, head: int | None = None) -> float:
    """AER of the argmax links of one head, or for None of the mean over heads."""
    return alignment_error_rate([links(reading.of(head)) for reading in found], gold).value


def gold_mass(found: Sequence[Words], gold: Gold, head: int | None = None) -> float | None:
    """The share of attention on gold links, sure or possible: the mean over target words that have one.

    A share is of all source tokens, so that attention on end-of-sentence counts as beside gold. None without gold.
    """
    masses: list[float] = []
    for reading, truth in zip(found, gold, strict=True):
        share = reading.of(head).share
        by_target: dict[int, set[int]] = {}
        for link in truth:
            by_target.setdefault(link.target, set()).add(link.source)
        masses += [sum(share[t, s] for s in sources) for t, sources in by_target.items() if t < len(share)]
    return float(np.mean(masses)) if masses else None


def error_floor(data: Sequence[Example], gold: Gold) -> float:
    """The lowest AER that one link for every target word can reach.

    A word without gold must err, and one of several sure links finds one of them.
    """
    best = [
        {link.target: (link.source, link.target) for link in sorted(truth, key=lambda link: link.sure)}
        for truth in gold
    ]
    forced = [
        {one.get(t, (-1, t)) for t in range(len(words(example.pair.target)))}
        for one, example in zip(best, data, strict=True)
    ]
    return alignment_error_rate(forced, gold).value


def gold_of(data: Sequence[Example]) -> list[Sequence[Link]] | None:
    """The gold alignments, if every pair has one."""
    gold = [example.pair.alignment for example in data]
    return None if any(truth is None for truth in gold) else [truth or () for truth in gold]


def table(found: dict[int, list[Words]], gold: Gold) -> list[Row]:
    """AER and mass on gold by layer: of the mean over heads, then of each head."""
    return [
        Row(layer, head, alignment_error(readings, gold, head), gold_mass(readings, gold, head))
        for layer, readings in sorted(found.items())
        for head in (None, *range(len(readings[0].weights)))
    ]


def choose(model: Translator, valid: Sequence[Example], vocabulary: Vocabulary) -> Choice | None:
    """Choose the layer and head with the lowest AER on validation; None without gold, or without slots to align."""
    gold = gold_of(valid)
    rows = table(alignments(model, valid, vocabulary), gold) if gold is not None else []
    if not rows:
        return None
    layer = min((row.aer, row.layer) for row in rows if row.head is None)[1]
    best = min((row.aer, row.layer, row.head) for row in rows if row.head is not None)
    return Choice(layer, best[1:])


def alignment_scores(
    model: Translator, data: Sequence[Example], split: str, choice: Choice | None, vocabulary: Vocabulary
) -> list[Score]:
    """AER and mass on gold of the chosen layer, AER of the chosen head where there are several, and the floor of AER.

    None without gold, and where nothing was there to choose.
    """
    gold = gold_of(data)
    if gold is None or choice is None:
        return []
    found = alignments(model, data, vocabulary)
    readings, (layer, head) = found[choice.layer], choice.best
    mean = f"layer:{choice.layer}|heads:mean"
    values = [
        ("aer", alignment_error(readings, gold), mean),
        ("gold_mass", gold_mass(readings, gold), mean),
        ("aer_floor", error_floor(data, gold), "links:one a target word"),
    ]
    if len(readings[0].weights) > 1:
        values.append(("aer_best_head", alignment_error(found[layer], gold, head), f"layer:{layer}|head:{head}"))
    return [
        Score(split=split, metric=metric, value=value, n=len(data), signature=signature)
        for metric, value, signature in values
    ]


def attention_map(
    model: Translator,
    data: Sequence[Example],
    vocabulary: Vocabulary,
    layer: int | None,
    decimals: int | None = 4,
    site: str = "cross",
    head: int | None = None,
) -> dict[str, Any] | None:
    """Attention over the tokens of the first sentence of about ten words; None if no slot of the site is a token.

    Rows are queries: the target tokens that are predicted, or in the encoder the source tokens. Columns are slots:
    source tokens, or in the decoder's self-attention the target tokens before.

    Args:
        model: the model.
        data: sentences with their targets.
        vocabulary: its tokens.
        layer: layer of the site (None: the last).
        decimals: to which weights are rounded; None: they are not, and the map has the number of visible slots, too.
        site: cross, encoder_self or decoder_self.
        head: number of a head that is left (None: the mean over heads).
    """
    readable = [example for example in data if decode.fits(model, example)]
    if not readable:
        return None
    example = min(readable, key=lambda example: abs(len(example.source) - 10))
    batch = collate([example]).to(next(model.parameters()).device)
    calls = {at: call for (name, at), call in observe(model, batch).items() if name == site}
    if not calls:
        return None
    at = max(calls) if layer is None else layer
    over_tokens = calls[at].over_tokens((batch.given if site == "decoder_self" else batch.source).shape[1])
    if over_tokens is None:
        return None
    kept = next(module.kept for name, number, module in model.sites() if (name, number) == (site, at))
    weights = over_tokens[0].mean(0) if head is None else over_tokens[0, kept.index(head)]
    source, target = vocabulary.tokens([*example.source, EOS]), vocabulary.tokens([*example.target, EOS])
    gold = None
    if example.pair.alignment is not None and site == "cross":
        gold = [
            [s, t]
            for link in example.pair.alignment
            for s in _tokens_of(vocabulary.words(example.pair.source), link.source)
            for t in _tokens_of(vocabulary.words(example.pair.target), link.target)
        ]
    shown = (
        {}
        if decimals is not None
        else {"visible": visible_tokens(calls[at]).expand_as(over_tokens)[0].any(0).sum(-1).tolist()}
    )
    return shown | {
        "site": site,
        "layer": at,
        "head": head,
        "source": vocabulary.tokens([BOS, *example.target]) if site == "decoder_self" else source,
        "target": source if site == "encoder_self" else target,
        "weights": [[w if decimals is None else round(w, decimals) for w in row] for row in weights.tolist()],
        "gold": gold,
        "text": {"source": example.pair.source, "target": example.pair.target},
    }


def _tokens_of(words: list[int], word: int) -> list[int]:
    return [i for i, w in enumerate(words) if w == word]
