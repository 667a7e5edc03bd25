"""Base of every score, and the scale put on it.

B batch · H heads · L queries · S slots · Kq, Kk widths of a head's query and key. Every parameter is per head.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from study.attention.part import Part
from study.attention.view import Lengths, View
from study.config import Attention as Config
from study.config.mechanisms import SCORE, SIZES


class Score(Part):
    """score(q, k) for every pair of query and slot.

    Args:
        heads: H.
        query: Kq.
        key: Kk.
        options: those of its row, and `lengths` of the training sentences.
    """

    axis = "score"
    fusable = False
    """The score is `prepare_query(q) · prepare(k)`, so that torch's fused kernel can take the site."""
    gather_from: float = 11.0
    """S ÷ window size from which gathering a window is cheaper than masking the rest; infinite for a score that
    reads a slot's number. Measured on a CPU, forward and backward: `benchmarks/README.md`."""

    def __init__(self, heads: int, query: int, key: int, **options: Any) -> None:
        super().__init__()
        widths = {"": 1, "K": key, "Kk": key, "Kq": query}
        widths |= {SIZES[option]: value for option, value in options.items() if option in SIZES}
        self.d: int = widths[self.facts.d]
        """The d of the scale 1/√d."""

    def prepare(self, keys: Tensor) -> Tensor:
        """Computed once per slot: [B, H, S, Kk] → [B, H, S, ·]."""
        return keys

    def prepare_query(self, query: Tensor) -> Tensor:
        """Computed once per query: [B, H, L, Kq] → [B, H, L, ·]."""
        return query

    def narrow(self, view: View, slots: int) -> View:
        """The view without the slots that the score cannot address."""
        return view

    def forward(self, query: Tensor, prepared: Tensor, view: View) -> Tensor:
        """[B, H, L, Kq] and prepared keys → unscaled scores [B, H, L, S]."""
        return self.prepare_query(query) @ prepared.transpose(-1, -2)

    def rescale(self, factor: Tensor) -> bool:
        """Multiply head h's scores by factor[h] through a parameter of the score; False if it has none."""
        return False


class Scale(Part):
    """Factor on every score of a head.

    Args:
        heads: H.
        d: width that the score sums over.
    """

    axis = "scale"

    def __init__(self, heads: int, d: int) -> None:
        super().__init__()

    def forward(self) -> Tensor | float:
        """One factor, or one for each head: [H, 1, 1]."""
        raise NotImplementedError


class Unscaled(Scale):
    """1."""

    name = "none"

    def forward(self) -> float:
        return 1.0


class InverseRoot(Scale):
    """1/√d (Vaswani et al. 2017)."""

    name = "rsqrt"

    def __init__(self, heads: int, d: int) -> None:
        super().__init__(heads, d)
        self.value: float = d**-0.5

    def forward(self) -> float:
        return self.value


class Inverse(InverseRoot):
    """1/d."""

    name = "inverse"

    def __init__(self, heads: int, d: int) -> None:
        super().__init__(heads, d)
        self.value = 1 / d


class Learned(Scale):
    """exp(g_h) per head, from g_0 = −½ ln d, or from a given g_0. It is left out of weight decay."""

    name = "learned"

    def __init__(self, heads: int, d: int, start: float | None = None) -> None:
        super().__init__(heads, d)
        self.log = nn.Parameter(torch.full((heads,), -0.5 * math.log(d) if start is None else start))

    def forward(self) -> Tensor:
        return self.log.exp()[:, None, None]

    @torch.no_grad()
    def rescale(self, factor: Tensor) -> None:
        """Multiply head h's factor by factor[h]."""
        self.log.add_(factor.log())


def build_scale(config: Config, d: int) -> Scale:
    """The factor that a resolved site declares. A score with a scale of its own gets no other."""
    if config.scale is None:
        raise ValueError("an unresolved site: its scale is still to be derived")
    chosen = Unscaled if SCORE[config.score].own_scale else Scale.named(config.scale)
    return chosen(config.heads, d)


def known(lengths: Lengths | None) -> Lengths:
    """Return the lengths of the training sentences, for what is sized by them.

    Raises:
        ValueError: there are none.
    """
    if lengths is None:
        raise ValueError("this score is sized by the training sentences: build it with their lengths")
    return lengths
