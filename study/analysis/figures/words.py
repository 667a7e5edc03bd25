"""Arms and axes as figures word them."""

from __future__ import annotations

from typing import Any

from study import metrics
from study.analysis.figures import style
from study.config.mechanisms import AXES

WORDS: dict[str, str] = {
    f"{axis}={name}": row.label for axis, rows in AXES.items() for name, row in rows.items() if row.label
} | {
    "equal_start=true": "equal start",
    "exclude_self=true": "self masked",
    "order=random": "random orders",
    "order=gradient_normalised": "gradient, by layer",
    "order=leave_one_out": "leave one out",
}
WORDS |= {"floor=confused": "by the largest weights of symmetric scores", "floor=blind": "a guess without looking"}
PLAIN = (*style.ARMS, "family")
"""Fields whose values speak for themselves."""
SYMBOLS = {"additive_width": "A"}


def words(arm: str) -> str:
    """`scale=none logit_init=matched` ↦ `unscaled, logits start at sd 1`."""
    return ", ".join(_word(token) for token in arm.split())


def _word(token: str) -> str:
    field, _, value = token.partition("=")
    plain = value.replace("_", " ") if field in PLAIN else f"{SYMBOLS.get(field, field)} = {value}"
    return WORDS.get(token, plain)


def axis(metric: str) -> str:
    """`test/exact` ↦ `exact match, %`; other splits than test are named."""
    split = metric.partition("/")[0]
    return metrics.title(metric) + ("" if split == "test" else f" ({split})")


def tick(value: Any) -> str:
    """A place on an axis: `512`, `0.5`, `3e-4`, `4–7`."""
    if isinstance(value, str):
        return value
    return f"{value:.0e}".replace("e-0", "e-") if 0 < value < 0.05 else f"{value:g}"
