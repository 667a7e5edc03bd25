"""Attention scored against what is known of it: who attends to whom in the source, and when alignment sets in.

H heads · W source words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from study.corpora import Link
from study.models import Translator
from study.records import Score
from study.training import decode
from study.training.alignment import Gold, alignment_error, gold_mass, gold_of
from study.training.batches import Batch, Example
from study.training.diagnostics import Site, SiteObservation
from study.training.reading import Words, of_words, readings, sides
from study.training.vocabulary import Vocabulary

ONSET = 0.5
"""Alignment has set in when the alignment error rate of validation is below."""


class OnGold(NamedTuple):
    """Shares over the queries of a split that have gold, each 0–1; `argmax` means over heads first, `head` none."""

    mass: float
    argmax: float
    head: list[float]
    """Argmax of each head."""
    n: int


def attends(
    model: Translator, data: Mapping[str, Sequence[Example]], valid: Sequence[Example], vocabulary: Vocabulary
) -> list[Score]:
    """Scores of encoder self-attention on the splits whose pairs say who attends to whom, 0–100.

    attends_mass: 100 · the weight on gold words, the mean over source words that have any, heads averaged.
    attends_argmax: 100 · the share of these words whose largest weight, heads averaged, is on a gold word.
    attends_head: the same of one head alone, where there are several.

    Weights are |a| / Σ|a| (the weights, of a distribution) with those of a word's tokens pooled; equal largest ones
    share their query evenly. Each metric takes the layer (and head) that is best in it on validation. None of a model
    without encoder self-attention, or of a split that the model cannot read.
    """
    if not _known(model, valid):
        return []
    chosen = on_gold(model, valid, vocabulary)
    if not chosen:
        return []
    mass = max(chosen, key=lambda layer: chosen[layer].mass)
    argmax = max(chosen, key=lambda layer: chosen[layer].argmax)
    each = [(layer, head) for layer, found in chosen.items() for head in range(len(found.head))]
    at, head = max(each, key=lambda place: chosen[place[0]].head[place[1]])
    scores = []
    for split, examples in data.items():
        if not _known(model, examples):
            continue
        found = chosen if examples is valid else on_gold(model, examples, vocabulary)
        values = [
            ("attends_mass", found[mass].mass, f"layer:{mass}|heads:mean"),
            ("attends_argmax", found[argmax].argmax, f"layer:{argmax}|heads:mean"),
        ]
        if len(found[at].head) > 1:
            values.append(("attends_head", found[at].head[head], f"layer:{at}|head:{head}"))
        for metric, value, signature in values:
            scores.append(
                Score(split=split, metric=metric, value=100 * value, n=found[at].n, signature=f"{signature}|version:1")
            )
    return scores


def _known(model: Translator, data: Sequence[Example]) -> bool:
    """Return True if every pair has `attends`, at least one is not empty, and all fit the model's limit."""
    known = all(example.pair.attends is not None and decode.fits(model, example) for example in data)
    return known and any(example.pair.attends for example in data)


def on_gold(model: Translator, data: Sequence[Example], vocabulary: Vocabulary) -> dict[int, OnGold]:
    """Measure encoder self-attention on gold, by layer; empty if the encoder has no self-attention."""
    gold = [example.pair.attends or () for example in data]
    found = readings(model, data, vocabulary, "encoder_self")
    return {layer: _of_layer(read, gold) for layer, read in found.items()}


def _of_layer(found: Sequence[Words], gold: Gold) -> OnGold:
    hits = np.concatenate([_hits(reading.share, links) for reading, links in zip(found, gold, strict=True)])
    mass, (argmax, *heads) = gold_mass(found, gold), hits.mean(0).tolist()
    assert mass is not None  # some pair has gold
    return OnGold(mass, argmax, heads, len(hits))


def _hits(share: np.ndarray, links: Sequence[Link]) -> np.ndarray:
    """One row per word with gold: `_hit` of the heads [H, W, W] averaged, then of each: [rows, 1 + H]."""
    gold: dict[int, list[int]] = {}
    for link in links:
        gold.setdefault(link.target, []).append(link.source)
    heads = [share.mean(0), *share]
    rows = [[_hit(head[t], right) for head in heads] for t, right in gold.items()]
    return np.array(rows).reshape(len(rows), len(heads))


def _hit(weights: np.ndarray, gold: list[int]) -> float:
    """1 if the largest weight is on gold, 0 if not, a share if several are largest; 0 without any weight."""
    top = weights == weights.max()
    return float(top[gold].sum() / top.sum()) if weights.max() > 0 else 0.0


def validation_error(
    observations: Mapping[Site, SiteObservation], batch: Batch, data: Sequence[Example], vocabulary: Vocabulary
) -> float | None:
    """AER of the batch that `data` was collated to, heads averaged, of the layer where it is lowest.

    None without gold, or where the memory's slots are not made of source tokens.
    """
    gold = gold_of(data)
    if gold is None:
        return None
    between = [sides(example, vocabulary, "cross") for example in data]
    errors = []
    for (site, _), observation in observations.items():
        found = of_words(observation.call, batch.source.shape[1], between) if site == "cross" else None
        if found is not None:
            errors.append(alignment_error(found, gold))
    return min(errors, default=None)


def onset(history: Sequence[dict[str, Any]], n: int) -> list[Score]:
    """The first step of the history whose alignment error rate on `n` sentences of validation is below `ONSET`.

    A score without a value if it never is; no score where there was no rate to look at.
    """
    rates = [(point["step"], point["valid_aer"]) for point in history if point.get("valid_aer") is not None]
    if not rates:
        return []
    first = next((float(step) for step, rate in rates if rate < ONSET), None)
    signature = f"aer<{ONSET}|layer:best|heads:mean|version:1"
    return [Score(split="valid", metric="onset", value=first, n=n, signature=signature)]
