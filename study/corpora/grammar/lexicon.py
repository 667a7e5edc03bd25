"""The lexicon: the typed entries of `lexicon.toml`, in a small and in a large selection.

Entries are compared by identity: each is made once.
"""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

Gender = Literal["m", "f", "n"]


@dataclass(frozen=True, eq=False)
class Noun:
    """A noun with the facts that decide its pronoun: German gender, and the kind of being."""

    de: str
    plural: str
    gender: Gender
    being: int
    en: str
    en_plural: str = ""
    weak: bool = False
    """Weak declension: every singular case but the nominative looks like the plural."""

    @property
    def human(self) -> bool:
        """Return True if the English pronoun is he or she."""
        return self.being == 2


@dataclass(frozen=True, eq=False)
class Verb:
    """A verb of any valency. Forms that rules derive are empty."""

    de: str
    en: str
    prefix: str = ""
    sg: str = ""
    participle: str = ""
    aux: Literal["haben", "sein"] = "haben"
    past: str = ""
    subject: int = 0
    """The least being that can be its subject."""


@dataclass(frozen=True, eq=False)
class Word:
    """A word that needs no more than its two sides: adjectives, prepositions."""

    de: str
    en: str


@dataclass(frozen=True, eq=False)
class Adverb:
    """An adverb of time or place; an early one stands before the English verb."""

    de: str
    en: str
    early: bool = False


@dataclass(frozen=True, eq=False)
class Determiner:
    """An article or a word inflected like one; without an English plural it is indefinite, and singular only."""

    de: str
    en: str
    en_plural: str = ""
    quantifier: bool = False
    """Whether negation and pronouns of other clauses stay out of its reach."""


@dataclass(frozen=True, eq=False)
class Conjunction:
    """A subordinating conjunction, with what it asks of the two clauses."""

    de: str
    en: str
    tense: Literal["any", "same", "present", "perfect"] = "any"
    plain: bool = False


@dataclass(frozen=True, eq=False)
class Lexicon:
    """All words that may be drawn."""

    nouns: tuple[Noun, ...]
    adjectives: tuple[Word, ...]
    adverbs: tuple[Adverb, ...]
    prepositions: tuple[Word, ...]
    conjunctions: tuple[Conjunction, ...]
    determiners: tuple[Determiner, ...]
    intransitive: tuple[Verb, ...]
    transitive: tuple[Verb, ...]
    reporting: tuple[Verb, ...]


@cache
def lexicon(name: Literal["small", "large"]) -> Lexicon:
    """Return the lexicon of that name, from the file beside this module."""
    tables = tomllib.loads(Path(__file__).with_name("lexicon.toml").read_text(encoding="utf-8"))
    kinds = {"nouns": Noun, "adverbs": Adverb, "conjunctions": Conjunction, "determiners": Determiner}
    kinds |= {"adjectives": Word, "prepositions": Word}
    entries = {}
    for table, rows in tables.items():
        kept = [dict(row) for row in rows if row.pop("small", False) or name == "large"]
        entries[table] = tuple(kinds.get(table, Verb)(**row) for row in kept)
    return Lexicon(**entries)
