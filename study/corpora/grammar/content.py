"""Content words for a plan, drawn independently of each other where grammar allows it."""

from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import TypeVar

from study.corpora.grammar.draw import Draw
from study.corpora.grammar.lexicon import Determiner, Gender, Lexicon, Noun, Verb
from study.corpora.grammar.plan import Plan
from study.corpora.grammar.tree import Clause, Mention, Phrase, clauses, mentions

PLURAL = 0.25
"""Share of plurals if the number is free."""
TRIES = 20
"""Draws of all nouns of a sentence before its plan is given up."""
REDRAWS = 6
"""Draws of a word before a repetition is accepted."""

Item = TypeVar("Item")


def fill(plan: Plan, words: Lexicon, draw: Draw) -> bool:
    """Draw all words of a plan. Return False if every draw of nouns left an inverted order ambiguous."""
    filled = [list(clauses(unit)) for unit in plan.units]
    noun_phrases = [list(mentions(unit)) for unit in plan.units]
    for unit in filled:
        _predicates(unit, words, draw)
    if plan.pronoun:
        antecedent = _antecedent(plan.pronoun)
        antecedent.being = max(antecedent.being, plan.pronoun.being)
    for mention in chain(*noun_phrases):
        _modifiers(mention, words, draw)
    for _ in range(TRIES):
        _nouns(plan, noun_phrases, words, draw)
        if all(map(_plain, chain(*filled))):
            return True
    return False


def _antecedent(pronoun: Phrase) -> Phrase:
    assert pronoun.antecedent is not None
    return pronoun.antecedent


def _fresh(items: Sequence[Item], used: set[Item], draw: Draw) -> Item:
    """An item that its unit does not have yet, if a few draws find one: nobody says "the man who sleeps sleeps"."""
    item = draw.one(items)
    for _ in range(REDRAWS):
        if item not in used:
            break
        item = draw.one(items)
    used.add(item)
    return item


def _predicates(unit: Sequence[Clause], words: Lexicon, draw: Draw) -> None:
    """Verb or predicate adjective, adverb and preposition; the verb says what its subject must be."""
    used: set[Verb] = set()
    for clause in unit:
        frame = clause.frame
        if frame.valency == "copula":
            clause.predicate = draw.one(words.adjectives)
        else:
            clause.verb = _fresh(_verbs(words, clause), used, draw)
            clause.subject.being = max(clause.subject.being, clause.verb.subject)
        if frame.adverb:
            clause.adverb = draw.one(words.adverbs)
        if frame.place:
            clause.preposition = draw.one(words.prepositions)


def _verbs(words: Lexicon, clause: Clause) -> tuple[Verb, ...]:
    """Verbs of the right valency; with a prefix at the end or without one, where that makes the clause's length."""
    frame = clause.frame
    if frame.valency == "reporting":
        return words.reporting
    separated = frame.separated if clause.kind == "main" and not frame.perfect else None
    return _lexical(words, frame.valency == "transitive", separated, clause.subject.neutral)


@cache
def _lexical(words: Lexicon, transitive: bool, separated: bool | None, neutral: bool) -> tuple[Verb, ...]:
    verbs = words.transitive if transitive else words.intransitive
    return tuple(
        verb for verb in verbs if separated in (None, bool(verb.prefix)) and not (neutral and verb.subject > 0)
    )


def _modifiers(mention: Mention, words: Lexicon, draw: Draw) -> None:
    """Determiner, adjective and number; only definite objects are negated, and places are singular."""
    phrase, clause, slot, _ = mention
    choice = _determiners(words, slot == "object" and clause.frame.negated, clause.frame.negated or phrase.referent)
    phrase.determiner = draw.one(choice) if draw.chance(0.6) else choice[0]
    if phrase.attributive:
        taken = {clause.predicate} if clause.predicate else set()
        phrase.adjective = _fresh(words.adjectives, taken, draw)
    free = slot != "place" and not phrase.referent and phrase.antecedent is None and phrase.determiner.en_plural
    phrase.plural = bool(free) and draw.chance(PLURAL)


@cache
def _determiners(words: Lexicon, definite: bool, referring: bool) -> tuple[Determiner, ...]:
    return tuple(d for d in words.determiners if (d.en_plural or not definite) and not (d.quantifier and referring))


def _nouns(plan: Plan, units: Sequence[Sequence[Mention]], words: Lexicon, draw: Draw) -> None:
    """Draw the nouns, the antecedent first: no other noun may have its gender, nor be plural where it is "sie"."""
    taken: Gender | None = None
    if plan.pronoun:
        antecedent = _antecedent(plan.pronoun)
        antecedent.noun = draw.one(_selection(words, antecedent.being, None))
        taken = antecedent.noun.gender
    for unit in units:
        used: set[Noun] = set()
        for phrase, *_ in unit:
            if phrase.antecedent is None and not phrase.referent:
                phrase.noun = _fresh(_selection(words, phrase.being, taken), used, draw)
                phrase.plural = phrase.plural and taken != "f"


@cache
def _selection(words: Lexicon, being: int, without: Gender | None) -> tuple[Noun, ...]:
    return tuple(noun for noun in words.nouns if noun.being >= being and noun.gender != without)


def _plain(clause: Clause) -> bool:
    """Return True if no noun repeats, and case or number shows the subject where word order does not."""
    subject, complement = clause.subject, clause.object
    nouns = [p.noun for p in (subject, complement, clause.place) if p and not p.antecedent]
    if len(set(nouns)) < len(nouns):
        return False
    if complement is None or not _order_misleads(clause, complement):
        return True
    if subject.plural != complement.plural:
        return True
    return not subject.plural and "m" in (subject.gender, complement.gender)


def _order_misleads(clause: Clause, complement: Phrase) -> bool:
    """Return True if an object comes before its subject, or "das Kamel, das sie sucht" might be either."""
    if clause.kind == "relative":
        return clause.frame.gap == "object" or complement.antecedent is not None
    return clause.kind == "main" and clause.front == "object"
