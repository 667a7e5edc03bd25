"""Probes of lookup by content: encoder self-attention has to fetch what the decoder is to say.

A word is a name and a label: `c3` is the node c with label 3. Every node is in every source once; order and labels are
random, and who names whom is fixed for the corpus by its seed. Target word t is the label of the node that source word
t *names*. Decoder step t knows t and what was said before, which tells nothing of source word t: what it reads in place
t must have been fetched by encoder self-attention from the named node. So these are probes of one layer, without
feed-forward block (`model.layers 1`, `model.feedforward 0`): with more, both steps may be done elsewhere.

The link can be walked the other way, too: b fetches from its namer a *where a is*, and the decoder finds b by that. It
is kept from it where it sees place t alone (`model.attention.cross.reach local_m`, `cross.window 0`), and the probe is
one of self-attention only. `multi_lookup` may do without: there every word's own label is said too, which stands in
place t alone and teaches the decoder to look there.

So there are two golds: `attends`, for encoder self-attention (word t attends to the word it names), and the plain
diagonal for cross-attention.

    graph          c names a, a names b, b names c
                   c3 a1 b7  →  1 7 3                  word 0 attends to 1, 1 to 2, 2 to 0

The scores of word pairs decide who attends to whom. Symmetric scores cannot have all of a ring's links as largest of
their rows: s_ca > s_cb = s_bc > s_ba = s_ab > s_ac = s_ca. Two of the three can be, and the third node looks at the one
that names it (`chance` has what that gives). One-way links and mutual pairs are within their reach. It decides whether
tied query and key maps can attend as directed, and `dose`, the share of words in rings of three, how much of it they
lose. In `one_way` a node that names none says so (`n`). In `mutual` with the diagonal visible, positive semidefinite
scores prefer self, which the residual takes off again: there the argmax on gold decides, not accuracy.

Two things let symmetric scores get further than that, and are kept out. With the own label in the same target word, the
readout may judge by it what was fetched; and a decoder that sees all places has a part in the lookup. A third is left:
a word is one token, so that scores may also depend on labels, which helps the fewer of them there are. The words of a
ring then look at both others about evenly, in shares that tell labels apart, and more is said than the largest weights
can point at. So where they point (`within_reach` has the bound, which nothing passes) decides together with accuracy.

    multi_lookup   c names a and b, a names b and c, b names c and a (P 2)
                   c3 a1 b7  →  317 173 731            word 0 attends to 1 and 2, 1 to 2 and 0, 2 to 0 and 1

Every node is named once as the first, once as the second, …: what one head brings back is one mean of P values. It
decides how many heads a query with P targets needs, and what a combination that adds the heads loses. One target word
holds all labels, so that the decoder cannot ask for them one at a time. An even mean does not tell the order; unequal
weights do (two thirds and one third), so that one head solves two targets and gets part of the way with four.

    one_space      d b2 d0 a2  →  0                    words 0 and 2 attend to each other, or one to the other

A source has one word of each of a few kinds and one question. The question `d` must match the word of kind d alike
whether it is d0 or d3 (hot or cold: both are temperatures), and the translation must tell them apart. It decides
whether one space can hold both, by width, when states are used raw as queries, keys and values. There is one answer,
and the question is found by content: no positions are needed, and none should take up room in narrow states. The match
may be made from either side (the answer, having found the question, is the word that the decoder picks), so accuracy
decides here, not the argmax on gold.
"""

from __future__ import annotations

from collections.abc import Sequence

from study.config.probes import Graph, MultiLookup, OneSpace
from study.corpora.corpus import Link, Pair
from study.corpora.grammar.draw import Draw
from study.corpora.probes.splits import shuffled

LETTERS = "abcdefghijklmnopqrstuvwxyz"
NOBODY = "n"


def named(data: Graph | MultiLookup) -> list[tuple[int, ...]]:
    """For every node the nodes that it names, in order: fixed for the corpus by the seed of the data."""
    draw = Draw("names", data.name, data.seed, data.nodes)
    order = shuffled(draw, data.nodes)
    match data:
        case MultiLookup():
            return _discordant(draw, data.nodes, data.targets)
        case Graph(structure="permutation"):
            return _discordant(draw, data.nodes, 1)
        case Graph(structure="one_way"):
            half = data.nodes // 2
            links = dict(zip(order[:half], order[half:], strict=True))
            return [(links[node],) if node in links else () for node in range(data.nodes)]
        case Graph():
            rings = data.ringed if data.structure == "cycle3" else 0
            return _rings(order, [3] * (rings // 3) + [2] * ((data.nodes - rings) // 2))


def _rings(order: Sequence[int], sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """Nodes in rings of these sizes, each node naming the next."""
    out: list[tuple[int, ...]] = [()] * len(order)
    start = 0
    for size in sizes:
        ring = order[start : start + size]
        for i, node in enumerate(ring):
            out[node] = (ring[(i + 1) % size],)
        start += size
    return out


def _discordant(draw: Draw, nodes: int, count: int) -> list[tuple[int, ...]]:
    """`count` random permutations that nowhere agree with each other or leave a node where it is."""
    rows = [list(range(nodes))]
    while len(rows) <= count:
        row = shuffled(draw, nodes)
        if all(a != b for other in rows for a, b in zip(row, other, strict=True)):
            rows.append(row)
    return list(zip(*rows[1:], strict=True))


def graph(data: Graph, names: Sequence[tuple[int, ...]], draw: Draw) -> Pair:
    """A pair of `graph`, where node i names names[i]."""
    words, labels, looks = _nodes(data.nodes, data.labels, names, draw)
    return Pair(
        " ".join(words),
        " ".join("".join(str(labels[s]) for s in row) or NOBODY for row in looks),
        tuple(Link(t, t) for t in range(data.nodes)),
        tuple(Link(s, t) for t, row in enumerate(looks) for s in row),
    )


def multi_lookup(data: MultiLookup, names: Sequence[tuple[int, ...]], draw: Draw) -> Pair:
    """A pair of `multi_lookup`, where node i names names[i]."""
    assert data.labels is not None
    words, labels, looks = _nodes(data.nodes, data.labels, names, draw)
    return Pair(
        " ".join(words),
        " ".join("".join(str(labels[s]) for s in (t, *row)) for t, row in enumerate(looks)),
        tuple(Link(t, t) for t in range(data.nodes)),
        tuple(Link(s, t) for t, row in enumerate(looks) for s in row),
    )


def _nodes(
    count: int, labels: int, names: Sequence[tuple[int, ...]], draw: Draw
) -> tuple[list[str], list[int], list[list[int]]]:
    """All nodes in random order with random labels: the words, their labels, and the places that each one names."""
    nodes = shuffled(draw, count)
    drawn = [draw.below(labels) for _ in nodes]
    place = {node: s for s, node in enumerate(nodes)}
    words = [f"{LETTERS[node]}{label}" for node, label in zip(nodes, drawn, strict=True)]
    return words, drawn, [[place[other] for other in names[node]] for node in nodes]


def one_space(data: OneSpace, draw: Draw) -> Pair:
    """A pair of `one_space`. Question and answer may find each other from either side: all its links are possible."""
    kinds = shuffled(draw, data.kinds)[: data.present]
    members = [draw.below(data.members) for _ in kinds]
    words = [f"{LETTERS[kind]}{member}" for kind, member in zip(kinds, members, strict=True)]
    order = shuffled(draw, data.present + 1)
    source = [[LETTERS[kinds[0]], *words][i] for i in order]
    asks, answers = order.index(0), order.index(1)
    return Pair(
        " ".join(source),
        str(members[0]),
        (Link(asks, 0, False), Link(answers, 0, False)),
        (Link(answers, asks, False), Link(asks, answers, False)),
    )
