"""Small multiples: a panel for each row and column of a table; a line an arm, every run a dot, the interval beside."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from study import metrics
from study.analysis.figures import style
from study.analysis.inference import FEW
from study.analysis.labels import arm_words, axis, tick

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Kind = Literal["log", "even"]
"""Scale of the horizontal axis: logarithmic, or evenly spaced categories."""

SPREAD = 0.62
"""Share of the gap between two places that the arms take up."""

INK = "#444444"
ABSENT: dict[str, dict[str, Any]] = {
    "diverged": {"marker": "x", "markersize": 4, "markeredgewidth": 1.0},
    "hole": {"marker": "$?$", "markersize": 5, "markeredgewidth": 0.3},
}
"""Marks of runs without a score."""
NAMED = {"diverged": "diverged", "hole": "no result"}
KEY = f"dot: a run · mark: mean · bar: its 95% t interval, unadjusted, of {FEW} runs or more"


def small_multiples(
    table: pd.DataFrame,
    kind: Kind,
    label: Callable[[str], str],
    height: float = 1.7,
    note: str = "",
) -> Figure:
    """Return the whole figure.

    Args:
        table: what `points.with_means` makes.
        kind: how places stand on the horizontal axis.
        label: column ↦ its horizontal axis in words.
        height: inches of a row of panels.
        note: said under the panels before the key to the marks.
    """
    rows, columns, lines = (list(dict.fromkeys(table[name])) for name in ("row", "column", "line"))
    looks = arm_looks(lines)
    spots = {column: axis_positions(table[table["column"] == column]["x"], kind) for column in columns}
    figure: Figure
    figure, grid = style.subplots(
        len(rows),
        len(columns),
        figsize=(style.PAGE if len(columns) > 1 else style.COLUMN, height * len(rows) + 0.75),
        width_ratios=[max(2.0, len(spots[column])) for column in columns],
        squeeze=False,
    )
    for i, row in enumerate(rows):
        of_row = table[table["row"] == row]
        last = i == len(rows) - 1
        for j, (column, axes) in enumerate(zip(columns, grid[i], strict=True)):
            _panel(axes, of_row[of_row["column"] == column], looks, spots[column])
            limit(axes, of_row)
            axes.set_title(column if i == 0 else "", loc="left", fontsize=8)
            axes.set_xlabel(label(column) if last else "")
            axes.set_ylabel("" if j else axis(str(of_row["metric"].iloc[0])))
            axes.tick_params(labelbottom=last, labelleft=j == 0)
    legend(figure, looks, table)
    key(figure, f"{note}   ({KEY})" if note else KEY)
    return figure


def arm_looks(lines: list[str]) -> dict[str, style.Look]:
    """Line ↦ look: the arm's everywhere, else by position, as all are where two would look alike."""
    by_place = style.palette(lines)
    found = {line: style.look(line) or by_place[line] for line in lines}
    return found if len(set(found.values())) == len(lines) else by_place


def axis_positions(values: pd.Series, kind: Kind) -> dict[Any, float]:
    """Value ↦ where it stands on the axis, from left to right."""
    distinct = list(dict.fromkeys(values))
    if kind == "even":
        return {value: float(i) for i, value in enumerate(distinct)}
    return {value: math.log2(value) for value in sorted(distinct)}


def _panel(axes: Axes, panel: pd.DataFrame, looks: Mapping[str, style.Look], spots: Mapping[Any, float]) -> None:
    ordered = sorted(spots.values())
    gap = min((b - a for a, b in itertools.pairwise(ordered)), default=1.0)
    lines = [line for line in looks if (panel["line"] == line).any()]
    here = {x: [line for line in lines if ((panel["line"] == line) & (panel["x"] == x)).any()] for x in spots}
    step = gap * SPREAD / max(3, *map(len, here.values()))
    for line in lines:
        at = {
            x: spots[x] + step * (there.index(line) - (len(there) - 1) / 2)
            for x, there in here.items()
            if line in there
        }
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
    axes.plot(spots, cells["mean"], color=look.colour, linestyle="", zorder=4, **mark(look, 4.5))
    dots = [at[x] - beside for x in rows["x"]]
    axes.plot(dots, rows["score"], ".", color=look.colour, markersize=3.5, markeredgewidth=0, alpha=0.8, zorder=3)
    for x in at:
        absences(axes, at[x], rows[rows["x"] == x], look.colour)


def curves(axes: Axes, rows: pd.DataFrame, look: style.Look, aside: float | None = None) -> None:
    """Draw a thin line for each run, an x where one diverged, and the mean as a thick line.

    Args:
        axes: the panel.
        rows: one arm's.
        look: its look.
        aside: where bars of the interval stand beside their places; None: a band.
    """
    for _, run in rows.groupby("id", sort=False):
        axes.plot(run["x"], run["score"], look.line, color=look.colour, linewidth=0.5, alpha=0.4, zorder=2)
        if run["state"].iloc[0] == "diverged":
            axes.plot(run["x"].iloc[-1], run["score"].iloc[-1], "x", color=look.colour, markersize=4, zorder=5)
    means = rows.drop_duplicates("x").dropna(subset=["mean"]).sort_values("x")
    x, low, high = (means[name].astype(float) for name in ("x", "low", "high"))
    if aside is None:
        axes.fill_between(x, low, high, color=look.colour, alpha=0.2, linewidth=0, zorder=1)
    else:
        axes.vlines(x + aside, low, high, color=look.colour, linewidth=0.8, alpha=0.9, zorder=3)
    axes.plot(x, means["mean"], look.line, color=look.colour, zorder=4, **mark(look, 3))
    axes.grid(False, axis="x")


def absences(axes: Axes, place: float, rows: pd.DataFrame, colour: Any) -> None:
    """Mark runs without a score at the bad end of a panel."""
    edge = 0.965 if _less_is_better(rows) else 0.035
    for absence in missing_marks(rows):
        settings = ABSENT[absence] | {"transform": axes.get_xaxis_transform(), "clip_on": False}
        axes.plot(place, edge, color=colour, **settings)


def missing_marks(rows: pd.DataFrame) -> list[str]:
    """List the marks of runs without a score, each once."""
    states = set(rows["state"][rows["score"].isna()])
    return [name for name in ABSENT if name in ({"diverged"} & states) | ({"hole"} if states - {"diverged"} else set())]


def _less_is_better(rows: pd.DataFrame) -> bool:
    """Marks stand at the bad end."""
    return metrics.metric_of(str(rows["metric"].iloc[0])).direction < 0


def limit(axes: Axes, rows: pd.DataFrame) -> None:
    """Set vertical limits around drawn values, within the range of the score, with room for marks at its bad end."""
    numbers = [float(v) for name in ("score", "low", "high", "mean") for v in rows[name].dropna()]
    if not numbers:
        axes.set_yticks([])
        return
    least, most = metrics.metric_of(str(rows["metric"].iloc[0])).bounds
    low, high = max(least, min(numbers)), min(most, max(numbers))
    room = [(high - low or 1.0) * 0.06] * 2
    if missing_marks(rows):
        room[_less_is_better(rows)] *= 2.5
    axes.set_ylim(low - room[0], high + room[1])


def legend(figure: Figure, looks: Mapping[str, style.Look], table: pd.DataFrame) -> None:
    """Above the panels: the arms, and the marks of what is not there if there are any."""
    from matplotlib.lines import Line2D

    handles = [legend_handle(look, arm_words(line)) for line, look in looks.items()]
    handles += [
        Line2D([], [], color=INK, linestyle="", label=NAMED[name], **ABSENT[name]) for name in missing_marks(table)
    ]
    longest = max(len(str(handle.get_label())) for handle in handles)
    fitting = int(figure.get_figwidth() * 72 // (longest * 4.1 + 36))
    columns = max(1, min(fitting, len(handles)))
    spacing = {"frameon": False, "handlelength": 2.2, "columnspacing": 1.4, "borderaxespad": 0.1}
    figure.legend(handles=handles, loc="outside upper left", ncols=columns, **spacing)


def legend_handle(look: style.Look, text: str, line: Literal[""] | None = None) -> Any:
    """Return the legend handle of an arm; `line` "": its marker alone."""
    from matplotlib.lines import Line2D

    style_of_line = look.line if line is None else line
    return Line2D([], [], color=look.colour, linestyle=style_of_line, linewidth=1.0, label=text, **mark(look, 4.5))


def mark(look: style.Look, size: float) -> dict[str, Any]:
    """Return the settings of a look's marker."""
    edge = (look.colour, 0.8) if look.hollow else ("white", 0.5)
    settings = {"marker": look.marker, "markersize": size, "markerfacecolor": look.fill}
    return settings | {"markeredgecolor": edge[0], "markeredgewidth": edge[1]}


def key(figure: Figure, text: str) -> None:
    """Write an explanation in small type under all panels."""
    fitting = int(figure.get_figwidth() * 72 / (0.55 * style.SMALL))
    figure.supxlabel(textwrap.fill(text, fitting), fontsize=style.SMALL, color=INK)
