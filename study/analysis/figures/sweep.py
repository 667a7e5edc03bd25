"""Figure of a sweep: one panel per facet, one dot per run, and the interval of the table.

With `FEW` runs per arm or more the panels show differences to the baseline (a dot is one seed's difference); with
fewer, the raw scores and their mean, since an interval of two runs is wider than any figure.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from study import metrics
from study.analysis import labels
from study.analysis.comparison import Facet
from study.analysis.figures import panels, style
from study.analysis.inference import FEW
from study.analysis.labels import arm_words
from study.analysis.tables import DECIMALS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BAR, HEADROOM, LABEL = 0.22, 0.75, 50
"""Inches per arm, inches for title and axis, and letters in a line of an arm's name."""


def points(facets: list[Facet]) -> pd.DataFrame:
    """Table of the plotted values, one row a run: facet, arm, seed, state, score, difference to the baseline's run.

    The latter is of the same seed. Beside them the mean of the arm, and the estimate of the table with its 95%
    interval; they are the same on every line of an arm.
    """
    import pandas as pd

    parts = []
    for facet in facets:
        runs = facet.rows[facet.rows["state"] != "inapplicable"]
        part = runs[["facet", "arm", "seed", "state"]].assign(score=runs[facet.metric])
        part["difference"] = part["score"] - part["seed"].map(facet.base.values)
        part["mean"] = part["arm"].map({arm.label: arm.mean for arm in facet.arms})
        for name, end in {"estimate": "difference", "low": "low", "high": "high"}.items():
            part[name] = part["arm"].map({label: getattr(test, end) for label, test in facet.tests.items()})
        parts.append(part)
    numbers = ["score", "difference", "mean", "estimate", "low", "high"]
    return pd.concat(parts).astype({"seed": int} | dict.fromkeys(numbers, float)).round(DECIMALS)


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
        _panel(axes, facet, points([facet]), differences)
    marks = "   (dot: a run · bar and number: mean · line: the baseline's)"
    if differences:
        marks = ", to the baseline   (dot: a seed · bar: estimate with simultaneous 95% interval)"
    figure.supxlabel(f"{'Δ ' * differences}{metrics.title(facets[0].metric)}{marks}", fontsize=8)
    return figure


def _panel(axes: Axes, facet: Facet, table: pd.DataFrame, differences: bool) -> None:
    """Draw one facet; the number of each arm, and its runs without a dot, stand at the right."""
    import seaborn as sns

    dots, centre = ("difference", "estimate") if differences else ("score", "mean")
    base = 0.0 if differences else facet.base.mean
    if base is not None:
        axes.axvline(base, color=style.GREY, linewidth=0.8, zorder=1)
    sns.stripplot(table, x=dots, y="arm", orient="y", jitter=False, size=4, linewidth=0.4, ax=axes)
    for place, (_, rows) in enumerate(table.groupby("arm", sort=False)):
        number, low, high = rows.iloc[0][[centre, "low", "high"]]
        axes.vlines(number, place - 0.36, place + 0.36, color=panels.INK, linewidth=1.6)
        if differences:
            axes.hlines(place + 0.22, low, high, color=panels.INK, linewidth=1.3)
        words = [labels.number(number, metrics.decimals(facet.metric), differences)] if number == number else []
        words += [f"{n} {state}" for state, n in rows["state"].value_counts().items() if state != "finished"]
        axes.annotate(", ".join(words), (1, place), (3, 0), axes.get_yaxis_transform(), "offset points", va="center")
    names = [textwrap.fill(arm_words(arm.label), LABEL, break_on_hyphens=False) for arm in facet.arms]
    axes.set_yticks(range(len(names)), names, linespacing=0.95)
    axes.grid(False, axis="y")
    axes.set(title=arm_words(facet.name), xlabel="", ylabel="")
    axes.tick_params(axis="x", labelbottom=True)
    axes.spines["left"].set_visible(False)
