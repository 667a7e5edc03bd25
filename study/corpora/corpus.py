"""Corpus: named splits of sentence pairs. Section: its declaration, its facts and its reader."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from study.corpora.text import words as words
from study.schema import Frozen, Size

VERSION = "Version of the generator, or of the reader of the files; part of the identity."
VOCABULARIES = {"grammar": 400, "multi30k": 8000, "files": 4000}
"""Corpus ↦ its number of subwords, if none is given."""
First = Annotated[Literal[1], Field(description=VERSION)]
Unit = Annotated[Literal["words", "subwords"], Field(description="Unit of a token.")]
Vocabulary = Annotated[
    Size | None,
    Field(
        description="Subword vocabulary of both languages "
        f"(derived: {', '.join(f'{size} {name}' for name, size in VOCABULARIES.items())})."
    ),
]
"""Types of fields that several kinds of data have."""
FEW_PAIRS = 10
"""Training pairs of a corpus that is generated for another split."""


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


Splits = dict[str, list[Pair]]


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
    splits: Splits
    contrasts: list[Contrast] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    """SHA-256 by file name, or by split for a generated corpus."""
    languages: tuple[str, str] = ("de", "en")
    """Languages of source and target."""

    @property
    def tests(self) -> list[str]:
        """Names of the test splits."""
        return [name for name in self.splits if name not in ("train", "valid")]


class Section(Frozen):
    """Declaration of a corpus: the fields of `data` that decide it, and beside them its facts and its reader.

    A new corpus is one subclass in a module of its own and one line in `study.corpora.catalogue`. Metrics, tables,
    tiers, `verify` and the help take what they need from the members below.
    """

    if TYPE_CHECKING:
        name: str
        version: int
        tokens: str

    tier: ClassVar[str] = "embedded"
    """Group of the README's table of costs: embedded for what is generated, else the name of the corpus."""
    sentences: ClassVar[bool] = True
    """True if targets are sentences. Only then is BLEU a column of its tables."""
    factored: ClassVar[bool] = False
    """True if source words have two factors, which `factors` tells."""
    shipped: ClassVar[bool] = True
    """True if this repository makes the references again. If not, `publish` keeps BLEU's counts beside translations."""

    @classmethod
    def example(cls) -> Self:
        """Return a section of this kind as lists show it; it need not be readable."""
        return cls.model_validate({})

    @property
    def scored(self) -> tuple[str, ...]:
        """The scored splits: `valid`, then the test splits, the one that decides first."""
        return ("valid", "test")

    @model_validator(mode="after")
    def _vocabulary(self) -> Self:
        """Fill in the number of subwords where a section has subwords and gives none."""
        if self.tokens == "words" and self.subwords is not None:
            raise ValueError("vocabulary: expected tokens subwords, got tokens words. Remove it.")
        if self.tokens == "subwords" and self.subwords is None:
            object.__setattr__(self, "vocabulary", VOCABULARIES[self.name])
        return self

    @property
    def subwords(self) -> int | None:
        """Number of subwords, the field `vocabulary`; None for words."""
        return getattr(self, "vocabulary", None)

    @property
    def shortest_target(self) -> int:
        """Words of the shortest target that is sure to occur; 4, where BLEU is defined, or more for sentences."""
        return 4

    def offers(self, split: str) -> frozenset[str]:
        """Annotations of a split: alignment (gold links), attends (of self-attention), contrasts (pairs)."""
        return frozenset()

    def subsets(self, split: str) -> Mapping[str, Callable[[Sequence[Pair]], list[bool]]]:
        """Return the named subsets of a split that have scores of their own; each tells which pairs it has."""
        return {}

    def in_subsets(self, split: str, pairs: Sequence[Pair]) -> dict[str, list[bool]]:
        """Return for each subset of a split, by name, which of its pairs belong to it."""
        return {name: select(pairs) for name, select in self.subsets(split).items()}

    def factors(self, word: str) -> tuple[str, str] | None:
        """Return the name and the label of a source word; None for any other word."""
        return None

    def at_hand(self) -> bool:
        """Return True if `read` needs no network. If False, checks skip the references."""
        return True

    def read(self) -> Corpus:
        """Return the corpus.

        Raises:
            InputError: a file is absent, empty, not UTF-8, of the wrong checksum or of unequal length to its other
                side, or the section declares more than there is.
        """
        raise NotImplementedError

    def pairs_of(self, split: str, files: Mapping[str, str]) -> list[Pair] | None:
        """Return the pairs of a split; None if the corpus is not here, or its files are not of these SHA-256.

        A generated test split seldom depends on the training pairs, so it is generated with few of them first.

        Raises:
            InputError: a file cannot be read.
        """
        generated = split in files
        sections = [self.model_copy(update={"train_pairs": FEW_PAIRS}), self] if generated else [self]
        for section in sections if self.at_hand() else ():
            corpus = section.read()
            if corpus.files.get(split) == files[split] if generated else corpus.files == files:
                return corpus.splits.get(split)
        return None


def checksum(pairs: Iterable[Pair], attends: bool = False) -> str:
    """SHA-256 of the text of a split with its alignments, sure links as 0-0 and possible ones as 0?0.

    Args:
        pairs: the split.
        attends: whether the gold of self-attention belongs to it, too.
    """
    lines = []
    for pair in pairs:
        gold = [pair.alignment, pair.attends] if attends else [pair.alignment]
        links = (" ".join(f"{i}{'-' if sure else '?'}{j}" for i, j, sure in alignment or ()) for alignment in gold)
        lines.append("\t".join([pair.source, pair.target, *links]))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def load(data: Section) -> Corpus:
    """Return the corpus that a `data` section declares; see `Section.read`."""
    return data.read()
