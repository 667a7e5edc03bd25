"""v · tanh(q + k) for all pairs of query and slot, of which, when they are many, a block is in memory at a time.

B batch · H heads · L queries · S slots · A additive width.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

KEPT = 2**22
"""Elements of tanh(q + k) up to which they are all kept: 16 MB. Training steps of a minute's run are below it."""
BLOCK = {"cpu": 2**17, "cuda": 2**24}
"""Elements that are computed together beyond that: on a CPU what a core's own cache holds."""


def additive(query: Tensor, keys: Tensor, vector: Tensor) -> Tensor:
    """v_h · tanh(q + k): queries [B, H, L, A], keys [B, H, S, A], v [H, A] → scores [B, H, L, S].

    Up to `KEPT`, autograd keeps tanh for the backward pass, which saves computing it again. Beyond that, `_Blocks`.
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
    """The same block by block, keeping q and k alone: backward computes tanh again, ∂/∂x v tanh x = v (1 − tanh² x)."""

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
