"""Scores of translations, each with the signature of its computation.

Units: BLEU, chrF, exact match, prefix and word accuracy run from 0 to 100 (more is better); the alignment error rate
runs from 0 to 1 (less is better), as in the literature. BLEU and chrF are sacreBLEU's: cased, on plain text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import takewhile
from typing import NamedTuple

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from study.corpora.corpus import Link, Pair
from study.corpora.text import words
from study.scores.metrics import LENGTHS, with_parts
from study.scores.score import Score

SMALLEST_BUCKET = 20
"""Buckets with fewer sentences are not scored: their BLEU says little."""


class Value(NamedTuple):
    """A score and how it was computed."""

    value: float
    signature: str


SENTENCE_BLEU = BLEU(force=True, effective_order=True)  # the order changes the score of a sentence, not its n-grams
Scorer = Callable[[Sequence[str], Sequence[str]], Value]
Ngrams = tuple[tuple[int, int], tuple[int, ...], tuple[int, ...]]


def bleu(hypotheses: Sequence[str], references: Sequence[str]) -> Value:
    """Corpus BLEU, 0–100: cased, tokenizer 13a, exponential smoothing, one reference (Post 2018).

    Raises:
        ValueError: not one hypothesis per reference, or none at all; so do all scores here.
    """
    sentences = [_ngrams(h, r) for h, r in zip(hypotheses, references, strict=True)]
    # sacreBLEU adds up the facts of the sentences, and makes a score of the sums.
    sizes, right, made = ([sum(column) for column in zip(*part, strict=True)] for part in zip(*sentences, strict=True))
    ours, theirs = sizes
    score = BLEU.compute_bleu(right, made, ours, theirs, smooth_method="exp")
    return Value(float(score.score), _bleu_signature())


@lru_cache(maxsize=2**14)
def _ngrams(hypothesis: str, reference: str) -> Ngrams:
    """Return BLEU's facts of one sentence: its length and the reference's, n-grams that are right, and all n-grams.

    They are kept, since a sentence is in several parts of its split, and few translations change between validations.
    """
    score = SENTENCE_BLEU.sentence_score(hypothesis, [reference])
    return (score.sys_len, score.ref_len), tuple(score.counts), tuple(score.totals)


@cache
def _bleu_signature() -> str:
    metric = BLEU(force=True)
    metric.corpus_score([""], [[""]])  # the signature counts the references of a call
    return str(metric.get_signature())


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Value:
    """Corpus chrF2, 0–100: character n-grams up to 6, no words (Popović 2015)."""
    _paired(hypotheses, references)
    metric = CHRF()
    score = metric.corpus_score(hypotheses, [references])
    return Value(float(score.score), str(metric.get_signature()))


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> Value:
    """100 · share of the hypotheses that equal their reference, white space around both taken off."""
    hits = sum(h.strip() == r.strip() for h, r in zip(hypotheses, references, strict=True))
    return Value(100.0 * hits / len(references), "exact|case:mixed|strip:yes|version:1")


def prefix_accuracy(hypotheses: Sequence[str], references: Sequence[str]) -> Value:
    """100 · mean over sentences of (words right before the first error) / (words of the reference).

    Words are those of `corpora.words`, so that a punctuation mark counts as one. What follows a complete reference
    costs nothing here (`exact_match` sees it). An empty reference counts 1 for an empty hypothesis, else 0.
    """
    shares = []
    for ours, theirs in zip(map(forms, hypotheses), map(forms, references), strict=True):
        right = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(ours, theirs, strict=False))))
        shares.append(right / len(theirs) if theirs else float(not ours))
    return Value(100.0 * sum(shares) / len(shares), "prefix|case:mixed|tok:words|version:1")


def word_accuracy(hypotheses: Sequence[str], references: Sequence[str]) -> Value:
    """100 · share of all reference words that the hypothesis has at the same place, over the split.

    Words are those of `corpora.words`. It means something where targets are aligned by position, as a probe's are:
    there a wrong word costs itself alone. What follows the reference's last word costs nothing. 100 without any word.
    """
    right = total = 0
    for hypothesis, reference in zip(map(forms, hypotheses), map(forms, references), strict=True):
        right += sum(ours == theirs for ours, theirs in zip(hypothesis, reference, strict=False))
        total += len(reference)
    return Value(100.0 * right / total if total else 100.0, "accuracy|case:mixed|tok:words|version:1")


def alignment_error_rate(predicted: Iterable[Collection[tuple[int, int]]], gold: Iterable[Collection[Link]]) -> Value:
    """AER = 1 − (|A∩S| + |A∩P|) / (|A| + |S|), 0–1, summed over the corpus (Och and Ney 2003).

    A is the set of predicted (source, target) links, S the sure gold links and P ⊇ S all gold links, both counted in
    `corpora.words` from 0. Where there is neither a predicted nor a sure link, nothing is wrong: 0.

    Raises:
        ValueError: not one set of predicted links per gold alignment.
    """
    right = total = 0
    for links, truth in zip(predicted, gold, strict=True):
        found = {(source, target) for source, target in links}
        possible = {(link.source, link.target) for link in truth}
        sure = {(link.source, link.target) for link in truth if link.sure}
        right += len(found & sure) + len(found & possible)
        total += len(found) + len(sure)
    return Value(1.0 - right / total if total else 0.0, "aer|links:sure,possible|version:1")


METRICS: dict[str, Scorer] = {
    "bleu": bleu,
    "chrf": chrf,
    "exact": exact_match,
    "prefix": prefix_accuracy,
    "accuracy": word_accuracy,
}
BY_LENGTH = with_parts("length")
OF_SUBSETS = tuple(name for name in with_parts("corpus") if name in METRICS)
Members = Mapping[str, Sequence[bool]]
"""Subset that a corpus names ↦ which sentences of a split belong to it."""


def source_length(text: str) -> int:
    """Words of a source sentence, punctuation not counted."""
    return sum(form[0].isalnum() or form[0] == "_" for form in forms(text))


def length_buckets(pairs: Sequence[Pair]) -> dict[str, list[bool]]:
    """Return whether each pair is in a bucket of `LENGTHS`, by the bucket's name."""
    lengths = [source_length(pair.source) for pair in pairs]
    return {f"length {low}-{high}": [low <= length <= high for length in lengths] for low, high in LENGTHS}


def score_split(
    hypotheses: Sequence[str], pairs: Sequence[Pair], split: str, members: Members | None = None
) -> list[Score]:
    """Return all text scores of one split: every metric on the whole, BLEU and exact match by length and by `members`.

    A bucket of `LENGTHS` appears as `subset="length 4-7"`, a subset of the corpus by its name, if it has
    `SMALLEST_BUCKET` sentences or more; sentences shorter or longer than all buckets are in the whole alone.
    """
    references = [pair.target for pair in pairs]
    _paired(hypotheses, references)
    buckets, scores = length_buckets(pairs), []
    for subset, rows in _parts(len(pairs), buckets | dict(members or {})):
        some, theirs = [hypotheses[i] for i in rows], [references[i] for i in rows]
        for metric in METRICS if subset is None else BY_LENGTH if subset in buckets else OF_SUBSETS:
            value, signature = METRICS[metric](some, theirs)
            scores.append(
                Score(split=split, metric=metric, value=value, n=len(some), subset=subset, signature=signature)
            )
    return scores


def counts(hypotheses: Sequence[str], pairs: Sequence[Pair]) -> list[tuple[int, ...]]:
    """Return the counts of each sentence that BLEU and exact match follow from: `study.store.rows.COUNTS`.

    The totals of n-grams are max(0, sys_len − n + 1).

    Raises:
        ValueError: not one hypothesis per pair.
    """
    found = []
    for text, pair in zip(hypotheses, pairs, strict=True):
        sizes, right, _ = _ngrams(text, pair.target)
        found.append((source_length(pair.source), int(text.strip() == pair.target.strip()), *sizes, *right))
    return found


def score_nll(
    nll: Sequence[float] | None, pairs: Sequence[Pair], split: str, members: Members | None = None
) -> list[Score]:
    """Return the scores of parts that follow from the NLL of each sentence: its mean by `members`, its slope by length.

    The slope is Σ (x − x̄) y / Σ (x − x̄)² over the sentences of a part, with x the words of the source, and y the NLL
    divided by the target tokens: the tokens of the reference as BLEU counts them (13a), and its end. A model that loses
    the same on every token has slope 0. Without values (`nll` is None, or all sources have one length) a score is null.
    """
    lengths, scores = [source_length(pair.source) for pair in pairs], []
    tokens = [_ngrams("", pair.target)[0][1] + 1 for pair in pairs] if nll is not None else []
    for subset, rows in _parts(len(pairs), members):
        some = [nll[row] for row in rows] if nll is not None else None
        each = some and [value / tokens[row] for row, value in zip(rows, some, strict=True)]
        found = {"nll_per_token_by_length": each and slope([lengths[row] for row in rows], each)}
        if subset is not None:
            found["nll"] = None if some is None else math.fsum(some) / len(some)
        scores += [
            Score(split=split, metric=metric, value=value, n=len(rows), subset=subset)
            for metric, value in found.items()
        ]
    return scores


def score_calibrated(
    nll: Sequence[float] | None, temperature: float, n: int, split: str, members: Members | None = None
) -> list[Score]:
    """Return the mean NLL of n sentences at a temperature of the softmax that was fitted on validation, by `members`.

    A model that was trained with label smoothing is less certain than it could be, and its NLL pays for that.
    """
    scores, signature = [], f"temperature:{temperature:g}|fitted:valid|version:1"
    for subset, rows in _parts(n, members):
        value = None if nll is None else math.fsum(nll[row] for row in rows) / len(rows)
        facts = {"split": split, "metric": "nll_calibrated", "subset": subset}
        scores.append(Score(**facts, value=value, n=len(rows), signature=signature))
    return scores


def slope(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Return the slope of y over x by least squares; None where x does not vary."""
    middle = math.fsum(x) / len(x)
    spread = math.fsum((one - middle) ** 2 for one in x)
    return math.fsum((a - middle) * b for a, b in zip(x, y, strict=True)) / spread if spread else None


def _parts(n: int, members: Members | None) -> list[tuple[str | None, list[int]]]:
    """Return the whole of n sentences and the subsets that are large enough for scores, each with its places."""
    found = [(name, [i for i, belongs in enumerate(some) if belongs]) for name, some in (members or {}).items()]
    return [(None, list(range(n))), *((name, rows) for name, rows in found if len(rows) >= SMALLEST_BUCKET)]


def _paired(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if not references or len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses for {len(references)} references; each needs the other")


def forms(text: str) -> list[str]:
    """Return the words and punctuation marks of a text (see `corpora.words`), without their places."""
    return [word for word, _, _ in words(text)]
