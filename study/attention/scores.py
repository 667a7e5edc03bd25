"""Scores: how well a query fits a key.

B batch · H heads · L queries · S slots · Kq, Kk widths of a head's query and key · A additive width · R rank.
Initial values are set by `study.models.initialise`: a matrix has variance 1 / its last axis unless its module names
another fan-in; biases are 0.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from study.attention.blockwise import additive
from study.attention.positional import FixedRandom, Location, Uniform
from study.attention.score import Constant, Learned, Score
from study.attention.view import Lengths, View
from study.config import Attention as Config


class Dot(Score):
    """q · k (Luong et al. 2015; Vaswani et al. 2017). d = K."""

    fusable = True
    formula = "q·k"

    def __init__(self, query: int, key: int) -> None:
        super().__init__()
        if query != key:
            raise ValueError(f"dot needs equal sizes, not {query} and {key}")
        self.fan = key


class Cosine(Score):
    """τ · q·k / (‖q‖ ‖k‖) (Henry et al. 2020), each norm at least 1e-6. No d.

    τ is 1, or exp(g_h) per head with g_0 = ln log₂(L² − L) for the 97.5th percentile L of training length.
    """

    fusable = True
    formula = "τ q·k / (‖q‖ ‖k‖)"
    fan = 1

    def __init__(self, heads: int, typical: int | None) -> None:
        super().__init__()
        length = max(2, typical or 0)
        start = math.log(math.log2(length**2 - length))
        self.temperature = Constant(1.0, "1") if typical is None else Learned(heads, start)

    def prepare(self, keys: Tensor) -> Tensor:
        return F.normalize(keys, dim=-1, eps=1e-6)

    def ask(self, query: Tensor) -> Tensor:
        unit: Tensor = F.normalize(query, dim=-1, eps=1e-6) * self.temperature()
        return unit

    def rescale(self, factor: Tensor) -> bool:
        if isinstance(self.temperature, Constant):
            raise ValueError("a cosine whose τ is fixed cannot be rescaled")
        self.temperature.rescale(factor)
        return True


class Bilinear(Score):
    """qᵀ W k, "general" or "multiplicative" (Luong et al. 2015). d = Kk. W k is computed once per slot.

    W has variance 2 / (Kq + Kk) (Glorot and Bengio 2010), so that logits of unit states have sd √Kk when square; or
    it starts as the identity.
    """

    fusable = True
    formula = "qᵀ W k"

    def __init__(self, heads: int, query: int, key: int, identity: bool = False) -> None:
        super().__init__()
        self.fan = key
        self.fan_in = (query + key) / 2
        self.identity = identity
        self.weight = nn.Parameter(torch.empty(heads, query, key))

    def start(self) -> None:
        """Called after the random initial values are drawn."""
        if self.identity:
            self.weight.copy_(torch.eye(self.weight.shape[-1]))

    def prepare(self, keys: Tensor) -> Tensor:
        return keys @ self.weight.transpose(-1, -2)

    @torch.no_grad()
    def rescale(self, factor: Tensor) -> bool:
        self.weight.mul_(factor[:, None, None])
        return True


class LowRank(Score):
    """(U q) · (V k), a bilinear score whose W = Uᵀ V has rank R: "reduced-rank multiplicative". d = R."""

    fusable = True
    formula = "(U q)·(V k)"

    def __init__(self, heads: int, query: int, key: int, rank: int) -> None:
        super().__init__()
        self.fan = rank
        self.query = nn.Parameter(torch.empty(heads, rank, query))
        self.key = nn.Parameter(torch.empty(heads, rank, key))

    def prepare(self, keys: Tensor) -> Tensor:
        return keys @ self.key.transpose(-1, -2)

    def ask(self, query: Tensor) -> Tensor:
        return query @ self.query.transpose(-1, -2)

    @torch.no_grad()
    def rescale(self, factor: Tensor) -> bool:
        for weight in (self.query, self.key):
            weight.mul_(factor.sqrt()[:, None, None])
        return True


class Additive(Score):
    """v · tanh(W [q; k]) (Bahdanau et al. 2015), W without bias. d = A.

    W [q; k] = W_q q + W_k k: the keys' half is computed once per slot and the concatenation is never built. Nor, in
    training, is tanh kept for all pairs.
    v has variance 1/A, so that scores are O(1) whatever A is.
    """

    fusable = False
    unit_sized = True
    window_worth = 4.0
    formula = "v·tanh(W [q; k])"

    def __init__(self, heads: int, query: int, key: int, width: int) -> None:
        super().__init__()
        self.fan = width
        self.split = query
        self.weight = nn.Parameter(torch.empty(heads, width, query + key))
        self.vector = nn.Parameter(torch.empty(heads, width))

    def prepare(self, keys: Tensor) -> Tensor:
        return keys @ self.weight[..., self.split :].transpose(-1, -2)

    def forward(self, query: Tensor, prepared: Tensor, view: View) -> Tensor:
        projected = query @ self.weight[..., : self.split].transpose(-1, -2)
        return additive(projected, prepared, self.vector)

    @torch.no_grad()
    def rescale(self, factor: Tensor) -> bool:
        self.vector.mul_(factor[:, None])
        return True


class Concat(Additive):
    """v · tanh(W [q; k] + b) (Luong et al. 2015): additive with a bias, 0 at the start. d = A."""

    formula = "v·tanh(W [q; k] + b)"

    def __init__(self, heads: int, query: int, key: int, width: int) -> None:
        super().__init__(heads, query, key, width)
        self.bias = nn.Parameter(torch.zeros(heads, width))

    def prepare(self, keys: Tensor) -> Tensor:
        return super().prepare(keys) + self.bias[:, None]


class ConcatLuong(Concat):
    """v · tanh(W q + k + b): concat with the keys' block of W frozen at the identity (Luong et al. 2015). d = A = Kk.

    The frozen block is not stored. W is the queries' block of what concat of the same width stores, and is drawn so.
    """

    formula = "v·tanh(W q + k + b)"

    def __init__(self, heads: int, query: int, key: int) -> None:
        super().__init__(heads, query, key, key)
        self.weight = nn.Parameter(torch.empty(heads, key, query))
        self.stored = {"weight": ((heads, key, query + key), (..., slice(query)))}

    def prepare(self, keys: Tensor) -> Tensor:
        return keys + self.bias[:, None]


def build_score(config: Config, query: int, key: int, lengths: Lengths | None = None) -> Score:
    """The score that a resolved site declares, for per-head widths `query` and `key`."""
    heads = config.heads
    match config.score:
        case "dot":
            return Dot(query, key)
        case "cosine":
            return Cosine(heads, _known(lengths).typical if config.scale == "learned" else None)
        case "bilinear":
            return Bilinear(heads, query, key, config.bilinear_init == "identity")
        case "low_rank":
            assert config.rank is not None
            return LowRank(heads, query, key, config.rank)
        case "additive":
            assert config.additive_width is not None
            return Additive(heads, query, key, config.additive_width)
        case "concat":
            assert config.additive_width is not None
            return Concat(heads, query, key, config.additive_width)
        case "concat_luong":
            return ConcatLuong(heads, query, key)
        case "location":
            return Location(heads, query, _known(lengths).longest)
        case "uniform":
            return Uniform()
        case "fixed_random":
            return FixedRandom(heads, _known(lengths).longest)


def _known(lengths: Lengths | None) -> Lengths:
    if lengths is None:
        raise ValueError("this score is sized by the training sentences: build it with their lengths")
    return lengths
