"""Training steps with each mechanism, as a run makes them, against scaled dot: a table of `attention.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from measure import Table, Work, relative_times
from throughput import VOCABULARY, random_batches
from torch import Tensor, nn
from torch.nn import functional as F

from study.attention import Lengths
from study.config import experiment_from
from study.models import Translator, build
from study.models.translator import PAD
from study.training import sampling
from study.training.batches import Batch
from study.training.decode import token_nll
from study.training.task import penalties

ARMS: dict[str, list[str]] = {
    "score": [
        *("dot", "bilinear", "low_rank", "cosine", "additive", "concat", "concat_luong"),
        *("location", "uniform", "fixed_random"),
    ],
    "weights": ["sparsemax", "entmax15", "sigmoid", "identity", "identity_mean"],
    "reach": ["local_m", "local_p"],
    "cross.reach": ["hard"],
    "maps": ["tied", "tied_signed", "raw"],
    "combine": ["sum_own", "sum_shared", "mean_shared", "sum_wide"],
}
"""Field of the attention ↦ its values; the first is the one that all are compared with."""


def mechanisms(rounds: int) -> Table:
    """Training steps at the size of a minute's run, against scaled dot."""
    columns = {}
    for family in ("recurrent", "transformer"):
        works = {}
        for field, values in ARMS.items():
            for value in values:
                works[f"{field} {value}"] = training_step(family, {f"model.attention.{field}": value})
        columns[family] = relative_times(works, rounds)
    rows = [
        [*name.split(), *(number for family in columns for number in columns[family][name])]
        for name in columns["recurrent"]
    ]
    return Table(
        "mechanisms",
        "A training step with each mechanism",
        "Encoder, decoder, loss, backward pass, clipping and update at width 64 on batches of 2,000 tokens (recurrent: "
        "1 layer, luong decoder; transformer: 2 + 2 layers). All arms have 4 heads, separate maps, projected values "
        "and output, and differ from scaled dot in the one field; in the transformer at all sites (hard: at cross). "
        "Ratios to scaled dot, the first line.",
        ("field", "value", "recurrent, ms", "recurrent ×", "transformer, ms", "transformer ×"),
        rows,
    )


def training_step(family: str, fields: dict[str, Any]) -> Work:
    """One update on the next of a few batches."""
    base = {"heads": 4, "maps": "separate", "values": "projected", "output": "projected"}
    experiment = experiment_from(
        {"model.family": family, "model.width": 64},
        {f"model.attention.{name}": value for name, value in base.items()},
        fields,
    )
    vocabulary = VOCABULARY["embedded"]
    batches = random_batches(vocabulary, 2000, 4)
    longest = max(max(batch.source.shape[1], batch.given.shape[1]) for batch in batches)
    model = build(experiment.model, vocabulary, 1, Lengths(longest, longest))
    optimiser = torch.optim.Adam(model.parameters(), 1e-3, fused=True)
    following = cycled(batches)

    def step() -> None:
        optimiser.zero_grad()
        loss(model, next(following)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()

    return step


def cycled(batches: list[Batch]) -> Iterator[Batch]:
    """The batches for ever."""
    while True:
        yield from batches


def loss(model: Translator, batch: Batch) -> Tensor:
    """As the study's task has it."""
    encoded = model.encode(batch.source, batch.mask)
    output = model.decode(encoded, batch.given)
    terms = (*encoded.terms, *output.terms)
    value = F.cross_entropy(output.logits.flatten(0, 1), batch.wanted.flatten(), ignore_index=PAD) + penalties(terms)
    if sampling.samples(terms):
        log_p = -token_nll(output.logits.detach(), batch.wanted)
        value = value + sampling.surrogate(terms, log_p, batch.wanted != PAD, -1.0)
    return value
