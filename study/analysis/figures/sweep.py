"""Figure of a sweep: one panel per facet, one dot per run, the mean of each arm, and the intervals of the table.

The interval of a difference stands at the mean of the baseline plus the difference: it excludes the line of the
baseline if and only if it excludes zero.
"""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING

from study.analysis import labels
from study.analysis.comparison import Facet
from study.analysis.figures import panels, style
from study.analysis.labels import arm_words
from study.analysis.tables import DECIMALS
from study.scores import metrics

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BAR, HEADROOM, LABEL = 0.22, 0.75, 50
"""Inches per arm, inches for title and axis, and letters in a line of an arm's name."""


def points(facets: list[Facet]) -> pd.DataFrame:
    """Table of the plotted values, one row a run: facet, arm, seed, state, score; mean, low and high of its arm."""
    import pandas as pd

    parts = []
    for facet in facets:
        runs = facet.rows[facet.rows["state"] != "inapplicable"]
        part = runs[["facet", "arm", "seed", "state"]].assign(score=runs[facet.metric])
        part["mean"] = part["arm"].map({arm.label: arm.mean for arm in facet.arms}).astype(float)
        base = math.nan if facet.base.mean is None else facet.base.mean
        for end in ("low", "high"):
            ends = {label: getattr(test, end) for label, test in facet.tests.items()}
            part[end] = base + part["arm"].map(ends).astype(float)
        parts.append(part)
    return pd.concat(parts).round(DECIMALS)


@style.styled()
def draw(facets: list[Facet]) -> Figure:
    """Return the sweep's figure: facets one below another."""
    heights = [BAR * len(facet.arms) + HEADROOM for facet in facets]
    size = (style.PAGE, sum(heights))
    scores = {facet.metric: metrics.title(facet.metric) for facet in facets}
    alike = len(scores) == 1
    figure, grid = style.subplots(len(facets), 1, size, squeeze=False, height_ratios=heights, sharex=alike)
    for axes, facet in zip(grid.flat, facets, strict=True):
        _panel(axes, facet)
        axes.set_xlabel("" if alike else scores[facet.metric], fontsize=style.SMALL)
    marks = "dot: a run · bar and number: mean · line: simultaneous 95% interval of the difference to the baseline"
    figure.supxlabel(f"{scores[facets[0].metric]}   ({marks})" if alike else marks, fontsize=style.SMALL)
    return figure


def _panel(axes: Axes, facet: Facet) -> None:
    """Draw one facet; the mean of each arm, and its runs without a dot, stand at the right."""
    import seaborn as sns

    table = points([facet])
    sns.stripplot(table, x="score", y="arm", orient="y", jitter=False, size=4, linewidth=0.4, ax=axes)
    if facet.base.mean is not None:
        axes.axvline(facet.base.mean, color=style.GREY, linewidth=0.8, zorder=1)
    for place, (_, rows) in enumerate(table.groupby("arm", sort=False)):
        mean, low, high = rows.iloc[0][["mean", "low", "high"]]
        axes.vlines(mean, place - 0.36, place + 0.36, color=panels.INK, linewidth=1.6)
        axes.hlines(place + 0.22, low, high, color=panels.INK, linewidth=1.3)
        words = [labels.number(mean, metrics.decimals(facet.metric))] if mean == mean else []
        words += [f"{count} {state}" for state, count in rows["state"].value_counts().items() if state != "finished"]
        axes.annotate(", ".join(words), (1, place), (3, 0), axes.get_yaxis_transform(), "offset points", va="center")
    names = [textwrap.fill(arm_words(arm.label), LABEL, break_on_hyphens=False) for arm in facet.arms]
    axes.set_yticks(range(len(names)), names, linespacing=0.95)
    axes.grid(False, axis="y")
    axes.set(title=arm_words(facet.name), ylabel="")
    axes.tick_params(axis="x", labelbottom=True)
    axes.spines["left"].set_visible(False)
