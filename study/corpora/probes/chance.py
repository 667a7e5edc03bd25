"""What comes without the thing under test: the floors that an accuracy is read against."""

from __future__ import annotations

from itertools import product
from math import comb, factorial, prod
from typing import NamedTuple

from study.config.probes import AnyProbe, Copy, CopyFar, Graph, MultiLookup, OneSpace, Reverse, Sort
from study.corpora.probes.lookup import named


class Chance(NamedTuple):
    """Expected share of target words that are right, 0–1."""

    blind: float
    """The best guess of a reader which sees nothing of the source but its length (in `graph` and `multi_lookup`, each
    word's name and own label)."""
    confused: float | None
    """The best guess of a reader which finds all the places, and cannot tell which is which. In `graph` that is one
    that takes the word with the largest of symmetric scores (in a ring all words but one look at the word that they
    name, and that one at the one that names it; weights that depend on labels can tell more), in `multi_lookup` one
    head of even weights, in `one_space` one that sees all words, not their kinds."""


def chance(data: AnyProbe) -> Chance:
    """Both floors of a probe, exactly."""
    match data:
        case Copy() | Reverse() | CopyFar():
            return Chance(1 / data.symbols, None)
        case Sort():
            return Chance(_by_rank(data), None)
        case Graph():
            naming = sum(len(names) for names in named(data)) / data.nodes
            lost = _frustrated(data) * (1 - 1 / data.labels)
            return Chance(1 - naming * (1 - 1 / data.labels), 1 - lost)
        case MultiLookup():
            assert data.labels is not None
            return Chance(data.labels**-data.targets, _unordered(data.labels, data.targets))
        case OneSpace():
            return Chance(1 / data.members, _commonest(data.members, data.present))


def dose(data: Graph) -> float:
    """Share of the nodes on cycles of three or more, by following every node's links."""
    return sum(length >= 3 for length in _cycles(data)) / data.nodes


def within_reach(data: Graph) -> float:
    """Largest share of the words that name another whose largest weight can be on it, with symmetric scores."""
    naming = sum(len(names) for names in named(data)) / data.nodes
    return 1 - _frustrated(data) / naming


def _frustrated(data: Graph) -> float:
    """Share of the nodes that symmetric scores cannot serve: one in each cycle of three or more.

    Around a cycle each node would score the next above the one before: s_12 > s_1n, s_23 > s_12, …, s_n1 > s_n-1,n.
    All but one of these can hold; all of them say s_12 > s_1n > … > s_12.
    """
    return sum(1 / length for length in _cycles(data) if length >= 3) / data.nodes


def _cycles(data: Graph) -> list[int]:
    """For each node the length of the cycle that it is on, 0 if on none."""
    names = named(data)
    return [_returns_after(names, node) for node in range(data.nodes)]


def _returns_after(names: list[tuple[int, ...]], node: int) -> int:
    """Length of the cycle through a node; 0 if there is none."""
    at, steps = node, 0
    while names[at] and steps < len(names):
        at, steps = names[at][0], steps + 1
        if at == node:
            return steps
    return 0


def _unordered(labels: int, count: int) -> float:
    """The chance to name `count` labels in order, knowing only which they are.

    A multiset of labels with m orders is m times as likely as one with a single order, and its order is guessed one
    time in m. So: the number of multisets over that of sequences.
    """
    return float(comb(labels + count - 1, count) / labels**count)


def _commonest(members: int, present: int) -> float:
    """Mean share of the commonest label among those present."""
    total = 0.0
    for counts in product(range(present + 1), repeat=members):
        if sum(counts) == present:
            total += max(counts) * factorial(present) / prod(map(factorial, counts))
    return float(total / members**present / present)


def _by_rank(data: Sort) -> float:
    """The likeliest k-th smallest of n symbols, a mean over the words of all lengths n."""
    right = words = 0.0
    for n in range(data.shortest, data.longest + 1):
        words += n
        for k in range(n):
            ways = (comb(v, k) * comb(data.symbols - 1 - v, n - 1 - k) for v in range(data.symbols))
            right += max(ways) / comb(data.symbols, n)
    return right / words
