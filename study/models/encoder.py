"""The recurrent encoder: GRU or LSTM, one or two directions, any number of layers.

The backward direction reads each sentence reversed within its own length, so that padding always comes last and
changes nothing. torch's packed sequences give the same, but their backward pass on a CPU costs O(S²) copies.

B batch · S source tokens · D width of the input · E width of the states.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from study.models.bridge import last
from study.models.translator import lengths


class Encoder(nn.Module):
    """States [B, S, E] of every token, and the final state [h→; h←] [B, E].

    Args:
        kind: `nn.GRU` or `nn.LSTM`.
        width: D.
        memory: E, halved between the directions.
        layers: number of layers.
        bidirectional: read in both directions.
        dropout: between layers.
    """

    def __init__(
        self,
        kind: type[nn.GRU] | type[nn.LSTM],
        width: int,
        memory: int,
        layers: int,
        bidirectional: bool,
        dropout: float,
    ) -> None:
        super().__init__()
        size = memory // 2 if bidirectional else memory
        entering = [width] + [memory] * (layers - 1)
        self.rightward = nn.ModuleList(kind(enters, size, batch_first=True) for enters in entering)
        self.leftward = nn.ModuleList(kind(enters, size, batch_first=True) for enters in entering if bidirectional)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        reverse = reversal(mask)
        for layer, rightward in enumerate(self.rightward):
            if layer:
                x = self.dropout(x)
            ahead, _ = rightward(x)
            if not self.leftward:
                x = ahead
                continue
            back, _ = self.leftward[layer](permute(x, reverse))
            x = torch.cat([ahead, permute(back, reverse)], -1)
        final = last(ahead, mask)
        return x, torch.cat([final, last(back, mask)], -1) if self.leftward else final


def reversal(mask: Tensor) -> Tensor:
    """Return the positions of each sentence in reverse order, with padding in place: [B, S]. It is its own inverse."""
    position = torch.arange(mask.shape[1], device=mask.device)
    return torch.where(mask, lengths(mask)[:, None] - 1 - position, position)


def permute(x: Tensor, order: Tensor) -> Tensor:
    """x[b, order[b, s]]: [B, S, D]."""
    return x.gather(1, order[..., None].expand_as(x))
