"""Scores: how well a query fits a key; and the scale put on them.

B batch · H heads · L queries · S slots · Kq, Kk widths of a head's query and key · A additive width.
Every parameter is per head. Initial values are set by `study.models.initialise`: a matrix has variance 1 / its
last axis unless its module names another fan-in.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from study.config import Attention as Config


class Score(nn.Module):
    """score(q, k) for every pair of query and slot.

    `fan` is the d of the scale 1/√d. A score is `fusable` when it is `query · prepare(key)`, so that torch's
    fused kernel can take it.
    """

    fan: int
    fusable: bool
    formula: str

    def prepare(self, keys: Tensor) -> Tensor:
        """What is computed once per slot: [B, H, S, Kk] → [B, H, S, ·]."""
        return keys

    def forward(self, query: Tensor, prepared: Tensor) -> Tensor:
        """[B, H, L, Kq] and prepared keys → unscaled scores [B, H, L, S]."""
        return query @ prepared.transpose(-1, -2)

    def rescale(self, factor: Tensor) -> bool:
        """Multiply head h's scores by factor[h] through the score's own parameter, if it has one that is linear."""
        return False


class Dot(Score):
    """q · k (Luong et al. 2015; Vaswani et al. 2017). d = K."""

    fusable = True
    formula = "q·k"

    def __init__(self, query: int, key: int) -> None:
        super().__init__()
        if query != key:
            raise ValueError(f"dot needs equal sizes, not {query} and {key}")
        self.fan = key


class Bilinear(Score):
    """qᵀ W k, "general" or "multiplicative" (Luong et al. 2015). d = Kk. W k is computed once per slot.

    W has variance 2 / (Kq + Kk) (Glorot and Bengio 2010), so that logits of unit states have sd √Kk when square.
    """

    fusable = True
    formula = "qᵀ W k"

    def __init__(self, heads: int, query: int, key: int) -> None:
        super().__init__()
        self.fan = key
        self.fan_in = (query + key) / 2
        self.weight = nn.Parameter(torch.empty(heads, query, key))

    def prepare(self, keys: Tensor) -> Tensor:
        return keys @ self.weight.transpose(-1, -2)

    @torch.no_grad()
    def rescale(self, factor: Tensor) -> bool:
        self.weight.mul_(factor[:, None, None])
        return True


class Additive(Score):
    """v · tanh(W [q; k]) (Bahdanau et al. 2015), W without bias. d = A.

    W [q; k] = W_q q + W_k k: the keys' half is computed once per slot and the concatenation is never built.
    v has variance 1/A, so that scores are O(1) whatever A is.
    """

    fusable = False
    formula = "v·tanh(W [q; k])"

    def __init__(self, heads: int, query: int, key: int, width: int) -> None:
        super().__init__()
        self.fan = width
        self.split = query
        self.weight = nn.Parameter(torch.empty(heads, width, query + key))
        self.vector = nn.Parameter(torch.empty(heads, width))

    def prepare(self, keys: Tensor) -> Tensor:
        return keys @ self.weight[..., self.split :].transpose(-1, -2)

    def forward(self, query: Tensor, prepared: Tensor) -> Tensor:
        projected = query @ self.weight[..., : self.split].transpose(-1, -2)
        hidden = torch.tanh(projected[:, :, :, None] + prepared[:, :, None])
        return torch.einsum("bhlsa,ha->bhls", hidden, self.vector)

    @torch.no_grad()
    def rescale(self, factor: Tensor) -> bool:
        self.vector.mul_(factor[:, None])
        return True


class Constant(nn.Module):
    """A fixed factor on every score."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def forward(self) -> float:
        return self.value


class Learned(nn.Module):
    """exp(g_h) per head, g_0 = −½ ln d: starts at 1/√d. It is left out of weight decay."""

    def __init__(self, heads: int, fan: int) -> None:
        super().__init__()
        self.log = nn.Parameter(torch.full((heads,), -0.5 * math.log(fan)))

    def forward(self) -> Tensor:
        return self.log.exp()[:, None, None]


def build_score(config: Config, query: int, key: int) -> Score:
    """The score that a resolved site declares, for per-head widths `query` and `key`."""
    match config.score:
        case "dot":
            return Dot(query, key)
        case "bilinear":
            return Bilinear(config.heads, query, key)
        case "additive":
            assert config.additive_width is not None
            return Additive(config.heads, query, key, config.additive_width)


def build_scale(config: Config, fan: int) -> Constant | Learned:
    """The factor that a resolved site declares: 1, 1/√d, 1/d or exp(g)."""
    match config.scale:
        case "none":
            return Constant(1.0)
        case "rsqrt":
            return Constant(fan**-0.5)
        case "inverse":
            return Constant(1 / fan)
        case "learned":
            return Learned(config.heads, fan)
        case None:
            raise ValueError("an unresolved site: its scale is still to be derived")
