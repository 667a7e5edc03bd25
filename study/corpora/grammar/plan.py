"""Plans of sentences: clauses, their nesting and lengths, and the places of a pronoun and its antecedent.

A plan fixes the exact number of words before any word is drawn. So lengths follow the wanted distribution, and content
words are independent of it and of each other.
"""

from dataclasses import dataclass
from typing import Literal

from study.corpora.grammar.draw import Draw
from study.corpora.grammar.frames import frames
from study.corpora.grammar.lexicon import Conjunction, Lexicon
from study.corpora.grammar.shapes import ClauseShape, Outline, Shape, outlines, shares
from study.corpora.grammar.tree import Clause, Frame, Mention, Phrase, mentions

DASS = Conjunction("dass", "that")
SHORTEST = 4
"""Words of a unit."""


@dataclass(frozen=True)
class Wish:
    """Wanted properties of a sentence."""

    words: int
    units: int = 1
    """Number of coordinated main clauses, each with the clauses nested in it."""
    deep: bool = False
    pronoun: bool = False
    neutral: bool = False
    """True if a human and a thing are both possible antecedents."""


@dataclass(frozen=True)
class Plan:
    """Coordinated units, the words between them, and the pronoun if there is one."""

    units: list[Clause]
    coordinators: list[str]
    pronoun: Phrase | None = None


def plan(wish: Wish, words: Lexicon, draw: Draw) -> Plan | None:
    """Return a plan of exactly the wanted length, or None if this draw gave none."""
    lengths = shares(wish.words - (wish.units - 1), [(SHORTEST, wish.words)] * wish.units, draw)
    chosen = draw.below(wish.units) if wish.pronoun else -1
    units = []
    for i, length in enumerate(lengths):
        possible = outlines(length, wish.deep, i == chosen, i == 0)
        unit = _unit(draw.one(possible), length, words, draw) if possible else None
        if unit is None:
            return None
        units.append(unit)
    coordinators = [draw.one(("und", "aber")) for _ in units[1:]]
    return _with_pronoun(units, coordinators, wish.neutral, draw) if wish.pronoun else Plan(units, coordinators)


def _unit(outline: Outline, length: int, words: Lexicon, draw: Draw) -> Clause | None:
    ranges = [frames(use) for use in outline.uses]
    lengths = shares(length, [(min(allowed), max(allowed)) for allowed in ranges], draw)
    drawn = [draw.one(draw.one(allowed[n])) for allowed, n in zip(ranges, lengths, strict=True)]
    return _tree(outline.shape, drawn, words, draw)


def _tree(shape: Shape, drawn: list[Frame], lexicon: Lexicon, draw: Draw) -> Clause | None:
    tree = []
    for part, frame in zip(shape, drawn, strict=True):
        if part.role == "main":
            tree.append(_main(frame, draw))
        elif part.role == "relative":
            hosts = _hosts(tree[part.host])
            if not hosts:
                return None
            head = draw.one(hosts)
            head.relative = _clause("relative", frame, head)
            tree.append(head.relative)
        else:
            tree.append(_subordinate(part, frame, tree[part.host], lexicon, draw))
    return tree[0]


def _main(frame: Frame, draw: Draw) -> Clause:
    clause = _clause("main", frame)
    if clause.place and draw.chance(0.3):
        clause.front = "place"
    elif frame.adverb and draw.chance(0.4):
        clause.front = "adverb"
    elif frame.object > 1 and draw.chance(0.25):
        clause.front = "object"
    return clause


def _clause(kind: Literal["main", "subordinate", "relative"], frame: Frame, head: Phrase | None = None) -> Clause:
    phrases = {
        slot: head if slot == frame.gap else Phrase(words == 3) if words else None
        for slot, words in (("subject", frame.subject), ("object", frame.object), ("place", frame.place))
    }
    subject = phrases["subject"]
    assert subject is not None
    return Clause(kind, frame, subject, phrases["object"], phrases["place"])


def _hosts(clause: Clause) -> list[Phrase]:
    """Noun phrases that can still take a relative clause."""
    sizes = (("subject", clause.frame.subject), ("object", clause.frame.object), ("place", clause.frame.place))
    hosts = [clause.phrase(slot) for slot, words in sizes if words > 1]
    return [phrase for phrase in hosts if phrase and not phrase.relative]


def _subordinate(part: ClauseShape, frame: Frame, host: Clause, lexicon: Lexicon, draw: Draw) -> Clause:
    clause = _clause("subordinate", frame)
    if part.role == "complement":
        clause.conjunction = DASS
    else:
        clause.conjunction = draw.one([c for c in lexicon.conjunctions if _allows(c, host.frame, frame)])
    if part.role == "before":
        host.before = clause
        host.front = "subject"
    else:
        host.after = clause
    return clause


def _allows(conjunction: Conjunction, host: Frame, inner: Frame) -> bool:
    """Return True if a conjunction fits the tenses of both clauses."""
    if conjunction.plain and (inner.negated or inner.valency == "copula"):
        return False
    match conjunction.tense:
        case "same":
            return host.perfect == inner.perfect
        case "present":
            return not host.perfect and not inner.perfect
        case "perfect":
            return host.perfect and inner.perfect
    return True


def _with_pronoun(units: list[Clause], coordinators: list[str], neutral: bool, draw: Draw) -> Plan | None:
    """Tie the pronoun to an antecedent that has at least one other noun between them."""
    antecedents = [mention for unit in units for mention in mentions(unit)]
    at = next(i for i, mention in enumerate(antecedents) if _words(mention) == 1)
    pronoun = antecedents[at]
    if neutral and not _takes_things(pronoun):
        return None
    candidates = [
        m for m in antecedents[: max(0, at - 1)] if m.clause is not pronoun.clause and m.phrase not in pronoun.heads
    ]
    host = next((unit for unit in units if unit.before is pronoun.clause), None)
    candidates += [m for m in antecedents[at + 2 :] if host and m.clause is host and m.slot == "subject"]  # cataphora
    candidates = [m for m in candidates if _takes_things(m) or not neutral]
    if not candidates:
        return None
    antecedent = draw.one(candidates).phrase
    pronoun.phrase.antecedent, antecedent.referent = antecedent, True
    pronoun.phrase.neutral = antecedent.neutral = neutral
    return Plan(units, coordinators, pronoun.phrase)


def _takes_things(mention: Mention) -> bool:
    """Return True if a thing fits there: as an object, a place, or the subject of a verb that takes things."""
    frames = [mention.clause.frame] if mention.slot == "subject" else []
    if mention.phrase.relative and mention.phrase.relative.frame.gap == "subject":
        frames.append(mention.phrase.relative.frame)
    return all(frame.valency in ("intransitive", "copula") for frame in frames)


def _words(mention: Mention) -> int:
    frame = mention.clause.frame
    return {"subject": frame.subject, "object": frame.object, "place": frame.place}[mention.slot]
