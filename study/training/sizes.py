"""Sizes that a corpus gives a model and its cost, and the windows that it leaves without a function of their own."""

from __future__ import annotations

from collections.abc import Sequence

from study.config import Data, Recurrent, Transformer
from study.config.mechanisms import REACH
from study.corpora import Corpus, Pair, load
from study.errors import InputError
from study.models.cost import Sizes
from study.models.search import most_tokens
from study.training.batches import Example, examples, sentence_lengths
from study.training.vocabulary import Vocabulary, vocabulary_for


def sizes_of(train: Sequence[Example], vocabulary: int) -> Sizes:
    """The sizes that go with a training split; S and L are its mean lengths, rounded."""
    source = sum(len(example.source) + 1 for example in train) / len(train)
    target = sum(len(example.target) + 1 for example in train) / len(train)
    return Sizes(vocabulary, sentence_lengths(train), round(source), round(target))


def sizes_for(data: Data, model: Recurrent | Transformer | None = None) -> Sizes:
    """The sizes of the corpus that a data section declares.

    Raises:
        InputError: the corpus cannot be read, or `check_windows` refuses the model.
    """
    corpus = load(data)
    vocabulary = vocabulary_for(data, corpus)
    if model is not None:
        check_windows(model, corpus, vocabulary)
    return sizes_of(examples(corpus.splits["train"], vocabulary), len(vocabulary))


def check_windows(model: Recurrent | Transformer, corpus: Corpus, vocabulary: Vocabulary) -> None:
    """Refuse a window that hides no slot of any sentence: its function has an identity already, that of a wider reach.

    A query and a slot are at most S − 1 apart where there are S slots. In the decoder's self-attention S counts the
    tokens that search may write.

    Raises:
        InputError: such a window.
    """
    sites = {name: site for name in type(model.attention).model_fields if (site := getattr(model.attention, name))}
    local = {name: site for name, site in sites.items() if REACH[site.reach].covering}
    if not local:
        return
    pairs = [pair for split in corpus.splits.values() for pair in split]
    data = examples([*pairs, *(Pair(half.source, half.right) for half in corpus.contrasts)], vocabulary)
    source = max(len(example.source) + 1 for example in data)
    target = max(most_tokens(source), *(len(example.target) + 1 for example in data))
    for name, site in local.items():
        slots = target if name == "decoder_self" else source
        if site.window >= slots - 1:
            wider = REACH[site.reach].covering
            raise InputError(
                f"model.attention.{name}.window: expected less than {slots - 1}, got {site.window}. No sequence at "
                f"this site has more than {slots} tokens in {corpus.name}, so reach {site.reach} would be {wider}; use "
                f"a smaller window, or reach {wider}"
            )
