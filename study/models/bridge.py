"""Bridge from encoder to decoder: the memory that the decoder reads, and its initial state. Source side only.

B batch · S source tokens · D width of the states · r annotations · U hidden width.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from study.attention import Terms
from study.attention.part import Part
from study.attention.weighting import softmax, to_float32, without_autocast
from study.config import Recurrent as RecurrentConfig
from study.models.translator import lengths


def masked_mean(states: Tensor, mask: Tensor) -> Tensor:
    """Mean over tokens that are not padding: [B, S, D] → [B, D]."""
    return (states * mask[..., None]).sum(1) / lengths(mask).clamp(min=1)[:, None]


def last(states: Tensor, mask: Tensor) -> Tensor:
    """The state of the last token that is not padding: [B, S, D] → [B, D]."""
    return states[torch.arange(len(states), device=states.device), lengths(mask) - 1]


class Slots(NamedTuple):
    """Slots that a memory offers to attention."""

    states: Tensor
    """[B, S', D]."""
    mask: Tensor
    """[B, S']."""
    origin: Tensor | None = None
    """[B, S', S]: the share of each token in a slot; None where slots are the tokens, or come from no token alone."""
    terms: Terms = Terms()


class SourceMemory(Part):
    """A memory: encoder states [B, S, D], final state [B, D] and mask [B, S] → slots.

    Args:
        width: D.
        options: those of its row.
    """

    axis = "memory"

    def __init__(self, width: int, **options: float) -> None:
        super().__init__()

    def forward(self, states: Tensor, final: Tensor, mask: Tensor) -> Slots:
        """`final` is what the family calls its final state."""
        raise NotImplementedError


class States(SourceMemory):
    """All encoder states (Bahdanau et al. 2015)."""

    name = "states"

    def forward(self, states: Tensor, final: Tensor, mask: Tensor) -> Slots:
        return Slots(states, mask)


class Final(SourceMemory):
    """The final state, one slot (Sutskever et al. 2014)."""

    name = "final"

    def forward(self, states: Tensor, final: Tensor, mask: Tensor) -> Slots:
        return Slots(final[:, None], mask[:, :1])


class Mean(SourceMemory):
    """The mean of the states, one slot."""

    name = "mean"

    def forward(self, states: Tensor, final: Tensor, mask: Tensor) -> Slots:
        return Slots(masked_mean(states, mask)[:, None], mask[:, :1])


class Max(SourceMemory):
    """The largest of each component over tokens that are not padding, one slot."""

    name = "max"

    def forward(self, states: Tensor, final: Tensor, mask: Tensor) -> Slots:
        return Slots(states.masked_fill(~mask[..., None], float("-inf")).amax(1, keepdim=True), mask[:, :1])


class Empty(SourceMemory):
    """No slot: a zero context."""

    name = "empty"

    def forward(self, states: Tensor, final: Tensor, mask: Tensor) -> Slots:
        return Slots(states[:, :0], mask[:, :0])


class Structured(SourceMemory):
    """r annotations M = A H of the states H, A = softmax(W_2 tanh(W_1 Hᵀ)) over tokens (Lin et al. 2017).

    W_1 is U × D and W_2 is r × U, without biases. λ‖AAᵀ − I‖²_F, the mean over sentences, is added to the loss: it
    asks for annotations that look at different tokens, and cannot reach 0 in a sentence of fewer than r.
    """

    name = "structured"

    def __init__(self, width: int, *, annotations: int, annotation_width: int, penalty: float) -> None:
        super().__init__(width)
        self.penalty = penalty
        self.inner = nn.Linear(width, annotation_width, bias=False)
        self.outer = nn.Linear(annotation_width, annotations, bias=False)

    def annotate(self, states: Tensor, mask: Tensor) -> Tensor:
        """A: [B, r, S], in float32."""
        return softmax(self.outer(torch.tanh(self.inner(states))).transpose(1, 2), mask[:, None])

    def forward(self, states: Tensor, final: Tensor, mask: Tensor) -> Slots:
        annotation = self.annotate(states, mask)
        visible = mask.any(1, keepdim=True).expand(annotation.shape[:2])
        terms = Terms(penalty=self.penalty * redundancy(annotation)) if self.penalty else Terms()
        return Slots(annotation.to(states.dtype) @ states, visible, annotation, terms)


def redundancy(annotation: Tensor) -> Tensor:
    """‖AAᵀ − I‖²_F of annotations [B, r, S], the mean over sentences."""
    with without_autocast(annotation.device):
        exact = to_float32(annotation)
        overlap = exact @ exact.transpose(1, 2)
        away = overlap - torch.eye(overlap.shape[-1], device=overlap.device, dtype=overlap.dtype)
        return away.square().sum((1, 2)).mean()


def initial_vectors(
    config: RecurrentConfig, bridges: nn.ModuleList, states: Tensor, final: Tensor, mask: Tensor, count: int
) -> list[Tensor]:
    """The `count` vectors [B, D] of the decoder's initial state, that of each layer and of each part of a cell's state.

    Args:
        config: of the model.
        bridges: a linear map for each vector, if the initial state is mapped.
        states: [B, S, D] of the encoder.
        final: [B, D], its final state.
        mask: [B, S].
        count: number of vectors.
    """
    match config.init:
        case "final":
            return [torch.tanh(bridge(final)) for bridge in bridges]
        case "mean":
            return [torch.tanh(bridge(masked_mean(states, mask))) for bridge in bridges]
        case "zero":
            return [final.new_zeros(len(final), config.width)] * count
        case "direct":
            return [final] * count
    raise AssertionError(config.init)
