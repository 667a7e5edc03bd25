"""Counts of translations and the scores computed from them. A reference is prepared once for many runs.

sacreBLEU adds up counts over sentences and turns the sums into a score. Here the same counts are made for all
sentences at once and kept for each sentence: the whole and its parts by length are sums over rows, and the rows are
what is stored where references are not. Tokens, BLEU from counts, and signatures are sacreBLEU's.

An n-gram of a reference has a rank among all n-grams of that length, and belongs to one sentence. A longer n-gram is
the pair (rank of its beginning, last symbol), so that counting is sorting of integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from study import metrics, scoring
from study.corpora import Corpus, Pair, Section
from study.records import Score, rounded

Counts = NDArray[np.int64]
ORDER = 4
END = ""
"""Stands after each sentence. No reference has it, so that no n-gram goes over the end."""
COLUMNS = ("source_words", "exact", "sys_len", "ref_len", *(f"correct{n}" for n in range(1, ORDER + 1)))
"""Columns of a file of statistics. The totals of sacreBLEU follow from them: total_n = max(0, sys_len - n + 1)."""


@dataclass(frozen=True)
class Statistics:
    """One row a sentence, `COLUMNS`: what BLEU and exact match of any part of a split are computed from."""

    rows: Counts

    def dumps(self) -> str:
        """Return a heading and one line per sentence, tabs between."""
        lines = ["\t".join(COLUMNS), *("\t".join(map(str, row)) for row in self.rows.tolist())]
        return "\n".join(lines) + "\n"

    @staticmethod
    def loads(text: str) -> Statistics:
        """Return the statistics of a text.

        Raises:
            ValueError: it is not what `dumps` writes.
        """
        head, *lines = text.removesuffix("\n").split("\n")
        rows = np.array([line.split("\t") for line in lines], dtype=np.int64)
        if head.split("\t") != list(COLUMNS) or rows.shape != (len(lines), len(COLUMNS)) or rows.min() < 0:
            got = f"{', '.join(head.split(chr(9)))}; {len(lines)} lines"
            raise ValueError(f"expected the columns {', '.join(COLUMNS)} and one line per sentence, got {got:.200}")
        return Statistics(rows)

    def sacrebleu(self) -> Counts:
        """Counts as sacreBLEU's: sys_len, ref_len, correct 1 to 4, total 1 to 4; one row a sentence."""
        totals = np.maximum(0, self.rows[:, 2:3] - np.arange(ORDER))
        return np.concatenate([self.rows[:, 2:], totals], axis=1)

    def scores(self, split: str, members: scoring.Members | None = None) -> list[Score]:
        """BLEU and exact match, on the whole, by length and by `members`."""
        counts, exact = self.sacrebleu(), self.rows[:, 1]
        return [
            _score(split, metric, value, subset, len(some))
            for subset, some in parts(self.rows[:, 0], members)
            for metric, value in (("bleu", _bleu(counts[some])), ("exact", 100.0 * int(exact[some].sum()) / len(some)))
        ]


class Rescorer:
    """A split's references, prepared; scores and statistics of any number of its translations.

    Runs agree on most translations, so each translation of a sentence is counted once.
    """

    def __init__(self, pairs: Sequence[Pair], members: scoring.Members | None = None) -> None:
        self.members = members
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
        return scores + statistics.scores(split, self.members), statistics

    def _rows(self, hypotheses: Sequence[str]) -> list[int]:
        """Return the row of each translation in `_counted`; those that were not seen before are counted first."""
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


class NgramCounts:
    """The n-grams of the references of a split.

    Args:
        references: a sequence of symbols for each sentence: words, or the characters of a text.
        order: longest n-gram.
    """

    def __init__(self, references: Sequence[Sequence[str]], order: int) -> None:
        self.alphabet = _Alphabet()
        for symbol in chain.from_iterable(references):
            self.alphabet.setdefault(symbol, len(self.alphabet) + 1)
        self._levels: list[tuple[Counts, Counts, Counts]] = []
        """For n = 1 … order: (rank of the beginning, symbol) as one integer, sorted; how often; of which sentence."""
        starts, symbols = self._symbols(references)
        ranks, owners = _owners(references), np.arange(len(references))
        for n in range(order):
            starts, ranks, keys = self._extended(starts, ranks, symbols, n)
            table, ranks, times = np.unique(keys, return_inverse=True, return_counts=True)
            owners = owners[table // (len(self.alphabet) + 1)] if len(table) else owners[:0]
            self._levels.append((table, times.astype(np.int64), owners))
        self._count = len(references)

    def matches(self, sentences: Sequence[Sequence[str]], rows: Sequence[int]) -> Counts:
        """Number of n-grams that each sentence shares with its reference, clipped: a row a sentence, n = 1 … order.

        Args:
            sentences: symbols of each.
            rows: place of its reference; each once.
        """
        found = np.zeros((len(sentences), len(self._levels)), dtype=np.int64)
        starts, symbols = self._symbols(sentences)
        ranks = np.array(rows, dtype=np.int64)[_owners(sentences)]
        for n, (table, times, owners) in enumerate(self._levels):
            starts, ranks, keys = self._extended(starts, ranks, symbols, n)
            if not len(table):
                break
            places = np.minimum(np.searchsorted(table, keys), len(table) - 1)
            known = table[places] == keys
            starts, ranks = starts[known], places[known]
            ours, ours_times = np.unique(ranks, return_counts=True)
            clipped = np.minimum(ours_times, times[ours])
            found[:, n] = np.bincount(owners[ours], clipped, minlength=self._count)[rows]
        return found

    def _symbols(self, sentences: Sequence[Sequence[str]]) -> tuple[Counts, Counts]:
        """Places where an n-gram may start, and the number of the symbol at each place; 0: no reference has it."""
        flat = chain.from_iterable((*sentence, END) for sentence in sentences)
        symbols = np.fromiter(map(self.alphabet.__getitem__, flat), dtype=np.int64)
        return np.arange(len(symbols)), symbols

    def _extended(self, starts: Counts, ranks: Counts, symbols: Counts, n: int) -> tuple[Counts, Counts, Counts]:
        """The n-grams that go on with a known symbol: where they start, rank of their beginning, and both as a key."""
        last = symbols[np.minimum(starts + n, len(symbols) - 1)]
        on = last > 0
        starts, ranks, last = starts[on], ranks[on], last[on]
        return starts, ranks, ranks * (len(self.alphabet) + 1) + last


class _Alphabet(dict[str, int]):
    """Symbol ↦ number from 1; 0 for all others."""

    def __missing__(self, symbol: str) -> int:
        return 0


def _owners(sentences: Sequence[Sequence[str]]) -> Counts:
    """Return the sentence of each place, its end included."""
    return np.repeat(np.arange(len(sentences)), [len(sentence) + 1 for sentence in sentences])


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
    """Return the text without white space, as chrF reads it."""
    return "".join(text.split())


def parts(lengths: Counts, members: scoring.Members | None = None) -> list[tuple[str | None, NDArray[np.intp]]]:
    """Return the whole split, its buckets by source length and `members`, by the rules of `scoring`; with rows."""
    found: list[tuple[str | None, NDArray[np.intp]]] = [(None, np.arange(len(lengths)))]
    for low, high in metrics.LENGTHS:
        rows = np.flatnonzero((lengths >= low) & (lengths <= high))
        if len(rows) >= scoring.SMALLEST_BUCKET:
            found.append((f"length {low}-{high}", rows))
    return [*found, *((name, np.array(rows, dtype=np.intp)) for name, rows in scoring.named_rows(members))]


def references(data: Section) -> Corpus | None:
    """Return the corpus of a `data` section: generated, or read where it is at hand. Nothing is downloaded."""
    return data.read() if data.at_hand() else None


def _score(split: str, metric: str, value: float, subset: str | None, n: int) -> Score:
    """Return a score as records hold it: rounded, with its signature."""
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
