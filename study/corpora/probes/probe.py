"""Base of the probes: small seeded tasks of which the relevant source positions are known.

A probe draws one stream of random pairs. Each pair belongs to one pool by the hash of its source. So no split can hold
a source of another, whatever their sizes, and `valid` and `test` do not depend on `train_pairs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from study.corpora.corpus import Chance, Corpus, Link, Pair, Section
from study.corpora.grammar.draw import Draw, digest
from study.errors import InputError
from study.schema import Pairs, Seed

WHICH = "Corpus or probe."
VALID = 300
PATIENCE = 30
"""Draws per pair before the probe is taken to have too few different sources."""


class Probe(Section):
    """Fields and facts of all probes. A subclass gives `drawn`, `chance` and `shortest_target`."""

    train_pairs: Pairs = Field(8000, description="Number of training sentence pairs.")
    test_pairs: Annotated[Pairs, Field(ge=2)] = Field(1000, description="Sentence pairs of the split test.")
    seed: Seed = Field(0, description="Seed of the data, apart from the seed of the run.")
    tokens: Literal["words"] = Field("words", description="Unit of a token.")

    sentences: ClassVar[bool] = False
    has_attends: ClassVar[bool] = False
    """True if the gold of encoder self-attention is known."""

    def offers(self, split: str) -> frozenset[str]:
        return frozenset({"alignment", "attends"} if self.has_attends else {"alignment"})

    def chance(self) -> Chance:
        raise NotImplementedError

    def drawn(self) -> Callable[[Draw], Pair]:
        """Function that draws one pair."""
        raise NotImplementedError

    def read(self) -> Corpus:
        """Return the corpus: the same for the same section, on any machine."""
        found = splits(self, self.name, self.drawn())
        files = {name: checksum(pairs) for name, pairs in found.items()}
        return Corpus(self.name, self.version, found, files=files, languages=("symbols", "symbols"))


def splits(data: Probe, kind: str, draw_pair: Callable[[Draw], Pair]) -> dict[str, list[Pair]]:
    """`train`, `valid` and `test`, each source once.

    Raises:
        InputError: the section leaves too few different sources.
    """
    sizes = {"train": data.train_pairs, "valid": VALID, "test": data.test_pairs}
    found: dict[str, list[Pair]] = {name: [] for name in sizes}
    draw, seen = Draw("probe", kind, data.seed), set[str]()
    for _ in range(PATIENCE * sum(sizes.values())):
        pair = draw_pair(draw)
        pool = _pool(data.seed, pair.source)
        if len(found[pool]) < sizes[pool] and pair.source not in seen:
            seen.add(pair.source)
            found[pool].append(pair)
            if all(len(found[name]) == size for name, size in sizes.items()):
                return found
    short = ", ".join(f"{name} {len(found[name])} of {size}" for name, size in sizes.items())
    raise InputError(
        f"data: {kind} has too few different sources ({short}). Lower the number of pairs, or use a larger task."
    )


def _pool(seed: int, source: str) -> str:
    """Return the pool of a source: validation has 10% of all possible sources, test 20%."""
    share = int(digest("pool", seed, source)[:8], 16) / 2**32
    return "valid" if share < 0.1 else "test" if share < 0.3 else "train"


def checksum(pairs: Iterable[Pair]) -> str:
    """SHA-256 of the text of a split with its alignment and, where it is known, who attends to whom in the source."""
    return digest(*(f"{p.source}\t{p.target}\t{_links(p.alignment)}\t{_links(p.attends)}" for p in pairs))


def _links(links: tuple[Link, ...] | None) -> str:
    return " ".join(f"{source}{'-' if sure else '?'}{target}" for source, target, sure in links or ())


def shuffled(draw: Draw, count: int) -> list[int]:
    """0 … count - 1 in random order, all orders equally likely."""
    order = list(range(count))
    for i in range(count - 1, 0, -1):
        j = draw.below(i + 1)
        order[i], order[j] = order[j], order[i]
    return order
