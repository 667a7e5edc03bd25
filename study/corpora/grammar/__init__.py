"""The embedded corpus: a seeded, versioned grammar of German→English sentence pairs with gold word alignments.

Raise the version (`Grammar.version`) whenever the same section would give other sentences.
"""

from study.corpora.grammar.generator import Grammar, generate

__all__ = ["Grammar", "generate"]
