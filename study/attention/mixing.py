"""What mixes the tokens of the encoder: self-attention, or a convolution in its place.

B batch · S tokens · D width · w width of the convolution.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from study.attention.multihead import Attention
from study.attention.view import Lengths, Terms, View
from study.config import Transformer as Config


class Convolution(nn.Module):
    """y_s = Σ_j W_j x_{s + j − ⌊(w−1)/2⌋} for j = 0 … w−1: full (not depthwise), w · D² parameters, without bias.

    Beyond both ends of a sentence, and at padding, x is 0. It is called as `Attention` is.
    """

    formula = "y_s = Σ_j W_j x_{s + j − ⌊(w−1)/2⌋}"

    def __init__(self, width: int, reach: int) -> None:
        super().__init__()
        self.fan_in = reach * width
        self.weight = nn.Parameter(torch.empty(width, width, reach))

    def remember(self, states: Tensor, mask: Tensor) -> Tensor:
        """States [B, S, D], 0 at padding."""
        return states * mask[..., None]

    def forward(self, query: Tensor, memory: Tensor, view: View) -> tuple[Tensor, Terms]:
        """What `remember` gave → [B, S, D]. The queries are the same states and are not looked at."""
        reach = self.weight.shape[-1]
        padded = F.pad(memory.transpose(1, 2), ((reach - 1) // 2, reach // 2))
        return F.conv1d(padded, self.weight).transpose(1, 2), Terms()


def build_mixing(config: Config, lengths: Lengths | None) -> Attention | Convolution:
    """What mixes tokens in a layer of the encoder."""
    match config.mixing:
        case "attention":
            assert config.attention.encoder_self is not None
            return Attention(config.attention.encoder_self, config.width, config.width, lengths)
        case "convolution":
            assert config.convolution_width is not None
            return Convolution(config.width, config.convolution_width)
