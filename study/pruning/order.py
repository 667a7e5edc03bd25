"""Orders of removal: every one a list of the same heads, whoever matters least first."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from study.config.pruning import Pruning
from study.models import Translator
from study.pruning import gates
from study.pruning.importance import Importance, gradient, leave_one_out, loss, weight_norm
from study.pruning.surgery import Head, heads_of, masked
from study.training.batches import Example

MEASURED = 2000
"""Training sentences, the first, that the gradient's importance is a mean over."""
SEARCHED = 300
"""Validation sentences, the first, whose loss decides where an order tries heads out."""


class Data(NamedTuple):
    """Data that an order may use: not the test set."""

    train: Sequence[Example]
    valid: Sequence[Example]
    batch_tokens: int
    seed: int


class Ranking(NamedTuple):
    """Heads in the order of their removal, and the number that each was judged by, if it was by one."""

    heads: list[Head]
    importance: Importance


def rank(model: Translator, pruning: Pruning, data: Data) -> Ranking:
    """The order that a pruning declares, of a model in evaluation mode."""
    among = heads_of(model, pruning.site)
    searched = data.valid[:SEARCHED]
    match pruning.order:
        case "gradient" | "gradient_normalised":
            normalise = pruning.order == "gradient_normalised"
            return by_importance(gradient(model, data.train[:MEASURED], normalise), among)
        case "weight_norm":
            return by_importance(weight_norm(model), among)
        case "leave_one_out":
            return by_importance(leave_one_out(model, searched, among), among)
        case "greedy":
            return greedy(model, searched, among)
        case "gates":
            assert pruning.penalty is not None
            assert pruning.gate_steps is not None
            learned = gates.learned(
                model,
                data.train,
                pruning.site,
                price=pruning.penalty,
                steps=pruning.gate_steps,
                batch_tokens=data.batch_tokens,
                seed=data.seed,
            )
            return by_importance(learned, among)
        case "random":
            return Ranking(shuffled(among, data.seed, 0), {})
        case None:
            raise ValueError("this question has no order")


def by_importance(importance: Importance, among: Sequence[Head]) -> Ranking:
    """The least important first; of equals the earlier."""
    return Ranking(sorted(among, key=lambda head: importance[head]), {head: importance[head] for head in among})


def greedy(model: Translator, data: Sequence[Example], among: Sequence[Head]) -> Ranking:
    """One after the other the head without which, beside those gone, the loss is lowest. The number is that loss."""
    gone: list[Head] = []
    importance: Importance = {}
    while left := [head for head in among if head not in importance]:
        tried: Importance = {}
        for head in left:
            with masked(model, [*gone, head]):
                tried[head] = loss(model, data)
        best = min(left, key=lambda head: tried[head])
        gone.append(best)
        importance[best] = tried[best]
    return Ranking(gone, importance)


def shuffled(among: Sequence[Head], seed: int, draw: int) -> list[Head]:
    """A random order: a function of (seed, draw)."""
    heads = list(among)
    random.Random(f"{seed}:{draw}").shuffle(heads)
    return heads


def gone(heads: Sequence[Head], fraction: float) -> list[Head]:
    """The first of an order, so many as are nearest to a fraction of it."""
    return list(heads[: int(fraction * len(heads) + 0.5)])
