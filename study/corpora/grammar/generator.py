"""Splits: streams of sentences, each from a pool of its own.

A keyed hash of the source sentence says which pool it belongs to, so no split can hold a sentence of another, whatever
their sizes, and the test splits depend on the seed and the lexicon alone. For a sentence with a pronoun, the key leaves
its antecedent open, so that both halves of a minimal pair fall into one pool. `long` and `deep` are set apart by length
and by depth.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from study.config import Grammar
from study.corpora.corpus import Contrast, Corpus, Pair
from study.corpora.grammar.alignment import assemble
from study.corpora.grammar.content import fill
from study.corpora.grammar.draw import Draw, digest
from study.corpora.grammar.lexicon import Lexicon, lexicon
from study.corpora.grammar.plan import DEEP, FLAT, Plan, Wish, plan
from study.corpora.grammar.syntax import sentence

Pool = Literal["train", "valid", "test", "pronoun"]

SIZES = {"valid": 500, "test": 1000, "long": 500, "deep": 500, "pronoun": 500}
TRAINED = (4, 16)
"""German words, without punctuation, of the training sentences."""
PRONOUNS = 0.5
"""Share of pronouns wished for where a sentence has at least two clauses."""
TRIES = 200
"""Draws for one length before another length is drawn."""


@dataclass(frozen=True)
class Style:
    """What a stream of sentences is like."""

    lengths: tuple[int, int] = TRAINED
    deep: bool = False
    pronouns: float = PRONOUNS
    pool: Pool | None = None
    """None where length or depth sets the stream apart."""


STYLES = {
    "train": Style(pool="train"),
    "valid": Style(pool="valid"),
    "test": Style(pool="test"),
    "long": Style(lengths=(17, 32)),
    "deep": Style(lengths=(8, 16), deep=True),
    "pronoun": Style(lengths=(6, 16), pronouns=1.0, pool="pronoun"),
}


def generate(data: Grammar) -> Corpus:
    """The corpus that a `data` section declares: the same for the same section, on any machine.

    The splits besides `train` do not depend on `train_pairs`, and a smaller `train` is the beginning of a larger one.
    """
    splits = {
        name: list(islice(sentences(data, name), data.train_pairs if name == "train" else SIZES[name]))
        for name in ("train", "valid", "test", "long", "deep")
    }
    halves = list(islice(_halves(data, "pronoun"), SIZES["pronoun"]))
    splits["pronoun"] = [pair for pair, _ in halves]
    return Corpus(
        name="grammar",
        version=data.version,
        splits=splits,
        contrasts=[contrast for _, contrast in halves],
        files={name: checksum(pairs) for name, pairs in splits.items()},
    )


def sentences(data: Grammar, name: str, lengths: tuple[int, int] | None = None) -> Iterator[Pair]:
    """An endless stream of different sentence pairs of that split, or of a new one of sentences of other `lengths`.

    Lengths count German words without punctuation and are drawn evenly. Outside the training range any name starts a
    new stream, say `sentences(data, "longer", (33, 60))`.
    """
    style = STYLES[name] if lengths is None else Style(lengths=lengths)
    seen: set[str] = set()
    for drawn in _plans(data, name, style):
        pair, key = assemble(sentence(drawn.units, drawn.coordinators))
        if pair.source not in seen and style.pool in (None, _pool(data, key, drawn)):
            seen.add(pair.source)
            yield pair


def checksum(pairs: Iterable[Pair]) -> str:
    """SHA-256 of the text of a split with its alignments, sure links as 0-0 and possible ones as 0?0."""
    lines = []
    for pair in pairs:
        links = " ".join(f"{i}{'-' if sure else '?'}{j}" for i, j, sure in pair.alignment or ())
        lines.append(f"{pair.source}\t{pair.target}\t{links}")
    return digest(*lines)


def _pool(data: Grammar, key: str, drawn: Plan) -> Pool:
    """A tenth of all possible sentences is for validation, a fifth for test, a fifth of those with pronouns apart."""
    share = int(digest("pool", data.seed, key)[:8], 16) / 2**32
    if share < 0.1:
        return "valid"
    if share < 0.3:
        return "test"
    return "pronoun" if drawn.pronoun and share < 0.5 else "train"


def _plans(data: Grammar, name: str, style: Style) -> Iterator[Plan]:
    """Plans with their words, lengths drawn evenly over what the stream holds."""
    draw = Draw("grammar", data.version, data.lexicon, data.seed, name, *style.lengths)
    words = lexicon(data.lexicon)
    low, high = style.lengths
    while True:
        length = low + draw.below(high + 1 - low)
        for _ in range(TRIES):
            drawn = plan(_wish(length, style, draw), words, draw)
            if drawn and fill(drawn, words, draw):
                yield drawn
                break


def _wish(length: int, style: Style, draw: Draw) -> Wish:
    """A unit is a main clause with what is nested in it; units are coordinated, each no longer than a trained one."""
    units = 1
    if not style.deep and length >= 8:
        least = -(-length // TRAINED[1])
        units = least + draw.below(length // 7 - least + 2 if length <= TRAINED[1] else length // 7 - least + 1)
    return Wish(length, DEEP if style.deep else FLAT, units, length >= 6 and draw.chance(style.pronouns))


def _halves(data: Grammar, name: str) -> Iterator[tuple[Pair, Contrast]]:
    """Minimal pairs: the same sentence with a human and with an inanimate antecedent of the same gender."""
    draw = Draw("antecedents", data.version, data.lexicon, data.seed)
    nouns = lexicon(data.lexicon).nouns
    seen: set[str] = set()
    for drawn in _plans(data, name, STYLES[name]):
        antecedent = drawn.antecedent
        if antecedent is None or antecedent.being or antecedent.gender == "n":
            continue
        human, thing = (
            draw.one([n for n in nouns if n.human == human and n.gender == antecedent.gender]) for human in (True, False)
        )
        antecedent.noun = human
        personal, key = _realised(drawn)
        antecedent.noun = thing
        neutral, _ = _realised(drawn)
        if _pool(data, key, drawn) == STYLES[name].pool and not seen & {personal.source, neutral.source}:
            yield from _contrasted(personal, neutral, len(seen) // 2)
            seen |= {personal.source, neutral.source}


def _contrasted(personal: Pair, neutral: Pair, number: int) -> Iterator[tuple[Pair, Contrast]]:
    """Both halves, each with the pronoun of the other as its wrong translation."""
