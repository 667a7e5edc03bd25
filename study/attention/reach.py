"""Reach: the visible slots that a query attends to: all of them, a window, or a single one.

B batch · L queries · S slots · H heads · Kq width of a head's query · t absolute position of a query · w half-width of
a window · S_t number of slots visible to a query: the source length at cross, t + 1 in causal self-attention. Slots
count from the first visible one, which is 0 but at site joint, where padding stands before the source.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from study.attention.part import Part
from study.attention.view import Terms, View
from study.attention.weighting import to_float32


class Reach(Part):
    """Slots that a query attends to.

    A reach acts twice: it hides slots before the weights are computed, and it changes the weights.

    Args:
        heads: H.
        query: Kq.
        options: those of its row.
    """

    axis = "reach"
    fusable = False
    """True if it does not change the weights, so that PyTorch's fused kernel can compute the site."""

    def __init__(self, heads: int, query: int, **options: float) -> None:
        super().__init__()

    def window(self, query: Tensor, view: View, gather_from: float = math.inf) -> View:
        """Return the view of queries [B, H, L, Kq] without the slots beyond their reach.

        The mask hides these slots. If S is at least `gather_from` times the window, its slots are gathered instead.
        """
        return view

    def reweight(self, weights: Tensor, query: Tensor, view: View) -> tuple[Tensor, Terms]:
        """Return the weights of the values from normalised weights [B, H, L, S], and terms of the loss.

        `view` is the result of `window`.
        """
        return weights, Terms()

    def reseed(self, seed: int) -> None:
        """Seed the reach's own random numbers, at the beginning of every training step."""


class Global(Reach):
    """Every visible slot."""

    name = "global"
    fusable = True


class LocalMonotonic(Reach):
    """Slots s with |s − p| ≤ w, p = min(t, S_t − 1): `local_m` (Luong et al. 2015, local-m).

    In self-attention p is the query's own position. w ≥ S − 1 leaves every slot in place.
    """

    name = "local_m"
    fusable = True

    def __init__(self, heads: int, query: int, window: int) -> None:
        super().__init__(heads, query)
        self.width = window

    def window(self, query: Tensor, view: View, gather_from: float = math.inf) -> View:
        last = _first(view) + view.mask.sum(-1, keepdim=True) - 1
        return _around(torch.minimum(view.position[:, None], last), self.width, view, gather_from)


class LocalPredictive(Reach):
    """Slots s with |s − p| ≤ w, their weights times exp(−(s − p)² / 2σ²): `local_p` (Luong et al. 2015, local-p).

    p = (S_t − 1) · σ(v·tanh(W q)) per head; the Gaussian has σ = w/2. The weights are normalised over the window before
    the Gaussian multiplies them, and not afterwards. So they sum to at most 1, and p has a gradient. W is Kq × Kq.
    """

    name = "local_p"

    def __init__(self, heads: int, query: int, window: int) -> None:
        super().__init__(heads, query)
        self.width = window
        self.weight = nn.Parameter(torch.empty(heads, query, query))
        self.vector = nn.Parameter(torch.empty(heads, query))

    def centre(self, query: Tensor, view: View) -> Tensor:
        """Return p: [B, H, L, 1]."""
        hidden = torch.tanh(query @ self.weight.transpose(-1, -2))
        share = torch.sigmoid(torch.einsum("bhlk,hk->bhl", hidden, self.vector))[..., None]
        return _first(view) + share * (view.mask.sum(-1, keepdim=True) - 1).clamp(min=0)

    def window(self, query: Tensor, view: View, gather_from: float = math.inf) -> View:
        centre = self.centre(query, view)
        return _around(centre.detach(), self.width, view, gather_from)._replace(centre=centre)

    def reweight(self, weights: Tensor, query: Tensor, view: View) -> tuple[Tensor, Terms]:
        assert view.centre is not None
        away = (view.slot - view.centre) / self.width
        return weights * torch.exp(-2 * away.square()), Terms()


def _first(view: View) -> Tensor:
    """Return the first visible slot of each query, [B, 1 or H, L, 1]; 0 without one. Visible slots are neighbours."""
    return view.mask.to(torch.uint8).argmax(-1, keepdim=True)


def _around(centre: Tensor, width: int, view: View, gather_from: float) -> View:
    """Return the view of slots s with |s − centre| ≤ width, for centres broadcastable to [B, H, L, 1]."""
    slots = view.mask.shape[-1]
    few = 2 * width + (2 if centre.is_floating_point() else 1)  # with room for how centre − width is rounded
    if few * gather_from <= slots:
        first = (centre - width).floor().long().clamp(0, slots - few)
        view = view.only(first + torch.arange(few, device=first.device))
    return view._replace(mask=view.mask & ((view.slot - centre).abs() <= width))


class Hard(Reach):
    """One slot: `hard` (Xu et al. 2015). Training draws it from the weights; evaluation takes the largest weight.

    The draw z_t ~ a_t has no gradient. The loss therefore gets log a_t(z_t), summed over heads, as `Terms.log_prob`,
    and β · H(a_t) as `Terms.bonus`.

    Each call draws one uniform number for each (b, h, l), whatever S is, from a stream of its own that `reseed` starts.
    """

    name = "hard"

    def __init__(self, heads: int, query: int, entropy_bonus: float) -> None:
        super().__init__(heads, query)
        self.bonus = entropy_bonus
        self.reseed(0)

    def reseed(self, seed: int) -> None:
        self.seed, self.calls = seed, 0

    def reweight(self, weights: Tensor, query: Tensor, view: View) -> tuple[Tensor, Terms]:
        seeing = view.mask.any(-1, keepdim=True)
        if not self.training:
            return one_hot(weights.argmax(-1, keepdim=True), weights) * seeing, Terms()
        slot = self.draw(weights.detach())
        chosen = weights.gather(-1, slot)
        log_prob = log(chosen).masked_fill(~seeing, 0.0)
        entropy = -(weights * log(weights)).sum(-1)
        terms = Terms(log_prob=log_prob[..., 0].sum(1), bonus=self.bonus * entropy.sum(1))
        return one_hot(slot, weights) * seeing, terms

    def draw(self, weights: Tensor) -> Tensor:
        """Return the slot at which the cumulated weights [B, H, L, S] exceed a uniform number: [B, H, L, 1].

        The numbers have 24 bits and are compared in float64, so that a slot without weight is never drawn.
        """
        stream = torch.Generator().manual_seed((self.seed + self.calls) % 2**63)
        self.calls += 1
        uniform = torch.rand(*weights.shape[:-1], 1, generator=stream).to(weights.device, torch.float64)
        cumulated = weights.double().cumsum(-1)
        passed = cumulated <= uniform * cumulated[..., -1:]
        return passed.sum(-1, keepdim=True).clamp(max=weights.shape[-1] - 1)


def log(probability: Tensor) -> Tensor:
    """Return the logarithm, with a finite gradient at p = 0."""
    return to_float32(probability).clamp(min=torch.finfo(torch.float32).tiny).log()


def one_hot(slot: Tensor, like: Tensor) -> Tensor:
    """Return 1 at `slot` [B, H, L, 1] and 0 elsewhere: [B, H, L, S]."""
    return torch.zeros_like(like).scatter(-1, slot, 1.0)


def without_self(view: View) -> View:
    """Return the view without the diagonal: no query sees the slot of its own position."""
    return view._replace(mask=view.mask & (view.slot != view.position[:, None]))
