"""Weights: mask, then normalise, in float32 whatever the precision. The only mask and the only normalisers.

e scores [B, H, L, S] · mask broadcastable to them, True where a slot is visible · S_t number of slots visible to query
t. Every normaliser gives 0 to hidden slots, and a row of zeros to a query that sees none.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import entmax
import torch
from torch import Tensor

from study.config import Attention as Config

Normaliser = Callable[[Tensor, Tensor], Tensor]


def precise(x: Tensor) -> Tensor:
    """In float32, or float64 where it is that already."""
    return x if x.dtype == torch.float64 else x.float()


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Every product in the precision of its factors. Tensors without data have no autocast to turn off."""
    return nullcontext() if device.type == "meta" else torch.autocast(device.type, enabled=False)


def unmask_empty(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Rows with nothing to attend to, and a mask that a softmax can take: those rows are opened.

    Such a row would be NaN under −∞ and a mean over padding under a large negative number: it is opened before
    the softmax, and zeroed after it by the caller.

    Args:
        mask: [B, 1, L, S], True where a slot is visible.

    Returns:
        The opened mask [B, 1, L, S] and the empty rows [B, 1, L, 1].
    """
    empty = ~mask.any(-1, keepdim=True)
    return mask | empty, empty


def softmax(logits: Tensor, mask: Tensor) -> Tensor:
    """exp(e) / Σ exp(e) (Bahdanau et al. 2015)."""
    opened, empty = unmask_empty(mask)
    weights = precise(logits).masked_fill(~opened, float("-inf")).softmax(-1)
    return weights.masked_fill(empty, 0.0)


def sparsemax(logits: Tensor, mask: Tensor) -> Tensor:
    """[e − τ]₊ with τ such that the weights sum to 1: the projection on the simplex (Martins and Astudillo 2016)."""
    return _sparse(entmax.sparsemax, logits, mask)


def entmax15(logits: Tensor, mask: Tensor) -> Tensor:
    """[e/2 − τ]₊² with τ such that the weights sum to 1 (Peters et al. 2019, α = 1.5)."""
    return _sparse(entmax.entmax15, logits, mask)


def _sparse(transform: Callable[..., Tensor], logits: Tensor, mask: Tensor) -> Tensor:
    """The transform raises on rows that are empty or not finite: the former are opened, the latter become NaN."""
    if not logits.shape[-1]:
        return precise(logits)
    opened, empty = unmask_empty(mask)
    scores = precise(logits)
    broken = (~scores.isfinite() & opened).any(-1, keepdim=True)
    scores = scores.masked_fill(~opened, float("-inf"))
    weights = transform(scores.masked_fill(broken | empty, 0.0), dim=-1)
    return weights.masked_fill(broken, float("nan")).masked_fill(empty, 0.0)


def sigmoid(logits: Tensor, mask: Tensor) -> Tensor:
    """σ(e − ln S_t): each slot by itself, the row summing to about 1 at e = 0 (Ramapuram et al. 2024)."""
    return torch.sigmoid(precise(logits) - _visible(mask, logits).log()).masked_fill(~mask, 0.0)


def identity(logits: Tensor, mask: Tensor) -> Tensor:
    """The scores themselves, of any sign."""
    return precise(logits).masked_fill(~mask, 0.0)


def identity_mean(logits: Tensor, mask: Tensor) -> Tensor:
    """Scores / S_t: the context is a mean over slots of score × value."""
    return identity(logits, mask) / _visible(mask, logits)


def _visible(mask: Tensor, like: Tensor) -> Tensor:
    """S_t, at least 1: [B, 1, L, 1]."""
    return mask.sum(-1, keepdim=True).clamp(min=1).to(precise(like).dtype)


class Weights(NamedTuple):
    """A normaliser and what is to be known of it."""

    normalise: Normaliser
    formula: str
    sums_to_one: bool = True
    """The rows are distributions, so that they have an entropy."""
    softmax: bool = False
    """The Jacobian of a row a is diag(a) − a aᵀ."""
    fusable: bool = False


def build_weights(config: Config) -> Weights:
    """From scores to weights, as a site declares."""
    match config.weights:
        case "softmax":
            return Weights(softmax, "softmax(e)", softmax=True, fusable=True)
        case "sparsemax":
            return Weights(sparsemax, "[e − τ]₊")
        case "entmax15":
            return Weights(entmax15, "[e/2 − τ]₊²")
        case "sigmoid":
            return Weights(sigmoid, "σ(e − ln S)", sums_to_one=False)
        case "identity":
            return Weights(identity, "e", sums_to_one=False)
        case "identity_mean":
            return Weights(identity_mean, "e / S", sums_to_one=False)
