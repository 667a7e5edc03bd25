"""A trained model as it was saved: its translations and word alignments, and the attention behind them."""

import io
from collections.abc import Iterable
from typing import NamedTuple

import torch

from study.attention import Lengths
from study.attention_map import Translation
from study.config import Experiment, experiment_from, plugins
from study.config.experiment import threads_for
from study.config.sites import READS
from study.corpora import Pair, load, words
from study.errors import InputError
from study.models import Translator, build
from study.models.search import beam_search
from study.models.translator import EOS, UNK
from study.training import checkpoint
from study.training.alignment import attention_map, choose, links, readings
from study.training.batches import Example, collate, examples
from study.training.vocabulary import Vocabulary, restore

LONGEST = 2000
"""Tokens of a sentence: time grows with the square of their number."""


class Trained(NamedTuple):
    """Content of a checkpoint."""

    experiment: Experiment
    vocabulary: Vocabulary
    model: Translator


def read(content: bytes, where: str) -> Trained:
    """Load a trained model on the CPU, in evaluation mode, and take as many threads as its training does.

    Args:
        content: of its file.
        where: what messages begin with.

    Raises:
        InputError: it is not a checkpoint that this version can read.
    """
    try:
        whole = checkpoint.load(io.BytesIO(content))
        plugins.remember(whole.get("mechanisms", ()))
        experiment = experiment_from(whole["config"])
        torch.set_num_threads(threads_for(experiment.model.width) or torch.get_num_threads())
        vocabulary = restore(experiment.data.tokens, whole["vocabulary"])
        model = build(experiment.model, len(vocabulary), experiment.seed, Lengths(**whole["lengths"]))
        checkpoint.cut_to(model, whole.get("kept", {}))
        model.load_state_dict(whole["state"])
    except InputError as problem:
        raise InputError(f"{where}: {problem}") from None
    except Exception:  # What a file that is something else can raise has no end.
        raise InputError(
            f"{where}: expected a model of this program, got another file. Name a run, or its model.pt."
        ) from None
    return Trained(experiment, vocabulary, model.eval())


def unknown(vocabulary: Vocabulary, sentence: str) -> dict[int, str]:
    """Return the tokens that the model sees as unknown: position ↦ the word as it is written."""
    written = [word for word, _, _ in words(sentence)]
    (ids,) = vocabulary.encode([sentence])
    return {i: written[word] for i, word in enumerate(vocabulary.words(sentence)) if ids[i] == UNK}


def translate(
    trained: Trained,
    sentence: str,
    beam: int | None = None,
    layer: int | None = None,
    site: str | None = None,
    head: int | None = None,
) -> Translation:
    """Translate a sentence by beam search, and read the attention of one site while the translation is given.

    Args:
        trained: the model.
        sentence: source text; runs of white space count as one blank.
        beam: beam width (default: as in the test of the run).
        layer: layer of the site to read, from 0 (default: the last).
        site: name of a site of the model (default: the one at which the target sees the source).
        head: head to read, from 0 (default: the mean over heads).

    Raises:
        InputError: the sentence is empty or too long, or the model has no such site, layer or head.
    """
    experiment, vocabulary, model = trained
    sentence = " ".join(sentence.split())
    if not sentence:
        raise InputError('sentence: expected words, got an empty text. Give one in quotes, such as "Ein Mann schläft."')
    names = list(dict.fromkeys(name for name, _, _ in model.sites()))
    aligning = model.site_reading("target")
    site = site or aligning
    if site not in (*names, aligning):  # a pruned model may have lost its cross-attention
        raise InputError(f"site: expected {' or '.join(names)}, got {site}.")
    if layers := {at: module for name, at, module in model.sites() if name == site}:
        _check_known("layer", layer, layers)
        _check_known("head", head, layers[max(layers) if layer is None else layer].kept)
    (source,) = vocabulary.encode([sentence])
    if len(source) > (most := min(LONGEST, (model.longest or LONGEST + 1) - 1)):
        raise InputError(f"sentence: expected at most {most} tokens, got {len(source)}. Shorten it.")
    batch = collate([Example(source, [], Pair(sentence, ""))])
    decoding = experiment.decoding
    beam = beam or decoding.beam
    (ids,) = beam_search(model, batch.source, batch.mask, beam=beam, length_penalty=decoding.length_penalty)
    text = vocabulary.decode(ids)
    read_as = [Example(source, ids, Pair(sentence, text))]
    attention = attention_map(model, read_as, vocabulary, layer, None, site, head)
    strange = unknown(vocabulary, sentence)
    tokens = [f"{strange[i]}?" if i in strange else token for i, token in enumerate(vocabulary.tokens([*source, EOS]))]
    queries, slots = READS[site]
    for side, read in (("source", "source" in slots), ("target", "target" not in queries)):
        if attention is not None and read:
            attention[side] = tokens
    return Translation(text, tokens, vocabulary.tokens([*ids, EOS]), attention)


def align(
    trained: Trained,
    pairs: Iterable[tuple[str, str]] | str | None = None,
    layer: int | None = None,
    head: int | None = None,
) -> tuple[int, list[set[tuple[int, int]]]]:
    """Link every target word of sentence pairs to the source word that it attends to most.

    Args:
        trained: the model. It reads both sentences (forced decoding).
        pairs: source and target sentences, or a split of the model's corpus (default: its first test split).
        layer: layer of cross-attention, from 0 (default: the one with the lowest alignment error on validation, or the
            last, if no correct links are known there).
        head: head, by its number before any pruning, from 0 (default: the mean over heads).

    Returns:
        The layer, and the links of each pair: source word and target word, both from 0. A pair that is too long for the
        model has none.

    Raises:
        InputError: no such split, layer or head, a corpus that cannot be read, or a memory without source tokens.
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
    found = readings(model, examples(given, vocabulary), vocabulary)
    if not found:
        memory = getattr(experiment.model, "memory", "states")
        got = f"{len(given)} pairs and memory {memory}"
        raise InputError(f"model: expected pairs, and heads of cross-attention over source tokens, got {got}.")
    _check_known("layer", layer, found)
    if layer is None:
        valid = examples(load(experiment.data).splits["valid"], vocabulary)
        choice = choose(readings(model, valid, vocabulary), valid)
        layer = choice.layer[0] if choice else max(found)
    kept = next(
        module.kept for site, at, module in model.sites() if (site, at) == (model.site_reading("target"), layer)
    )
    _check_known("head", head, kept)
    place = None if head is None else list(kept).index(head)
    return layer, [links(reading.of(place)) for reading in found[layer]]


def _check_known(name: str, value: int | None, known: Iterable[int]) -> None:
    """Refuse the number of a layer or head that a model does not have."""
    if value is not None and value not in (known := list(known)):
        raise InputError(f"{name}: expected one of {', '.join(map(str, known))}, got {value}.")
