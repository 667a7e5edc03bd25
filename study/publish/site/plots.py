"""Plots of the site: places in % of a strip, and the lines of learning curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.ticker import MaxNLocator

from study import metrics
from study.analysis import labels
from study.analysis.comparison import Compared
from study.analysis.figures import style
from study.analysis.figures.sweep import points
from study.analysis.inference import FEW, Facet
from study.analysis.labels import arm_words, number

CLIP = 25.0
"""Margins at either end of the forest plot."""
TICKS = (-20, -5, -1, 0, 1, 5, 20)


def places(ends: Mapping[str, float]) -> dict[str, float]:
    """Places of an estimate and its intervals in the forest plot, in %.

    The scale is asinh(x) / asinh(CLIP), x in margins: linear near 0, logarithmic far out.
    """
    return {name: at(end) for name, end in ends.items()}


def at(margins: float) -> float:
    """Place in the forest plot, from 0 (left) to 100."""
    return round(50 + 50 * math.asinh(max(-CLIP, min(CLIP, margins))) / math.asinh(CLIP), 2)


def ticks() -> list[tuple[float, str]]:
    """Places and texts of the axis of the forest plot."""
    return [(at(tick), number(tick, 0, True)) for tick in TICKS]


def shows_differences(one: Compared) -> bool:
    """Return True if a sweep has enough seeds to show differences; else its strips show scores."""
    return min((len(facet.base.values) for facet in one.facets), default=0) >= FEW


def strips(one: Compared, facet: Facet, arms: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One facet: for each arm its dots, mean or estimate, and interval, placed in % of the panel."""
    frame = points([facet])
    differences, links = shows_differences(one), {arm["key"]: arm for arm in arms}
    column, centre = ("difference", "estimate") if differences else ("score", "mean")
    ends = [value for name in (column, *(("low", "high") if differences else ())) for value in frame[name].dropna()]
    low, high = (
        min([*ends, 0.0] if differences else ends, default=0.0),
        max([*ends, 0.0] if differences else ends, default=1.0),
    )
    span = (high - low) or 1.0
    low, span = low - 0.04 * span, 1.08 * span
    looks = style.palette([arm.label for arm in facet.arms], facet.family.baseline)
    digits = metrics.decimals(facet.metric)

    def place(value: float) -> float | None:
        return None if value != value else round(100 * (value - low) / span, 2)

    rows = []
    for label, some in frame.groupby("arm", sort=False):
        first, link = some.iloc[0], links[facet.name, str(label)]
        dots = [
            {
                "at": place(value),
                "seed": int(seed),
                "value": number(value, digits, differences),
                "run": link["runs"].get(int(seed)),
            }
            for seed, value in zip(some["seed"], some[column], strict=True)
            if value == value
        ]
        base = label == facet.family.baseline
        told = "baseline" if base and differences else number(first[centre], digits, differences)
        shown = {"name": arm_words(str(label)), "path": link["path"], "colour": looks[str(label)].colour, "dots": dots}
        known = [None if first[name] != first[name] else float(first[name]) for name in ("low", "high")]
        interval = labels.interval(known[0], known[1], digits)
        shown |= {"text": told, "interval": "" if base or not differences else interval, "base": base}
        rows.append(shown | {"centre": place(first[centre]), "low": place(first["low"]), "high": place(first["high"])})
    zero = place(0.0) if differences else None
    marks = [(place(value), text) for value, text in round_ticks(low, low + span, differences)]
    return {"name": arm_words(facet.name), "rows": rows, "zero": zero, "ticks": marks}


def round_ticks(low: float, high: float, signed: bool) -> list[tuple[float, str]]:
    """Round values between two ends, and their texts with as many decimals as the steps need."""
    values = [float(v) for v in MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(low, high) if low <= v <= high]
    digits = max(0, -math.floor(math.log10(values[1] - values[0]) + 1e-9)) if len(values) > 1 else 3
    return [(value, number(value, digits, signed)) for value in values]


CURVES = (
    ("valid_bleu", "BLEU on validation", 0),
    ("valid_loss", "loss on validation, nats a token", 1),
    ("train_loss", "loss on training, nats a token", 1),
)
"""Field of the history, title, and side of its axis."""


def line(label: str, steps: Sequence[int], history: Sequence[Mapping[str, Any]], key: str) -> dict[str, Any]:
    """One line of a chart: its values by step, None where the history has none."""
    known = {point["step"]: point.get(key) for point in history}
    return {"label": label, "values": [known.get(step) for step in steps]}
