"""The decoder's recurrent cell: torch's GRU or LSTM, plus a matrix of its own for what enters beside the embedding.

B batch · L target tokens · D width · G gates (3 GRU, 4 LSTM) · E width of what enters.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Hidden = tuple[tuple[Tensor, ...], ...]
"""One (h,) or (h, c) per layer, each [B, D]."""


class Cell(nn.Module):
    """A stack of GRU or LSTM layers that can be run over a whole sequence or token by token.

    What enters (a context, or a fed-back readout) is added to the first layer's gates through a matrix of its own,
    so that the other matrices keep their shapes and initial values in every arm.

    Args:
        kind: `nn.GRU` or `nn.LSTM`.
        width: D.
        layers: number of layers.
        dropout: between layers.
        entering: E; 0 when nothing enters.
    """

    def __init__(
        self, kind: type[nn.GRU] | type[nn.LSTM], width: int, layers: int, dropout: float, entering: int
    ) -> None:
        super().__init__()
        self.rnn = kind(width, width, layers, batch_first=True, dropout=dropout if layers > 1 else 0.0)
        gates = 3 if kind is nn.GRU else 4
        self.entering = nn.Linear(entering, gates * width, bias=False) if entering else None

    def gates(self, embedded: Tensor) -> Tensor:
        """The embedding's part of the first layer's gates: [B, …, D] → [B, …, G·D]."""
        return F.linear(embedded, self._weight("weight_ih", 0), self._weight("bias_ih", 0))

    def sequence(self, embedded: Tensor, hidden: Hidden) -> tuple[Tensor, Hidden]:
        """All tokens at once, when nothing enters: [B, L, D] → states [B, L, D]."""
        parts = [torch.stack(part) for part in zip(*hidden, strict=True)]
        states, after = self.rnn(embedded, parts[0] if len(parts) == 1 else tuple(parts))
        flat = (after,) if isinstance(after, Tensor) else after
        return states, tuple(zip(*(part.unbind(0) for part in flat), strict=True))

    def forward(self, gates: Tensor, hidden: Hidden, enters: Tensor | None) -> Hidden:
        """One token, from its gates [B, G·D] and what enters [B, E]."""
        if self.entering is not None:
            assert enters is not None
            gates = gates + self.entering(enters)
        after: list[tuple[Tensor, ...]] = []
        for layer, before in enumerate(hidden):
            if layer:
                below = F.dropout(after[-1][0], self.rnn.dropout, self.training)
                gates = F.linear(below, self._weight("weight_ih", layer), self._weight("bias_ih", layer))
            recurrent = F.linear(before[0], self._weight("weight_hh", layer), self._weight("bias_hh", layer))
            after.append(_gru(gates, recurrent, *before) if len(before) == 1 else _lstm(gates, recurrent, *before))
        return tuple(after)

    def _weight(self, name: str, layer: int) -> Tensor:
        weight: Tensor = getattr(self.rnn, f"{name}_l{layer}")
        return weight


def _gru(gates: Tensor, recurrent: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    """r, z = σ(x + h), n = tanh(x + r ⊙ h); h' = (1 − z) ⊙ n + z ⊙ h, with torch's order of gates."""
    width = h.shape[-1]
    reset, update = torch.sigmoid(gates[..., : 2 * width] + recurrent[..., : 2 * width]).chunk(2, -1)
    new = torch.tanh(gates[..., 2 * width :] + reset * recurrent[..., 2 * width :])
    return (torch.lerp(new, h, update),)


def _lstm(gates: Tensor, recurrent: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    """i, f, o = σ(x + h), g = tanh(x + h); c' = f ⊙ c + i ⊙ g, h' = o ⊙ tanh(c'), with torch's order of gates."""
    keep, forget, new, out = (gates + recurrent).chunk(4, -1)
    c = torch.sigmoid(forget) * c + torch.sigmoid(keep) * torch.tanh(new)
    return torch.sigmoid(out) * torch.tanh(c), c
