"""Dropout, the same at every place of both families."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from study.config.experiment import PROTOCOL

LEVELS = 2**16
"""Values of one draw."""


class Dropout(nn.Module):
    """x ⊙ m / (1 − p) in training, with m = 0 at the probability p and else 1; x in evaluation.

    Protocol 1, and every protocol on a GPU, draws the mask by `torch.nn.functional.dropout`. From protocol 2 on, a CPU
    draws it by `dropout`, in about a fifth of the time. `nn.GRU` and `nn.LSTM` keep torch's own between their layers.

    Args:
        rate: p.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self.protocol: int = PROTOCOL

    def forward(self, x: Tensor) -> Tensor:
        if self.protocol == 1 or not x.is_cpu:
            return F.dropout(x, self.rate, self.training)
        return dropout(x, self.rate) if self.training and self.rate else x


def dropout(x: Tensor, rate: float) -> Tensor:
    """Drop values with 16 random bits each, four values to a draw of torch's generator.

    The probability p is `rate` rounded to a multiple of 1/65536, 65535/65536 at most. What stays is divided by the
    1 − p of this p, so that the expectation is x.
    """
    dropped = min(round(rate * LEVELS), LEVELS - 1)
    draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    bits = draws.view(torch.int16)[: x.numel()].view(x.shape)
    mask = torch.ge(bits, dropped - LEVELS // 2, out=torch.empty(x.shape, dtype=x.dtype))
    return x * mask.mul_(LEVELS / (LEVELS - dropped))


def follow_protocol(model: nn.Module, protocol: int) -> None:
    """Draw the masks of a model as a protocol does."""
    for module in model.modules():
        if isinstance(module, Dropout):
            module.protocol = protocol
