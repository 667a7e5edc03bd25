"""Gradient of one target token's loss with respect to each source token, by distance and by source length.

B sentences · Q target tokens each · S source tokens · D width of the embedding.

g_ts = ‖∂(−log p(y_t)) / ∂e_s‖, e_s the row of the embedding table for source token s. The models read √D · e_s, so the
gradient at their input is g_ts / √D. What `Task` trains is left alone: evaluation mode, no random number, nothing into
`.grad`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from study.models import Translator
from study.models.translator import PAD
from study.training.batches import Batch
from study.training.diagnostics.diagnose import POSITIONS, number, place
from study.training.diagnostics.measures import slope
from study.training.diagnostics.taps import Truth

SENTENCES = 16
"""Number of sentences, the first of the diagnosed batch."""

TARGET_POSITIONS = (0.0, 1 / 3, 2 / 3, 1.0)
"""Relative positions of the target tokens whose loss is differentiated: 0 the first, 1 the last before the end."""

FEWEST = 8
"""A bin with fewer values has no mean."""


@torch.inference_mode(False)
def gradients(model: Translator, batch: Batch, truth: Truth) -> dict[str, Any]:
    """Measure the gradient at the source, over `SENTENCES` of a batch and four target tokens t of each.

    End-of-sentence tokens are left out.

    norm: ‖∂(−log p(y_t)) / ∂E‖_F over the rows e_s of all source tokens, before they are multiplied by √D; its mean
        over t. The other measures are ratios or slopes, which no constant factor changes.
    length_slope: the slope of its logarithm against that of the number of source tokens, by least squares.
    by_distance: g_ts / (mean of g_t over s), the mean over (t, s) by bin of |s − p_t|. p_t is the gold source token
        closest to s, or min(t, last) where the corpus has no gold; a t without gold is left out where others have it.
    by_way: the same at s = p_t alone, by bin of the distance from there to the end of the source: how far a state that
        is read at the end must carry it. In a bidirectional encoder the middle of the source is the farthest.
    far_near_distance, far_near_way: the farthest bin with a mean over the nearest. A model that looks at gold alone has
        0 for the former; the latter is 1 where the way costs nothing.

    The bins are `POSITIONS`. All are null where no gradient arrives.
    """
    few = Batch(*(tensor[:SENTENCES].repeat_interleave(len(TARGET_POSITIONS), 0) for tensor in batch))
    length = (few.wanted != PAD).sum(1) - 1
    share = torch.tensor(TARGET_POSITIONS, device=length.device).repeat(len(few.source) // len(TARGET_POSITIONS))
    position = (share * (length - 1).clamp(min=0)).round().long()
    real = few.mask.clone()
    real[torch.arange(len(real)), few.mask.sum(1) - 1] = False
    size = (_at_source(model, few, position) * real).double()
    gold = truth.get("cross")
    if gold is not None:
        gold = gold[:SENTENCES].repeat_interleave(len(TARGET_POSITIONS), 0)[torch.arange(len(position)), position] > 0
    return profile(size, real, position, gold)


def _at_source(model: Translator, batch: Batch, position: Tensor) -> Tensor:
    """Return ‖∂(−log p(y_t)) / ∂e_s‖ for t = position[b] of every sentence: [B, S]. One backward pass suffices."""
    leaves: list[Tensor] = []

    def leaf(module: nn.Module, given: Any, embedded: Tensor) -> Tensor:
        leaves.append(embedded.detach().requires_grad_())
        return leaves[-1]

    training = model.training
    model.eval()
    handle = model.source_embedding.register_forward_hook(leaf)
    try:  # cuDNN's recurrent layers have no backward pass in evaluation mode
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            output = model.decode(model.encode(batch.source, batch.mask), batch.given).logits
            row = torch.arange(len(position), device=position.device)
            loss = F.cross_entropy(output[row, position], batch.wanted[row, position], reduction="sum")
            found: Tensor | None = torch.autograd.grad(loss, leaves, allow_unused=True)[0]
    finally:
        handle.remove()
        model.train(training)
    norm: Tensor = found.square().sum(-1).sqrt() if found is not None else torch.zeros(batch.mask.shape)
    return norm.to(batch.mask.device)


def profile(size: Tensor, real: Tensor, position: Tensor, gold: Tensor | None) -> dict[str, Any]:
    """Average gradient norms by distance, as `gradients` returns them.

    Args:
        size: norms g [B, S].
        real: source tokens that are not padding [B, S].
        position: t [B], of the target token.
        gold: source tokens aligned with it [B, S]; None: the token at the same position.
    """
    slot = torch.arange(real.shape[1], device=real.device)
    count = real.sum(1, keepdim=True)
    if gold is None:
        gold = slot == torch.minimum(position[:, None], count - 1).clamp(min=0)
    distances = (slot[:, None] - slot).abs().expand(len(gold), -1, -1)
    nearest = distances.masked_fill(~gold[:, None], real.shape[1]).amin(-1)  # to gold, of every token
    total = size.square().sum(1).sqrt()
    some = (total > 0) & gold.any(1)
    relative = size * count / size.sum(1, keepdim=True).clamp(min=1e-300)
    counts = some[:, None] & real
    by_distance, distance = _binned(relative, nearest, counts)
    by_way, way = _binned(relative, count - 1 - slot, counts & gold)
    steep = slope(count[:, :1].T[None].clamp(min=1), total[None, None], (total > 0)[None, None])
    reached = bool((total > 0).any())
    return {
        "norm": number(float(total.mean())) if reached else None,
        "length_slope": number(float(steep)),
        "by_distance": by_distance,
        "far_near_distance": distance,
        "by_way": by_way,
        "far_near_way": way,
    }


def _binned(values: Tensor, distance: Tensor, where: Tensor) -> tuple[list[float | None], float | None]:
    """Return the mean of values [B, S] in every bin of `POSITIONS`, and the ratio of the last mean to the first."""
    bins = place(distance.expand_as(values))
    means: list[float | None] = []
    for b in range(len(POSITIONS)):
        inside = values[where & (bins == b)]
        means.append(float(inside.mean()) if len(inside) >= FEWEST else None)
    known = [value for value in means if value is not None]
    return means, known[-1] / known[0] if len(known) > 1 and known[0] else None
