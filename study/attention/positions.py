"""Positions: added to embeddings, or, by the distance of query and slot, inside self-attention.

B batch · T tokens · L queries · S slots · H heads · D width · K key width · t, s positions of query and slot.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from study.attention.part import Part
from study.attention.view import Lengths, View
from study.config import AttentionConfig, DecoderOnly, Transformer
from study.config.mechanisms import POSITIONS


class Positions(Part):
    """Positions of one language. All layers share them.

    Args:
        width: D.
        heads: H of self-attention.
        causal: True for the target, whose queries see no later slot.
        lengths: of the training sentences.
    """

    axis = "positions"
    inside = False
    """True for a class with `rotate` or `bias`, which act inside self-attention."""
    longest: int | None = None
    """The longest sentence that has positions; None if every sentence has."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.inside = cls.inside or bool({"rotate", "bias"} & vars(cls).keys())

    def __init__(self, width: int, heads: int = 1, causal: bool = False, lengths: Lengths | None = None) -> None:
        super().__init__()

    def forward(self, start: int, embedded: Tensor) -> Tensor:
        """Embeddings [B, T, D] of the tokens from `start` on ↦ the same with their positions.

        In the decoder-only family the source counts down to −1, so `start` is −T there.
        """
        return embedded

    def rotate(self, x: Tensor, position: Tensor) -> Tensor:
        """Return queries or keys [B, H, T, K] of self-attention, turned by their positions [T]."""
        return x

    def bias(self, view: View, heads: Sequence[int]) -> Tensor | None:
        """Return what these heads add to the logits of self-attention, broadcastable to [B, H, L, S]; None for 0."""
        return None


class NoPositions(Positions):
    """x: causality alone tells order, and in the encoder nothing does."""

    name = "none"


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

    def __init__(self, width: int, heads: int = 1, causal: bool = False, lengths: Lengths | None = None) -> None:
        super().__init__(width)
        if lengths is None:
            raise ValueError("learned positions are sized by the training sentences: build with their lengths")
        self.longest = lengths.longest
        self.weight = nn.Parameter(torch.empty(lengths.longest, width))

    def forward(self, start: int, embedded: Tensor) -> Tensor:
        start += len(self.weight) if start < 0 else 0
        end = start + embedded.shape[1]
        if start < 0 or end > len(self.weight):
            raise ValueError(f"learned positions end at {len(self.weight)} tokens, and there are {end - min(0, start)}")
        return embedded + self.weight[start:end] * math.sqrt(self.weight.shape[1])


class Rotary(Positions):
    """(x_2i, x_2i+1) turned by the angle t · 10000^(−2i/K): q_t · k_s depends on t − s (Su et al. 2021, RoPE)."""

    name = "rope"

    def rotate(self, x: Tensor, position: Tensor) -> Tensor:
        frequency = 10_000.0 ** -(torch.arange(0, x.shape[-1], 2, device=x.device, dtype=x.dtype) / x.shape[-1])
        angle = position[:, None].to(x.dtype) * frequency
        cos, sin, even, odd = angle.cos(), angle.sin(), x[..., ::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)


class Alibi(Positions):
    """−m_h · |t − s| on the logits, m_h = 2^(−8h/H) for h = 1 … H (Press et al. 2022).

    The paper has causal attention alone; the encoder's distances are symmetric here. For an H that is no power of two,
    the paper's code interleaves two sequences of slopes; the formula is used here for every H.
    """

    name = "alibi"
    slope: Tensor

    def __init__(self, width: int, heads: int = 1, causal: bool = False, lengths: Lengths | None = None) -> None:
        super().__init__(width)
        self.register_buffer("slope", 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads), persistent=False)

    def bias(self, view: View, heads: Sequence[int]) -> Tensor:
        return -self.slope[list(heads), None, None] * (view.position[:, None] - view.slot).abs()


class T5Biases(Positions):
    """b_h[bucket(s − t)] on the logits, one learned number per head and bucket, 0 at the start (Raffel et al. 2020).

    Of 32 buckets, the encoder has 16 for each direction, and the causal decoder all for slots before the query. The
    first half of a direction's buckets have one distance each, the others grow as its logarithm, up to 128.
    """

    name = "t5"
    buckets, farthest = 32, 128

    def __init__(self, width: int, heads: int = 1, causal: bool = False, lengths: Lengths | None = None) -> None:
        super().__init__(width)
        self.causal = causal
        self.bias_of = nn.Parameter(torch.zeros(heads, self.buckets))

    def bucket(self, offset: Tensor) -> Tensor:
        """Return the bucket of each s − t."""
        count = self.buckets if self.causal else self.buckets // 2
        distance = (-offset).clamp(min=0) if self.causal else offset.abs()
        exact = count // 2
        ratio = (distance.clamp(min=exact) / exact).log() / math.log(self.farthest / exact)
        far = (exact + (ratio * (count - exact)).long()).clamp(max=count - 1)
        bucket = torch.where(distance < exact, distance, far)
        return bucket if self.causal else bucket + count * (offset > 0)

    def bias(self, view: View, heads: Sequence[int]) -> Tensor:
        head = torch.tensor(list(heads), device=view.slot.device)[:, None, None]
        return self.bias_of[head, self.bucket(view.slot - view.position[:, None])]


def sinusoids(start: int, count: int, width: int, device: torch.device) -> Tensor:
    """The table of `Sinusoids`: [count, D]."""
    position = torch.arange(start, start + count, device=device, dtype=torch.float32)
    frequency = torch.exp(torch.arange(0, width, 2, device=device) * (-math.log(10_000) / width))
    angle = position[:, None] * frequency
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)


def build_positions(
    config: Transformer | DecoderOnly, site: AttentionConfig | None, causal: bool, lengths: Lengths | None
) -> Positions:
    """Build the positions of one language, whose self-attention is `site`. A convolution has no relative ones."""
    if site is None and POSITIONS[config.positions].relative:
        return NoPositions(config.width)
    return Positions.chosen(config, config.width, heads=site.heads if site else 1, causal=causal, lengths=lengths)
