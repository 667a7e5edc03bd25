"""Attention scored against what is known of it: who attends to whom in the source, and when alignment sets in.

H heads · S source tokens · W source words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from study.corpora import Link
from study.models import Translator
from study.records import Score
from study.training import decode
from study.training.alignment import alignment_error, pooled, sees
from study.training.batches import Batch, Example
from study.training.diagnostics import Sight, Site, observe
from study.training.diagnostics.measures import shares
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
    """Whether every pair says who attends to whom, one has something to say, and the model can read them all."""
    known = all(example.pair.attends is not None and decode.fits(model, example) for example in data)
    return known and any(example.pair.attends for example in data)


def on_gold(model: Translator, data: Sequence[Example], vocabulary: Vocabulary) -> dict[int, OnGold]:
    """What encoder self-attention has on gold, by layer; empty where the encoder has none."""
    found: dict[int, list[np.ndarray]] = {}
    for chosen, batch in decode.fitting(model, data):
        for (site, layer), seen in observe(model, batch).items():
            if site != "encoder_self":
                continue
            weights = shares(seen.weights).double().cpu().numpy()
            visible = seen.mask.expand_as(seen.weights).cpu().numpy()
            for row, i in enumerate(chosen):
                pair = data[i].pair
                words = vocabulary.words(pair.source)
                reading = pooled(weights[row], visible[row], words, words)
                found.setdefault(layer, []).append(_rows(reading.weights, pair.attends or ()))
    return {layer: _shares(np.concatenate(rows)) for layer, rows in found.items()}


def _rows(weights: np.ndarray, links: Sequence[Link]) -> np.ndarray:
    """One row per word with gold: the weight on gold heads averaged, the argmax so, and every head's: [rows, 2 + H]."""
    gold: dict[int, list[int]] = {}
    for link in links:
        gold.setdefault(link.target, []).append(link.source)
    together = weights.mean(0)
    rows = [
        [together[t, right].sum(), _hit(together[t], right), *(_hit(head[t], right) for head in weights)]
        for t, right in gold.items()
    ]
    return np.array(rows).reshape(len(rows), 2 + len(weights))


def _hit(weights: np.ndarray, gold: list[int]) -> float:
    """1 if the largest weight is on gold, 0 if not, a share if several are largest; 0 without any weight."""
    top = weights == weights.max()
    return float(top[gold].sum() / top.sum()) if weights.max() > 0 else 0.0


def _shares(rows: np.ndarray) -> OnGold:
    mass, argmax, *heads = rows.mean(0).tolist()
    return OnGold(mass, argmax, heads, len(rows))


def validation_error(
    sights: Mapping[Site, Sight], batch: Batch, data: Sequence[Example], vocabulary: Vocabulary
) -> float | None:
    """AER of the batch that `data` was collated to, heads averaged, of the layer where it is lowest.

    None without gold, or where the memory's slots are not made of source tokens.
    """
    gold = [example.pair.alignment for example in data]
    if any(links is None for links in gold):
        return None
    sides = [(vocabulary.words(example.pair.source), vocabulary.words(example.pair.target)) for example in data]
    errors = []
    for (site, _), sight in sights.items():
        weights = sight.seen.over_tokens(batch.source.shape[1]) if site == "cross" else None
        if weights is not None:
            token, visible = weights.double().cpu().numpy(), sees(sight.seen).expand_as(weights).cpu().numpy()
            found = [pooled(token[row], visible[row], *words) for row, words in enumerate(sides)]
            errors.append(alignment_error(found, [links or () for links in gold]))
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
