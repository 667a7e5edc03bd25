"""The syntax tree that both languages share, and the German order of its constituents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from study.corpora.grammar.lexicon import Adverb, Conjunction, Determiner, Gender, Noun, Verb, Word

Slot = Literal["subject", "object", "place"]
Kind = Literal["main", "subordinate", "relative"]


@dataclass(frozen=True, slots=True)
class Frame:
    """The shape of a clause without its words: everything that decides how many German words it has."""

    valency: Literal["intransitive", "transitive", "reporting", "copula"]
    perfect: bool = False
    separated: bool = False
    """True for a main clause in the present tense whose verb puts its prefix at the end."""
    negated: bool = False
    adverb: bool = False
    subject: int = 2
    """Words of the noun phrase: 0 absent, 1 a pronoun (or a relative pronoun), 2 with article, 3 with adjective."""
    object: int = 0
    place: int = 0
    gap: Literal["", "subject", "object"] = ""
    """In a relative clause, the slot that the relative pronoun fills."""


@dataclass(slots=True, eq=False)
class Phrase:
    """A noun phrase, or the personal pronoun that stands for its antecedent."""

    attributive: bool = False
    antecedent: Phrase | None = None
    referent: bool = False
    """True if a pronoun of the sentence stands for it."""
    relative: Clause | None = None
    neutral: bool = False
    """Whether its places in the sentence must take humans and things alike."""
    being: int = 0
    """The least being that its places in the sentence take."""
    noun: Noun = field(init=False)
    determiner: Determiner = field(init=False)
    adjective: Word | None = None
    plural: bool = False

    @property
    def gender(self) -> Gender:
        """Grammatical gender, a pronoun's from its antecedent."""
        return (self.antecedent or self).noun.gender


@dataclass(slots=True, eq=False)
class Clause:
    """A clause; in a relative clause, the head stands in the slot of the gap."""

    kind: Kind
    frame: Frame
    subject: Phrase
    object: Phrase | None = None
    place: Phrase | None = None
    front: Literal["subject", "object", "place", "adverb"] = "subject"
    before: Clause | None = None
    """The subordinate clause that fills the front field."""
    after: Clause | None = None
    """The extraposed subordinate clause."""
    conjunction: Conjunction | None = None
    verb: Verb | None = None
    """None is the copula."""
    adverb: Adverb | None = None
    preposition: Word | None = None
    predicate: Word | None = None

    def phrase(self, slot: str) -> Phrase | None:
        """Return the noun phrase of that slot, if there is one."""
        return {"subject": self.subject, "object": self.object, "place": self.place}.get(slot)

    @property
    def head(self) -> Phrase | None:
        """In a relative clause, the noun phrase it belongs to."""
        return self.phrase(self.frame.gap)


def order(clause: Clause) -> list[str]:
    """German constituent order: verb-second in main clauses, verb-final elsewhere; nicht before place and predicate."""
    early = clause.object is not None and clause.object.antecedent is not None
    middle = ["subject", "object", "adverb"] if early else ["subject", "adverb", "object"]
    middle += ["negation", "place", "predicate"]
    if clause.kind == "main":
        front = "before" if clause.before else clause.front
        return [front, "finite", *(name for name in middle if name != front), "rest", "after"]
    if clause.kind == "relative":
        gap = clause.frame.gap
        return ["relative", *(name for name in middle if name != gap), "rest", "finite", "after"]
    return ["conjunction", *middle, "rest", "finite", "after"]


class Mention(NamedTuple):
    """A noun phrase in its place: its clause, and the heads of the relative clauses that it stands in."""

    phrase: Phrase
    clause: Clause
    slot: str
    heads: tuple[Phrase, ...]


def mentions(clause: Clause, heads: tuple[Phrase, ...] = ()) -> Iterator[Mention]:
    """Yield all noun phrases of a clause and of the clauses in it, in German order."""
    if clause.head:
        heads = (*heads, clause.head)
    for name in order(clause):
        if name == "before" and clause.before:
            yield from mentions(clause.before, heads)
        elif name == "after" and clause.after:
            yield from mentions(clause.after, heads)
        elif phrase := clause.phrase(name):
            yield Mention(phrase, clause, name, heads)
            if phrase.relative:
                yield from mentions(phrase.relative, heads)


def clauses(clause: Clause) -> Iterator[Clause]:
    """Yield a clause and all clauses in it, each before those in it."""
    yield clause
    for phrase in (clause.subject, clause.object, clause.place):
        if phrase and phrase.relative and phrase is not clause.head:
            yield from clauses(phrase.relative)
    for inner in (clause.before, clause.after):
        if inner:
            yield from clauses(inner)
