"""What the decoder may look at: all encoder states, annotations of them, one slot, or nothing. Source side only.

B batch · S source tokens · D width of the states · r annotations · U hidden width.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from study.attention import Terms
from study.attention.weighting import precise, softmax, without_autocast
from study.config import Recurrent as RecurrentConfig
from study.config import Transformer as TransformerConfig
from study.models.translator import lengths


def masked_mean(states: Tensor, mask: Tensor) -> Tensor:
    """Mean over tokens that are not padding: [B, S, D] → [B, D]."""
    return (states * mask[..., None]).sum(1) / lengths(mask).clamp(min=1)[:, None]


def masked_max(states: Tensor, mask: Tensor) -> Tensor:
    """The largest value of each component over tokens that are not padding: [B, S, D] → [B, D]."""
    return states.masked_fill(~mask[..., None], float("-inf")).amax(1)


def last(states: Tensor, mask: Tensor) -> Tensor:
    """The state of the last token that is not padding: [B, S, D] → [B, D]."""
    return states[torch.arange(len(states), device=states.device), lengths(mask) - 1]


class Slots(NamedTuple):
    """What a memory offers to attention."""

    states: Tensor
    """[B, S', D]."""
    mask: Tensor
    """[B, S']."""
    origin: Tensor | None = None
    """[B, S', S]: the share of each token in a slot; None where slots are the tokens, or come from no token alone."""
    terms: Terms = Terms()


class Plain(nn.Module):
    """A memory without parameters: all states, one slot, or none."""

    FORMULAS = {
        "states": "h_1 … h_S",
        "final": "h_final, one slot",
        "mean": "1/S Σ_s h_s, one slot",
        "max": "max_s h_s by component, one slot",
        "empty": "no slot: a zero context",
    }

    def __init__(self, memory: str) -> None:
        super().__init__()
        self.memory = memory
        self.formula = self.FORMULAS[memory]

    def forward(self, states: Tensor, final: Tensor, mask: Tensor) -> Slots:
        """States [B, S, D], what the family calls its final state [B, D], mask [B, S] → S, 1 or 0 slots."""
        match self.memory:
            case "states":
                return Slots(states, mask)
            case "final":
                return Slots(final[:, None], mask[:, :1])
            case "mean":
                return Slots(masked_mean(states, mask)[:, None], mask[:, :1])
            case "max":
                return Slots(masked_max(states, mask)[:, None], mask[:, :1])
            case "empty":
                return Slots(states[:, :0], mask[:, :0])
        raise AssertionError(self.memory)


class Structured(nn.Module):
    """r annotations M = A H of the states H, A = softmax(W_2 tanh(W_1 Hᵀ)) over tokens (Lin et al. 2017).

    W_1 is U × D and W_2 is r × U, without biases. λ‖AAᵀ − I‖²_F, the mean over sentences, is added to the loss: it
    asks for annotations that look at different tokens, and cannot reach 0 in a sentence of fewer than r.
    """

    formula = "M = A [h_1 … h_S], A = softmax(W_2 tanh(W_1 h))"

    def __init__(self, width: int, hidden: int, annotations: int, penalty: float) -> None:
        super().__init__()
        self.penalty = penalty
        self.inner = nn.Linear(width, hidden, bias=False)
        self.outer = nn.Linear(hidden, annotations, bias=False)

    def annotate(self, states: Tensor, mask: Tensor) -> Tensor:
        """A: [B, r, S], in float32."""
        return softmax(self.outer(torch.tanh(self.inner(states))).transpose(1, 2), mask[:, None])

    def forward(self, states: Tensor, final: Tensor, mask: Tensor) -> Slots:
        """States [B, S, D] and their mask [B, S] → r slots."""
        annotation = self.annotate(states, mask)
        visible = mask.any(1, keepdim=True).expand(annotation.shape[:2])
        terms = Terms(penalty=self.penalty * redundancy(annotation)) if self.penalty else Terms()
        return Slots(annotation.to(states.dtype) @ states, visible, annotation, terms)


def redundancy(annotation: Tensor) -> Tensor:
    """‖AAᵀ − I‖²_F of annotations [B, r, S], the mean over sentences."""
    with without_autocast(annotation.device):
        precisely = precise(annotation)
        overlap = precisely @ precisely.transpose(1, 2)
        away = overlap - torch.eye(overlap.shape[-1], device=overlap.device, dtype=overlap.dtype)
        return away.square().sum((1, 2)).mean()


def build_memory(config: RecurrentConfig | TransformerConfig, width: int) -> nn.Module:
    """The memory that a model declares, over encoder states of `width`."""
    match config.memory:
        case "structured":
            assert config.annotations is not None
            assert config.annotation_width is not None
            assert config.penalty is not None
            return Structured(width, config.annotation_width, config.annotations, config.penalty)
        case _:
            return Plain(config.memory)
