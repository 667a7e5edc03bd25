"""Word alignments of sentence pairs by the cross-attention of a trained model, as `translate --align` prints them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from study.corpora import Pair, load
from study.errors import InputError
from study.training import alignment
from study.training.batches import examples
from study.training.translation import LONGEST, Trained, check_known


class WordLinks(NamedTuple):
    """Links of sentence pairs."""

    layer: int
    head: int | None
    """None: the mean over heads."""
    links: list[set[tuple[int, int]]]
    """Of each pair: source word and target word, both from 0. A pair that is too long for the model has none."""


def align(
    trained: Trained,
    pairs: Iterable[tuple[str, str]] | str | None = None,
    layer: int | None = None,
    head: int | None = None,
) -> WordLinks:
    """Link every target word of sentence pairs to the source word that it attends to most.

    Args:
        trained: the model. It reads both sentences (forced decoding).
        pairs: source and target sentences, or a split of the model's corpus (default: its first test split).
        layer: layer of cross-attention, from 0 (default: the one with the lowest alignment error on validation, or the
            last, if no correct links are known there).
        head: head, from 0 (default: the mean over heads).

    Raises:
        InputError: there is no such split, layer or head, the corpus cannot be read, the memory has no source tokens,
            or a sentence is too long.
    """
    experiment, vocabulary, model = trained
    if pairs is None or isinstance(pairs, str):
        corpus = load(experiment.data)
        split = pairs or corpus.tests[0]
        if split not in corpus.splits:
            raise InputError(f"split: expected {', '.join(corpus.splits)}, got {split}.")
        given = corpus.splits[split]
    else:
        given = [Pair(" ".join(source.split()), " ".join(target.split())) for source, target in pairs]
    for line, pair in enumerate(given, start=1):
        if max(pair.source.count(" "), pair.target.count(" ")) >= LONGEST:
            raise InputError(f"line {line}: expected at most {LONGEST} words, got more. Split it.")
    data = examples(given, vocabulary)
    found = alignment.readings(model, data, vocabulary)
    if not found:
        memory = experiment.model.memory
        raise InputError(f"model: expected a memory of source tokens, got {memory}. Choose another run.")
    check_known("layer", layer, found)
    check_known("head", head, range(len(next(iter(found.values()))[0].weights)))
    if layer is None:
        valid = examples(load(experiment.data).splits["valid"], vocabulary)
        choice = alignment.choose(alignment.readings(model, valid, vocabulary), valid)
        layer = choice.layer[0] if choice else max(found)
    return WordLinks(layer, head, [alignment.links(reading.of(head)) for reading in found[layer]])


def pharaoh(links: Collection[tuple[int, int]]) -> str:
    """Return one line: {(0, 0), (2, 1)} ↦ `0-0 2-1`."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))
