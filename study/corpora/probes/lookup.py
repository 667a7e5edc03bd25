"""Probes of lookup by content: encoder self-attention must fetch a word that the decoder cannot find by itself.

Each source word is a name and a label: `c3` is the node c with label 3. Every node stands in every source once. The
order of the nodes and their labels are random. The seed of the corpus fixes which node names which. Target word t is
the label of the node that source word t names.

At step t the decoder knows t and the target words before it. They tell nothing about source word t. So encoder
self-attention must bring the label from the named node to place t, where the decoder reads it. These are probes of one
layer without feed-forward block (`model.layers 1`, `model.feedforward 0`). Deeper models could do the lookup elsewhere.

There is a second way. If a names b, then b can fetch the place of a, and the decoder can find b by that place. A
decoder that sees place t alone cannot do so (`model.attention.cross.reach local_m`, `cross.window 0`); the probe then
tests self-attention only. `multi_lookup` does not need this limit: each target word also has the label of source word t
itself, which stands in place t alone and teaches the decoder to look there.

Each pair has two sets of gold links. `attends` is for encoder self-attention: word t attends to the word that it names.
For cross-attention the gold links are the diagonal.

    graph          c names a, a names b, b names c
                   c3 a1 b7  →  1 7 3                  word 0 attends to 1, 1 to 2, 2 to 0

`graph` tests whether tied QK projections can attend along directed links. With symmetric scores at most two
of the three links of a ring can be the largest of their rows: all three would need s_ca > s_cb = s_bc > s_ba = s_ab >
s_ac = s_ca. The third node then looks at the node that names it. One-way links and mutual pairs are no obstacle for
symmetric scores. `dose` is the share of words in rings of three; the others are mutual pairs. In `one_way` a node that
names no other says `n`. In mutual pairs positive semidefinite scores prefer the own position, if it is visible; the
residual can subtract it again. There the argmax on gold decides, not accuracy.

Two ways around this bound are closed. If the target word also had the own label, the readout could use it to judge what
was fetched. If the decoder saw all places, it could do a part of the lookup. One way stays open: a word is one token,
so scores can depend on labels, and this helps more if labels are few. The words of a ring then look at both others
about evenly, in shares that depend on the labels, and more labels are right than the largest weights can point at.
Therefore accuracy is read together with where the largest weights point: on the named word in at most two of three.

With `model.factors split` scores do not see labels, and accuracy has a bound. The setting is that of
`sweeps/graph_factors.yaml`: one layer and one head, no feed-forward block, no positions, and a decoder that sees
place t and the word before. The answer to a node a that names b is then linear in the mixture of labels. Call c
another node and swap the labels of b and c. The weights stay, and what else the answer depends on stays too, but for
the word before if that is the answer about b or c. If the answer is right before and after, (w_ab − w_ac)(G_b + G_c)
> 0, where G is how much a label adds to its own word over the other one. Around a cycle of n nodes, w_ab > w_ac can
hold at no more than n − 1 of them, c the node that names a, and at one at least. So one node in each cycle of three
or more is right at most half of the time that the two labels differ (p = 1 − 1/labels), unless the word before tells
(p = 1/nodes): accuracy ≤ 1 − (cycles / nodes) · ½ (1 − 1/labels)(1 − 1/nodes). A normalisation divides by a number
that the swap may change, which lets biases in; the bound leaves that out.

    multi_lookup   c names a and b, a names b and c, b names c and a (P 2)
                   c3 a1 b7  →  317 173 731            word 0 attends to 1 and 2, 1 to 2 and 0, 2 to 0 and 1

`multi_lookup` tests how many heads a query with P targets needs, and what a combination that adds heads loses. Every
node is named once as the first, once as the second, and so on; one head returns one mean of P values. One target word
holds all labels, so the decoder cannot ask for them one at a time. An even mean does not tell the order of the values.
Unequal weights do (two thirds and one third), so one head solves two targets and gets part of the way with four.

    one_space      d b2 d0 a2  →  0                    words 0 and 2 attend to each other, or one to the other

`one_space` tests whether one space can serve for meaning and for attention, by width, when raw states are queries, keys
and values. A source has one word of each of a few kinds, and one question. The question `d` must match the word of kind
d whether it is d0 or d3 (hot and cold are both temperatures), and the translation must tell d0 from d3. There is one
answer, and the question finds it by content: the probe needs no positions, and they should take no room in narrow
states. Either side may find the other: the answer that has found the question is the word that the decoder picks. So
accuracy decides here, not the argmax on gold.
"""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field, model_validator

from study.corpora.corpus import VERSION, First, Link, Pair
from study.corpora.grammar.draw import Draw
from study.corpora.probes.probe import WHICH, Probe, shuffled

LETTERS = "abcdefghijklmnopqrstuvwxyz"
NOBODY = "n"


class Factored(Probe):
    """Probe of words that carry a name and a label, and name other words."""

    has_attends: ClassVar[bool] = True
    factored: ClassVar[bool] = True
    if TYPE_CHECKING:
        nodes: int

    def factors(self, word: str) -> tuple[str, str] | None:
        return (word[0], word[1:]) if word[:1] in LETTERS and word[1:].isdigit() else None

    @property
    def shortest_target(self) -> int:
        return self.nodes

    def pair(self, draw: Draw) -> Pair:
        """Draw the nodes in a random order, with random labels."""
        assert isinstance(self, Graph | MultiLookup)
        assert self.labels is not None
        nodes, names = shuffled(draw, self.nodes), named(self)
        labels = [draw.below(self.labels) for _ in nodes]
        place = {node: s for s, node in enumerate(nodes)}
        looks = [[place[neighbour] for neighbour in names[node]] for node in nodes]
        answers = ["".join(str(labels[s]) for s in row) for row in looks]
        if isinstance(self, MultiLookup):  # a node's answer begins with its own label
            answers = [f"{label}{answer}" for label, answer in zip(labels, answers, strict=True)]
        return Pair(
            " ".join(f"{LETTERS[node]}{label}" for node, label in zip(nodes, labels, strict=True)),
            " ".join(answer or NOBODY for answer in answers),
            tuple(Link(t, t) for t in range(self.nodes)),
            tuple(Link(s, t) for t, row in enumerate(looks) for s in row),
        )


class Graph(Factored):
    """For every word the label of the word that it names."""

    name: Literal["graph"] = Field("graph", description=WHICH)
    version: Literal[3] = Field(3, description=VERSION)
    structure: Literal["one_way", "cycle3", "permutation"] = Field(
        "cycle3",
        description="Structure of the names. one_way: half of the words name the other half, which name none. cycle3: "
        "three name each other in a ring, or two where dose is below 1. permutation: drawn at random.",
    )
    dose: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Share of words in rings of three, the others in mutual pairs (derived with cycle3: 1).",
    )
    nodes: int = Field(12, ge=2, le=26, description="Names, each once in every source.")
    labels: int = Field(8, ge=2, le=10, description="Labels that a name may carry.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.structure != "cycle3" and self.dose is not None:
            raise ValueError(f"dose: expected structure cycle3, got {self.structure}. Remove it.")
        if self.structure == "one_way" and self.nodes % 2:
            raise ValueError(f"nodes: expected an even number with structure one_way, got {self.nodes}.")
        if self.structure == "cycle3":
            if self.dose is None:
                object.__setattr__(self, "dose", 1.0)
            legal = [ringed for ringed in range(0, self.nodes + 1, 3) if (self.nodes - ringed) % 2 == 0]
            if self.ringed not in legal or abs(self.ringed - (self.dose or 0) * self.nodes) > 0.01:
                doses = ", ".join(f"{ringed / self.nodes:.4g}" for ringed in legal)
                raise ValueError(
                    f"dose: expected whole rings of three and pairs of {self.nodes} nodes, got {self.dose}. "
                    f"Use {f'one of {doses}' if legal else 'an even number of nodes'}."
                )
        return self

    @property
    def ringed(self) -> int:
        """Nodes in rings of three, with structure cycle3."""
        return round((self.dose or 0) * self.nodes)


class MultiLookup(Factored):
    """For every word its label and those of the several words that it names, in order."""

    name: Literal["multi_lookup"] = Field("multi_lookup", description=WHICH)
    version: First = 1
    targets: int = Field(2, ge=1, le=4, description="P, the words that every word names.")
    nodes: int = Field(12, ge=2, le=26, description="Names, each once in every source.")
    labels: int | None = Field(
        None,
        ge=2,
        le=10,
        description="Labels that a name may carry (derived: 8 with one target, 5 with two, 4 with three, 3 with four).",
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.labels is None:
            object.__setattr__(self, "labels", {1: 8, 2: 5, 3: 4, 4: 3}[self.targets])
        if self.nodes <= self.targets:
            raise ValueError(f"nodes: expected more than targets ({self.targets}), got {self.nodes}.")
        if self.answers > 300:
            raise ValueError(
                f"labels: expected at most 300 target words (labels ** (targets + 1)), got {self.answers}."
            )
        return self

    @property
    def answers(self) -> int:
        """Different target words."""
        return int((self.labels or 0) ** (self.targets + 1))


class OneSpace(Probe):
    """Find the word of the kind that is asked for, whichever it is, and tell which it is."""

    name: Literal["one_space"] = Field("one_space", description=WHICH)
    version: First = 1
    kinds: int = Field(8, ge=2, le=26, description="Kinds, such as temperature.")
    members: int = Field(4, ge=2, le=10, description="Words of a kind, such as hot and cold.")
    present: int = Field(4, ge=2, le=26, description="Kinds in a source, one word of each.")

    has_attends: ClassVar[bool] = True

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.present > self.kinds:
            raise ValueError(f"present: expected at most kinds ({self.kinds}), got {self.present}.")
        return self

    @property
    def shortest_target(self) -> int:
        return 1

    def pair(self, draw: Draw) -> Pair:
        """Draw one pair. Question and answer may find each other from either side: all its links are possible."""
        kinds = shuffled(draw, self.kinds)[: self.present]
        members = [draw.below(self.members) for _ in kinds]
        words = [f"{LETTERS[kind]}{member}" for kind, member in zip(kinds, members, strict=True)]
        order = shuffled(draw, self.present + 1)
        source = [[LETTERS[kinds[0]], *words][i] for i in order]
        asks, answers = order.index(0), order.index(1)
        return Pair(
            " ".join(source),
            str(members[0]),
            (Link(asks, 0, False), Link(answers, 0, False)),
            (Link(answers, asks, False), Link(asks, answers, False)),
        )


@cache
def named(data: Graph | MultiLookup) -> list[tuple[int, ...]]:
    """Return, for every node, the nodes that it names, in order. The seed of the data fixes them for the corpus."""
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
            return _rings(order, [3] * (data.ringed // 3) + [2] * ((data.nodes - data.ringed) // 2))


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
        if all(a != b for earlier in rows for a, b in zip(row, earlier, strict=True)):
            rows.append(row)
    return list(zip(*rows[1:], strict=True))
