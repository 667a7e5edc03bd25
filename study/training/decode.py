"""From a model to hypotheses, forced scores and alignments, in the order of the data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from study.models import Translator
from study.models.search import beam_search
from study.models.translator import PAD
from study.training.batches import Batch, Example, collate, in_order
from study.training.vocabulary import Vocabulary

BUDGET = 4000


def batches(data: Sequence[Example], device: torch.device, budget: int = BUDGET) -> Iterator[tuple[list[int], Batch]]:
    """Evaluation batches and the indices of their examples."""
    for chosen in in_order(data, budget):
        yield chosen, collate([data[i] for i in chosen]).to(device)


def translate(
    model: Translator, data: Sequence[Example], vocabulary: Vocabulary, beam: int, length_penalty: float
) -> list[str]:
    """Hypotheses by beam search, in the order of the data."""
    out = [""] * len(data)
    device = next(model.parameters()).device
    for chosen, batch in batches(data, device, max(1, BUDGET * 2 // beam)):
        limit = 2 * batch.source.shape[1] + 10
        found = beam_search(model, batch.source, batch.mask, beam=beam, length_penalty=length_penalty, limit=limit)
        for i, ids in zip(chosen, found, strict=True):
            out[i] = vocabulary.decode(ids)
    return out


@torch.no_grad()
def forced_nll(model: Translator, data: Sequence[Example]) -> Tensor:
    """Unsmoothed −log p(target | source) of each pair, in nats, EOS counted: [len(data)], on the CPU."""
    out = torch.zeros(len(data))
    for chosen, batch in batches(data, next(model.parameters()).device):
        logits = model.decode(model.encode(batch.source, batch.mask), batch.given).logits
        out[torch.tensor(chosen)] = token_nll(logits, batch.wanted).sum(1).cpu()
    return out


def token_nll(logits: Tensor, wanted: Tensor) -> Tensor:
    """−log p of each wanted token, 0 on padding: [B, L]."""
    return F.cross_entropy(logits.transpose(1, 2), wanted, ignore_index=PAD, reduction="none")
