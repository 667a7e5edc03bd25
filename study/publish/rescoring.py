"""Translations scored again, sentence by sentence, so that a reference is prepared once for hundreds of runs.

sacreBLEU adds up counts over sentences and turns the sums into a score. Here the same counts are made for all
sentences at once (`ngrams`) and kept for each sentence: the whole and its parts by length are sums over rows, and the
rows are what is stored where references are not. Tokens, BLEU from counts, and signatures are sacreBLEU's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from study import metrics, scoring
from study.corpora import Corpus, Pair, Section
from study.publish.ngrams import NgramCounts
from study.records import Score, rounded

Counts = NDArray[np.int64]
ORDER = 4
COLUMNS = ("source_words", "exact", "sys_len", "ref_len", *(f"correct{n}" for n in range(1, ORDER + 1)))
"""Columns of a file of statistics. The totals of sacreBLEU follow from them: total_n = max(0, sys_len - n + 1)."""


@dataclass(frozen=True)
class Statistics:
    """One row a sentence, `COLUMNS`: what BLEU and exact match of any part of a split are computed from."""

    rows: Counts

    def dumps(self) -> str:
        """A heading and one line per sentence, tabs between."""
        lines = ["\t".join(COLUMNS), *("\t".join(map(str, row)) for row in self.rows.tolist())]
        return "\n".join(lines) + "\n"

    @staticmethod
    def loads(text: str) -> Statistics:
        """The statistics of a text.

        Raises:
            ValueError: it is not what `dumps` writes.
        """
        head, *lines = text.removesuffix("\n").split("\n")
        rows = np.array([line.split("\t") for line in lines], dtype=np.int64)
        if head.split("\t") != list(COLUMNS) or rows.shape != (len(lines), len(COLUMNS)) or rows.min() < 0:
            raise ValueError(f"expected the columns {', '.join(COLUMNS)} and one line per sentence")
        return Statistics(rows)

    def sacrebleu(self) -> Counts:
        """Counts as sacreBLEU's: sys_len, ref_len, correct 1 to 4, total 1 to 4; one row a sentence."""
        totals = np.maximum(0, self.rows[:, 2:3] - np.arange(ORDER))
        return np.concatenate([self.rows[:, 2:], totals], axis=1)

    def scores(self, split: str) -> list[Score]:
        """BLEU and exact match, on the whole and by length."""
        counts, exact = self.sacrebleu(), self.rows[:, 1]
        return [
            _score(split, metric, value, subset, len(some))
            for subset, some in parts(self.rows[:, 0])
            for metric, value in (("bleu", _bleu(counts[some])), ("exact", 100.0 * int(exact[some].sum()) / len(some)))
        ]


class Rescorer:
    """A split's references, prepared; scores and statistics of any number of its translations.

    Runs agree on most translations, so each translation of a sentence is counted once.
    """

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self.references = [pair.target for pair in pairs]
        self.lengths = np.array([scoring.source_length(pair.source) for pair in pairs])
        self._words = NgramCounts([_tokens(text) for text in self.references], ORDER)
        self._characters = NgramCounts([_bare(text) for text in self.references], CHRF.CHAR_ORDER)
        self._forms = [scoring.forms(text) for text in self.references]
        self._places: list[dict[str, int]] = [{} for _ in pairs]
        """For each sentence: translation ↦ its row in `_counted`."""
        self._counted = np.zeros((0, len(_Counts._fields) + ORDER + CHRF.CHAR_ORDER), dtype=np.int64)
        self._size = 0
        truth = self._rows(self.references)
        self._reference_counts = self._counted[truth]

    def score(self, hypotheses: Sequence[str], split: str) -> tuple[list[Score], Statistics]:
        """Score translations as `scoring.score_split` does, and return the statistics to store beside them.

        Raises:
            ValueError: not one translation per reference.
        """
        if len(hypotheses) != len(self.references):
            raise ValueError(f"expected {len(self.references)} lines, one per sentence, got {len(hypotheses)}")
        rows = self._rows(hypotheses)
        found = self._counted[rows]
        counts = _Counts(*found[:, : len(_Counts._fields)].T)
        truth = _Counts(*self._reference_counts[:, : len(_Counts._fields)].T)
        correct, characters = np.split(found[:, len(_Counts._fields) :], [ORDER], axis=1)
        statistics = Statistics(np.column_stack([self.lengths, counts.exact, counts.tokens, truth.tokens, correct]))
        words = int(truth.forms.sum())
        whole = (
            ("chrf", _chrf(counts.characters, truth.characters, characters)),
            ("prefix", _prefix(counts, truth)),
            ("accuracy", 100.0 * int(counts.right.sum()) / words if words else 100.0),
        )
        scores = [_score(split, metric, value, None, len(hypotheses)) for metric, value in whole]
        return scores + statistics.scores(split), statistics

    def _rows(self, hypotheses: Sequence[str]) -> list[int]:
        """The row of each translation in `_counted`; those that were not seen before are counted first."""
        new = [row for row, (text, seen) in enumerate(zip(hypotheses, self._places, strict=True)) if text not in seen]
        if new:
            counted = self._count([hypotheses[row] for row in new], new)
            if self._size + len(new) > len(self._counted):
                room = np.zeros((len(self._counted) + len(new), self._counted.shape[1]), dtype=np.int64)
                self._counted = np.concatenate([self._counted, room])
            self._counted[self._size : self._size + len(new)] = counted
            for place, row in enumerate(new, self._size):
                self._places[row][hypotheses[row]] = place
            self._size += len(new)
        return [seen[text] for text, seen in zip(hypotheses, self._places, strict=True)]

    def _count(self, texts: Sequence[str], rows: Sequence[int]) -> Counts:
        tokens_, bare = [_tokens(text) for text in texts], [_bare(text) for text in texts]
        facts = []
        for text, row, ours, letters in zip(texts, rows, tokens_, bare, strict=True):
            forms, truth = scoring.forms(text), self._forms[row]
            same = [a == b for a, b in zip(forms, truth, strict=False)]
            exact = text.strip() == self.references[row].strip()
            begins = same.index(False) if False in same else len(same)
            facts.append(_Counts(exact, len(ours), len(letters), len(forms), sum(same), begins))
        return np.column_stack(
            [np.array(facts, dtype=np.int64), self._words.matches(tokens_, rows), self._characters.matches(bare, rows)]
        )


class _Counts(NamedTuple):
    """Counts of one translation, or a column of them."""

    exact: Any
    tokens: Any
    characters: Any
    forms: Any
    """Words, as `scoring` counts them for prefix and word accuracy."""
    right: Any
    """Words that the reference has at the same place."""
    begins: Any
    """Words before the first one that the reference has not at the same place."""


def _prefix(counts: _Counts, truth: _Counts) -> float:
    """Prefix accuracy: of an empty reference, 1 for an empty translation."""
    empty = truth.forms == 0
    shares = np.where(empty, counts.forms == 0, counts.begins / np.maximum(truth.forms, 1))
    return float(100.0 * sum(shares.tolist()) / len(shares))


def _chrf(ours: Counts, theirs: Counts, matches: Counts) -> float:
    """Corpus chrF2 of sacreBLEU (Popović 2015), from its counts.

    For n = 1 … 6, precision P_n = matches / n-grams of the translations and recall R_n = matches / n-grams of the
    references. P and R are means over the n for which both have n-grams; chrF = 100 · (1 + β²) P R / (β² P + R).

    Args:
        ours: characters of each translation.
        theirs: characters of each reference.
        matches: a row a sentence, a column for each n.
    """
    precisions, recalls = [], []
    for n, right in enumerate(matches.sum(0).tolist(), 1):
        there = theirs >= n  # sacreBLEU counts n-grams of a translation only if the reference has any
        made, wanted = (int(np.maximum(0, lengths[there] - n + 1).sum()) for lengths in (ours, theirs))
        if made and wanted:
            precisions.append(right / made)
            recalls.append(right / wanted)
    if not sum(precisions) + sum(recalls):
        return 0.0
    p, r, factor = sum(precisions) / len(precisions), sum(recalls) / len(recalls), CHRF.BETA**2
    return float(100.0 * (1 + factor) * p * r / (factor * p + r))


def tokens(hypothesis: str) -> int:
    """sys_len of a translation: how many tokens BLEU sees."""
    return len(_tokens(hypothesis))


def _tokens(text: str) -> list[str]:
    return _tokenizer()(text.rstrip()).split()


def _bare(text: str) -> str:
    """The text without white space, as chrF reads it."""
    return "".join(text.split())


def parts(lengths: Counts) -> list[tuple[str | None, NDArray[np.intp]]]:
    """The whole split and its buckets by source length, by the rules of `scoring`; each with its rows."""
    found: list[tuple[str | None, NDArray[np.intp]]] = [(None, np.arange(len(lengths)))]
    for low, high in metrics.LENGTHS:
        rows = np.flatnonzero((lengths >= low) & (lengths <= high))
        if len(rows) >= scoring.SMALLEST_BUCKET:
            found.append((f"length {low}-{high}", rows))
    return found


def references(data: Section) -> Corpus | None:
    """The corpus of a `data` section: generated, or read where it is at hand. Nothing is downloaded."""
    return data.read() if data.at_hand() else None


def _score(split: str, metric: str, value: float, subset: str | None, n: int) -> Score:
    """A score as records hold it: rounded, with its signature."""
    return Score(split=split, metric=metric, value=rounded(value), n=n, subset=subset, signature=_signatures()[metric])


def _bleu(counts: Counts) -> float:
    sys_len, ref_len, *ngrams = counts.sum(0).tolist()
    score = BLEU.compute_bleu(ngrams[:ORDER], ngrams[ORDER:], sys_len, ref_len, smooth_method="exp")
    return float(score.score)


@cache
def _signatures() -> dict[str, str]:
    return {metric: score(["a"], ["a"]).signature for metric, score in scoring.METRICS.items()}


@cache
def _tokenizer() -> Callable[[str], str]:
    tokenizer: Callable[[str], str] = BLEU(force=True).tokenizer
    return tokenizer
