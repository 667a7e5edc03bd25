"""Mixing of the encoder's tokens: self-attention, or a convolution in its place.

B batch · S tokens · D width · w width of the convolution.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from study.attention.multihead import MultiHeadAttention
from study.attention.part import Part
from study.attention.positions import Positions
from study.attention.site import Whole, build_site
from study.attention.view import Lengths, Terms, View
from study.config import Transformer as Config


class Mixing(Part):
    """A layer that mixes the tokens of the encoder in place of self-attention. It is called as `Attention` is.

    Args:
        width: D.
        options: those of its row.
    """

    axis = "mixing"

    def __init__(self, width: int, **options: int) -> None:
        super().__init__()

    def remember(self, states: Tensor, mask: Tensor) -> Tensor:
        """Return the memory that `forward` takes, from states [B, S, D] and their mask [B, S]."""
        raise NotImplementedError

    def forward(self, query: Tensor, memory: Tensor, view: View) -> tuple[Tensor, Terms]:
        """Mix states [B, S, D] → [B, S, D]."""
        raise NotImplementedError


class Convolution(Mixing):
    """y_s = Σ_j W_j x_{s + j − ⌊(w−1)/2⌋} for j = 0 … w−1: full (not depthwise), w · D² parameters, without bias.

    x is 0 beyond both ends of a sentence and at padding.
    """

    name = "convolution"

    def __init__(self, width: int, convolution_width: int) -> None:
        super().__init__(width)
        self.fan_in = convolution_width * width
        self.weight = nn.Parameter(torch.empty(width, width, convolution_width))

    def remember(self, states: Tensor, mask: Tensor) -> Tensor:
        """Return states [B, S, D] with 0 at padding."""
        return states * mask[..., None]

    def forward(self, query: Tensor, memory: Tensor, view: View) -> tuple[Tensor, Terms]:
        """Convolve the memory of `remember`, [B, S, D]. The queries are the same states and are not used."""
        reach = self.weight.shape[-1]
        padded = F.pad(memory.transpose(1, 2), ((reach - 1) // 2, reach // 2))
        return F.conv1d(padded, self.weight).transpose(1, 2), Terms()


def build_mixing(
    config: Config, lengths: Lengths | None, layer: int = 1, positions: Positions | None = None
) -> MultiHeadAttention | Whole | Mixing:
    """Build what mixes tokens in a layer of the encoder, counted from 1."""
    site = config.attention.encoder_self
    if site is None:
        return Mixing.chosen(config, config.width)
    return build_site(site, config.width, config.width, lengths, layer, positions)
