"""Figure of a sweep: one panel per facet, one dot per run, and the interval of the table.

With `FEW` runs per arm or more the panels show differences to the baseline (a dot is one seed's difference); with
fewer, the raw scores and their mean, since an interval of two runs is wider than any figure.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from study import metrics
from study.analysis import labels
from study.analysis.comparison import Facet
from study.analysis.figures import panels, style
from study.analysis.inference import FEW, Test
from study.analysis.labels import arm_words
from study.analysis.tables import DECIMALS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BAR, HEADROOM, LABEL = 0.22, 0.75, 50
"""Inches per arm, inches for title and axis, and letters in a line of an arm's name."""


def points(facets: list[Facet]) -> pd.DataFrame:
    """Table of the plotted values, one row a run: facet, arm, seed, score, difference to the same seed of the baseline.

    Beside them the mean of the arm and the deciding estimate with its 95% interval, the same on every line of an arm.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    absent: list[tuple[Any, Any]] = [(None, None)]
    for facet in facets:
        base = facet.base.values
        for arm in facet.arms:
            test = facet.tests.get(arm.label, Test("baseline"))
            summary = {"mean": arm.mean, "estimate": test.difference, "low": test.low, "high": test.high}
            for seed, value in sorted(arm.values.items()) or absent:
                difference = value - base[seed] if value is not None and seed in base else None
                row = {"facet": facet.name, "arm": arm.label, "seed": seed, "score": value, "difference": difference}
                rows.append(row | summary)
    numbers = ["score", "difference", "mean", "estimate", "low", "high"]
    return pd.DataFrame(rows).astype({"seed": "Int64"} | dict.fromkeys(numbers, float)).round(DECIMALS)


def write(facets: list[Facet], path: Path) -> list[Path]:
    """Write the sweep's figure and its data: `path` with the endings .svg and .csv; the paths written."""
    return style.write(draw(facets), points(facets), path)


@style.styled()
def draw(facets: list[Facet]) -> Figure:
    """Return the sweep's figure: facets one below another."""
    differences = min(len(facet.base.values) for facet in facets) >= FEW
    heights = [BAR * len(facet.arms) + HEADROOM for facet in facets]
    size = (style.PAGE, sum(heights))
    figure, grid = style.subplots(len(facets), 1, size, squeeze=False, height_ratios=heights, sharex=True)
    for axes, facet in zip(grid.flat, facets, strict=True):
        _panel(axes, facet, differences)
    marks = "   (dot: a run · bar and number: mean · line: the baseline's)"
    if differences:
        marks = ", to the baseline   (dot: a seed · bar: estimate with simultaneous 95% interval)"
    figure.supxlabel(f"{'Δ ' * differences}{metrics.title(facets[0].metric)}{marks}", fontsize=8)
    return figure


def _panel(axes: Axes, facet: Facet, differences: bool) -> None:
    """Draw one facet; the number of each arm, and its runs without a dot, stand at the right."""
    table, base = points([facet]), 0.0 if differences else facet.base.mean
    if base is not None:
        axes.axvline(base, color=style.GREY, linewidth=0.8, zorder=1)
    dots, centre = ("difference", "estimate") if differences else ("score", "mean")
    for place, arm in enumerate(facet.arms):
        rows, colour = table[table["arm"] == arm.label], style.GREY if arm.label == facet.baseline else "C0"
        axes.plot(rows[dots], [place - 0.12] * len(rows), "o", color=colour, markersize=4, markeredgecolor="white")
        summary = rows.iloc[0]
        axes.vlines(summary[centre], place - 0.36, place + 0.36, color=colour, linewidth=1.6)
        if differences:
            axes.hlines(place + 0.22, summary["low"], summary["high"], color=colour, linewidth=1.3)
        number = summary[centre]
        states = facet.rows[facet.rows["arm"] == arm.label]["state"].value_counts()
        words = [labels.number(number, metrics.decimals(facet.metric), differences)] if number == number else []
        words += [f"{count} {state}" for state, count in states.items() if state != "finished"]
        beside: dict[str, Any] = {"va": "center", "fontsize": style.SMALL, "color": panels.INK}
        axes.annotate(", ".join(words), (1, place), (3, 0), axes.get_yaxis_transform(), "offset points", **beside)
    names = [textwrap.fill(arm_words(arm.label), LABEL, break_on_hyphens=False) for arm in facet.arms]
    axes.set_yticks(range(len(names)), names, linespacing=0.95)
    axes.set_ylim(len(names) - 0.45, -0.55)
    axes.grid(False, axis="y")
    axes.set_title(arm_words(facet.name), loc="left")
    axes.tick_params(axis="x", labelbottom=True)
    axes.spines["left"].set_visible(False)
