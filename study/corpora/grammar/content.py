"""Content words for a plan: drawn independently of each other, within what grammar asks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from study.corpora.grammar.draw import Draw
from study.corpora.grammar.lexicon import Gender, Lexicon, Noun, Verb
from study.corpora.grammar.plan import Plan
from study.corpora.grammar.tree import Clause, Mention, Phrase, clauses, mentions

PLURAL = 0.25
"""Share of plurals where number is free."""
TRIES = 20


def fill(plan: Plan, words: Lexicon, draw: Draw) -> bool:
    """Draw all words of a plan; False if no draw of nouns made every inverted order plain."""
    found = [clause for unit in plan.units for clause in clauses(unit)]
    noun_phrases = [mention for unit in plan.units for mention in mentions(unit)]
    for clause in found:
        _predicates(clause, words, draw)
    if plan.pronoun:
        antecedent = _antecedent(plan.pronoun)
        antecedent.being = max(antecedent.being, plan.pronoun.phrase.being)
    for mention in noun_phrases:
        _modifiers(mention, words, draw)
    for _ in range(TRIES):
        _nouns(plan, noun_phrases, words, draw)
        if all(map(_plain, found)):
            return True
    return False


def _antecedent(pronoun: Mention) -> Phrase:
    assert pronoun.phrase.antecedent is not None
    return pronoun.phrase.antecedent


def _predicates(clause: Clause, words: Lexicon, draw: Draw) -> None:
    """Verb or predicate adjective, adverb and preposition; the verb says what its subject must be."""
    frame = clause.frame
    if frame.valency == "copula":
        clause.predicate = draw.one(words.adjectives)
    else:
        clause.verb = draw.one(_verbs(words, clause))
        clause.subject.being = max(clause.subject.being, clause.verb.subject)
    if frame.adverb:
        clause.adverb = draw.one(words.adverbs)
    if frame.place:
        clause.preposition = draw.one(words.prepositions)


def _verbs(words: Lexicon, clause: Clause) -> tuple[Verb, ...]:
    frame = clause.frame
    match frame.valency:
        case "reporting":
            return words.reporting
        case "transitive":
            verbs = words.transitive
        case _:
            verbs = words.intransitive
    if clause.kind == "main" and not frame.perfect:
        return _separable(verbs, frame.separated)
    return verbs


@cache
def _separable(verbs: tuple[Verb, ...], wanted: bool) -> tuple[Verb, ...]:
    return tuple(verb for verb in verbs if bool(verb.prefix) == wanted)


def _modifiers(mention: Mention, words: Lexicon, draw: Draw) -> None:
    """Determiner, adjective and number; only definite objects are negated, and places are singular."""
    phrase, clause, slot, _ = mention
    choice = words.determiners
    if slot == "object" and clause.frame.negated:
        choice = choice[:1]
    phrase.determiner = draw.one(choice) if draw.chance(0.6) else choice[0]
    phrase.adjective = draw.one(words.adjectives) if phrase.attributive else None
    free = slot != "place" and not phrase.referent and phrase.antecedent is None and phrase.determiner.en_plural
    phrase.plural = bool(free) and draw.chance(PLURAL)


def _nouns(plan: Plan, noun_phrases: Sequence[Mention], words: Lexicon, draw: Draw) -> None:
    """Draw the nouns, the antecedent first: no other noun may have its gender, nor be plural where it is "sie"."""
    taken: Gender | None = None
    if plan.pronoun:
        antecedent = _antecedent(plan.pronoun)
        antecedent.noun = draw.one(_selection(words.nouns, antecedent.being, None))
        taken = antecedent.noun.gender
    for phrase, *_ in noun_phrases:
        if phrase.antecedent is None and not phrase.referent:
            phrase.noun = draw.one(_selection(words.nouns, phrase.being, taken))
            phrase.plural = phrase.plural and taken != "f"


@cache
def _selection(nouns: tuple[Noun, ...], being: int, without: Gender | None) -> tuple[Noun, ...]:
    return tuple(noun for noun in nouns if noun.being >= being and noun.gender != without)


def _plain(clause: Clause) -> bool:
    """Whether no noun occurs twice and an inverted order is plain by its forms: case or number shows the subject."""
    phrases = [p for p in (clause.subject, clause.object, clause.place) if p and not p.antecedent]
    if len({p.noun.de for p in phrases}) < len(phrases):
        return False
    inverted = clause.frame.gap == "object" or (clause.kind == "main" and clause.front == "object")
    if not inverted or clause.object is None:
        return True
    subject, complement = clause.subject, clause.object
    if subject.plural != complement.plural:
        return True
    return not subject.plural and "m" in (subject.gender, complement.gender)
