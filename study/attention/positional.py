"""Scores that read no key: by slot alone, and two controls without content.

B batch · H heads · L queries · S slots · Kq width of a head's query · S_max longest training sentence.
A slot's number is its place in the memory: the source position at cross, the absolute position in self-attention.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from study.attention.score import Score
from study.attention.view import View


class Bounded(Score):
    """A score that addresses S_max slots. Those beyond are masked, and `beyond` counts them, once per view of a slot.

    `beyond` belongs to no checkpoint.
    """

    fusable = False
    window_worth = math.inf
    beyond: Tensor

    def __init__(self, longest: int) -> None:
        super().__init__()
        self.longest = longest
        self.register_buffer("beyond", torch.zeros((), dtype=torch.long), persistent=False)

    def narrow(self, view: View, slots: int) -> View:
        if slots <= self.longest:
            return view
        within = torch.arange(slots, device=view.mask.device) < self.longest
        self.beyond += (view.mask & ~within).sum()
        return view._replace(mask=view.mask & within)

    def all_slots(self, logits: Tensor, slots: int) -> Tensor:
        """[…, min(S, S_max)] → […, S], zeros beyond: they are masked."""
        return F.pad(logits, (0, slots - logits.shape[-1]))


class Location(Bounded):
    """w_s · q for slot s, whatever the slot holds (Luong et al. 2015). d = Kq."""

    formula = "w_s·q"
    unit_sized = True

    def __init__(self, heads: int, query: int, longest: int) -> None:
        super().__init__(longest)
        self.fan = query
        self.weight = nn.Parameter(torch.empty(heads, longest, query))

    def forward(self, query: Tensor, prepared: Tensor, view: View) -> Tensor:
        slots = prepared.shape[2]
        return self.all_slots(query @ self.weight[:, :slots].transpose(-1, -2), slots)

    @torch.no_grad()
    def rescale(self, factor: Tensor) -> bool:
        self.weight.mul_(factor[:, None, None])
        return True


class Uniform(Score):
    """0 for every slot: the mean over what is visible. A control."""

    fusable = False
    window_worth = math.inf
    formula = "0"
    fan = 1

    def forward(self, query: Tensor, prepared: Tensor, view: View) -> Tensor:
        return query.new_zeros(*query.shape[:3], prepared.shape[2])


class FixedRandom(Bounded):
    """T_{t s} for the query at absolute position t: a frozen table per head, drawn from N(0, 1) (Tay et al. 2021).

    A control. The logits have standard deviation 1. Queries beyond S_max take the table's last row.
    """

    formula = "T_{t s}"
    fan = 1
    fan_in = 1
    drawn = ("table",)
    table: Tensor

    def __init__(self, heads: int, longest: int) -> None:
        super().__init__(longest)
        self.register_buffer("table", torch.zeros(heads, longest, longest))

    def forward(self, query: Tensor, prepared: Tensor, view: View) -> Tensor:
        slots = prepared.shape[2]
        rows = self.table[:, view.position.clamp(max=self.longest - 1), :slots].to(query.dtype)
        return self.all_slots(rows, slots).expand(len(query), -1, -1, -1)
