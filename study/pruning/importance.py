"""Importance of heads: one number per head, without retraining.

B sentences · H heads · L queries · V value width of a head.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from study.models import Translator
from study.pruning.surgery import Head, gated, heads_of, masked
from study.training import decode
from study.training.batches import Example

Importance = dict[Head, float]


class Unit(nn.Module):
    """heads ↦ heads · z with z = 1, one for every sentence and head: ∂L/∂z is o·∂L/∂o, summed over queries."""

    def __init__(self) -> None:
        super().__init__()
        self.z: Tensor | None = None

    def forward(self, heads: Tensor) -> Tensor:
        """[B, H, L, V]. A decoder that goes step by step calls L times and meets the same z."""
        if self.z is None:
            self.z = heads.new_ones(*heads.shape[:2], 1, 1, requires_grad=True)
        return heads * self.z


def gradient(model: Translator, data: Sequence[Example], normalise: bool = False) -> Importance:
    """E_x |o_h · ∂L(x)/∂o_h| of each head (Michel et al. 2019, eq. 2), L the unsmoothed −log p of a sentence, in nats.

    `normalise` divides by the l2 norm over the heads of a layer, as the paper does.
    """
    units = {(site, layer): Unit() for site, layer, _ in model.sites()}
    sums: dict[tuple[str, int], Tensor | float] = defaultdict(float)
    count = 0
    with gated(model, units), torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
        for chosen, batch in decode.fitting(model, data):
            for unit in units.values():
                unit.z = None
            logits = model.decode(model.encode(batch.source, batch.mask), batch.given).logits
            gates = [unit.z for unit in units.values() if unit.z is not None]
            slopes = torch.autograd.grad(decode.token_nll(logits, batch.wanted).sum(), gates, allow_unused=True)
            for place, slope in zip(units, slopes, strict=True):
                if slope is not None:
                    sums[place] = sums[place] + slope.abs().sum((0, 2, 3)).double()
            count += len(chosen)
    found: Importance = {}
    for place, total in sums.items():
        assert isinstance(total, Tensor)
        mean = total / max(1, count)
        if normalise:
            mean = mean / mean.norm().clamp(min=torch.finfo(mean.dtype).tiny)
        found |= {Head(*place, head): value for head, value in enumerate(mean.tolist())}
    return {head: found.get(head, 0.0) for head in heads_of(model)}


def weight_norm(model: Translator) -> Importance:
    """The l2 norm of the parameters that a head has: those that an attention with this head alone is made of."""
    return {
        Head(site, layer, head): sum(float(p.detach().double().square().sum()) for p in parameters) ** 0.5
        for site, layer, attention in model.sites()
        for head in range(len(attention.kept))
        for parameters in [list(attention.reduced([head]).parameters())]
    }


def loss(model: Translator, data: Sequence[Example]) -> float:
    """−log p per target token, in nats, end-of-sentence counted."""
    return float(decode.forced_nll(model, data).nansum()) / sum(len(example.target) + 1 for example in data)


def leave_one_out(model: Translator, data: Sequence[Example], among: Sequence[Head]) -> Importance:
    """Return the loss that each head's absence alone adds. Exact: one pass over the data a head."""
    whole = loss(model, data)
    found: Importance = {}
    for head in among:
        with masked(model, [head]):
            found[head] = loss(model, data) - whole
    return found
