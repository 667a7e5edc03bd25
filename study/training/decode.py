"""Decode with a model: hypotheses, forced scores and alignments, in the order of the data."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from study.models import Translator
from study.models.search import beam_search
from study.models.translator import PAD
from study.training.batches import Batch, Example, Examples, collate, in_order
from study.training.vocabulary import Vocabulary

BUDGET = 4000


def fits(model: Translator, example: Example) -> bool:
    """Return True if source and target, with end-of-sentence, are within the model's limit."""
    return model.longest is None or example.length <= model.longest


def fitting(
    model: Translator, data: Examples, budget: int = BUDGET, forced: bool = True
) -> Iterator[tuple[list[int], Batch]]:
    """Batches of the examples within the model's limit: of both sides, or of the source alone where it translates."""
    limit = model.longest
    sizes = (example.length if forced else len(example.source) + 1 for example in data)
    inside = [i for i, size in enumerate(sizes) if limit is None or size <= limit]
    device = next(model.parameters()).device
    for order in in_order([data[i] for i in inside], budget):
        chosen = [inside[i] for i in order]
        yield chosen, collate([data[i] for i in chosen]).to(device)


def translate(model: Translator, data: Examples, vocabulary: Vocabulary, beam: int, length_penalty: float) -> list[str]:
    """Translate by beam search, in the order of the data. A source beyond the model's limit has an empty one."""
    out = [""] * len(data)
    for chosen, batch in fitting(model, data, max(1, BUDGET * 2 // beam), forced=False):
        found = beam_search(model, batch.source, batch.mask, beam=beam, length_penalty=length_penalty)
        for i, ids in zip(chosen, found, strict=True):
            out[i] = vocabulary.decode(ids)
    return out


def forced_nll(model: Translator, data: Examples) -> Tensor:
    """Unsmoothed −log p(target | source) of each pair, in nats, EOS counted: [len(data)], on the CPU.

    NaN for a pair beyond the model's limit.
    """
    return tempered_nll(model, data, (1.0,))[:, 0]


@torch.no_grad()
def tempered_nll(model: Translator, data: Examples, temperatures: Sequence[float]) -> Tensor:
    """Return `forced_nll` with logits that are divided by each temperature: [len(data), len(temperatures)]."""
    out = torch.full((len(data), len(temperatures)), float("nan"))
    for chosen, batch in fitting(model, data):
        logits = model.decode(model.encode(batch.source, batch.mask), batch.given).logits
        losses = [token_nll(logits / divisor, batch.wanted).sum(1) for divisor in temperatures]
        out[torch.tensor(chosen)] = torch.stack(losses, dim=1).cpu()
    return out


def token_nll(logits: Tensor, wanted: Tensor) -> Tensor:
    """−log p of each wanted token, 0 on padding: [B, L]."""
    return F.cross_entropy(logits.transpose(1, 2), wanted, ignore_index=PAD, reduction="none")
