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
from study.analysis.inference import FEW, Arm, Test
from study.analysis.labels import arm_words
from study.analysis.tables import DECIMALS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BAR, HEADROOM = 0.22, 0.75
"""Inches per arm, and for title and axis."""
LABEL, TICKS = 50, 6
"""Letters in a line of an arm's name, and intervals between ticks."""


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
    """Write the sweep's figure and its data: `path` with the endings .svg, .png and .csv; the paths written."""
    return style.write(draw(facets), points(facets), path)


@style.styled()
def draw(facets: list[Facet]) -> Figure:
    """Return the sweep's figure: facets one below another, or two in a row where their arms are the same."""
    differences = min(len(facet.base.values) for facet in facets) >= FEW
    names = [[textwrap.fill(arm_words(arm.label), LABEL, break_on_hyphens=False) for arm in f.arms] for f in facets]
    columns = 2 if len(facets) > 1 and all(some == names[0] for some in names) else 1
    sizes = [len(some) * (1 + 0.3 * max(name.count("\n") for name in some)) for some in names[::columns]]
    heights = [max(1.2, BAR * size + HEADROOM) for size in sizes]
    size, shared = (style.PAGE, sum(heights)), {"sharex": True, "sharey": columns > 1}
    figure, grid = style.subplots(len(heights), columns, size, squeeze=False, height_ratios=heights, **shared)
    for axes in grid.flat[len(facets) :]:
        axes.set_visible(False)
    for axes, facet, some in zip(grid.flat, facets, names, strict=False):
        _panel(axes, facet, differences)
        axes.set_yticks(range(len(some)), some, linespacing=0.95)
        axes.set_ylim(len(some) - 0.45, -0.55)
        axes.locator_params(axis="x", nbins=TICKS)
        axes.margins(x=0.08)
    marks = "   (dot: a run · bar and number: mean · line: the baseline's)"
    if differences:
        marks = ", to the baseline   (dot: a seed · bar: estimate with simultaneous 95% interval)"
    figure.supxlabel(f"{'Δ ' * differences}{metrics.title(facets[0].metric)}{marks}", fontsize=8)
    return figure


def _panel(axes: Axes, facet: Facet, differences: bool) -> None:
    """Draw one facet; the number of each arm, and what it lacks, stand at the right."""
    looks = style.palette([arm.label for arm in facet.arms], facet.baseline, by_place=False)
    base, zero = facet.base.values, 0.0 if differences else facet.base.mean
    if zero is not None:
        axes.axvline(zero, color=style.GREY, linewidth=0.8, zorder=1)
    for place, arm in enumerate(facet.arms):
        look, test = looks[arm.label], facet.tests.get(arm.label, Test("baseline"))
        dots = list(arm.values.values())
        if differences:
            dots = [value - base[seed] for seed, value in arm.values.items() if seed in base]
        axes.plot(dots, [place - 0.12] * len(dots), color=look.colour, linestyle="", zorder=3, **panels.mark(look, 4))
        if differences and test.low is not None and test.high is not None:
            axes.hlines(place + 0.22, test.low, test.high, color=look.colour, linewidth=1.3, zorder=2)
        centre = test.difference if differences else arm.mean
        if centre is not None:
            axes.vlines(
                centre,
                place + (0.08 if differences else -0.36),
                place + 0.36,
                color=look.colour,
                linewidth=1.6,
                zorder=2,
            )
        text = "" if centre is None else labels.number(centre, metrics.decimals(facet.metric), differences)
        beside = ", ".join(word for word in (text, _absences(facet, arm)) if word)
        looks_of_text: dict[str, Any] = {"va": "center", "fontsize": style.SMALL, "color": panels.INK}
        axes.annotate(beside, (1, place), (3, 0), axes.get_yaxis_transform(), "offset points", **looks_of_text)
    axes.grid(False, axis="y")
    axes.set_title(arm_words(facet.name), loc="left")
    axes.tick_params(axis="x", labelbottom=True)
    axes.spines["left"].set_visible(False)


def _absences(facet: Facet, arm: Arm) -> str:
    """Return the runs that have no dot, in words."""
    rows = facet.rows[facet.rows["arm"] == arm.label]
    states = rows["state"].value_counts()
    return ", ".join(f"{count} {state}" for state, count in states.items() if state != "finished")
