"""Absolute positions, added to the embeddings of a transformer: [T, D] for T tokens from position `start` on."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from study.attention.part import Part
from study.attention.view import Lengths
from study.config import Transformer as Config


class Positions(Part):
    """Positions of one language.

    Args:
        width: D.
        lengths: of the training sentences.
    """

    axis = "positions"
    longest: int | None = None
    """The longest sentence that has positions; None if every sentence has."""

    def __init__(self, width: int, lengths: Lengths | None = None) -> None:
        super().__init__()

    def forward(self, start: int, embedded: Tensor) -> Tensor:
        """Embeddings [B, T, D] of the tokens from `start` on ↦ the same with their positions."""
        raise NotImplementedError


class NoPositions(Positions):
    """x: causality alone tells order, and in the encoder nothing does."""

    name = "none"

    def forward(self, start: int, embedded: Tensor) -> Tensor:
        return embedded


class Sinusoids(Positions):
    """Sines and cosines of position / 10000^(2i/D), interleaved (Vaswani et al. 2017)."""

    name = "sinusoidal"

    def forward(self, start: int, embedded: Tensor) -> Tensor:
        return embedded + sinusoids(start, embedded.shape[1], embedded.shape[2], embedded.device)


class LearnedPositions(Positions):
    """√D · P[t], P a table of one row for each position of the longest training sentence (Gehring et al. 2017).

    Like a token's, a position's part has variance 1 at the start. A position beyond the table was never trained, so
    it does not exist: search and evaluation stop at `longest`, and a longer input is refused.
    """

    name = "learned"

    def __init__(self, width: int, lengths: Lengths | None = None) -> None:
        super().__init__(width)
        if lengths is None:
            raise ValueError("learned positions are sized by the training sentences: build with their lengths")
        self.longest = lengths.longest
        self.weight = nn.Parameter(torch.empty(lengths.longest, width))

    def forward(self, start: int, embedded: Tensor) -> Tensor:
        end = start + embedded.shape[1]
        if end > len(self.weight):
            raise ValueError(f"learned positions end at {len(self.weight)} tokens, and there are {end}")
        return embedded + self.weight[start:end] * math.sqrt(self.weight.shape[1])


def sinusoids(start: int, count: int, width: int, device: torch.device) -> Tensor:
    """The table of `Sinusoids`: [count, D]."""
    position = torch.arange(start, start + count, device=device, dtype=torch.float32)
    frequency = torch.exp(torch.arange(0, width, 2, device=device) * (-math.log(10_000) / width))
    angle = position[:, None] * frequency
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)


def build_positions(config: Config, lengths: Lengths | None) -> Positions:
    """The positions that a transformer declares, for one language."""
    return Positions.named(config.positions)(config.width, lengths)
