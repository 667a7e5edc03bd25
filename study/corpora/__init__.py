"""Sentence pairs with, where they are known, gold word alignments. No torch, no model, no subwords."""

from study.corpora.corpus import Contrast, Corpus, Link, Pair, Section, load
from study.corpora.text import mean_words, words

__all__ = ["Contrast", "Corpus", "Link", "Pair", "Section", "load", "mean_words", "words"]
