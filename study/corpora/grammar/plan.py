"""Plans of sentences: which clauses, how nested, how long, and where the pronoun and its antecedent stand.

A plan fixes the exact number of words before any word is drawn, so lengths follow the wanted distribution and content
words stay independent of it and of each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from study.corpora.grammar.draw import Draw
from study.corpora.grammar.frames import Use, frames
from study.corpora.grammar.lexicon import Conjunction, Lexicon
from study.corpora.grammar.tree import Clause, Frame, Mention, Phrase, mentions

DASS = Conjunction("dass", "that")


class Part(NamedTuple):
    """A clause of a unit and the earlier clause, by number, that it belongs to."""

    role: Literal["main", "before", "after", "complement", "relative"]
    host: int = 0


def _shapes(*rows: str) -> list[tuple[Part, ...]]:
    """Shapes from their short form: "relative 0, after 1" is a relative clause in the main clause and one after it."""
    roles: dict[str, Literal["before", "after", "complement", "relative"]]
    roles = {"before": "before", "after": "after", "complement": "complement", "relative": "relative"}
    parts = [[part.split() for part in row.split(", ")] if row else [] for row in rows]
    return [(Part("main"), *(Part(roles[role], int(host)) for role, host in row)) for row in parts]


FLAT = _shapes(
    "",
    "after 0",
    "before 0",
    "complement 0",
    "relative 0",
    "relative 0, after 0",
    "relative 0, before 0",
    "relative 0, complement 0",
    "relative 0, relative 0",
)
"""Shapes of the training data: nothing is nested in a nested clause."""

DEEP = _shapes(
    "relative 0, relative 1",
    "after 0, relative 1",
    "before 0, relative 1",
    "complement 0, relative 1",
    "complement 0, complement 1",
    "complement 0, after 1",
    "before 0, complement 1",
    "relative 0, complement 1",
    "relative 0, relative 1, relative 2",
    "complement 0, relative 1, relative 2",
    "complement 0, complement 1, relative 2",
    "after 0, complement 1, relative 2",
)
"""Shapes nested two and three deep."""


@dataclass(frozen=True)
class Wish:
    """What a sentence should be like."""

    words: int
    shapes: Sequence[tuple[Part, ...]]
    units: int = 1
    """Coordinated main clauses."""
    pronoun: bool = False


@dataclass(frozen=True)
class Plan:
    """Coordinated units, the words between them, and the pronoun if there is one."""

    units: list[Clause]
    coordinators: list[str]
    pronoun: Mention | None = None


def plan(wish: Wish, lexicon: Lexicon, draw: Draw) -> Plan | None:
    """A plan of exactly the wanted length, or None if this draw led nowhere."""
    shapes = [draw.one(wish.shapes) for _ in range(wish.units)]
    uses = [use for shape in shapes for use in _uses(shape)]
    if wish.pronoun:
        chosen = draw.below(len(uses))
        uses[chosen] = uses[chosen]._replace(pronoun=True)
    lengths = _shares(wish.words - (wish.units - 1), [list(frames(use)) for use in uses], draw)
    if lengths is None:
        return None
    drawn = [draw.one(frames(use)[words]) for use, words in zip(uses, lengths, strict=True)]
    units = []
    for shape in shapes:
        unit = _tree(shape, drawn[: len(shape)], lexicon, draw)
        drawn = drawn[len(shape) :]
        if unit is None:
            return None
        units.append(unit)
    coordinators = [draw.one(("und", "aber")) for _ in units[1:]]
    return _with_pronoun(units, coordinators, draw) if wish.pronoun else Plan(units, coordinators)


def _uses(shape: tuple[Part, ...]) -> list[Use]:
    reporting = {part.host for part in shape if part.role == "complement"}
    return [
        Use("relative" if part.role == "relative" else "main" if part.role == "main" else "subordinate", i in reporting)
        for i, part in enumerate(shape)
    ]


def _shares(words: int, ranges: list[list[int]], draw: Draw) -> list[int] | None:
    """Words for each clause: everyone the least first, then one at a time to a clause that has room."""
    lengths = [allowed[0] for allowed in ranges]
    if not sum(lengths) <= words <= sum(allowed[-1] for allowed in ranges):
        return None
    for _ in range(words - sum(lengths)):
        lengths[draw.one([i for i, allowed in enumerate(ranges) if lengths[i] < allowed[-1]])] += 1
    return lengths


def _tree(shape: tuple[Part, ...], drawn: list[Frame], lexicon: Lexicon, draw: Draw) -> Clause | None:
    tree: list[Clause] = []
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
    found = [clause.phrase(slot) for slot, words in sizes if words > 1]
    return [phrase for phrase in found if phrase and not phrase.relative]


def _subordinate(part: Part, frame: Frame, host: Clause, lexicon: Lexicon, draw: Draw) -> Clause:
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
    """Whether a conjunction goes with the tenses of both clauses."""
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


def _with_pronoun(units: list[Clause], coordinators: list[str], draw: Draw) -> Plan | None:
    """Tie the pronoun to an antecedent that has at least one other noun between them."""
    found = [mention for unit in units for mention in mentions(unit)]
    at = next(i for i, m in enumerate(found) if _words(m) == 1)
    pronoun = found[at]
    earlier = [m for m in found[: max(0, at - 1)] if m.clause is not pronoun.clause and m.phrase not in pronoun.heads]
    host = next((unit for unit in units if unit.before is pronoun.clause), None)
    later = [m for m in found[at + 2 :] if host and m.clause is host and m.slot == "subject"]
    if not earlier + later:
        return None
    antecedent = draw.one(earlier + later).phrase
    pronoun.phrase.antecedent = antecedent
    antecedent.referent = True
    return Plan(units, coordinators, pronoun)


def _words(mention: Mention) -> int:
    frame = mention.clause.frame
    return {"subject": frame.subject, "object": frame.object, "place": frame.place}[mention.slot]
