"""What chrF counts, over a whole split at once: the sums are sacreBLEU's, without its loop over n-grams.

An n-gram of sentence i is one integer, (i, character, …, character), so that the matches of all sentences are one
intersection of sorted integers. The score itself is sacreBLEU's, of these sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.chrf import CHRF

Integers = NDArray[np.int64]
ORDER = CHRF.CHAR_ORDER
BITS = 63


class CharacterCounts:
    """The references of a split, counted; sums for any number of its translations."""

    def __init__(self, references: Sequence[str]) -> None:
        self.references = [_bare(reference) for reference in references]
        self.alphabet = np.unique(_points(self.references))
        self.width = len(self.alphabet).bit_length()
        self.fits = ORDER * self.width + len(references).bit_length() <= BITS
        """Whether an n-gram fits into an integer: 6 letters of an alphabet of 255 for 16,000 sentences do."""
        self.lengths = np.array([len(text) for text in self.references])
        rows = range(len(self.references))
        self.known = [_counted(keys) for keys in self._keys(self.references, rows)] if self.fits else []

    def sums(self, hypotheses: Sequence[str]) -> list[int]:
        """For n from 1 to 6: n-grams of the translations (where the reference has any), of the references, of both."""
        texts = [_bare(hypothesis) for hypothesis in hypotheses]
        lengths = np.array([len(text) for text in texts])
        rows = [row for row, text in enumerate(texts) if text != self.references[row]]
        equal = np.ones(len(texts), dtype=bool)
        equal[rows] = False
        found: list[int] = []
        other = self._keys([texts[row] for row in rows], rows)
        for n, keys, (known, times) in zip(range(1, ORDER + 1), other, self.known, strict=True):
            ours, theirs = np.maximum(0, lengths - n + 1), np.maximum(0, self.lengths - n + 1)
            grams, counts = _counted(keys)
            places = np.minimum(np.searchsorted(known, grams), max(0, len(known) - 1))
            same = known[places] == grams if len(known) else np.zeros(len(grams), dtype=bool)
            matches = np.minimum(counts[same], times[places[same]]).sum() + theirs[equal].sum()
            found += [int(ours[theirs > 0].sum()), int(theirs.sum()), int(matches)]
        return found

    def _keys(self, texts: Sequence[str], rows: Sequence[int]) -> Iterator[Integers]:
        """All n-grams, for each n; those with a letter that no reference has are left out, since they match nothing."""
        spans = np.array([len(text) + 1 for text in texts], dtype=np.int64)
        points = _points([f"{text}\0" for text in texts])
        letters = np.searchsorted(self.alphabet, points)
        letters = np.where(self.alphabet[np.minimum(letters, len(self.alphabet) - 1)] == points, letters + 1, 0)
        letters[np.cumsum(spans) - 1] = 0  # a sentence ends here
        keys = np.repeat(np.array(rows, dtype=np.int64), spans) << (ORDER * self.width)
        whole = np.ones(len(keys), dtype=bool)
        for n in range(ORDER):
            room = max(0, len(letters) - n)
            next_ = letters[n:]
            keys = keys[:room] | (next_ << (n * self.width))
            whole = whole[:room] & (next_ > 0)
            yield keys[whole]


def _bare(text: str) -> str:
    """Without white space, as chrF reads it."""
    return "".join(text.split())


def _points(texts: Sequence[str]) -> Integers:
    """The code points of texts, one after another."""
    return np.frombuffer("".join(texts).encode("utf-32-le"), dtype="<u4").astype(np.int64)


def _counted(keys: Integers) -> tuple[Integers, Integers]:
    """Each once, in order, and how often."""
    grams, counts = np.unique(keys, return_counts=True)
    return grams, counts.astype(np.int64)
