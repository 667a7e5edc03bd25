"""Word alignments of sentence pairs by the cross-attention of a trained model, as `translate --align` prints them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from study.corpora import Pair, load
from study.errors import InputError
from study.training.alignment import Row, alignments, choose, error_floor, gold_of, links, table
from study.training.batches import examples
from study.training.translation import LONGEST, Trained


class WordLinks(NamedTuple):
    """Links of sentence pairs, and how right they are."""

    layer: int
    head: int | None
    """None: the mean over heads."""
    links: list[set[tuple[int, int]]]
    """Of each pair: source word and target word, both from 0. A pair that is too long for the model has none."""
    scores: list[Row]
    """By layer and head, if the correct links of all pairs are known."""
    floor: float
    """Lowest alignment error that one link for each target word can reach."""


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
    given = (
        []
        if pairs is None or isinstance(pairs, str)
        else [Pair(_plain(source), _plain(target)) for source, target in pairs]
    )
    corpus = None if given and layer is not None else load(trained.experiment.data)
    if corpus is not None and not given:
        split = str(pairs or corpus.tests[0])
        if split not in corpus.splits:
            raise InputError(f"split: expected {', '.join(corpus.splits)}, got {split}.")
        given = corpus.splits[split]
    for line, pair in enumerate(given, start=1):
        if max(pair.source.count(" "), pair.target.count(" ")) >= LONGEST:
            raise InputError(f"line {line}: expected at most {LONGEST} words, got more. Split it.")
    data = examples(given, trained.vocabulary)
    found = alignments(trained.model, data, trained.vocabulary)
    if not found:
        memory = trained.experiment.model.memory
        raise InputError(f"model: expected a memory of source tokens, got {memory}. Choose another run.")
    heads = range(len(next(iter(found.values()))[0].weights))
    for name, value, known in (("layer", layer, list(found)), ("head", head, heads)):
        if value is not None and value not in known:
            raise InputError(f"{name}: expected one of {', '.join(map(str, known))}, got {value}.")
    if layer is None and corpus is not None:
        valid = examples(corpus.splits["valid"], trained.vocabulary)
        choice = choose(alignments(trained.model, valid, trained.vocabulary), valid)
        layer = choice.layer if choice else max(found)
    assert layer is not None
    gold = gold_of(data)
    return WordLinks(
        layer,
        head,
        [links(reading.of(head)) for reading in found[layer]],
        table(found, gold) if gold is not None else [],
        error_floor(data, gold) if gold is not None else 0.0,
    )


def _plain(text: str) -> str:
    return " ".join(text.split())


def pharaoh(links: Collection[tuple[int, int]]) -> str:
    """One line: {(0, 0), (2, 1)} ↦ `0-0 2-1`."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))
