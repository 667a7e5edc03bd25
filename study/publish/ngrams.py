"""Matching n-grams of many sentences at once: the counts that BLEU (words) and chrF (characters) add up.

An n-gram of a reference has a rank among all n-grams of that length, and belongs to one sentence. A longer n-gram is
the pair (rank of its beginning, last symbol), so that counting is sorting of integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
END = ""
"""Stands after each sentence. No reference has it, so that no n-gram goes over the end."""


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
        self._levels: list[tuple[Integers, Integers, Integers]] = []
        """For n = 1 … order: (rank of the beginning, symbol) as one integer, sorted; how often; of which sentence."""
        starts, symbols = self._symbols(references)
        ranks, owners = _rows(references), np.arange(len(references))
        for n in range(order):
            starts, ranks, keys = self._extended(starts, ranks, symbols, n)
            table, ranks, times = np.unique(keys, return_inverse=True, return_counts=True)
            owners = owners[table // (len(self.alphabet) + 1)] if len(table) else owners[:0]
            self._levels.append((table, times.astype(np.int64), owners))
        self._count = len(references)

    def matches(self, sentences: Sequence[Sequence[str]], rows: Sequence[int]) -> Integers:
        """Number of n-grams that each sentence shares with its reference, clipped: a row a sentence, n = 1 … order.

        Args:
            sentences: symbols of each.
            rows: place of its reference; each once.
        """
        found = np.zeros((len(sentences), len(self._levels)), dtype=np.int64)
        starts, symbols = self._symbols(sentences)
        ranks = np.array(rows, dtype=np.int64)[_rows(sentences)]
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

    def _symbols(self, sentences: Sequence[Sequence[str]]) -> tuple[Integers, Integers]:
        """Places where an n-gram may start, and the number of the symbol at each place; 0: no reference has it."""
        flat = chain.from_iterable((*sentence, END) for sentence in sentences)
        symbols = np.fromiter(map(self.alphabet.__getitem__, flat), dtype=np.int64)
        return np.arange(len(symbols)), symbols

    def _extended(
        self, starts: Integers, ranks: Integers, symbols: Integers, n: int
    ) -> tuple[Integers, Integers, Integers]:
        """The n-grams that go on with a known symbol: where they start, rank of their beginning, and both as a key."""
        last = symbols[np.minimum(starts + n, len(symbols) - 1)]
        on = last > 0
        starts, ranks, last = starts[on], ranks[on], last[on]
        return starts, ranks, ranks * (len(self.alphabet) + 1) + last


class _Alphabet(dict[str, int]):
    """Symbol ↦ number from 1; 0 for all others."""

    def __missing__(self, symbol: str) -> int:
        return 0


def _rows(sentences: Sequence[Sequence[str]]) -> Integers:
    """The sentence of each place, its end included."""
    return np.repeat(np.arange(len(sentences)), [len(sentence) + 1 for sentence in sentences])
