"""Scores of queries and keys, scores by slot alone, two controls without content, and the scale of scores.

B batch · H heads · L queries · S slots · Kq, Kk widths of a head's query and key · A additive width · R rank · S_max
longest training sentence. A slot's number is its place in the memory: the source position in cross-attention, the
absolute position in self-attention. At site joint, tables with a row for each slot count from `View.offset`.

Initial values are set by `study.models.initialise`: a matrix has variance 1 / its last axis unless its module names
another fan-in; biases are 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from study.attention.part import Part
from study.attention.view import Lengths, View
from study.config import AttentionConfig
from study.config.mechanisms import BILINEAR_INIT, SCALE, SCORE, SIZES
from study.errors import InputError


class Score(Part):
    """score(q, k) for every pair of query and slot.

    Args:
        heads: H.
        query: Kq.
        key: Kk.
        options: those of its row, and `lengths` of the training sentences.
    """

    axis = "score"
    fusable = True
    """True if the score is `prepare_query(q) · prepare(k)`, so that PyTorch's fused kernel can compute the site; False
    for a class with a `forward` of its own."""
    gather_from: float = 11.0
    """S ÷ window size from which gathering a window is cheaper than masking the other slots. A class with a `forward`
    of its own may read a slot's number, so its windows are masked, unless it states a value of its own. Measured on a
    CPU, forward and backward: `benchmarks/README.md`."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "forward" in vars(cls):
            cls.fusable, cls.gather_from = False, vars(cls).get("gather_from", math.inf)

    def __init__(self, heads: int, query: int, key: int, **options: Any) -> None:
        super().__init__()
        widths = {"": 1, "K": key, "Kk": key, "Kq": query}
        widths |= {SIZES[option]: value for option, value in options.items() if option in SIZES}
        self.d: int = widths[self.facts.d]
        """The d of the scale 1/√d."""

    def prepare(self, keys: Tensor) -> Tensor:
        """Prepare keys, once per slot: [B, H, S, Kk] → [B, H, S, ·]."""
        return keys

    def prepare_query(self, query: Tensor) -> Tensor:
        """Prepare queries, once per query: [B, H, L, Kq] → [B, H, L, ·]."""
        return query

    def narrow(self, view: View, slots: int) -> View:
        """Return the view without the slots that the score cannot address."""
        return view

    def forward(self, query: Tensor, prepared: Tensor, view: View) -> Tensor:
        """Return the unscaled scores [B, H, L, S] of prepared queries [B, H, L, ·] and prepared keys [B, H, S, ·]."""
        return query @ prepared.transpose(-1, -2)

    def rescale(self, factor: Tensor) -> bool:
        """Multiply the scores of head h by factor[h] through a parameter; return False if the score has none."""
        return False


class Scale(Part):
    """Factor on every score of a head.

    Args:
        heads: H.
        d: width that the score sums over.
    """

    axis = "scale"

    def __init__(self, heads: int, d: int) -> None:
        super().__init__()

    def forward(self) -> Tensor | float:
        """Return one factor, or one for each head: [H, 1, 1]."""
        raise NotImplementedError

    def over(self, view: View) -> Tensor | float:
        """Return the factor for the visible slots of a view, broadcastable to [B, H, L, S]."""
        return self.forward()


class Unscaled(Scale):
    """1."""

    name = "none"

    def forward(self) -> float:
        return 1.0


class InverseRoot(Scale):
    """1/√d (Vaswani et al. 2017)."""

    name = "rsqrt"

    def __init__(self, heads: int, d: int) -> None:
        super().__init__(heads, d)
        self.value: float = d**-0.5

    def forward(self) -> float:
        return self.value


class Inverse(InverseRoot):
    """1/d."""

    name = "inverse"

    def __init__(self, heads: int, d: int) -> None:
        super().__init__(heads, d)
        self.value = 1 / d


class Learned(Scale):
    """exp(g_h) per head. g starts at −½ ln d or at a given value."""

    name = "learned"

    def __init__(self, heads: int, d: int, start: float | None = None) -> None:
        super().__init__(heads, d)
        self.log = nn.Parameter(torch.full((heads,), -0.5 * math.log(d) if start is None else start))

    def forward(self) -> Tensor:
        return self.log.exp()[:, None, None]

    @torch.no_grad()
    def rescale(self, factor: Tensor) -> None:
        """Multiply head h's factor by factor[h]."""
        self.log.add_(factor.log())


class LogLength(Scale):
    """g_h · ln S_t / √d for S_t visible slots (Chiang and Cholak 2022 with g = 1; Nakanishi 2025, where g is learned).

    g starts at 1 / mean of ln n for n = 1 … L, L the 97.5th percentile of training length, so that logits start about
    as large as with 1/√d.
    """

    name = "log_length"

    def __init__(self, heads: int, d: int, lengths: Lengths | None = None) -> None:
        super().__init__(heads, d)
        self.root: float = d**-0.5
        typical = max(2, known(lengths).typical)
        self.factor = nn.Parameter(torch.full((heads,), typical / math.lgamma(typical + 1)))

    def forward(self) -> Tensor:
        """Return the factor on ln S_t."""
        return self.factor[:, None, None] * self.root

    def over(self, view: View) -> Tensor:
        slots: Tensor = view.mask.sum(-1, keepdim=True).clamp(min=1).to(self.factor.dtype)
        return self.forward() * slots.log()


def build_scale(config: AttentionConfig, d: int, lengths: Lengths | None = None) -> Scale:
    """Build the factor that a resolved site declares. A score with a scale of its own gets no second one."""
    if SCORE[config.score].own_scale:
        return Unscaled(config.score_heads, d)
    return Scale.chosen(config, config.score_heads, d, lengths=lengths)


def known(lengths: Lengths | None) -> Lengths:
    """Return the lengths of the training sentences, for what is sized by them.

    Raises:
        InputError: there are none, as in a layer that is built without `longest`.
    """
    if lengths is None:
        raise InputError("longest: expected the largest number of slots, which this score or scale needs, got none.")
    return lengths


KEPT = 2**22
"""Number of elements of tanh(q + k) up to which all are kept: 16 MB. Steps of the small models stay below it."""
BLOCK = {"cpu": 2**17, "cuda": 2**24}
"""Number of elements that are computed together above `KEPT`: on a CPU, the cache of a core."""


def additive(query: Tensor, keys: Tensor, vector: Tensor) -> Tensor:
    """Return v_h · tanh(q + k): queries [B, H, L, A], keys [B, H, S, A], v [H, A] → scores [B, H, L, S].

    Up to `KEPT` elements, autograd keeps tanh for the backward pass. With more, `_Blocks` computes it again.
    """
    if query.numel() * keys.shape[2] <= KEPT:
        return _weigh(_hidden(query, keys), vector)
    scores: Tensor = _Blocks.apply(query, keys, vector)  # type: ignore[no-untyped-call]
    return scores


def _hidden(query: Tensor, keys: Tensor) -> Tensor:
    """tanh(q + k): [B, H, L, S, A]."""
    return (query[:, :, :, None] + keys[:, :, None]).tanh_()


def _weigh(hidden: Tensor, vector: Tensor) -> Tensor:
    """Each pair's v · hidden: [B, H, L, S]."""
    return torch.einsum("bhlsa,ha->bhls", hidden, vector)


def _blocks(query: Tensor, keys: Tensor) -> Iterator[tuple[slice, slice]]:
    """Slices of B and of L that cut all pairs into blocks: of several sentences, or of some queries of one."""
    batch, heads, length, width = query.shape
    limit = BLOCK["cuda" if query.is_cuda else "cpu"]
    each = heads * keys.shape[2] * width
    queries = min(length, max(1, limit // each))
    sentences = max(1, limit // (each * queries))
    for b in range(0, batch, sentences):
        for t in range(0, length, queries):
            yield slice(b, b + sentences), slice(t, t + queries)


class _Blocks(torch.autograd.Function):
    """`additive` block by block. Only q and k are kept; backward computes ∂/∂x v tanh x = v (1 − tanh² x) from them."""

    @staticmethod
    def forward(context: Any, query: Tensor, keys: Tensor, vector: Tensor) -> Tensor:
        context.save_for_backward(query, keys, vector)
        scores = query.new_empty(*query.shape[:3], keys.shape[2])
        for b, t in _blocks(query, keys):
            scores[b, :, t] = _weigh(_hidden(query[b, :, t], keys[b]), vector)
        return scores

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, keys, vector = context.saved_tensors
        to_query, to_keys, to_vector = (torch.zeros_like(x) for x in (query, keys, vector))
        one = query.new_ones(())
        for b, t in _blocks(query, keys):
            arriving = gradient[b, :, t]
            hidden = _hidden(query[b, :, t], keys[b])
            to_vector += (arriving.flatten(2)[:, :, None] @ hidden.flatten(2, 3)).sum((0, 2))
            slope = torch.addcmul(one, hidden, hidden, value=-1).mul_(arriving[..., None])
            to_query[b, :, t] = slope.sum(3)
            to_keys[b] += slope.sum(2)
        return to_query * vector[:, None], to_keys * vector[:, None], to_vector


class Dot(Score):
    """q · k (Luong et al. 2015; Vaswani et al. 2017). d = K."""

    name = "dot"


class Cosine(Score):
    """τ · q·k / (‖q‖ ‖k‖) (Henry et al. 2020), each norm at least 1e-6. No d.

    τ is 1, or exp(g_h) per head with g_0 = ln log₂(L² − L) for the 97.5th percentile L of training length.
    """

    name = "cosine"

    def __init__(self, heads: int, query: int, key: int, *, scale: str, lengths: Lengths | None) -> None:
        super().__init__(heads, query, key)
        self.temperature: Scale = Unscaled(heads, 1)
        if SCALE[scale].learned:
            length = max(2, known(lengths).typical)
            self.temperature = Learned(heads, 1, math.log(math.log2(length**2 - length)))

    def prepare(self, keys: Tensor) -> Tensor:
        return F.normalize(keys, dim=-1, eps=1e-6)

    def prepare_query(self, query: Tensor) -> Tensor:
        unit: Tensor = F.normalize(query, dim=-1, eps=1e-6) * self.temperature()
        return unit

    def rescale(self, factor: Tensor) -> bool:
        if not isinstance(self.temperature, Learned):
            raise ValueError("a cosine whose τ is fixed cannot be rescaled")
        self.temperature.rescale(factor)
        return True


class Bilinear(Score):
    """qᵀ W k, "general" or "multiplicative" (Luong et al. 2015). d = Kk. W k is computed once per slot.

    W has variance 2 / (Kq + Kk) (Glorot and Bengio 2010), so that logits of unit states have sd √Kk when square; or
    it starts as the identity.
    """

    name = "bilinear"

    def __init__(self, heads: int, query: int, key: int, *, bilinear_init: str, **options: Any) -> None:
        super().__init__(heads, query, key)
        self.fan_in = (query + key) / 2
        self.identity = BILINEAR_INIT[bilinear_init].square
        self.weight = nn.Parameter(torch.empty(heads, query, key))

    def start(self) -> None:
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

    name = "low_rank"

    def __init__(self, heads: int, query: int, key: int, *, rank: int, **options: Any) -> None:
        super().__init__(heads, query, key, rank=rank)
        self.query = nn.Parameter(torch.empty(heads, rank, query))
        self.key = nn.Parameter(torch.empty(heads, rank, key))

    def prepare(self, keys: Tensor) -> Tensor:
        return keys @ self.key.transpose(-1, -2)

    def prepare_query(self, query: Tensor) -> Tensor:
        return query @ self.query.transpose(-1, -2)

    @torch.no_grad()
    def rescale(self, factor: Tensor) -> bool:
        for weight in (self.query, self.key):
            weight.mul_(factor.sqrt()[:, None, None])
        return True


class Additive(Score):
    """v · tanh(W [q; k]) (Bahdanau et al. 2015), W without bias. d = A.

    W [q; k] = W_q q + W_k k: W_k k is computed once per slot, and the concatenation is never built. Large batches do
    not keep tanh for all pairs. v has variance 1/A, so that scores are O(1) for every A.
    """

    name = "additive"
    gather_from = 4.0

    def __init__(self, heads: int, query: int, key: int, *, additive_width: int, **options: Any) -> None:
        super().__init__(heads, query, key, additive_width=additive_width)
        self.split = query
        self.weight = nn.Parameter(torch.empty(heads, additive_width, query + key))
        self.vector = nn.Parameter(torch.empty(heads, additive_width))

    def prepare(self, keys: Tensor) -> Tensor:
        return keys @ self.weight[..., self.split :].transpose(-1, -2)

    def prepare_query(self, query: Tensor) -> Tensor:
        return query @ self.weight[..., : self.split].transpose(-1, -2)

    def forward(self, query: Tensor, prepared: Tensor, view: View) -> Tensor:
        return additive(query, prepared, self.vector)

    @torch.no_grad()
    def rescale(self, factor: Tensor) -> bool:
        self.vector.mul_(factor[:, None])
        return True


class Concat(Additive):
    """v · tanh(W [q; k] + b) (Luong et al. 2015): additive with a bias, 0 at the start. d = A."""

    name = "concat"

    def __init__(self, heads: int, query: int, key: int, *, additive_width: int, **options: Any) -> None:
        super().__init__(heads, query, key, additive_width=additive_width)
        self.bias = nn.Parameter(torch.zeros(heads, additive_width))

    def prepare(self, keys: Tensor) -> Tensor:
        return super().prepare(keys) + self.bias[:, None]


class ConcatLuong(Concat):
    """v · tanh(W q + k + b): concat with the keys' block of W frozen at the identity (Luong et al. 2015). d = A = Kk.

    The frozen block is not stored. W is the queries' block of the matrix of a concat of the same width, and has the
    same initial values.
    """

    name = "concat_luong"

    def __init__(self, heads: int, query: int, key: int, **options: Any) -> None:
        super().__init__(heads, query, key, additive_width=key)
        self.weight = nn.Parameter(torch.empty(heads, key, query))
        self.stored = {"weight": ((heads, key, query + key), (..., slice(query)))}

    def prepare(self, keys: Tensor) -> Tensor:
        return keys + self.bias[:, None]


class Bounded(Score):
    """Score that addresses S_max slots. Slots beyond are masked."""

    def __init__(self, heads: int, query: int, key: int, **options: Any) -> None:
        super().__init__(heads, query, key, **options)
        self.longest = known(options.get("lengths")).longest

    def narrow(self, view: View, slots: int) -> View:
        first, end = self.addressed(view, slots)
        if (first, end) == (0, slots):
            return view
        slot = torch.arange(slots, device=view.mask.device)
        return view._replace(mask=view.mask & (slot >= first) & (slot < end))

    def addressed(self, view: View, slots: int) -> tuple[int, int]:
        """Return the first of the S slots that has a row of the table, and the one after the last."""
        return max(0, view.offset), min(slots, view.offset + self.longest)

    def rows(self, view: View, slots: int) -> slice:
        """Return the rows of the slots that have one."""
        first, end = self.addressed(view, slots)
        return slice(first - view.offset, end - view.offset)

    def all_slots(self, logits: Tensor, view: View, slots: int) -> Tensor:
        """Pad logits of the slots that have a row with zeros to all S, […, S]. The other slots are masked."""
        first, end = self.addressed(view, slots)
        return F.pad(logits, (first, slots - end))


class Location(Bounded):
    """w_s · q for slot s, without regard to its content (Luong et al. 2015). d = Kq."""

    name = "location"

    def __init__(self, heads: int, query: int, key: int, **options: Any) -> None:
        super().__init__(heads, query, key, **options)
        self.weight = nn.Parameter(torch.empty(heads, self.longest, query))

    def forward(self, query: Tensor, prepared: Tensor, view: View) -> Tensor:
        slots = prepared.shape[2]
        return self.all_slots(query @ self.weight[:, self.rows(view, slots)].transpose(-1, -2), view, slots)

    @torch.no_grad()
    def rescale(self, factor: Tensor) -> bool:
        self.weight.mul_(factor[:, None, None])
        return True


class EluKernel(Score):
    """φ(q) · φ(k) with φ(x) = elu(x) + 1 ≥ 0, the kernel of linear attention (Katharopoulos et al. 2020). No d."""

    name = "elu_kernel"

    def prepare(self, keys: Tensor) -> Tensor:
        return F.elu(keys) + 1

    def prepare_query(self, query: Tensor) -> Tensor:
        return F.elu(query) + 1


class Uniform(Score):
    """0 for every slot, so that the context is the mean over visible slots. A control."""

    name = "uniform"

    def forward(self, query: Tensor, prepared: Tensor, view: View) -> Tensor:
        return query.new_zeros(*query.shape[:3], prepared.shape[2])


class FixedRandom(Bounded):
    """T_{t s} for the query at absolute position t: a frozen table per head, drawn from N(0, 1) (Tay et al. 2021).

    A control. The logits have standard deviation 1. Queries beyond S_max use the last row of the table.
    """

    name = "fixed_random"
    fan_in = 1
    drawn = ("table",)
    table: Tensor

    def __init__(self, heads: int, query: int, key: int, **options: Any) -> None:
        super().__init__(heads, query, key, **options)
        self.register_buffer("table", torch.zeros(heads, self.longest, self.longest))

    def forward(self, query: Tensor, prepared: Tensor, view: View) -> Tensor:
        slots = prepared.shape[2]
        row = (view.position - view.offset).clamp(0, self.longest - 1)
        rows = self.table[:, row, self.rows(view, slots)].to(query.dtype)
        return self.all_slots(rows, view, slots).expand(len(query), -1, -1, -1)
