"""Shapes of sentences: their clauses, the nesting, and the number of words of each."""

from collections.abc import Iterator
from functools import cache
from typing import Literal, NamedTuple

from study.corpora.grammar.draw import Draw
from study.corpora.grammar.frames import Use, frames

Role = Literal["main", "before", "after", "complement", "relative"]


class ClauseShape(NamedTuple):
    """A clause, and the number of the earlier clause of its unit to which it belongs."""

    role: Role
    host: int = 0


Shape = tuple[ClauseShape, ...]
"""A unit: a main clause with the clauses nested in it."""

_MAIN = ClauseShape("main")
_BEFORE = ClauseShape("before")
_AFTER = ClauseShape("after")
_COMPLEMENT = ClauseShape("complement")
_RELATIVE = ClauseShape("relative")

FLAT: tuple[Shape, ...] = (
    (_MAIN,),
    (_MAIN, _AFTER),
    (_MAIN, _BEFORE),
    (_MAIN, _COMPLEMENT),
    (_MAIN, _RELATIVE),
    (_MAIN, _RELATIVE, _AFTER),
    (_MAIN, _RELATIVE, _BEFORE),
    (_MAIN, _RELATIVE, _COMPLEMENT),
    (_MAIN, _RELATIVE, _RELATIVE),
)
"""Shapes of the training data: nothing is nested in a nested clause."""

DEEP: tuple[Shape, ...] = (
    (_MAIN, _RELATIVE, ClauseShape("relative", 1)),
    (_MAIN, _RELATIVE, ClauseShape("complement", 1)),
    (_MAIN, _AFTER, ClauseShape("relative", 1)),
    (_MAIN, _BEFORE, ClauseShape("relative", 1)),
    (_MAIN, _BEFORE, ClauseShape("complement", 1)),
    (_MAIN, _COMPLEMENT, ClauseShape("relative", 1)),
    (_MAIN, _COMPLEMENT, ClauseShape("complement", 1)),
    (_MAIN, _COMPLEMENT, ClauseShape("after", 1)),
    (_MAIN, _RELATIVE, ClauseShape("relative", 1), ClauseShape("relative", 2)),
    (_MAIN, _COMPLEMENT, ClauseShape("relative", 1), ClauseShape("relative", 2)),
    (_MAIN, _COMPLEMENT, ClauseShape("complement", 1), ClauseShape("relative", 2)),
    (_MAIN, _AFTER, ClauseShape("complement", 1), ClauseShape("relative", 2)),
)
"""Shapes nested two and three deep."""


class Outline(NamedTuple):
    """A shape and what each of its clauses must offer."""

    shape: Shape
    uses: tuple[Use, ...]


@cache
def outlines(words: int, deep: bool, pronoun: bool, first: bool) -> tuple[Outline, ...]:
    """Return all outlines for a unit of so many words. The `first` unit finds no antecedent before it."""
    most = (words + 2) // 4 if deep else (words + 3) // 5
    return tuple(
        Outline(shape, uses)
        for shape in (DEEP if deep else FLAT)
        if len(shape) <= most
        for uses in (_pronouns(shape, first) if pronoun else [_uses(shape)])
        if _fits(words, uses)
    )


def _uses(shape: Shape) -> tuple[Use, ...]:
    reporting = {part.host for part in shape if part.role == "complement"}
    return tuple(
        Use("relative" if part.role == "relative" else "main" if part.role == "main" else "subordinate", i in reporting)
        for i, part in enumerate(shape)
    )


def _pronouns(shape: Shape, first: bool) -> Iterator[tuple[Use, ...]]:
    """Yield the clauses where the pronoun may stand: all but a main clause that no clause precedes."""
    uses = _uses(shape)
    opening = first and _BEFORE not in shape
    for i in range(1 if opening else 0, len(shape)):
        yield (*uses[:i], uses[i]._replace(pronoun=True), *uses[i + 1 :])


def _fits(words: int, uses: tuple[Use, ...]) -> bool:
    ranges = [list(frames(use)) for use in uses]
    return all(ranges) and sum(map(min, ranges)) <= words <= sum(map(max, ranges))


def shares(words: int, ranges: list[tuple[int, int]], draw: Draw) -> list[int]:
    """Words for each part: everyone the least first, then one at a time to a part that has room."""
    sizes = [least for least, _ in ranges]
    room = [i for i, (least, most) in enumerate(ranges) if least < most]
    for _ in range(words - sum(sizes)):
        i = draw.one(room)
        sizes[i] += 1
        if sizes[i] == ranges[i][1]:
            room.remove(i)
    return sizes
