"""Base of the probes: small seeded tasks of which the relevant source positions are known.

A probe draws one stream of random pairs. Each pair belongs to one pool by the hash of its source. So no split can hold
a source of another, whatever their sizes, and `valid` and `test` do not depend on `train_pairs`.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from study.corpora.corpus import Corpus, Pair, Section, Splits, checksum
from study.corpora.grammar.draw import Draw, digest
from study.errors import InputError
from study.schema import Pairs, Seed

WHICH = "Corpus or probe."
VALID = 300
PATIENCE = 30
"""Draws per pair before the probe is taken to have too few different sources."""


class Probe(Section):
    """Fields and facts of all probes. A subclass gives `pair` and `shortest_target`."""

    train_pairs: Pairs = Field(8000, description="Number of training sentence pairs.")
    test_pairs: Annotated[Pairs, Field(ge=2)] = Field(1000, description="Sentence pairs of the split test.")
    seed: Seed = Field(0, description="Seed of the data, apart from the seed of the run.")
    tokens: Literal["words"] = Field("words", description="Unit of a token.")

    sentences: ClassVar[bool] = False
    has_attends: ClassVar[bool] = False
    """True if the gold of encoder self-attention is known."""

    def offers(self, split: str) -> frozenset[str]:
        return frozenset({"alignment", "attends"} if self.has_attends else {"alignment"})

    def pair(self, draw: Draw) -> Pair:
        """Draw one pair."""
        raise NotImplementedError

    def read(self) -> Corpus:
        """Return the corpus: the same for the same section, on any machine.

        Raises:
            InputError: the section leaves too few different sources.
        """
        sizes = {"train": self.train_pairs, "valid": VALID, "test": self.test_pairs}
        splits: Splits = {name: [] for name in sizes}
        draw, seen = Draw("probe", self.name, self.seed), set[str]()
        for _ in range(PATIENCE * sum(sizes.values())):
            pair = self.pair(draw)
            split = splits[pool := self._pool(pair.source)]
            if len(split) < sizes[pool] and pair.source not in seen:
                seen.add(pair.source)
                split.append(pair)
                if len(seen) == sum(sizes.values()):
                    sums = {name: checksum(pairs, attends=True) for name, pairs in splits.items()}
                    return Corpus(self.name, self.version, splits, files=sums, languages=("symbols", "symbols"))
        short = ", ".join(f"{name} {len(splits[name])} of {size}" for name, size in sizes.items())
        raise InputError(
            f"data: {self.name} has too few different sources ({short}). Lower the number of pairs, or use a larger "
            "task."
        )

    def _pool(self, source: str) -> str:
        """Return the pool of a source: validation has 10% of all possible sources, test 20%."""
        share = int(digest("pool", self.seed, source)[:8], 16) / 2**32
        return "valid" if share < 0.1 else "test" if share < 0.3 else "train"


def shuffled(draw: Draw, count: int) -> list[int]:
    """0 … count - 1 in random order, all orders equally likely."""
    order = list(range(count))
    for i in range(count - 1, 0, -1):
        j = draw.below(i + 1)
        order[i], order[j] = order[j], order[i]
    return order
