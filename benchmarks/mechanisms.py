"""Training steps with each mechanism, as a run makes them, against scaled dot: a table of `attention.py`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from measure import Table, Work, relative_times
from throughput import VOCABULARY, random_batches
from torch import Tensor, nn
from torch.nn import functional as F

from study.attention import Lengths
from study.config import Experiment, experiment_from
from study.models import Translator, build
from study.models.translator import PAD
from study.training import sampling
from study.training.batches import Batch
from study.training.decode import token_nll
from study.training.step import penalties

FIELDS: dict[str, list[str]] = {
    "score": [
        *("dot", "bilinear", "low_rank", "cosine", "additive", "concat", "concat_luong"),
        *("location", "uniform", "fixed_random"),
    ],
    "scale": ["learned"],
    "weights": ["sparsemax", "entmax15", "sigmoid", "identity", "identity_mean"],
    "reach": ["local_m", "local_p"],
    "cross.reach": ["hard"],
    "maps": ["tied", "tied_signed", "raw"],
    "combine": ["sum_own", "sum_shared", "mean_shared", "sum_wide"],
}
"""Field of the attention ↦ its values; the first is the one that all are compared with."""

FAMILIES = ("recurrent", "transformer")


class Arm(NamedTuple):
    """What differs from scaled dot, and in which families there is such a thing."""

    field: str
    value: str
    fields: dict[str, Any]
    families: Sequence[str] = FAMILIES
    unmapped: bool = False
    """Whether queries and keys are read by nothing, so that maps would be refused."""


ARMS = [
    *(
        Arm(field, value, {f"model.attention.{field}": value}, unmapped=value in ("uniform", "fixed_random"))
        for field, values in FIELDS.items()
        for value in values
    ),
    Arm("values, output", "raw", {"model.attention.values": "raw", "model.attention.output": "raw"}),
    Arm("equal_start", "true", {"model.attention.equal_start": True}),
    Arm(
        "exclude_self",
        "true",
        {f"model.attention.{site}.exclude_self": True for site in ("encoder_self", "decoder_self")},
        ("transformer",),
    ),
    Arm("memory", "structured", {"model.memory": "structured"}),
    Arm("memory", "final", {"model.memory": "final"}, unmapped=True),
    Arm("mixing", "convolution", {"model.mixing": "convolution"}, ("transformer",)),
    Arm("positions", "learned", {"model.positions": "learned"}, ("transformer",)),
    Arm("input_feeding", "true", {"model.input_feeding": True}, ("recurrent",)),
]


def mechanisms(rounds: int) -> Table:
    """Training steps at the size of a minute's run, against scaled dot."""
    columns = []
    for family in FAMILIES:
        works = {str(i): training_step(family, arm) for i, arm in enumerate(ARMS) if family in arm.families}
        columns.append(relative_times(works, rounds))
    rows = [
        [arm.field, arm.value, *(cell for times in columns for cell in times.get(str(i), (None, None)))]
        for i, arm in enumerate(ARMS)
    ]
    return Table(
        "mechanisms",
        "A training step with each mechanism",
        "Encoder, decoder, loss, backward pass, clipping and update at width 64 on batches of 2,000 tokens (recurrent: "
        "1 layer, luong decoder; transformer: 2 + 2 layers). All arms have 4 heads, separate maps, projected values "
        "and output, and differ from scaled dot in what is named; in the transformer at all sites (hard: at cross; "
        "exclude_self: at self-attention). Ratios to scaled dot, the first line; a dash where the family has no such "
        "thing.",
        ("field", "value", "recurrent, ms", "recurrent ×", "transformer, ms", "transformer ×"),
        rows,
    )


def experiment_of(family: str, arm: Arm) -> Experiment:
    """The arm in this family."""
    base = {"heads": 4, "maps": "separate", "values": "projected", "output": "projected"}
    if arm.unmapped:
        del base["maps"]
    return experiment_from(
        {"model.family": family, "model.width": 64},
        {f"model.attention.{name}": value for name, value in base.items()},
        arm.fields,
    )


def training_step(family: str, arm: Arm) -> Work:
    """One update on the next of a few batches."""
    experiment = experiment_of(family, arm)
    vocabulary = VOCABULARY["embedded"]
    batches = random_batches(vocabulary, 2000, 4)
    longest = max(max(batch.source.shape[1], batch.given.shape[1]) for batch in batches)
    return update(build(experiment.model, vocabulary, 1, Lengths(longest, longest)), batches)


def update(model: Translator, batches: list[Batch]) -> Work:
    """One update of the model on the next of these batches, and on the first after the last."""
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
