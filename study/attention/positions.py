"""Absolute positions, added to the embeddings of a transformer: [T, D] for T tokens from position `start` on."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from study.attention.view import Lengths
from study.config import Transformer as Config


class NoPositions(nn.Module):
    """Nothing: what remains tells order through causality alone, and not at all in the encoder."""

    formula = "x"
    longest: int | None = None
    """The longest sentence that has positions; None where any has."""

    def forward(self, start: int, embedded: Tensor) -> Tensor:
        """Embeddings [B, T, D] of the tokens from `start` on ↦ the same with their positions."""
        return embedded


class Sinusoids(NoPositions):
    """Sines and cosines of position / 10000^(2i/D), interleaved (Vaswani et al. 2017)."""

    formula = "x + [sin ω_0 t, cos ω_0 t, sin ω_1 t, cos ω_1 t, …], ω_i = 10000^(−2i/D)"

    def forward(self, start: int, embedded: Tensor) -> Tensor:
        return embedded + sinusoids(start, embedded.shape[1], embedded.shape[2], embedded.device)


class LearnedPositions(NoPositions):
    """√D · P[t], P a table of one row for each position of the longest training sentence (Gehring et al. 2017).

    Like a token's, a position's part has variance 1 at the start. A position beyond the table was never trained, so
    that there is no such thing: `longest` tells search and evaluation, which stop there, and a longer input is refused.
    """

    formula = "x + √D · P_t"

    def __init__(self, longest: int, width: int) -> None:
        super().__init__()
        self.longest = longest
        self.weight = nn.Parameter(torch.empty(longest, width))

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


def build_positions(config: Config, lengths: Lengths | None) -> NoPositions:
    """The positions that a transformer declares, for one language."""
    match config.positions:
        case "none":
            return NoPositions()
        case "sinusoidal":
            return Sinusoids()
        case "learned":
            if lengths is None:
                raise ValueError("learned positions are sized by the training sentences: build with their lengths")
            return LearnedPositions(lengths.longest, config.width)
