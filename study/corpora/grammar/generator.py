"""Splits of the grammar: streams of sentences, one pool of sentences per split.

A keyed hash of the source sentence chooses its pool. So no sentence is in two splits, whatever their sizes, and the
test splits depend on the seed and the lexicon alone. For a sentence with a pronoun, the key leaves out the antecedent,
so that both halves of a minimal pair fall into one pool. Length and depth separate `long` and `deep` from the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from study.corpora.cache import cached
from study.corpora.corpus import Contrast, Corpus, First, Pair, Section, Splits, Unit, Vocabulary, checksum
from study.corpora.grammar.draw import Draw, digest
from study.schema import Pairs, Seed

if TYPE_CHECKING:  # every verb reads the section, and few generate sentences
    from study.corpora.grammar.lexicon import Noun
    from study.corpora.grammar.plan import Plan, Wish
    from study.corpora.grammar.tree import Phrase

Pool = Literal["train", "valid", "test", "pronoun"]

VALID = 500
TRAINED = (4, 16)
"""German words, without punctuation, of the training sentences."""
COORDINATED = 10
"""Least number of words of a sentence with two coordinated units."""
PRONOMINAL = 8
"""Least number of words of a sentence with a pronoun, which needs two clauses and three noun phrases."""
PRONOUNS = 0.5
"""Share of these sentences that have a pronoun, in valid and test. In train it is .43: others are in `pronoun`."""
NEUTRAL = 0.75
"""Share of pronouns for which only the antecedent decides between he or she and it."""
TRIES = 200
"""Number of draws for one length before another length is drawn."""


@dataclass(frozen=True)
class Style:
    """Properties of a stream of sentences, with shares of pronouns and of pronouns that fit humans and things."""

    lengths: tuple[int, int] = TRAINED
    deep: bool = False
    pronouns: float = PRONOUNS
    neutral: float = NEUTRAL


POOLED, LONG, DEEP = Style(), Style(lengths=(17, 32)), Style(lengths=(10, 16), deep=True)
CONTRASTIVE = Style(lengths=(8, 16), pronouns=1.0, neutral=1.0)


class Grammar(Section):
    """The embedded German→English grammar: offline, seeded, with gold word alignments."""

    name: Literal["grammar"] = Field("grammar", description="Corpus or probe.")
    version: First = 1
    lexicon: Literal["small", "large"] = Field(
        "small", description="Content words: small has about 130 source word types, large about 400."
    )
    train_pairs: Pairs = Field(8000, description="Number of training sentence pairs.")
    test_pairs: Annotated[Pairs, Field(ge=4)] = Field(
        1000, description="Sentence pairs of the split test, 4 or more; the other test splits have half as many."
    )
    seed: Seed = Field(0, description="Seed of the data, apart from the seed of the run.")
    tokens: Unit = "words"
    vocabulary: Vocabulary = None

    @property
    def scored(self) -> tuple[str, ...]:
        return ("valid", "test", "long", "deep", "pronoun")

    def offers(self, split: str) -> frozenset[str]:
        return frozenset({"alignment", "contrasts"} if split == "pronoun" else {"alignment"})

    def subsets(self, split: str) -> Mapping[str, Callable[[Sequence[Pair]], list[bool]]]:
        from study.corpora.grammar.morphology import without_pronouns

        return {} if split == "pronoun" else {"without pronouns": without_pronouns}

    def read(self) -> Corpus:
        declared = self.model_dump_json(include={"version", "lexicon", "train_pairs", "test_pairs", "seed"})
        return cached("grammar", declared, Path(__file__).parent, lambda: generate(self))


def generate(data: Grammar) -> Corpus:
    """Return the corpus that a `data` section declares. It is the same on every machine.

    The splits besides `train` do not depend on `train_pairs`, and a smaller `train` is the beginning of a larger one.
    """
    half = data.test_pairs // 2
    halves = list(islice(_halves(data), half // 2 * 2))
    splits = {
        **_pools(data),
        "long": list(islice(_distinct(data, "long", LONG), half)),
        "deep": list(islice(_distinct(data, "deep", DEEP), half)),
        "pronoun": [pair for pair, _ in halves],
    }
    return Corpus(
        name="grammar",
        version=data.version,
        splits=splits,
        contrasts=[contrast for _, contrast in halves],
        files={name: checksum(pairs) for name, pairs in splits.items()},
    )


def _distinct(data: Grammar, name: str, style: Style) -> Iterator[Pair]:
    """Yield an endless stream of different sentence pairs. The name seeds the stream."""
    seen = set()
    for drawn in _plans(data, name, style):
        pair, _ = _realised(drawn)
        if pair.source not in seen:
            seen.add(pair.source)
            yield pair


def _pools(data: Grammar) -> Splits:
    """Return train, valid and test: one stream, each sentence to its pool until all are full."""
    sizes = {"train": data.train_pairs, "valid": VALID, "test": data.test_pairs}
    splits: Splits = {name: [] for name in sizes}
    seen = set()
    for drawn in _plans(data, "pools", POOLED):
        pair, key = _realised(drawn)
        pool = _pool(data, key, drawn)
        if pool != "pronoun" and len(splits[pool]) < sizes[pool] and pair.source not in seen:
            seen.add(pair.source)
            splits[pool].append(pair)
            if all(len(splits[name]) == size for name, size in sizes.items()):
                break
    return splits


def _pool(data: Grammar, key: str, drawn: Plan) -> Pool:
    """Return the pool of a sentence: validation has 8% of all, test 15%, and 20% of those with a pronoun are apart."""
    share = int(digest("pool", data.seed, key)[:8], 16) / 2**32
    if share < 0.08:
        return "valid"
    if share < 0.23:
        return "test"
    return "pronoun" if drawn.pronoun and share < 0.43 else "train"


def _plans(data: Grammar, name: str, style: Style) -> Iterator[Plan]:
    """Plans with their words, lengths drawn evenly over what the stream holds."""
    from study.corpora.grammar.content import fill
    from study.corpora.grammar.lexicon import lexicon
    from study.corpora.grammar.plan import plan

    draw = Draw("grammar", data.version, data.lexicon, data.seed, name, *style.lengths)
    words = lexicon(data.lexicon)
    low, high = style.lengths
    while True:
        wish = _wish(low + draw.below(high + 1 - low), style, draw)
        for _ in range(TRIES):
            drawn = plan(wish, words, draw)
            if drawn and fill(drawn, words, draw):
                yield drawn
                break


def _wish(length: int, style: Style, draw: Draw) -> Wish:
    """One unit or two within the trained lengths; beyond them as many as keep each within."""
    from study.corpora.grammar.plan import Wish

    least = -(-length // TRAINED[1])
    most = 1 if style.deep or length < COORDINATED else max(2, length // 8)
    pronoun = length >= PRONOMINAL and draw.chance(style.pronouns)
    return Wish(length, least + draw.below(most - least + 1), style.deep, pronoun, draw.chance(style.neutral))


def _realised(drawn: Plan) -> tuple[Pair, str]:
    from study.corpora.grammar.alignment import assemble
    from study.corpora.grammar.syntax import sentence

    return assemble(sentence(drawn.units, drawn.coordinators))


def _halves(data: Grammar) -> Iterator[tuple[Pair, Contrast]]:
    """Minimal pairs: the same sentence with a human and with an inanimate antecedent of the same gender."""
    from study.corpora.grammar.lexicon import lexicon

    draw = Draw("antecedents", data.version, data.lexicon, data.seed)
    nouns = lexicon(data.lexicon).nouns
    seen: set[str] = set()
    for drawn in _plans(data, "pronoun", CONTRASTIVE):
        pronoun = drawn.pronoun
        if pronoun is None or pronoun.antecedent is None or pronoun.gender == "n":
            continue
        fitting = [noun for noun in nouns if noun.gender == pronoun.gender]
        human = draw.one([noun for noun in fitting if noun.human])
        thing = draw.one([noun for noun in fitting if not noun.human])
        key = _realised(drawn)[1]
        if key not in seen and _pool(data, key, drawn) == "pronoun":
            yield _half(drawn, pronoun, human, thing, len(seen))
            yield _half(drawn, pronoun, thing, human, len(seen))
            seen.add(key)


def _half(drawn: Plan, pronoun: Phrase, noun: Noun, other: Noun, number: int) -> tuple[Pair, Contrast]:
    """One half; its wrong translation takes the pronoun that the noun of the other half would have."""
    from study.corpora.grammar.tree import Phrase

    antecedent, stand_in = pronoun.antecedent, Phrase()
    assert antecedent is not None
    antecedent.noun, stand_in.noun = noun, other
    right, _ = _realised(drawn)
    pronoun.antecedent = stand_in
    wrong, _ = _realised(drawn)
    pronoun.antecedent = antecedent
    return right, Contrast(right.source, right.target, wrong.target, number)
