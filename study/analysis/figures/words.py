"""Axes as figures word them."""

from __future__ import annotations

from typing import Any

from study import metrics


def axis(metric: str) -> str:
    """`test/exact` ↦ `exact match, %`; other splits than test are named."""
    split = metric.partition("/")[0]
    return metrics.title(metric) + ("" if split == "test" else f" ({split})")


def tick(value: Any) -> str:
    """A place on an axis: `512`, `0.5`, `3e-4`, `4–7`."""
    if isinstance(value, str):
        return value
    return f"{value:.0e}".replace("e-0", "e-") if 0 < value < 0.05 else f"{value:g}"
