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

ROOM = 0.12
"""Share of a panel's width on either side for the numbers beside what is drawn."""
BAR, HEADROOM = 0.22, 0.75
"""Inches per arm, and for title and axis."""
LABEL, TICKS = 50, 6
"""Letters in a line of an arm's name, and intervals between ticks where two panels stand side by side."""


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
    """Return the sweep's figure."""
    differences = min(len(facet.base.values) for facet in facets) >= FEW
    figure, grid = _grid(facets)
    if not any(arm.values for facet in facets for arm in facet.arms):
        grid[0].set_xlim(0.0, 1.0)
    texts = [_panel(axes, facet, differences) for axes, facet in zip(grid, facets, strict=False)]
    for axes, beside in zip(grid, texts, strict=False):  # when every panel's range is known
        for place, (ends, text) in enumerate(beside):
            _beside(axes, place, ends, text)
    for i, axes in enumerate(grid):
        axes.set_visible(i < len(facets))
    marks = "(dot: a run · bar and number: mean · line: the baseline's)"
    if differences:
        marks = ", to the baseline   (dot: a seed · bar: estimate with simultaneous 95% interval)"
    name = metrics.title(facets[0].metric)
    figure.supxlabel(f"Δ {name}{marks}" if differences else f"{name}   {marks}", fontsize=8)
    return figure


def _grid(facets: list[Facet]) -> tuple[Figure, list[Axes]]:
    """Panels of the height that their arms need: one below another, or two in a row where the arms are the same."""
    alike = len({tuple(arm.label for arm in facet.arms) for facet in facets}) == 1
    columns = 2 if alike and len(facets) > 1 else 1
    heights = [
        max(1.2, BAR * len(facet.arms) * (0.7 + 0.3 * max(len(_lines(arm)) for arm in facet.arms)) + HEADROOM)
        for facet in facets[::columns]
    ]
    figure, axes = style.subplots(
        len(heights),
        columns,
        (style.PAGE, sum(heights)),
        sharey=alike,
        sharex=True,
        squeeze=False,
        height_ratios=heights,
    )
    for one in axes.flat if columns > 1 else ():
        one.locator_params(axis="x", nbins=TICKS)
    return figure, list(axes.flat)


def _panel(axes: Axes, facet: Facet, differences: bool) -> list[tuple[list[float], str]]:
    """Draw one facet; return for each arm the places of all that is drawn, and the text beside it."""
    looks = style.palette([arm.label for arm in facet.arms], facet.baseline, by_place=False)
    base, texts = facet.base.values, []
    zero = 0.0 if differences else facet.base.mean
    if zero is not None:
        axes.axvline(zero, color=style.GREY, linewidth=0.8, zorder=1)
    for place, arm in enumerate(facet.arms):
        look, test = looks[arm.label], facet.tests.get(arm.label, Test("baseline"))
        ends = list(arm.values.values())
        if differences:
            ends = [value - base[seed] for seed, value in arm.values.items() if seed in base]
        if ends:
            edge = (look.colour, 0.8) if look.hollow else ("white", 0.4)
            marks: dict[str, Any] = {
                "markersize": 4,
                "markeredgecolor": edge[0],
                "markeredgewidth": edge[1],
                "alpha": 0.85,
            }
            spots = [place - 0.12] * len(ends)
            axes.plot(ends, spots, look.marker, color=look.fill, clip_on=False, zorder=3, **marks)
        line: dict[str, Any] = {"color": look.colour, "clip_on": False, "zorder": 2}
        if differences and test.low is not None and test.high is not None:
            ends += [test.low, test.high]
            axes.plot([test.low, test.high], [place + 0.22] * 2, linewidth=1.3, **line)
        centre = test.difference if differences else arm.mean
        if centre is not None:
            span = [place + 0.08, place + 0.36] if differences else [place - 0.36, place + 0.32]
            axes.plot([centre, centre], span, linewidth=1.6, **line)
        text = "" if centre is None else labels.number(centre, metrics.decimals(facet.metric), differences)
        texts.append((ends, ", ".join(word for word in (text, _absences(facet, arm)) if word)))
    axes.set_yticks(range(len(facet.arms)), ["\n".join(_lines(arm)) for arm in facet.arms], linespacing=0.95)
    axes.set_ylim(len(facet.arms) - 0.45, -0.55)
    axes.margins(x=ROOM)
    axes.grid(False, axis="y")
    axes.set_title(arm_words(facet.name), loc="left")
    axes.tick_params(axis="x", labelbottom=True)
    axes.spines["left"].set_visible(False)
    return texts


def _lines(arm: Arm) -> list[str]:
    """An arm's name as it stands beside its row."""
    return textwrap.wrap(arm_words(arm.label), LABEL, break_long_words=False, break_on_hyphens=False)


def _beside(axes: Axes, place: int, ends: list[float], text: str) -> None:
    """A text to the right of what is drawn, or to the left where that is the roomier side of all that is drawn."""
    low, high = axes.get_xlim()
    right = not ends or max(ends) <= (low + high) / 2
    at, shift, side = (max(ends, default=low), 6, "left") if right else (min(ends), -6, "right")
    looks: dict[str, Any] = {"ha": side, "va": "center", "fontsize": style.SMALL, "color": panels.INK}
    axes.annotate(text, (at, place), (shift, 0), textcoords="offset points", **looks)


def _absences(facet: Facet, arm: Arm) -> str:
    """Return the runs that have no dot, in words; a note of the table has those that do not count."""
    rows = facet.rows[(facet.rows["arm"] == arm.label) & facet.rows["counts"]]
    states = rows["state"].value_counts()
    return ", ".join(f"{count} {state}" for state, count in states.items() if state != "finished")
