"""Translations scored again, sentence by sentence, so that a reference is prepared once for hundreds of runs.

sacreBLEU adds up counts over sentences and turns the sums into a score. Here its counts of each sentence are kept:
the whole and its parts by length are sums over rows, and the rows are what is stored where references are not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from study import metrics, scoring
from study.corpora import Corpus, Pair, Section
from study.publish.characters import CharacterCounts
from study.records import Score, rounded

Counts = NDArray[np.int64]
ORDER = 4
COLUMNS = ("source_words", "exact", "sys_len", "ref_len", *(f"correct{n}" for n in range(1, ORDER + 1)))
"""Of a file of statistics. The totals of sacreBLEU follow: total_n = max(0, sys_len - n + 1)."""


@dataclass(frozen=True)
class Statistics:
    """One row a sentence, `COLUMNS`: what BLEU and exact match of any part of a split are computed from."""

    rows: Counts

    def dumps(self) -> str:
        """A heading and one line a sentence, tabs between."""
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
            raise ValueError(f"expected the columns {', '.join(COLUMNS)} and one line a sentence")
        return Statistics(rows)

    def sacrebleu(self) -> Counts:
        """As sacreBLEU has them: sys_len, ref_len, correct 1 to 4, total 1 to 4; a row a sentence."""
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
    """A split's references, prepared; scores and statistics of any number of its translations."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self.references = [pair.target for pair in pairs]
        self.lengths = np.array([scoring.source_length(pair.source) for pair in pairs])
        self.bleu = BLEU(force=True, references=[self.references])
        self.characters = CharacterCounts(self.references)
        self._equal: dict[int, list[int]] = {}

    def score(self, hypotheses: Sequence[str], split: str) -> tuple[list[Score], Statistics]:
        """What `scoring.score_split` says of these translations, and the statistics to store beside them.

        Raises:
            ValueError: not one translation per reference.
        """
        if len(hypotheses) != len(self.references):
            raise ValueError(f"{len(hypotheses)} lines, and the split has {len(self.references)} sentences")
        pairs = list(zip(hypotheses, self.references, strict=True))
        exact = np.array([h.strip() == r.strip() for h, r in pairs], dtype=np.int64)
        counts = np.array([self._counts(row, *pair) for row, pair in enumerate(pairs)])
        statistics = Statistics(np.column_stack([self.lengths, exact, counts[:, : 2 + ORDER]]))
        accuracy = scoring.word_accuracy(hypotheses, self.references).value
        whole = (("chrf", self._chrf(hypotheses)), ("prefix", _prefix(pairs)), ("accuracy", accuracy))
        scores = [_score(split, metric, value, None, len(hypotheses)) for metric, value in whole]
        return scores + statistics.scores(split), statistics

    def _counts(self, row: int, hypothesis: str, reference: str) -> list[int]:
        """What sacreBLEU counts in one sentence. Most good translations equal their reference: counted once."""
        if hypothesis == reference and row in self._equal:
            return self._equal[row]
        assert self.bleu._ref_cache is not None
        text = self.bleu._preprocess_segment(hypothesis)
        found: list[int] = self.bleu._compute_segment_statistics(text, self.bleu._ref_cache[row])
        if hypothesis == reference:
            self._equal[row] = found
        return found

    def _chrf(self, hypotheses: Sequence[str]) -> float:
        if not self.characters.fits:
            return scoring.chrf(hypotheses, self.references).value
        score: Any = CHRF()._compute_score_from_stats(self.characters.sums(hypotheses))
        return float(score.score)


def _prefix(pairs: Sequence[tuple[str, str]]) -> float:
    """Prefix accuracy: 100 where both are the same, so only the others are read."""
    other = [pair for pair in pairs if pair[0] != pair[1]]
    if not other:
        return 100.0
    mean = scoring.prefix_accuracy([h for h, _ in other], [r for _, r in other]).value
    return 100.0 + (mean - 100.0) * len(other) / len(pairs)


def tokens(hypothesis: str) -> int:
    """sys_len of a translation: how many tokens BLEU sees."""
    return len(_tokenizer()(hypothesis.rstrip()).split())


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
