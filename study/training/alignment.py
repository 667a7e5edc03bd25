"""Attention between words, its scores against gold links, and attention maps of a sentence.

A forced pass gives token weights, which are pooled between words. Cross-attention is read at the query that predicts
y_t, in all families, and scored as an alignment: every target word is linked to the source word that it attends to
most (Och and Ney 2003). Encoder self-attention is scored against who attends to whom in the source. A site that source
and target share is both: target queries align, by their shares of the weight on the source; source queries attend.

H heads · L, S tokens of target and source, the source's end-of-sentence counted · T, W words of target and source; in
the encoder's self-attention both are the source's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from study.attention import AttentionCall
from study.config.sites import ALIGNING, READS
from study.corpora import Link, Pair, words
from study.models import Translator
from study.models.translator import BOS, EOS
from study.scores.score import RecordedScore
from study.scores.scoring import alignment_error_rate
from study.training import decode
from study.training.batches import Batch, Example, Examples, collate
from study.training.diagnostics import Site, observe, shared
from study.training.vocabulary import Vocabulary

Sides = tuple[list[int], list[int]]
"""The word of every token: of the slots' side, and of the queries'."""
Gold = Sequence[Sequence[Link]]
Place = tuple[int, int | None]
"""Layer, and head; None: the mean over heads."""


class Words(NamedTuple):
    """One sentence's attention between its words, end-of-sentence left out on both sides."""

    weights: np.ndarray
    """[H, T, W]: the mean over the tokens of a target word, the sum over those of a source word."""
    share: np.ndarray
    """[H, T, W], pooled alike: each weight's size over that of its row, end-of-sentence counted there. The weights
    themselves where they are a distribution."""
    visible: np.ndarray
    """[H, T, W]: some token of the target word sees some token of the source word."""

    def of(self, head: int | None) -> Words:
        """Return one head, or for None the mean over heads: the same without the first axis."""
        if head is None:
            return Words(self.weights.mean(0), self.share.mean(0), np.asarray(self.visible.any(0)))
        return Words(self.weights[head], self.share[head], self.visible[head])


Readings = dict[int, list[Words]]
"""Layer ↦ one reading a sentence."""


def readings(model: Translator, data: Examples, vocabulary: Vocabulary, language: str = "target") -> Readings:
    """Read queries of `source` or `target` over source tokens, by forced decoding. A sentence too long has no words.

    Empty where the memory's slots are not made of source tokens.
    """
    out: Readings = {}
    site = model.site_reading(language)
    for chosen, batch in decode.fitting(model, data):
        between = [sides(data[i], vocabulary, language) for i in chosen]
        for (at, layer), call in observe(model, batch).items():
            if language == "source" and call.sources is not None:
                call = call.sources
            read = of_words(call, batch.source.shape[1], between) if at == site else None
            if read is None:
                continue
            nothing = np.zeros((call.weights.shape[1], 0, 0))
            found = out.setdefault(layer, [Words(nothing, nothing, nothing > 0)] * len(data))
            for i, reading in zip(chosen, read, strict=True):
                found[i] = reading
    return out


def sides(example: Example, vocabulary: Vocabulary, language: str) -> Sides:
    """Return the words of the slots, which are the source's, and of the queries."""
    source = vocabulary.words(example.pair.source)
    return source, vocabulary.words(example.pair.target) if language == "target" else source


def of_words(call: AttentionCall, count: int, between: Sequence[Sides]) -> list[Words] | None:
    """Pool a call over `count` source tokens, each sentence between its words; None if its slots are made of others."""
    weights = over_source(call, count)
    if weights is None:
        return None
    token, visible = weights.double().cpu().numpy(), call.visible_tokens().expand_as(weights).cpu().numpy()
    return [pooled(token[row], visible[row], *words) for row, words in enumerate(between)]


def over_source(call: AttentionCall, count: int) -> Tensor | None:
    """Return the weights over `count` source tokens; shares of the weight on them where other slots have some, too."""
    weights = call.over_tokens(count)
    if weights is None or call.sources is None:
        return weights
    return shared(weights)


def pooled(weights: np.ndarray, visible: np.ndarray, source: Sequence[int], target: Sequence[int]) -> Words:
    """Pool token weights [H, L, S] of one sentence, and which tokens see which, between words.

    `source` and `target` give every token's word.
    """
    size = np.abs(weights)
    total = size.sum(-1, keepdims=True)
    share = np.divide(size, total, out=np.zeros_like(size), where=total > 0)
    inside = np.s_[:, : len(target), : len(source)]
    to_target, to_source = _membership(target), _membership(source)
    of_target = to_target / to_target.sum(1, keepdims=True).clip(min=1)
    return Words(
        of_target @ weights[inside] @ to_source.T,
        of_target @ share[inside] @ to_source.T,
        to_target @ visible[inside].astype(float) @ to_source.T > 0,
    )


def _membership(tokens: Sequence[int]) -> np.ndarray:
    """[words, tokens]: 1 where a token belongs to a word."""
    count = max(tokens, default=-1) + 1
    return np.asarray(np.equal.outer(np.arange(count), np.asarray(tokens, dtype=int)), dtype=float)


def links(reading: Words) -> set[tuple[int, int]]:
    """Link each target word to the visible source word of largest weight: {(source, target)}.

    A word that sees none has no link. A weight may have any sign, so what is hidden is left out by the mask; its weight
    of 0 could be the largest.
    """
    seeing = reading.visible.any(-1)
    if not seeing.any():
        return set()
    best = np.where(reading.visible, reading.weights, -np.inf).argmax(-1)
    return {(int(best[t]), int(t)) for t in np.flatnonzero(seeing)}


def alignment_error(found: Sequence[Words], gold: Gold, head: int | None = None) -> float:
    """Return the AER of the argmax links of one head, or for None of the mean over heads."""
    return alignment_error_rate([links(reading.of(head)) for reading in found], gold).value


def _on_gold(found: Sequence[Words], gold: Gold, head: int | None) -> Iterator[tuple[np.ndarray, list[int]]]:
    """Yield the shares [W] of every target word that has gold, and its gold source words, sure or possible."""
    for reading, truth in zip(found, gold, strict=True):
        share = reading.of(head).share
        by_target: dict[int, set[int]] = {}
        for link in truth:
            by_target.setdefault(link.target, set()).add(link.source)
        yield from ((share[t], list(sources)) for t, sources in by_target.items() if t < len(share))


def gold_mass(found: Sequence[Words], gold: Gold, head: int | None = None) -> float | None:
    """Return the share of attention on gold links: the mean over target words that have one; None without gold.

    A share is of all source tokens, so that attention on end-of-sentence counts as beside gold.
    """
    masses = [sum(share[s] for s in sources) for share, sources in _on_gold(found, gold, head)]
    return float(np.mean(masses)) if masses else None


def gold_argmax(found: Sequence[Words], gold: Gold) -> float:
    """Return the share of target words with gold whose largest weight, heads averaged, is on it.

    Equal largest weights share the word.
    """
    hits = []
    for share, sources in _on_gold(found, gold, None):
        top = share == share.max()
        hits.append(float(top[sources].sum() / top.sum()) if share.max() > 0 else 0.0)
    return float(np.mean(hits))


def error_floor(data: Examples, gold: Gold) -> float:
    """Return the lowest AER that one link for every target word can reach.

    A word without gold must err, and one of several sure links finds one of them.
    """
    forced = []
    for truth, example in zip(gold, data, strict=True):
        best = {link.target: (link.source, link.target) for link in sorted(truth, key=lambda link: link.sure)}
        forced.append({best.get(t, (-1, t)) for t in range(len(words(example.pair.target)))})
    return alignment_error_rate(forced, gold).value


def gold_of(data: Examples) -> list[Sequence[Link]] | None:
    """Return the gold alignments, if every pair has one."""
    gold = [example.pair.alignment for example in data]
    return None if any(truth is None for truth in gold) else [truth or () for truth in gold]


class Choice(NamedTuple):
    """The layer with the lowest AER on validation, heads averaged, and the head with it. Of equals, the first."""

    layer: Place
    head: Place | None
    """None: no head was chosen."""


def choose(found: Readings, valid: Examples) -> Choice | None:
    """Choose by AER on validation, whose readings are `found`: without gold the last layer; None without slots."""
    if not found:
        return None
    gold = gold_of(valid)
    if gold is None:
        return Choice((max(found), None), None)
    layers, heads = {}, {}
    for layer, read in sorted(found.items()):
        layers[layer, None] = alignment_error(read, gold)
        for head in range(len(read[0].weights)):
            heads[layer, head] = alignment_error(read, gold, head)
    return Choice(min(layers, key=lambda place: layers[place]), min(heads, key=lambda place: heads[place]))


def alignment_scores(found: Readings, data: Examples, split: str, choice: Choice) -> list[RecordedScore]:
    """Score a split, whose readings are `found`: none without gold.

    AER and mass on gold of the chosen layer, the floor of AER, and AER of the chosen head where there are several.
    """
    gold = gold_of(data)
    if gold is None:
        return []
    mean = found[choice.layer[0]]
    values = [
        ("aer", alignment_error(mean, gold), _signature(choice.layer)),
        ("gold_mass", gold_mass(mean, gold), _signature(choice.layer)),
        ("aer_floor", error_floor(data, gold), "links:one a target word"),
    ]
    if choice.head and len(mean[0].weights) > 1:
        layer, head = choice.head
        values.append(("aer_best_head", alignment_error(found[layer], gold, head), _signature(choice.head)))
    return [
        RecordedScore(split=split, metric=metric, value=value, n=len(data), signature=signature)
        for metric, value, signature in values
    ]


def _signature(place: Place) -> str:
    layer, head = place
    return f"layer:{layer}|heads:mean" if head is None else f"layer:{layer}|head:{head}"


def attends(
    model: Translator, data: Mapping[str, Examples], valid: Examples, vocabulary: Vocabulary
) -> list[RecordedScore]:
    """Score attention of the source to itself on the splits whose pairs say who attends to whom.

    attends_argmax: 100 · the share of source words with gold whose largest weight, heads averaged, is on a gold word.

    Weights are |a| / Σ|a| (the weights, of a distribution) with those of a word's tokens pooled. The layer is the best
    one on validation. None of a model without such attention, or of a split that the model cannot read.
    """

    def read(part: Examples) -> tuple[Readings, Gold]:
        gold = [example.pair.attends or () for example in part]
        known = all(example.pair.attends is not None and decode.fits(model, example) for example in part)
        return (readings(model, part, vocabulary, "source") if known and any(gold) else {}), gold

    found, gold = of_valid = read(valid)
    if not found:
        return []
    layer = max(sorted(found), key=lambda layer: gold_argmax(found[layer], gold))
    signature = f"{_signature((layer, None))}|version:1"
    scores = []
    for split, part in data.items():
        found, gold = of_valid if part is valid else read(part)
        if found:
            value = 100 * gold_argmax(found[layer], gold)
            n = sum(len({link.target for link in truth}) for truth in gold)
            scores.append(RecordedScore(split=split, metric="attends_argmax", value=value, n=n, signature=signature))
    return scores


def validation_error(
    calls: Mapping[Site, AttentionCall], batch: Batch, data: Examples, vocabulary: Vocabulary
) -> float | None:
    """Return the AER of the batch that `data` was collated to, heads averaged, of the layer where it is lowest.

    None without gold, or where the memory's slots are not made of source tokens.
    """
    gold = gold_of(data)
    if gold is None:
        return None
    between = [sides(example, vocabulary, "target") for example in data]
    read = [of_words(call, batch.source.shape[1], between) for (site, _), call in calls.items() if site in ALIGNING]
    return min((alignment_error(found, gold) for found in read if found is not None), default=None)


def attention_map(
    model: Translator,
    data: Examples,
    vocabulary: Vocabulary,
    layer: int | None,
    decimals: int | None = 4,
    site: str | None = None,
    head: int | None = None,
) -> dict[str, Any] | None:
    """Map attention over the tokens of the sentence nearest to ten tokens; None if no slot of the site is a token.

    Rows are queries: the target tokens that are predicted, or in the encoder the source tokens. Columns are slots:
    source tokens, or in the decoder's self-attention the target tokens before. Of a site that source and target share,
    rows are target tokens and columns source tokens, and weights are shares of the weight on the source.

    Args:
        model: the model.
        data: sentences with their targets.
        vocabulary: its tokens.
        layer: layer of the site (None: the last).
        decimals: to which weights are rounded; None: they are not, and the map has the number of visible slots, too.
        site: name of a site of the model (None: the one at which the target sees the source).
        head: number of a head that is left (None: the mean over heads).
    """
    site = site or model.site_reading("target")
    readable = [example for example in data if decode.fits(model, example)]
    if not readable:
        return None
    example = min(readable, key=lambda example: abs(len(example.source) - 10))
    batch = collate([example]).to(next(model.parameters()).device)
    calls = {at: call for (name, at), call in observe(model, batch).items() if name == site}
    if not calls:
        return None
    at = max(calls) if layer is None else layer
    queries, slots = READS[site]
    over_tokens = over_source(calls[at], (batch.source if "source" in slots else batch.given).shape[1])
    if over_tokens is None:
        return None
    kept = next(module.kept for name, number, module in model.sites() if (name, number) == (site, at))
    weights = (over_tokens[0].mean(0) if head is None else over_tokens[0, kept.index(head)]).tolist()
    source, target = vocabulary.tokens([*example.source, EOS]), vocabulary.tokens([*example.target, EOS])
    pair = example.pair
    drawn = {
        "site": site,
        "layer": at,
        "head": head,
        "source": source if "source" in slots else vocabulary.tokens([BOS, *example.target]),
        "target": target if "target" in queries else source,
        "weights": weights if decimals is None else [[round(w, decimals) for w in row] for row in weights],
        "gold": _token_links(pair, vocabulary) if site in ALIGNING else None,
        "text": {"source": pair.source, "target": pair.target},
    }
    if decimals is None:
        drawn["visible"] = calls[at].visible_tokens().expand_as(over_tokens)[0].any(0).sum(-1).tolist()
    return drawn


def _token_links(pair: Pair, vocabulary: Vocabulary) -> list[list[int]] | None:
    """Return the gold links of a pair between tokens [source, target]; None without an alignment."""
    if pair.alignment is None:
        return None
    of_source, of_target = vocabulary.words(pair.source), vocabulary.words(pair.target)
    links = []
    for link in pair.alignment:
        targets = [t for t, word in enumerate(of_target) if word == link.target]
        links += [[s, t] for s, word in enumerate(of_source) if word == link.source for t in targets]
    return links
