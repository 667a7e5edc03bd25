"""Weights from scores: mask, then normalise, always in float32. All masks and normalisers of the project are here.

e scores [B, H, L, S] · mask broadcastable to them, True where a slot is visible · S_t number of slots visible to query
t. Every normaliser gives 0 to hidden slots, and a row of zeros to a query that sees none.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import entmax
import torch
from torch import Tensor

from study.attention.part import Part
from study.config import Attention as Config


def to_float32(x: Tensor) -> Tensor:
    """Return the tensor in float32; a float64 tensor stays float64."""
    return x if x.dtype == torch.float64 else x.float()


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Compute every product in the precision of its factors. Tensors without data have no autocast to turn off."""
    on = device.type != "meta" and torch.is_autocast_enabled(device.type)
    return torch.autocast(device.type, enabled=False) if on else nullcontext()


def unmask_empty(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return a mask without empty rows, and the rows that were empty.

    A softmax over an empty row would be NaN with −∞, and a mean over padding with a large negative number. So the mask
    of such a row is opened before the softmax, and the caller sets its weights to zero afterwards.

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
    weights = to_float32(logits).masked_fill(~opened, float("-inf")).softmax(-1)
    return weights.masked_fill(empty, 0.0)


def _sparse(transform: Callable[..., Tensor], logits: Tensor, mask: Tensor) -> Tensor:
    """Apply a transform that raises on rows that are empty or not finite: open the former, set the latter to NaN."""
    if not logits.shape[-1]:
        return to_float32(logits)
    opened, empty = unmask_empty(mask)
    scores = to_float32(logits)
    broken = (~scores.isfinite() & opened).any(-1, keepdim=True)
    scores = scores.masked_fill(~opened, float("-inf"))
    weights = transform(scores.masked_fill(broken | empty, 0.0), dim=-1)
    return weights.masked_fill(broken, float("nan")).masked_fill(empty, 0.0)


def _visible(mask: Tensor, like: Tensor) -> Tensor:
    """S_t, at least 1: [B, 1, L, 1]."""
    return mask.sum(-1, keepdim=True).clamp(min=1).to(to_float32(like).dtype)


class Weighting(Part):
    """A normaliser, as a site has it."""

    axis = "weights"
    fusable = False
    """Torch's fused kernel computes it."""

    def forward(self, logits: Tensor, mask: Tensor) -> Tensor:
        """Scores e [B, H, L, S] and mask → weights [B, H, L, S] in float32."""
        raise NotImplementedError


class Softmax(Weighting):
    """exp(e) / Σ exp(e) (Bahdanau et al. 2015)."""

    name = "softmax"
    fusable = True

    def forward(self, logits: Tensor, mask: Tensor) -> Tensor:
        return softmax(logits, mask)


class Sparsemax(Weighting):
    """[e − τ]₊ with τ such that the weights sum to 1: the projection on the simplex (Martins and Astudillo 2016)."""

    name = "sparsemax"

    def forward(self, logits: Tensor, mask: Tensor) -> Tensor:
        return _sparse(entmax.sparsemax, logits, mask)


class Entmax15(Weighting):
    """[e/2 − τ]₊² with τ such that the weights sum to 1 (Peters et al. 2019, α = 1.5)."""

    name = "entmax15"

    def forward(self, logits: Tensor, mask: Tensor) -> Tensor:
        return _sparse(entmax.entmax15, logits, mask)


class Sigmoid(Weighting):
    """σ(e − ln S_t): each slot by itself, the row summing to about 1 at e = 0 (Ramapuram et al. 2024)."""

    name = "sigmoid"

    def forward(self, logits: Tensor, mask: Tensor) -> Tensor:
        return torch.sigmoid(to_float32(logits) - _visible(mask, logits).log()).masked_fill(~mask, 0.0)


class Identity(Weighting):
    """The scores themselves, with their signs."""

    name = "identity"

    def forward(self, logits: Tensor, mask: Tensor) -> Tensor:
        return to_float32(logits).masked_fill(~mask, 0.0)


class IdentityMean(Identity):
    """Scores / S_t: the context is a mean over slots of score × value."""

    name = "identity_mean"

    def forward(self, logits: Tensor, mask: Tensor) -> Tensor:
        return super().forward(logits, mask) / _visible(mask, logits)


def build_weights(config: Config) -> Weighting:
    """Build the normaliser that a site declares."""
    return Weighting.named(config.weights)()
