"""Probes of order: where to look follows from the place in the target, or from the words already written.

The gold is for cross-attention: the source position of every target word.

    copy      w07 w30 w07 w12  →  w07 w30 w07 w12      looks at 0 1 2 3
    reverse   w07 w30 w07 w12  →  w12 w07 w30 w07      looks at 3 2 1 0
    sort      w07 w30 w19 w12  →  w07 w12 w19 w30      looks at 0 3 2 1

`copy` and `reverse` may have a word twice, so that content alone does not say where to look next. Any memory of one
slot has to hold the whole source in it: these are the smallest tasks on which attention has to win. In `sort` no word
comes twice; the next place is the one whose word follows the word just written, which position alone cannot tell.

    copy_far  v11 v02 w05 w31 v11 v30  →  w05 w31      length 6, copied 2, distance 2: looks at 2 3

In `copy_far` the relevant words (w) stand in one place, `distance` words from the end, among words to pass over (v).
A state that is read at the end must carry them over `distance` updates; attention reaches them at once. So it decides
how far a memory of one slot reaches, and how the gradient at the relevant position falls with distance. With a
bidirectional encoder a place far from the end is near the beginning, where the other direction ends: there the middle
is the farthest.
"""

from typing import Literal, Self

from pydantic import Field, model_validator

from study.corpora.corpus import First, Link, Pair
from study.corpora.grammar.draw import Draw
from study.corpora.probes.probe import WHICH, Probe, shuffled
from study.schema import Size

LONGEST = 60


class Sequences(Probe):
    """Fields of copy, reverse and sort."""

    symbols: int = Field(32, ge=2, le=100, description="Different words.")
    shortest: int = Field(4, ge=1, le=LONGEST, description="Words of the shortest source.")
    longest: int = Field(16, ge=1, le=LONGEST, description="Words of the longest source.")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.shortest > self.longest:
            raise ValueError(f"shortest: expected at most longest ({self.longest}), got {self.shortest}.")
        return self

    @property
    def shortest_target(self) -> int:
        return self.shortest

    def pair(self, draw: Draw) -> Pair:
        """Draw one pair, its length drawn evenly."""
        count = self.shortest + draw.below(self.longest + 1 - self.shortest)
        symbols = self.drawn(draw, count)
        return _pair([f"w{symbol:02d}" for symbol in symbols], self.looks(symbols))

    def drawn(self, draw: Draw, count: int) -> list[int]:
        """Draw the symbols of a source."""
        return [draw.below(self.symbols) for _ in range(count)]

    def looks(self, symbols: list[int]) -> list[int]:
        """Return the places that the target takes its words from."""
        return list(range(len(symbols)))


class Copy(Sequences):
    """Repeat the source."""

    name: Literal["copy"] = Field("copy", description=WHICH)
    version: First = 1


class Reverse(Sequences):
    """Repeat the source from its end."""

    name: Literal["reverse"] = Field("reverse", description=WHICH)
    version: First = 1

    def looks(self, symbols: list[int]) -> list[int]:
        return super().looks(symbols)[::-1]


class Sort(Sequences):
    """Repeat the words of the source in alphabetical order; no word comes twice."""

    name: Literal["sort"] = Field("sort", description=WHICH)
    version: First = 1

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if self.longest > self.symbols:
            raise ValueError(f"symbols: expected at least longest ({self.longest}) with sort, got {self.symbols}.")
        return self

    def drawn(self, draw: Draw, count: int) -> list[int]:
        return shuffled(draw, self.symbols)[:count]

    def looks(self, symbols: list[int]) -> list[int]:
        return sorted(range(len(symbols)), key=lambda s: symbols[s])


class CopyFar(Probe):
    """Repeat a few words from a known place of a long source, and pass over the rest."""

    name: Literal["copy_far"] = Field("copy_far", description=WHICH)
    version: First = 1
    symbols: int = Field(32, ge=2, le=100, description="Different words.")
    length: int = Field(32, ge=1, le=200, description="Words of every source.")
    copied: Size = Field(4, description="Words to repeat; they stand together.")
    distance: int = Field(24, ge=0, description="Words between them and the end of the source.")

    @model_validator(mode="after")
    def _room(self) -> Self:
        if self.copied + self.distance > self.length:
            raise ValueError(
                f"length: expected at least copied + distance = {self.copied + self.distance}, got {self.length}. "
                "Raise length, or lower distance or copied."
            )
        return self

    @property
    def shortest_target(self) -> int:
        return self.copied

    def pair(self, draw: Draw) -> Pair:
        first = self.length - self.distance - self.copied
        looks = list(range(first, first + self.copied))
        symbols = [draw.below(self.symbols) for _ in range(self.length)]
        return _pair([f"{'w' if s in looks else 'v'}{symbol:02d}" for s, symbol in enumerate(symbols)], looks)


def _pair(source: list[str], looks: list[int]) -> Pair:
    """The target is the source words looked at, in that order."""
    links = tuple(Link(s, t) for t, s in enumerate(looks))
    return Pair(" ".join(source), " ".join(source[s] for s in looks), links)
