"""One training step: learning rate, random seeds, penalties, and the gradient through what was sampled.

Samples are trained by REINFORCE with a running-mean baseline (Williams 1992; Xu et al. 2015). A mechanism that samples
reports log a(s_t), as `Terms.log_prob`; nothing here knows which.

B batch · L target tokens.
"""

import hashlib
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from study.attention import Terms
from study.models.translator import Translator


def factor(step: int, recipe: Any) -> float:
    """The learning rate of an update (counted from 0) over its peak."""
    warm = (step + 1) / recipe.warmup if recipe.warmup else 1.0
    match recipe.schedule:
        case "linear":
            after = (recipe.steps - step) / max(1, recipe.steps - recipe.warmup)
        case "inverse_sqrt":
            after = (max(1, recipe.warmup) / (step + 1)) ** 0.5
        case "constant":
            after = 1.0
    return float(min(warm, after, 1.0))


def parameter_groups(model: Translator) -> list[dict[str, Any]]:
    """Return the parameters in groups of one `share`, their part of the common learning rate, in the model's order.

    The norm of the gradient is a sum in this order: another one would round differently.
    """
    shares = {parameter: share for _, _, site in model.sites() for parameter, share in site.shares().items()}
    groups = groupby(model.parameters(), lambda parameter: shares.get(parameter, 1.0))
    return [{"params": list(parameters), "share": share} for share, parameters in groups]


def step_seed(seed: int, step: int, stream: str = "") -> int:
    """The seed of every random draw of one step, or of one stream of draws of its own."""
    return int.from_bytes(hashlib.sha256(f"{seed}:step:{step}{stream}".encode()).digest()[:8], "big") >> 1


def penalties(terms: tuple[Terms, ...]) -> Tensor | float:
    """Sum the penalties that mechanisms add to the loss."""
    return sum((term.penalty for term in terms if term.penalty is not None), 0.0)


DECAY = 0.9
"""Decay of the running mean of log p per token."""


def surrogate_loss(
    terms: Sequence[Terms], log_p: Tensor, real: Tensor, mean: float | Tensor, onwards: bool = True
) -> Tensor | float:
    """A term for the loss whose gradient is that of what was sampled, per token; 0 if nothing was.

    −(1/N) Σ_bt [(R_t − b_t) · log a(s_t) + bonus_t], N the number of tokens. R_t = Σ_{t' ≥ t} log p(y_t') is what a
    draw at t still influences, unsmoothed; b_t = mean × (tokens from t on) is its baseline, known before the draw, so
    that the gradient stays unbiased. Where no context enters the decoder's state, a draw influences log p(y_t) alone:
    the rest of the sum would add noise and nothing else. Added to −(1/N) Σ log p(y_t), the expected gradient is the
    gradient of the expected loss.

    Args:
        terms: of all mechanisms. What is sampled at one t by several sites is sampled together.
        log_p: log p(y_t) of the wanted tokens, [B, L].
        real: True where a target token is not padding, [B, L].
        mean: the running mean of log p per token.
        onwards: whether a draw influences later tokens.
    """
    count = real.sum()
    returns, tokens = log_p.detach() * real, real.to(log_p.dtype)
    if onwards:
        returns, tokens = _from_here_on(returns), _from_here_on(tokens)
    advantage = (returns - mean * tokens) * real
    total: Tensor | float = 0.0
    for term in terms:
        if term.log_prob is not None:
            total = total - (advantage * term.log_prob).sum() / count
        if term.bonus is not None:
            total = total - (term.bonus * real).sum() / count
    return total


def has_samples(terms: Sequence[Terms]) -> bool:
    """Return True if any mechanism drew a sample, or adds a bonus."""
    return any(term.log_prob is not None or term.bonus is not None for term in terms)


def running_mean(mean: Tensor, log_p: Tensor, real: Tensor) -> Tensor:
    """The running mean after a batch."""
    batch = (log_p.detach() * real).sum() / real.sum()
    return DECAY * mean.to(batch.device) + (1 - DECAY) * batch


def _from_here_on(x: Tensor) -> Tensor:
    """Σ_{t' ≥ t} x_t': [B, L]."""
    return torch.flip(torch.flip(x, (1,)).cumsum(1), (1,))
