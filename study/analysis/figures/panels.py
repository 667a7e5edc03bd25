"""Small multiples: a panel for each row and column of a table; a line an arm, every run a dot, the interval beside."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from study.analysis.figures import style
from study.analysis.inference import FEW
from study.analysis.labels import arm_words, tick
from study.scores import metrics

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SPREAD = 0.62
"""Share of the gap between two places that the arms take up."""
INK = "#444444"
ABSENT: dict[str, Any] = {"marker": "x", "markersize": 4, "markeredgewidth": 1.0, "label": "no score"}
"""Mark of runs without a score: diverged, failed or missing."""
KEY = f"dot: a run · mark: mean · bar: its 95% t interval, unadjusted, of {FEW} runs or more"


def small_multiples(table: pd.DataFrame, label: str, height: float, note: str = "") -> Figure:
    """Return the whole figure.

    Args:
        table: what `points` makes. Numbers stand on a logarithmic axis, texts side by side.
        label: the horizontal axis in words.
        height: inches of a row of panels.
        note: said under the panels before the key to the marks.
    """
    rows, columns, lines = (list(dict.fromkeys(table[name])) for name in ("row", "column", "line"))
    looks = {line: style.look(line) for line in lines}
    spots = {column: _spots(table[table["column"] == column]["x"]) for column in columns}
    size = (style.PAGE, height * len(rows) + 0.75)
    widths = [max(2.0, len(spots[column])) for column in columns]
    figure, grid = style.subplots(len(rows), len(columns), size, width_ratios=widths, squeeze=False)
    for i, row in enumerate(rows):
        of_row = table[table["row"] == row]
        last = i == len(rows) - 1
        for j, (column, axes) in enumerate(zip(columns, grid[i], strict=True)):
            _panel(axes, of_row[of_row["column"] == column], looks, spots[column])
            limit(axes, of_row)
            axes.set_title(column if i == 0 else "", loc="left", fontsize=8)
            axes.set_xlabel(label if last else "")
            axes.set_ylabel("" if j else metrics.title(str(of_row["metric"].iloc[0])))
            axes.tick_params(labelbottom=last, labelleft=j == 0)
    legend(figure, looks, table)
    key(figure, f"{note}   ({KEY})" if note else KEY)
    return figure


def _spots(values: pd.Series) -> dict[Any, float]:
    """Value ↦ where it stands on the axis, from left to right."""
    if values.dtype.kind in "if":
        return {value: math.log2(value) for value in sorted(set(values))}
    return {value: float(i) for i, value in enumerate(dict.fromkeys(values))}


def _panel(axes: Axes, panel: pd.DataFrame, looks: Mapping[str, style.Look], spots: Mapping[Any, float]) -> None:
    ordered = sorted(spots.values())
    gap = min((b - a for a, b in itertools.pairwise(ordered)), default=1.0)
    drawn = set(zip(panel["line"], panel["x"], strict=True))
    lines_at = {x: [line for line in looks if (line, x) in drawn] for x in spots}
    step = gap * SPREAD / max(3, *map(len, lines_at.values()))
    for line in looks:
        at = {}
        for x, lines in lines_at.items():
            if line in lines:
                at[x] = spots[x] + step * (lines.index(line) - (len(lines) - 1) / 2)
        if at:
            _line(axes, panel[panel["line"] == line], looks[line], at, 0.2 * step)
    axes.set_xticks(list(spots.values()), [tick(x) for x in spots])
    axes.set_xlim(ordered[0] - 0.6 * gap, ordered[-1] + 0.6 * gap)
    axes.grid(False, axis="x")


def _line(axes: Axes, rows: pd.DataFrame, look: style.Look, at: Mapping[Any, float], beside: float) -> None:
    """One arm: dots to the left of its place, mean and interval to the right, marks for what is not there."""
    cells = rows.drop_duplicates("x").set_index("x").loc[list(at)]
    spots = [at[x] + beside for x in at]
    axes.plot(spots, cells["mean"], look.line, color=look.colour, linewidth=1.0, alpha=0.8, zorder=2)
    axes.vlines(spots, cells["low"], cells["high"], color=look.colour, linewidth=1.3, zorder=3)
    axes.plot(spots, cells["mean"], color=look.colour, linestyle="", zorder=4, **look.mark(4.5))
    dots = [at[x] - beside for x in rows["x"]]
    axes.plot(dots, rows["score"], ".", color=look.colour, markersize=3.5, markeredgewidth=0, alpha=0.8, zorder=3)
    for x in at:
        absences(axes, at[x], rows[rows["x"] == x], look.colour)


def absences(axes: Axes, place: float, rows: pd.DataFrame, colour: Any) -> None:
    """Mark runs without a score at the bad end of a panel."""
    if rows["score"].isna().any():
        edge = 0.965 if _metric(rows).direction < 0 else 0.035
        axes.plot(place, edge, color=colour, **ABSENT, transform=axes.get_xaxis_transform(), clip_on=False)


def _metric(rows: pd.DataFrame) -> metrics.Metric:
    return metrics.metric_of(str(rows["metric"].iloc[0]))


def limit(axes: Axes, rows: pd.DataFrame) -> None:
    """Set vertical limits around drawn values, within the range of the score, with room for marks at its bad end."""
    numbers = [float(v) for name in ("score", "low", "high", "mean") for v in rows[name].dropna()]
    least, most = _metric(rows).bounds
    low, high = max(least, min(numbers)), min(most, max(numbers))
    below = above = (high - low or 1.0) * 0.06
    if rows["score"].isna().any():
        if _metric(rows).direction < 0:
            above *= 2.5
        else:
            below *= 2.5
    axes.set_ylim(low - below, high + above)


def legend(figure: Figure, looks: Mapping[str, style.Look], table: pd.DataFrame) -> None:
    """Above the panels: the arms, and the marks of what is not there if there are any."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=look.colour, linestyle=look.line, linewidth=1.0, label=arm_words(line), **look.mark(4.5))
        for line, look in looks.items()
    ]
    if table["score"].isna().any():
        handles.append(Line2D([], [], color=INK, linestyle="", **ABSENT))
    longest = max(len(str(handle.get_label())) for handle in handles)
    fitting = int(figure.get_figwidth() * 72 // (longest * 4.1 + 36))
    columns = max(1, min(fitting, len(handles)))
    spacing = {"frameon": False, "handlelength": 2.2, "columnspacing": 1.4, "borderaxespad": 0.1}
    figure.legend(handles=handles, loc="outside upper left", ncols=columns, **spacing)


def key(figure: Figure, text: str) -> None:
    """Write an explanation in small type under all panels."""
    fitting = int(figure.get_figwidth() * 72 / (0.55 * style.SMALL))
    figure.supxlabel(textwrap.fill(text, fitting), fontsize=style.SMALL, color=INK)
