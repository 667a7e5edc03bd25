"""The embedded corpus: a seeded, versioned grammar of German→English sentence pairs with gold word alignments.

Raise the version (`Grammar.version`) whenever the same section would give other sentences.
"""

from study.corpora.grammar.generator import Grammar, generate
from study.corpora.grammar.morphology import without_pronouns

__all__ = ["Grammar", "generate", "without_pronouns"]
