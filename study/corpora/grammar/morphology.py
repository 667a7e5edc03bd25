"""Inflection: German determiners, adjectives, nouns, pronouns and verbs, and the regular English forms."""

from collections.abc import Sequence
from functools import cache
from typing import Literal

from study.corpora.corpus import Pair, words
from study.corpora.grammar.lexicon import Determiner, Gender, Noun, Verb

Case = Literal["nominative", "accusative", "dative"]

_ENDINGS: dict[Case, dict[str, str]] = {
    "nominative": {"m": "er", "f": "e", "n": "es", "pl": "e"},
    "accusative": {"m": "en", "f": "e", "n": "es", "pl": "e"},
    "dative": {"m": "em", "f": "er", "n": "em", "pl": "en"},
}
_ARTICLES = {"er": "der", "e": "die", "es": "das", "en": "den", "em": "dem"}
PRONOUNS: dict[Case, dict[Gender, str]] = {
    "nominative": {"m": "er", "f": "sie", "n": "es"},
    "accusative": {"m": "ihn", "f": "sie", "n": "es"},
}
_PERSONAL: dict[Case, dict[Gender, str]] = {
    "nominative": {"m": "he", "f": "she", "n": "it"},
    "accusative": {"m": "him", "f": "her", "n": "it"},
}
AUXILIARIES = {"haben": ("hat", "haben"), "sein": ("ist", "sind")}
"""Finite forms, singular and plural."""


def _bare(gender: Gender, case: Case, plural: bool) -> bool:
    """Return True if "ein" has no ending, so that the adjective carries it (mixed declension)."""
    return not plural and case in (
        ("nominative", "accusative") if gender == "n" else ("nominative",) if gender == "m" else ()
    )


@cache
def determiner(word: Determiner, gender: Gender, case: Case, plural: bool) -> str:
    """Return the article or the like, agreeing in gender, number and case."""
    ending = _ENDINGS[case]["pl" if plural else gender]
    if word.de == "der":
        return _ARTICLES[ending]
    if word.de == "ein":
        return "ein" if _bare(gender, case, plural) else "ein" + ending
    return word.de.removesuffix("er") + ending


@cache
def adjective(word: str, after: str, gender: Gender, case: Case, plural: bool) -> str:
    """Return an attributive adjective: weak declension, and mixed after "ein"."""
    if after == "ein" and _bare(gender, case, plural):
        return word + _ENDINGS[case][gender]
    upright = case == "nominative" or (case == "accusative" and gender != "m")
    return word + ("e" if upright and not plural else "en")


def noun(word: Noun, case: Case, plural: bool) -> str:
    """Return a noun in its case; the dative plural ends in n."""
    if not plural:
        return word.plural if word.weak and case != "nominative" else word.de
    return word.plural + "n" if case == "dative" and not word.plural.endswith(("n", "s")) else word.plural


def relative(gender: Gender, case: Case, plural: bool) -> str:
    """Return the relative pronoun, in the cases where it looks like the article."""
    return _ARTICLES[_ENDINGS[case]["pl" if plural else gender]]


def without_pronouns(pairs: Sequence[Pair]) -> list[bool]:
    """Return True for each pair whose source has no personal pronoun of the third person (er, ihn, sie, es).

    The translation of such a sentence follows from the sentence alone: no antecedent has to be found.
    """
    forms = {form for cases in PRONOUNS.values() for form in cases.values()}
    return [forms.isdisjoint(form.lower() for form, _, _ in words(pair.source)) for pair in pairs]


def english_pronoun(antecedent: Noun, case: Case) -> str:
    """Return the translation of a pronoun. German uses the antecedent's gender, English its meaning."""
    return _PERSONAL[case][antecedent.gender] if antecedent.human else "it"


@cache
def finite(verb: Verb, plural: bool) -> str:
    """Third person present, without its separable prefix."""
    if plural:
        return verb.de
    stem = verb.de.removesuffix("en")
    return verb.sg or stem + ("et" if stem.endswith(("t", "d")) else "t")


@cache
def participle(verb: Verb) -> str:
    """Return the past participle, "ge" behind a separable prefix: angesehen."""
    stem = verb.de.removesuffix("en")
    return verb.prefix + (verb.participle or f"ge{stem}" + ("et" if stem.endswith(("t", "d")) else "t"))


def _y(word: str) -> bool:
    return word.endswith("y") and word[-2] not in "aeiou"


def _s(word: str) -> str:
    if _y(word):
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "z", "ch", "sh")) else "s")


@cache
def english_noun(word: Noun, plural: bool) -> list[str]:
    """Return the words of an English noun; a German compound may have two."""
    if not plural:
        return word.en.split()
    return (word.en_plural or _s(word.en)).split()


@cache
def english_verb(verb: Verb, form: Literal["base", "s", "past"]) -> str:
    """Return the verb itself, without its particle."""
    base = verb.en.replace("|", " ").split()[0]
    if form == "base":
        return base
    if form == "s":
        return _s(base)
    return verb.past or (base[:-1] + "ied" if _y(base) else base + ("d" if base.endswith("e") else "ed"))


def english_particle(verb: Verb) -> list[str]:
    """Words that follow the verb: at in "look at", up in "pick up"."""
    return verb.en.replace("|", " ").split()[1:]
