"""What a corpus decides of a model's size and cost."""

from __future__ import annotations

from collections.abc import Sequence

from study.config import Data
from study.corpora import load
from study.models.cost import Sizes
from study.training.batches import Example, examples, sentence_lengths
from study.training.vocabulary import vocabulary_for


def sizes_of(train: Sequence[Example], vocabulary: int) -> Sizes:
    """The sizes that go with a training split; S and L are its mean lengths, rounded."""
    source = sum(len(example.source) + 1 for example in train) / len(train)
    target = sum(len(example.target) + 1 for example in train) / len(train)
    return Sizes(vocabulary, sentence_lengths(train), round(source), round(target))


def sizes_for(data: Data) -> Sizes:
    """The sizes of the corpus that a data section declares.

    Raises:
        InputError: the corpus cannot be read.
    """
    corpus = load(data)
    vocabulary = vocabulary_for(data, corpus)
    return sizes_of(examples(corpus.splits["train"], vocabulary), len(vocabulary))
