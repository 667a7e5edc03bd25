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
from study.config import AttentionConfig, Experiment, experiment_from
from study.config.mechanisms import AXES, MEMORY
from study.models import Translator, build
from study.models.translator import PAD
from study.training.batches import Batch
from study.training.decode import token_nll
from study.training.step import has_samples, penalties, surrogate_loss

FAMILIES = ("recurrent", "transformer")
BASE = {"heads": 4, "maps": "separate", "values": "projected", "output": "projected"}
"""Fields of the attention that all arms share, unless they mean nothing in an arm."""


class Arm(NamedTuple):
    """Fields that differ from scaled dot, and the families that have them."""

    field: str
    value: str
    fields: dict[str, Any]
    families: Sequence[str] = FAMILIES
    without: tuple[str, ...] = ()
    """Fields of `BASE` that would be refused."""


def alternatives() -> Iterator[Arm]:
    """Every score, then every other value of every axis of the table of mechanisms."""
    for axis in ("score", "scale", "weights", "reach", "maps", "combine", "logits", "norm"):
        for value, row in AXES[axis].items():
            if axis == "score" or value != getattr(DOT, axis):
                field = f"cross.{axis}" if getattr(row, "cross_only", "") else axis
                without = ("maps",) if getattr(row, "content_free", False) else ()
                score = {"model.attention.score": "elu_kernel"} if getattr(row, "positive", False) else {}
                yield Arm(field, value, score | {f"model.attention.{field}": value}, without=without)
    yield Arm("values, output", "raw", {"model.attention.values": "raw", "model.attention.output": "raw"})
    yield Arm("equal_start", "true", {"model.attention.equal_start": True})
    selves = {f"model.attention.{site}.exclude_self": True for site in ("encoder_self", "decoder_self")}
    yield Arm("exclude_self", "true", selves, ("transformer",))
    for memory, row in [*MEMORY.items()][1:]:
        without = () if row.slots is None else ("maps",) if row.slots else tuple(BASE)
        yield Arm("memory", memory, {"model.memory": memory}, row.families, without)
    for axis in ("mixing", "positions"):
        for value in [*AXES[axis]][1:]:
            yield Arm(axis, value, {f"model.{axis}": value}, ("transformer",))
    yield Arm("input_feeding", "true", {"model.input_feeding": True}, ("recurrent",))


DOT = AttentionConfig(**BASE).resolved(64, 64)
"""Scaled dot, which all arms are compared with."""
ARMS = list(alternatives())


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
        "1 layer, luong decoder; transformer: 2 + 2 layers). All arms have 4 heads, separate QK projections, projected "
        "values and output, and differ from scaled dot in what is named; in the transformer at all sites (hard: at "
        "cross; exclude_self: at self-attention). Ratios to scaled dot, the first line; a dash where the family has "
        "no such thing.",
        ("field", "value", "recurrent, ms", "recurrent ×", "transformer, ms", "transformer ×"),
        rows,
    )


def experiment_of(family: str, arm: Arm) -> Experiment:
    """The arm in this family."""
    return experiment_from(
        {"model.family": family, "model.width": 64},
        {f"model.attention.{name}": value for name, value in BASE.items() if name not in arm.without},
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
    if has_samples(terms):
        log_p = -token_nll(output.logits.detach(), batch.wanted)
        value = value + surrogate_loss(terms, log_p, batch.wanted != PAD, -1.0)
    return value
