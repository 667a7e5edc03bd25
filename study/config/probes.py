"""The data sections of the probes: small seeded tasks of which the relevant source positions are known.

What each asks and decides stands with its generator in `study/corpora/probes`.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from study.config.attention import Frozen, Seed, Size

DRAWN = "Version of the generator; part of the identity."
WHICH = "Which corpus."
LONGEST = 60


class Probe(Frozen):
    """What all probes have."""

    train_pairs: Size = Field(8000, description="Number of training sentence pairs.")
    test_pairs: Annotated[int, Field(ge=2)] = Field(1000, description="Sentence pairs of the split test.")
    seed: Seed = Field(0, description="Seed of the data, apart from the seed of the run.")
    tokens: Literal["words"] = Field("words", description="What a token is.")

    @property
    def shortest_target(self) -> int:
        """Words of the shortest target."""
        raise NotImplementedError


class Sequences(Probe):
    """What the probes of order have."""

    symbols: Annotated[int, Field(ge=2, le=100)] = Field(32, description="Different words.")
    shortest: Annotated[int, Field(ge=1, le=LONGEST)] = Field(4, description="Words of the shortest source.")
    longest: Annotated[int, Field(ge=1, le=LONGEST)] = Field(16, description="Words of the longest source.")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.shortest > self.longest:
            raise ValueError(f"shortest is {self.shortest} and longest {self.longest}; put them in order")
        return self

    @property
    def shortest_target(self) -> int:
        return self.shortest


class Copy(Sequences):
    """Repeat the source."""

    name: Literal["copy"] = Field("copy", description=WHICH)
    version: Literal[1] = Field(1, description=DRAWN)


class Reverse(Sequences):
    """Repeat the source from its end."""

    name: Literal["reverse"] = Field("reverse", description=WHICH)
    version: Literal[1] = Field(1, description=DRAWN)


class Sort(Sequences):
    """Repeat the words of the source in alphabetical order; no word comes twice."""

    name: Literal["sort"] = Field("sort", description=WHICH)
    version: Literal[1] = Field(1, description=DRAWN)

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if self.longest > self.symbols:
            raise ValueError(
                f"sort has no word twice, so {self.longest} words need as many symbols, not {self.symbols}; add symbols"
            )
        return self


class CopyFar(Probe):
    """Repeat a few words from a known place of a long source, and pass over the rest."""

    name: Literal["copy_far"] = Field("copy_far", description=WHICH)
    version: Literal[1] = Field(1, description=DRAWN)
    symbols: Annotated[int, Field(ge=2, le=100)] = Field(32, description="Different words.")
    length: Annotated[int, Field(ge=1, le=200)] = Field(32, description="Words of every source.")
    copied: Size = Field(4, description="Words to repeat; they stand together.")
    distance: int = Field(24, ge=0, description="Words between them and the end of the source.")

    @model_validator(mode="after")
    def _room(self) -> Self:
        if self.copied + self.distance > self.length:
            raise ValueError(
                f"{self.copied} words at distance {self.distance} from the end need more than {self.length} words; "
                "raise length, or lower distance or copied"
            )
        return self

    @property
    def shortest_target(self) -> int:
        return self.copied


class Graph(Probe):
    """For every word the label of the word that it names."""

    name: Literal["graph"] = Field("graph", description=WHICH)
    version: Literal[3] = Field(3, description=DRAWN)
    structure: Literal["one_way", "mutual", "cycle3", "permutation"] = Field(
        "cycle3",
        description="Who names whom. one_way: half of the words name one of the other half, which name none. mutual: "
        "pairs name each other. cycle3: three name each other in a ring. permutation: drawn at random.",
    )
    dose: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None,
        description="Share of words in rings of three, the others in mutual pairs (derived with cycle3: 1; mutual: 0).",
    )
    nodes: Annotated[int, Field(ge=2, le=26)] = Field(12, description="Names, each once in every source.")
    labels: Annotated[int, Field(ge=2, le=10)] = Field(8, description="Labels that a name may carry.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.structure != "cycle3" and self.dose is not None:
            raise ValueError(f"dose belongs to structure cycle3, and structure is {self.structure}; leave it out")
        if self.structure in ("one_way", "mutual") and self.nodes % 2:
            raise ValueError(f"structure {self.structure} pairs the nodes, and {self.nodes} is odd; make it even")
        if self.structure == "cycle3":
            if self.dose is None:
                object.__setattr__(self, "dose", 1.0)
            self._whole_rings()
        if self.structure == "mutual":  # the same corpus as no rings at all, so the same identity
            object.__setattr__(self, "structure", "cycle3")
            object.__setattr__(self, "dose", 0.0)
        return self

    def _whole_rings(self) -> None:
        legal = [ringed for ringed in range(0, self.nodes + 1, 3) if (self.nodes - ringed) % 2 == 0]
        if self.ringed not in legal or abs(self.ringed - (self.dose or 0) * self.nodes) > 0.01:
            doses = ", ".join(f"{ringed / self.nodes:.4g}" for ringed in legal)
            raise ValueError(
                f"{self.nodes} nodes make no whole rings of three and pairs at dose {self.dose}; "
                f"give {f'one of {doses}' if legal else 'an even number of nodes'}"
            )

    @property
    def ringed(self) -> int:
        """Nodes in rings of three, with structure cycle3."""
        return round((self.dose or 0) * self.nodes)

    @property
    def shortest_target(self) -> int:
        return self.nodes


class MultiLookup(Probe):
    """For every word its label and those of the several words that it names, in order."""

    name: Literal["multi_lookup"] = Field("multi_lookup", description=WHICH)
    version: Literal[1] = Field(1, description=DRAWN)
    targets: Annotated[int, Field(ge=1, le=4)] = Field(2, description="P, the words that every word names.")
    nodes: Annotated[int, Field(ge=2, le=26)] = Field(12, description="Names, each once in every source.")
    labels: Annotated[int, Field(ge=2, le=10)] | None = Field(
        None,
        description="Labels that a name may carry (derived: 8 with one target, 5 with two, 4 with three, 3 with four).",
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.labels is None:
            object.__setattr__(self, "labels", {1: 8, 2: 5, 3: 4, 4: 3}[self.targets])
        if self.nodes <= self.targets:
            raise ValueError(f"{self.targets} targets besides the word itself need more than {self.nodes} nodes")
        if self.answers > 300:
            raise ValueError(
                f"{self.labels} labels of {self.targets} targets and the word itself make {self.answers} different "
                "target words, and 300 is the limit; lower labels"
            )
        return self

    @property
    def answers(self) -> int:
        """Different target words."""
        return int((self.labels or 0) ** (self.targets + 1))

    @property
    def shortest_target(self) -> int:
        return self.nodes


class OneSpace(Probe):
    """Find the word of the kind that is asked for, whichever it is, and tell which it is."""

    name: Literal["one_space"] = Field("one_space", description=WHICH)
    version: Literal[1] = Field(1, description=DRAWN)
    kinds: Annotated[int, Field(ge=2, le=26)] = Field(8, description="Kinds, such as temperature.")
    members: Annotated[int, Field(ge=2, le=10)] = Field(4, description="Words of a kind, such as hot and cold.")
    present: Annotated[int, Field(ge=2, le=26)] = Field(4, description="Kinds in a source, one word of each.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.present > self.kinds:
            raise ValueError(f"{self.present} of {self.kinds} kinds cannot be present; lower present or raise kinds")
        return self

    @property
    def shortest_target(self) -> int:
        return 1


AnyProbe = Copy | Reverse | Sort | CopyFar | Graph | MultiLookup | OneSpace
