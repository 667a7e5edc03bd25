"""What every corpus is: named splits of sentence pairs, and which files they came from."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from study.config import Data, Grammar, Multi30k

WORD = re.compile(r"\w+|[^\w\s]")


def words(text: str) -> list[tuple[str, int, int]]:
    """The words and punctuation marks of a text, each with its start and end: what gold alignments count."""
    return [(match.group(), match.start(), match.end()) for match in WORD.finditer(text)]


class Link(NamedTuple):
    """One link of a gold alignment, between `words` of source and target, counted from 0."""

    source: int
    target: int
    sure: bool = True
    """False for a link that is possible, not sure (P without S, Och and Ney 2003)."""


@dataclass(frozen=True)
class Pair:
    """A source sentence and its one reference."""

    source: str
    target: str
    alignment: tuple[Link, ...] | None = None
    attends: tuple[Link, ...] | None = None
    """Gold of encoder self-attention, where it is known: word `target` of the source attends to its word `source`."""


@dataclass(frozen=True)
class Contrast:
    """One half of a minimal pair: the model is right if it finds `right` more probable than `wrong`."""

    source: str
    right: str
    wrong: str
    pair: int
    """The other half has the same number; a pair counts if both halves are right (chance 1/4)."""


@dataclass(frozen=True)
class Corpus:
    """All splits: `train`, `valid`, and the test splits, which are scored once."""

    name: str
    version: int
    splits: dict[str, list[Pair]]
    contrasts: list[Contrast] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    """SHA-256 by file name, or by split for a generated corpus."""
    languages: tuple[str, str] = ("de", "en")
    """Of source and target."""

    @property
    def tests(self) -> list[str]:
        """Names of the test splits."""
        return [name for name in self.splits if name not in ("train", "valid")]


def load(data: Data) -> Corpus:
    """The corpus that a `data` section declares.

    Raises:
        InputError: a file is absent, empty, not UTF-8, of the wrong checksum or of unequal length to its other side.
    """
    match data:
        case Grammar():
            from study.corpora.cache import cached
            from study.corpora.grammar import generate

            return cached(data, generate)
        case Multi30k():
            from study.corpora.multi30k import read

            return read(data)
        case _:
            from study.corpora import probes

            return probes.generate(data)
