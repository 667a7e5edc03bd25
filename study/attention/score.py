"""What every score is, and the scale put on it.

B batch · H heads · L queries · S slots · Kq, Kk widths of a head's query and key. Every parameter is per head.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from study.attention.view import View
from study.config import Attention as Config

DIVIDING = ("rsqrt", "inverse")
"""Scales that divide by a power of d."""


class Score(nn.Module):
    """score(q, k) for every pair of query and slot.

    `fan` is the d of the scale 1/√d. A score is `fusable` when it is `ask(query) · prepare(key)`, so that torch's
    fused kernel can take it. `formula` is in terms of q and k, what the maps make of the states.
    """

    fan: int
    fusable: bool
    unit_sized = False
    """Scores start O(1) whatever d is, by the initial values: 1/√d or 1/d on top is over-scaled, a control."""
    window_worth: float = 11.0
    """How many windows S has where looking a window up becomes cheaper than hiding the rest; infinite for a score that
    reads a slot's number. Measured on a CPU, forward and backward: `benchmarks/README.md`."""
    formula: str

    def prepare(self, keys: Tensor) -> Tensor:
        """What is computed once per slot: [B, H, S, Kk] → [B, H, S, ·]."""
        return keys

    def ask(self, query: Tensor) -> Tensor:
        """What is computed once per query: [B, H, L, Kq] → [B, H, L, ·]."""
        return query

    def narrow(self, view: View, slots: int) -> View:
        """The view without the slots that the score cannot address."""
        return view

    def forward(self, query: Tensor, prepared: Tensor, view: View) -> Tensor:
        """[B, H, L, Kq] and prepared keys → unscaled scores [B, H, L, S]."""
        return self.ask(query) @ prepared.transpose(-1, -2)

    def rescale(self, factor: Tensor) -> bool:
        """Multiply head h's scores by factor[h] through the score's own parameter, if it has one that is linear."""
        return False


class Constant(nn.Module):
    """A fixed factor on every score."""

    def __init__(self, value: float, formula: str) -> None:
        super().__init__()
        self.value = value
        self.formula = formula

    def forward(self) -> float:
        return self.value


class Learned(nn.Module):
    """exp(g_h) per head, from a given g_0. It is left out of weight decay."""

    formula = "exp(g)"

    def __init__(self, heads: int, start: float) -> None:
        super().__init__()
        self.log = nn.Parameter(torch.full((heads,), start))

    def forward(self) -> Tensor:
        return self.log.exp()[:, None, None]

    @torch.no_grad()
    def rescale(self, factor: Tensor) -> None:
        """Multiply head h's factor by factor[h]."""
        self.log.add_(factor.log())


def build_scale(config: Config, fan: int) -> Constant | Learned:
    """The factor that a resolved site declares: 1, 1/√d, 1/d, or exp(g) with g_0 = −½ ln d."""
    match config.scale:
        case "none":
            return Constant(1.0, "1")
        case "rsqrt":
            return Constant(fan**-0.5, "1/√d")
        case "inverse":
            return Constant(1 / fan, "1/d")
        case "learned":
            # What a cosine learns is its own temperature.
            return Constant(1.0, "1") if config.score == "cosine" else Learned(config.heads, -0.5 * math.log(fan))
        case None:
            raise ValueError("an unresolved site: its scale is still to be derived")
