"""Learning rate, random seeds and mechanism penalties of a training step."""

from __future__ import annotations

import hashlib
from typing import Any

from torch import Tensor

from study.attention import Terms


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


def step_seed(seed: int, step: int, stream: str = "") -> int:
    """The seed of every random draw of one step, or of one stream of draws of its own."""
    return int.from_bytes(hashlib.sha256(f"{seed}:step:{step}{stream}".encode()).digest()[:8], "big") >> 1


def penalties(terms: tuple[Terms, ...]) -> Tensor | float:
    """Sum the penalties that mechanisms add to the loss."""
    return sum((term.penalty for term in terms if term.penalty is not None), 0.0)
