"""Labels of tables and figures: numbers, arms and axes as they are printed."""

from __future__ import annotations

import math
from typing import Any

from study.config.words import arm_words as arm_words
from study.config.words import setting as setting

NOTHING = "–"
RULES = {
    "best_valid_bleu": "the step with the best BLEU on validation",
    "best_valid_loss": "the step with the lowest loss on validation",
    "last": "the last step",
}
"""The field training.select, in words."""


def number(value: float | None, digits: int = 1, sign: bool = False) -> str:
    """`-3.14159` ↦ `−3.1`, with a true minus sign and no negative zero; a dash for None and NaN."""
    if value is None or math.isnan(value):
        return NOTHING
    rounded = round(float(value), digits) + 0.0
    return f"{rounded:{'+' if sign and rounded else ''},.{digits}f}".replace("-", "−")


def interval(low: float | None, high: float | None, digits: int, sign: bool = True) -> str:
    """Return `[−1.2, +0.4]`, or a dash where an end is None or NaN."""
    ends = number(low, digits, sign), number(high, digits, sign)
    return NOTHING if NOTHING in ends else f"[{ends[0]}, {ends[1]}]"


def p_value(p: float | None) -> str:
    """Three decimals, without the zero that every p begins with: `.012`; below .001 one digit and exponent: `3e-6`."""
    if p is None:
        return NOTHING
    if p == 0:
        return "<1e-300"
    return f"{p:.3f}".removeprefix("0") if p >= 0.001 else f"{p:.0e}".replace("e-0", "e-")


def mean_sd(mean: float | None, sd: float | None, digits: int) -> str:
    """`83.4 ± 1.2`, without the second part where there is one run."""
    spread = number(sd, digits)
    return number(mean, digits) if spread == NOTHING else f"{number(mean, digits)} ± {spread}"


def tick(value: Any) -> str:
    """Return a place on an axis: `512`, `0.5`, `3e-4`, `4–7`."""
    if isinstance(value, str):
        return value
    return f"{value:.0e}".replace("e-0", "e-") if 0 < value < 0.05 else f"{value:g}"
