"""Weights from scores: mask, then normalise, in float32 or better. All normalisers of the project are here.

e scores [B, H, L, S] · mask broadcastable to them, True where a slot is visible · S_t number of slots visible to query
t. Every normaliser gives 0 to hidden slots, and a row of zeros to a query that sees none.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import entmax
import torch
from torch import Tensor, nn

from study.attention.part import Part


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
    """A normaliser, as a site has it.

    Args:
        heads: H.
    """

    axis = "weights"
    fusable = False
    """Torch's fused kernel computes it."""

    def __init__(self, heads: int = 1) -> None:
        super().__init__()

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


class SoftmaxOne(Weighting):
    """exp(e) / (1 + Σ exp(e)): a query may look at nothing (Miller 2023)."""

    name = "softmax_one"

    def forward(self, logits: Tensor, mask: Tensor) -> Tensor:
        return _with_rest(logits, mask, logits.new_zeros(1))


class Sink(Weighting):
    """exp(e) / (exp(b_h) + Σ exp(e)), b_h learned, 0 at the start (OpenAI 2025, gpt-oss)."""

    name = "sink"

    def __init__(self, heads: int = 1) -> None:
        super().__init__(heads)
        self.logit = nn.Parameter(torch.zeros(heads))

    def forward(self, logits: Tensor, mask: Tensor) -> Tensor:
        return _with_rest(logits, mask, self.logit[:, None, None])


def _with_rest(logits: Tensor, mask: Tensor, rest: Tensor) -> Tensor:
    """Softmax over the visible slots and one more, whose logit is `rest` and whose weight is left out."""
    scores = to_float32(logits).masked_fill(~mask, float("-inf"))
    rest = to_float32(rest).expand(*scores.shape[:-1], 1)
    return torch.cat([scores, rest], -1).softmax(-1)[..., :-1]


class Relu(Weighting):
    """[e]₊ / S_t (Wortsman et al. 2023)."""

    name = "relu"

    def forward(self, logits: Tensor, mask: Tensor) -> Tensor:
        return to_float32(logits).relu().masked_fill(~mask, 0.0) / _visible(mask, logits)


class Normalised(Weighting):
    """e / Σ e, for positive scores (Katharopoulos et al. 2020)."""

    name = "normalised"

    def forward(self, logits: Tensor, mask: Tensor) -> Tensor:
        weights = to_float32(logits).masked_fill(~mask, 0.0)
        total = weights.sum(-1, keepdim=True)
        return weights / total.masked_fill(total == 0, 1.0)


class Logits(Part):
    """Logits from scaled scores: the same.

    Args:
        options: those of its row.
    """

    axis = "logits"
    name = "plain"

    def __init__(self, **options: float) -> None:
        super().__init__()

    def forward(self, scores: Tensor) -> Tensor:
        """Scaled scores [B, H, L, S] → logits [B, H, L, S]."""
        return scores


class Cap(Logits):
    """c · tanh(e / c): near e below c, never beyond ±c (Gemma Team 2024)."""

    name = "cap"

    def __init__(self, cap: float) -> None:
        super().__init__()
        self.cap = cap

    def forward(self, scores: Tensor) -> Tensor:
        return self.cap * (scores / self.cap).tanh()
