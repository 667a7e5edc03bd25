"""Scores of translations, each with the signature of its computation.

A score of a set of sentences is a `Measure`: facts of each sentence, added up, and a function of the sums. Scores of a
split and of its parts, the noise of sentences and the examination of published scores have no other definition.

Units: BLEU, chrF, exact match, prefix and word accuracy run from 0 to 100 (more is better); the alignment error rate
runs from 0 to 1 (less is better), as in the literature. BLEU and chrF are sacreBLEU's: cased, on plain text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from study.corpora.corpus import Link, Pair
from study.corpora.text import words
from study.scores.metrics import LENGTHS, with_parts
from study.scores.score import RecordedScore

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU

SMALLEST_BUCKET = 20
"""Buckets with fewer sentences are not scored: their BLEU says little."""
Table = NDArray[np.float64]
"""Facts of sentences: a row for each, a column for each fact."""
Sums = Sequence[float]
"""Columns of a table, added up."""
Members = Mapping[str, Sequence[bool]]
"""Subset that a corpus names ↦ which sentences of a split belong to it."""


class Value(NamedTuple):
    """A score and how it was computed."""

    value: float
    signature: str


Scorer = Callable[[Sequence[str], Sequence[str]], Value]
"""Hypotheses and references ↦ their score. ValueError: not one hypothesis per reference, or none at all."""


@dataclass(frozen=True)
class Measure:
    """Score of a set of sentences as a function of sums over them.

    Attributes:
        facts: of one sentence, from what it is scored by: a hypothesis and its reference, or its NLL.
        score: number that the sums of the facts give; None if they give none. N times the sums give the same number.
        gradient: its derivative by each sum, of finite sums; None if it has none there.
        signature: returns how it is computed.
    """

    facts: Callable[..., Sequence[float]]
    score: Callable[[Sums], float | None]
    gradient: Callable[[Sums], Sequence[float] | None]
    signature: Callable[[], str]

    def table(self, *columns: Sequence[Any]) -> Table:
        """Return the facts of sentences [sentence, fact].

        Args:
            columns: arguments of `facts`, each with a value for each sentence.

        Raises:
            ValueError: the columns differ in length, or have no sentence.
        """
        rows = [self.facts(*values) for values in zip(*columns, strict=True)]
        if not rows:
            raise ValueError("expected sentences to score, got none")
        return np.array(rows, dtype=float)

    def of(self, table: Table) -> float | None:
        """Return the score of the sentences of a table."""
        return self.score([math.fsum(column) for column in table.T])

    def linearised(self, table: Table) -> Table | None:
        """Return a number for each sentence, whose mean is the score and whose spread is its noise; None without one.

        Sentence i of n has score + n ∇score · facts_i. The mean is the score, since ∇score · sums = 0 for a function
        that n times the sums do not change (Euler). For a mean over sentences it is the value of the sentence.
        """
        sums = [math.fsum(column) for column in table.T]
        score, gradient = self.score(sums), self.gradient(sums)
        return None if score is None or gradient is None else score + len(table) * (table @ np.array(gradient))

    def __call__(self, hypotheses: Sequence[str], references: Sequence[str]) -> Value:
        """Return the score of hypotheses, each with its reference, and its signature."""
        value = self.of(self.table(hypotheses, references))
        assert value is not None
        return Value(value, self.signature())


def ratio(
    facts: Callable[..., Sequence[float]], signature: str = "", scale: float = 100.0, empty: float | None = None
) -> Measure:
    """Return the measure scale · Σ a / Σ b of facts (a, b); `empty` where Σ b is 0."""

    def score(sums: Sums) -> float | None:
        return scale * sums[0] / sums[1] if sums[1] else empty

    def gradient(sums: Sums) -> Sequence[float] | None:
        return (scale / sums[1], -scale * sums[0] / sums[1] ** 2) if sums[1] else None

    return Measure(facts, score, gradient, lambda: signature)


ORDERS = 4


@cache
def _sacrebleu(effective_order: bool = False) -> BLEU:
    """Return sacreBLEU's BLEU; by the effective order, scores of short sentences differ, their n-grams do not.

    It is imported here, because that takes a tenth of a second and most verbs compute no BLEU.
    """
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(force=True, effective_order=effective_order)


@cache
def _bleu_signature() -> str:
    metric = _sacrebleu()
    metric.corpus_score([""], [[""]])  # the signature counts the references of a call
    return str(metric.get_signature())


@lru_cache(maxsize=2**14)
def _ngrams(hypothesis: str, reference: str) -> tuple[int, ...]:
    """Return BLEU's facts of one sentence: its length and the reference's, right n-grams and all n-grams by n.

    They are kept, since few translations change between validations.
    """
    score = _sacrebleu(effective_order=True).sentence_score(hypothesis, [reference])
    return score.sys_len, score.ref_len, *score.counts, *score.totals


def _bleu(sums: Sums) -> float:
    ours, theirs, *ngrams = (round(number) for number in sums)
    return float(_sacrebleu().compute_bleu(ngrams[:ORDERS], ngrams[ORDERS:], ours, theirs, smooth_method="exp").score)


def _bleu_gradient(sums: Sums) -> Sequence[float] | None:
    """Differentiate 100 exp(¼ Σ log (right_n / all_n) + min(0, 1 − reference / length)); None where it is smoothed."""
    ours, theirs, *ngrams = sums
    right, total = ngrams[:ORDERS], ngrams[ORDERS:]
    if not all(right):
        return None
    by_length = (theirs / ours**2, -1 / ours) if ours < theirs else (0.0, 0.0)
    logs = [*by_length, *(1 / (ORDERS * n) for n in right), *(-1 / (ORDERS * n) for n in total)]
    return [_bleu(sums) * slope for slope in logs]


def _exact(hypothesis: str, reference: str) -> tuple[float, float]:
    return float(hypothesis.strip() == reference.strip()), 1.0


def _prefix(hypothesis: str, reference: str) -> tuple[float, float]:
    ours, theirs = forms(hypothesis), forms(reference)
    right = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(ours, theirs, strict=False))))
    return right / len(theirs) if theirs else float(not ours), 1.0


def _accuracy(hypothesis: str, reference: str) -> tuple[float, float]:
    ours, theirs = forms(hypothesis), forms(reference)
    return sum(a == b for a, b in zip(ours, theirs, strict=False)), len(theirs)


def _length_slope(sums: Sums) -> float | None:
    """Return the slope of y over x by least squares; None where x does not vary."""
    n, x, y, xx, xy = sums
    spread = xx - x * x / n
    return (xy - x * y / n) / spread if spread else None


def _length_facts(nll: float, words: int, tokens: int) -> tuple[float, ...]:
    y = nll / tokens
    return 1.0, words, y, words * words, words * y


bleu = Measure(_ngrams, _bleu, _bleu_gradient, _bleu_signature)
"""Corpus BLEU, 0–100: cased, tokenizer 13a, exponential smoothing, one reference (Post 2018)."""
exact_match = ratio(_exact, "exact|case:mixed|strip:yes|version:1")
"""100 · share of the hypotheses that equal their reference, white space around both taken off."""
prefix_accuracy = ratio(_prefix, "prefix|case:mixed|tok:words|version:1")
"""100 · mean over sentences of (words right before the first error) / (words of the reference).

Words are those of `corpora.words`, so that a punctuation mark counts as one. What follows a complete reference costs
nothing here (`exact_match` sees it). An empty reference counts 1 for an empty hypothesis, else 0.
"""
word_accuracy = ratio(_accuracy, "accuracy|case:mixed|tok:words|version:1", empty=100.0)
"""100 · share of all reference words that the hypothesis has at the same place, over the split.

Words are those of `corpora.words`. It means something where targets are aligned by position, as a probe's are: there a
wrong word costs itself alone. What follows the reference's last word costs nothing. 100 without any word.
"""
nll = ratio(lambda value: (value, 1.0), scale=1.0)
"""Mean NLL of the sentences, nats."""
nll_by_length = Measure(_length_facts, _length_slope, lambda sums: None, str)
"""Slope Σ (x − x̄) y / Σ (x − x̄)² of y, the NLL of a sentence per target token, over x, the words of its source."""


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Value:
    """Corpus chrF2, 0–100: character n-grams up to 6, no words (Popović 2015). sacreBLEU adds up its facts itself.

    Raises:
        ValueError: not one hypothesis per reference, or none at all.
    """
    if not references or len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses for {len(references)} references; each needs the other")
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF()
    score = metric.corpus_score(hypotheses, [references])
    return Value(float(score.score), str(metric.get_signature()))


def alignment_error_rate(predicted: Iterable[Collection[tuple[int, int]]], gold: Iterable[Collection[Link]]) -> Value:
    """AER = 1 − (|A∩S| + |A∩P|) / (|A| + |S|), 0–1, summed over the corpus (Och and Ney 2003).

    A is the set of predicted (source, target) links, S the sure gold links and P ⊇ S all gold links, both counted in
    `corpora.words` from 0. Where there is neither a predicted nor a sure link, nothing is wrong: 0.

    Raises:
        ValueError: not one set of predicted links per gold alignment.
    """
    right = total = 0
    for links, truth in zip(predicted, gold, strict=True):
        proposed = {(source, target) for source, target in links}
        possible = {(link.source, link.target) for link in truth}
        sure = {(link.source, link.target) for link in truth if link.sure}
        right += len(proposed & sure) + len(proposed & possible)
        total += len(proposed) + len(sure)
    return Value(1.0 - right / total if total else 0.0, "aer|links:sure,possible|version:1")


MEASURES = {"bleu": bleu, "exact": exact_match, "prefix": prefix_accuracy, "accuracy": word_accuracy}
"""Scores of text that are functions of sums."""
TEXT_SCORES: dict[str, Scorer] = {"bleu": bleu, "chrf": chrf, **MEASURES}
"""All scores of text, in the order of a record."""
BY_LENGTH = with_parts("length")
OF_SUBSETS = tuple(name for name in with_parts("corpus") if name in MEASURES)


def source_length(text: str) -> int:
    """Words of a source sentence, punctuation not counted."""
    return sum(form[0].isalnum() or form[0] == "_" for form in forms(text))


def length_buckets(pairs: Sequence[Pair]) -> dict[str, list[bool]]:
    """Return whether each pair is in a bucket of `LENGTHS`, by the bucket's name."""
    lengths = [source_length(pair.source) for pair in pairs]
    return {f"length {low}-{high}": [low <= length <= high for length in lengths] for low, high in LENGTHS}


def score_split(
    hypotheses: Sequence[str], pairs: Sequence[Pair], split: str, members: Members | None = None
) -> list[RecordedScore]:
    """Return all text scores of one split: every metric on the whole, BLEU and exact match by length and by `members`.

    A bucket of `LENGTHS` appears as `subset="length 4-7"`, a subset of the corpus by its name, if it has
    `SMALLEST_BUCKET` sentences or more; sentences shorter or longer than all buckets are in the whole alone.
    """
    references = [pair.target for pair in pairs]
    tables = {name: measure.table(hypotheses, references) for name, measure in MEASURES.items()}
    buckets, scores = length_buckets(pairs), []
    for subset, rows in _parts(len(pairs), buckets | dict(members or {})):
        for metric in TEXT_SCORES if subset is None else BY_LENGTH if subset in buckets else OF_SUBSETS:
            if metric in MEASURES:
                measure = MEASURES[metric]
                value, signature = measure.of(tables[metric][rows]), measure.signature()
            else:
                value, signature = TEXT_SCORES[metric](hypotheses, references)
            scores.append(
                RecordedScore(split=split, metric=metric, value=value, n=len(rows), subset=subset, signature=signature)
            )
    return scores


def counts(hypotheses: Sequence[str], pairs: Sequence[Pair]) -> list[tuple[int, ...]]:
    """Return the counts of each sentence that BLEU and exact match follow from: `study.store.rows.COUNTS`.

    Raises:
        ValueError: not one hypothesis per pair.
    """
    rows = []
    for text, pair in zip(hypotheses, pairs, strict=True):
        exact, (ours, theirs, *ngrams) = _exact(text, pair.target)[0], _ngrams(text, pair.target)
        rows.append((source_length(pair.source), int(exact), ours, theirs, *ngrams[:ORDERS]))
    return rows


def counted(metric: str, rows: Sequence[Sequence[int]]) -> Table:
    """Return the facts of sentences for `bleu` or `exact` from their `counts`.

    A sentence has max(0, length − n + 1) n-grams.
    """
    table = np.array(rows, dtype=float)
    if metric == "exact":
        return np.stack([table[:, 1], np.ones(len(table))], axis=1)
    totals = [np.maximum(0.0, table[:, 2] - n) for n in range(ORDERS)]
    return np.concatenate([table[:, 2:], np.stack(totals, axis=1)], axis=1)


COUNTED = ("bleu", "exact")
"""Scores that follow from counts."""


def score_nll(
    values: Sequence[float] | None, pairs: Sequence[Pair], split: str, members: Members | None = None
) -> list[RecordedScore]:
    """Return the scores of parts that follow from the NLL of each sentence: its mean by `members`, its slope by length.

    The target tokens of the slope are those of the reference as BLEU counts them (13a), and its end. A model that loses
    the same on every token has slope 0. Without values (`values` is None, or all sources have one length) a score is
    null.
    """
    tables = {}
    if values is not None:
        lengths = [source_length(pair.source) for pair in pairs]
        tokens = [_ngrams("", pair.target)[1] + 1 for pair in pairs]
        tables = {"nll_per_token_by_length": nll_by_length.table(values, lengths, tokens), "nll": nll.table(values)}
    scores = []
    for subset, rows in _parts(len(pairs), members):
        for metric, measure in (("nll_per_token_by_length", nll_by_length), ("nll", nll)):
            if metric == "nll" and subset is None:  # a record has it before the perplexity
                continue
            value = measure.of(tables[metric][rows]) if tables else None
            scores.append(RecordedScore(split=split, metric=metric, value=value, n=len(rows), subset=subset))
    return scores


def score_calibrated(
    values: Sequence[float] | None, temperature: float, n: int, split: str, members: Members | None = None
) -> list[RecordedScore]:
    """Return the mean NLL of n sentences at a temperature of the softmax that was fitted on validation, by `members`.

    A model that was trained with label smoothing is less certain than it could be, and its NLL pays for that.
    """
    scores, signature = [], f"temperature:{temperature:g}|fitted:valid|version:1"
    for subset, rows in _parts(n, members):
        value = None if values is None else nll.of(nll.table([values[row] for row in rows]))
        facts = {"split": split, "metric": "nll_calibrated", "subset": subset}
        scores.append(RecordedScore(**facts, value=value, n=len(rows), signature=signature))
    return scores


def _parts(n: int, members: Members | None) -> list[tuple[str | None, list[int]]]:
    """Return the whole of n sentences and the subsets that are large enough for scores, each with its places."""
    subsets = [(name, [i for i, belongs in enumerate(belong) if belongs]) for name, belong in (members or {}).items()]
    return [(None, list(range(n))), *((name, rows) for name, rows in subsets if len(rows) >= SMALLEST_BUCKET)]


def forms(text: str) -> list[str]:
    """Return the words and punctuation marks of a text (see `corpora.words`), without their places."""
    return [word for word, _, _ in words(text)]
