"""Attention between words, and its scores against gold links.

A forced pass gives token weights, which are pooled between words. Cross-attention is read at the query that predicts
y_t, in both families, and scored as an alignment: every target word is linked to the source word that it attends to
most (Och and Ney 2003). Encoder self-attention is scored against who attends to whom in the source.

H heads · L, S tokens of target and source, the source's end-of-sentence counted · T, W words of target and source; in
the encoder's self-attention both are the source's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from study.attention import AttentionCall
from study.corpora import Link, words
from study.models import Translator
from study.models.translator import BOS, EOS
from study.records import Score
from study.scoring import alignment_error_rate
from study.training import decode
from study.training.batches import Batch, Example, collate
from study.training.diagnostics import Site, SiteObservation, observe
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
    size = np.abs(weights)
    total = size.sum(-1, keepdims=True)
    share = np.divide(size, total, out=np.zeros_like(size), where=total > 0)
    inside = np.s_[:, : len(target), : len(source)]
    if all(list(side) == list(range(len(side))) for side in (source, target)):  # every token is a word
        return Words(weights[inside], share[inside], visible[inside])
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


def visible_tokens(call: AttentionCall) -> Tensor:
    """Return the source tokens that each query sees, through the slots made of them: [B, H or 1, L or 1, S], bool."""
    if call.origin is None:
        return call.mask
    through: Tensor = call.mask.to(call.origin.dtype) @ (call.origin > 0).to(call.origin.dtype)[:, None]
    return through > 0


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


def choose(found: dict[int, list[Words]], valid: Sequence[Example]) -> Choice | None:
    """Choose the layer and head with the lowest AER on validation; None without gold, or without slots to align.

    `found` are the `alignments` of validation.
    """
    gold = gold_of(valid)
    rows = table(found, gold) if gold is not None else []
    if not rows:
        return None
    layer = min((row.aer, row.layer) for row in rows if row.head is None)[1]
    best = min((row.aer, row.layer, row.head) for row in rows if row.head is not None)
    return Choice(layer, best[1:])


def alignment_scores(found: dict[int, list[Words]], data: Sequence[Example], split: str, choice: Choice) -> list[Score]:
    """AER and mass on gold of the chosen layer, AER of the chosen head where there are several, and the floor of AER.

    None without gold. `found` are the `alignments` of the split.
    """
    gold = gold_of(data)
    if gold is None:
        return []
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
