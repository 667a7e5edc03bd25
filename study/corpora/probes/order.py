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

from __future__ import annotations

from study.config.probes import Copy, CopyFar, Reverse, Sort
from study.corpora.corpus import Link, Pair
from study.corpora.grammar.draw import Draw
from study.corpora.probes.splits import shuffled


def ordered(data: Copy | Reverse | Sort, draw: Draw) -> Pair:
    """A pair of `copy`, `reverse` or `sort`, its length drawn evenly."""
    count = data.shortest + draw.below(data.longest + 1 - data.shortest)
    match data:
        case Sort():
            symbols = shuffled(draw, data.symbols)[:count]
            looks = sorted(range(count), key=lambda s: symbols[s])
        case Reverse():
            symbols = [draw.below(data.symbols) for _ in range(count)]
            looks = list(reversed(range(count)))
        case Copy():
            symbols = [draw.below(data.symbols) for _ in range(count)]
            looks = list(range(count))
    return _pair([f"w{symbol:02d}" for symbol in symbols], looks)


def far(data: CopyFar, draw: Draw) -> Pair:
    """A pair of `copy_far`."""
    first = data.length - data.distance - data.copied
    looks = list(range(first, first + data.copied))
    symbols = [draw.below(data.symbols) for _ in range(data.length)]
    return _pair([f"{'w' if s in looks else 'v'}{symbol:02d}" for s, symbol in enumerate(symbols)], looks)


def _pair(source: list[str], looks: list[int]) -> Pair:
    """The target is the source words looked at, in that order."""
    links = tuple(Link(s, t) for t, s in enumerate(looks))
    return Pair(" ".join(source), " ".join(source[s] for s in looks), links)
