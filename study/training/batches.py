"""Batches: length-bucketed, sized by tokens, and a function of (seed, step), so that resuming is exact.

Also sizes that a corpus gives a model, and the check of windows against its lengths.

B batch · S source tokens · L target tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from study.attention import Lengths
from study.config import Data, Model
from study.config.mechanisms import REACH
from study.config.sites import READS
from study.corpora import Corpus, Pair, load
from study.errors import InputError
from study.models.cost import Sizes
from study.models.search import most_tokens
from study.models.translator import BOS, EOS, PAD
from study.training.vocabulary import Vocabulary, vocabulary_for


@dataclass(frozen=True)
class Example:
    """A tokenised pair and what it was."""

    source: list[int]
    target: list[int]
    pair: Pair

    @property
    def length(self) -> int:
        """Tokens of the longer side, EOS counted."""
        return max(len(self.source), len(self.target)) + 1


Examples = Sequence[Example]


def sentence_lengths(data: Examples) -> Lengths:
    """Lengths of the sentences of both languages, end-of-sentence counted."""
    sizes = [len(side) + 1 for example in data for side in (example.source, example.target)]
    return Lengths(max(sizes), int(np.percentile(sizes, 97.5, method="higher")))


class Batch(NamedTuple):
    """A padded batch. `given` starts with BOS and `wanted` ends with EOS; both are [B, L]."""

    source: Tensor
    mask: Tensor
    given: Tensor
    wanted: Tensor

    def to(self, device: torch.device) -> Batch:
        """The batch on a device."""
        return Batch(*(tensor.to(device, non_blocking=True) for tensor in self))


class Share(NamedTuple):
    """One rank's rows of a batch, and what weighs a mean over them.

    Averaged over the ranks, the weighted means are those of the whole batch: loss and gradient of a step do not depend
    on how many devices share it, up to rounding.
    """

    batch: Batch
    tokens: Tensor | float
    """Ranks × the share of the batch's target tokens."""
    sentences: float
    """Ranks × the share of its sentences."""


def share(batch: Batch, rank: int, ranks: int) -> Share:
    """Take every `ranks`-th row from `rank` on, padded as the batch is. A rank without rows takes one of weight 0."""
    if ranks == 1:
        return Share(batch, 1.0, 1.0)
    rows = len(batch.source)
    if rank >= rows:
        return Share(Batch(*(tensor[:1] for tensor in batch)), 0.0, 0.0)
    mine = Batch(*(tensor[rank::ranks] for tensor in batch))
    tokens = ranks * (mine.wanted != PAD).sum() / (batch.wanted != PAD).sum()
    return Share(mine, tokens, ranks * len(mine.source) / rows)


def examples(pairs: Sequence[Pair], vocabulary: Vocabulary) -> list[Example]:
    """Tokenise."""
    sources = vocabulary.encode([pair.source for pair in pairs])
    targets = vocabulary.encode([pair.target for pair in pairs])
    return [Example(*row) for row in zip(sources, targets, pairs, strict=True)]


def collate(chosen: Examples) -> Batch:
    """Pad to the longest. Sources end with EOS."""
    source = _padded([[*example.source, EOS] for example in chosen])
    given = _padded([[BOS, *example.target] for example in chosen])
    wanted = _padded([[*example.target, EOS] for example in chosen])
    return Batch(source, source != PAD, given, wanted)


def _padded(rows: list[list[int]]) -> Tensor:
    """Return rows as a tensor with PAD after the shorter ones. `torch.tensor` is slow for lists."""
    columns = list(zip_longest(*rows, fillvalue=PAD))
    return torch.from_numpy(np.ascontiguousarray(np.array(columns, np.int64).T))


def epoch(lengths: np.ndarray, budget: int, seed: int, number: int) -> list[np.ndarray]:
    """The batches of one epoch, as indices.

    Pairs are shuffled, sorted by length within pools of a hundred batches or so (ties stay shuffled), cut where
    pairs × longest pair would pass the budget, and the batches shuffled.
    """
    random = np.random.default_rng((seed, number))
    order = random.permutation(len(lengths))
    pool = max(1, 100 * budget // max(1, int(lengths.mean())))
    batches = []
    for start in range(0, len(order), pool):
        part = order[start : start + pool]
        part = part[np.argsort(lengths[part], kind="stable")]
        batches += _cut(part, lengths, budget)
    random.shuffle(batches)
    return batches


def _cut(order: np.ndarray, lengths: np.ndarray, budget: int) -> list[np.ndarray]:
    """Cut where pairs × longest pair would pass the budget; a pair that passes it alone is a batch of its own."""
    batches, start, longest = [], 0, 0
    for end, i in enumerate(order):
        longest = max(longest, int(lengths[i]))
        if end > start and (end + 1 - start) * longest > budget:
            batches.append(order[start:end])
            start, longest = end, int(lengths[i])
    return [*batches, order[start:]] if len(order) else []


class Steps:
    """The training batches from a step on, epoch after epoch. Batch t is the same wherever one starts."""

    def __init__(self, data: Examples, budget: int, seed: int, first: int, last: int) -> None:
        self.data, self.budget, self.seed, self.first, self.last = data, budget, seed, first, last
        self.lengths = np.array([example.length for example in data])

    def __iter__(self) -> Iterator[Batch]:
        step, number = 0, 0
        while True:
            for chosen in epoch(self.lengths, self.budget, self.seed, number):
                if step >= self.last:
                    return
                if step >= self.first:
                    yield collate([self.data[i] for i in chosen])
                step += 1
            number += 1


def in_order(data: Examples, budget: int) -> list[list[int]]:
    """Batches for evaluation: all examples once, sorted by source length, as indices."""
    order = sorted(range(len(data)), key=lambda i: (len(data[i].source), i))
    lengths = np.array([example.length for example in data])
    return [list(map(int, part)) for part in _cut(np.array(order), lengths, budget)]


def sizes_of(train: Examples, vocabulary: int) -> Sizes:
    """The sizes that go with a training split; S and L are its mean lengths, rounded."""
    source = sum(len(example.source) + 1 for example in train) / len(train)
    target = sum(len(example.target) + 1 for example in train) / len(train)
    return Sizes(vocabulary, sentence_lengths(train), round(source), round(target))


def sizes_for(data: Data, model: Model | None = None) -> Sizes:
    """The sizes of the corpus that a data section declares.

    Raises:
        InputError: the corpus cannot be read, or `check_windows` refuses the model.
    """
    corpus = load(data)
    vocabulary = vocabulary_for(data, corpus)
    if model is not None:
        check_windows(model, corpus, vocabulary)
    return sizes_of(examples(corpus.splits["train"], vocabulary), len(vocabulary))


def check_windows(model: Model, corpus: Corpus, vocabulary: Vocabulary) -> None:
    """Refuse a window that hides no slot of any sentence: its function has an identity already, that of a wider reach.

    A query and a slot are at most S − 1 apart where there are S slots. Slots of the target are the tokens that search
    may write.

    Raises:
        InputError: such a window.
    """
    local = {name: site for name, site in model.attention.present.items() if REACH[site.reach].covering}
    if not local:
        return
    pairs = [pair for split in corpus.splits.values() for pair in split]
    data = examples([*pairs, *(Pair(half.source, half.right) for half in corpus.contrasts)], vocabulary)
    source = max(len(example.source) + 1 for example in data)
    target = max(most_tokens(source), *(len(example.target) + 1 for example in data))
    longest = {"source": source, "target": target}
    for name, site in local.items():
        slots = sum(longest[language] for language in READS[name].slots)
        if (site.window or 0) >= slots - 1:
            wider = REACH[site.reach].covering
            raise InputError(
                f"model.attention.{name}.window: expected less than {slots - 1}, got {site.window}. No sequence at "
                f"this site has more than {slots} tokens in {corpus.name}, so reach {site.reach} would be {wider}. Use "
                f"a smaller window, or reach {wider}."
            )
