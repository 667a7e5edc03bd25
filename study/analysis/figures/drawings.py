"""Drawings of the fixed figures, each from its table of points and no more."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from study.analysis.figures import panels, style
from study.analysis.inference import FEW
from study.analysis.labels import arm_words

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GAP = 0.038
"""Least distance of two names, in parts of the axis."""
LOOKS = {"recurrent": ("o", "-", "C0"), "transformer": ("s", "--", "C1")}
"""Family ↦ marker, line and colour in the figure of two budgets."""


@style.styled()
def scale(table: pd.DataFrame) -> Figure:
    """Draw a panel for each family."""
    return panels.small_multiples(table, "d", height=2.5, note="d: the number of terms that the score sums")


@style.styled()
def lengths(table: pd.DataFrame) -> Figure:
    """Draw panels on common axes; buckets of untrained lengths stand on grey."""
    figure = panels.small_multiples(table, "words in the source", height=1.75)
    trained = table["x"][table["metric"].str.startswith("test/")].nunique()
    for axes in figure.axes:
        axes.tick_params(axis="x", rotation=50, labelsize=style.SMALL)
        axes.axvspan(trained - 0.5, axes.get_xlim()[1], color="#f0f0f0", linewidth=0, zorder=0)
        axes.set_xlim(right=axes.get_xlim()[1])
    return figure


@style.styled()
def pruning(table: pd.DataFrame) -> Figure:
    """Draw panels two in a row; thin lines: runs; thick lines: means; a band for random orders, else bars."""
    columns = list(dict.fromkeys(table["column"]))
    looks = {line: style.look(line) for line in dict.fromkeys(table["line"])}
    wide = min(2, len(columns))
    rows = -(-len(columns) // wide)
    size = (style.PAGE if wide > 1 else style.COLUMN, 2.0 * rows + 0.9)
    figure, grid = style.subplots(rows, wide, figsize=size, sharex=True, sharey=True, squeeze=False)
    for axes in grid.flat[len(columns) :]:
        axes.set_visible(False)
    for i, (column, axes) in enumerate(zip(columns, grid.flat, strict=False)):
        panel = table[table["column"] == column]
        here = [line for line in looks if (panel["line"] == line).any()]
        for place, line in enumerate(here):
            some = panel[panel["line"] == line]
            _curves(axes, some, looks[line], None if line == "order=random" else 0.9 * (place - len(here) / 2))
            panels.absences(axes, 4 * place, some, looks[line].colour)
        below = i + wide >= len(columns)
        axes.set_title(column, loc="left", fontsize=8)
        axes.set_ylabel("BLEU" if i % wide == 0 else "")
        axes.set_xlabel("heads removed, %" if below else "")
        axes.set_xticks(range(0, 101, 20))
        axes.set_xlim(-4, 104)
        axes.tick_params(labelbottom=below)
    panels.limit(grid[0][0], table)
    panels.legend(figure, looks, table)
    runs = "thin line: a run (in random orders the mean of several) · thick line: mean"
    interval = f"95% t interval, unadjusted, of {FEW} runs or more"
    panels.key(figure, f"{runs} · bar, and band of random orders: its {interval}")
    return figure


def _curves(axes: Axes, rows: pd.DataFrame, look: style.Look, aside: float | None) -> None:
    """Draw a thin line for each run, the mean as a thick line, and its interval as bars beside it or as a band."""
    for _, run in rows.groupby("id", sort=False):
        axes.plot(run["x"], run["score"], look.line, color=look.colour, linewidth=0.5, alpha=0.4, zorder=2)
    means = rows.drop_duplicates("x").dropna(subset=["mean"]).sort_values("x")
    x, low, high = (means[name].astype(float) for name in ("x", "low", "high"))
    if aside is None:
        axes.fill_between(x, low, high, color=look.colour, alpha=0.2, linewidth=0, zorder=1)
    else:
        axes.vlines(x + aside, low, high, color=look.colour, linewidth=0.8, alpha=0.9, zorder=3)
    axes.plot(x, means["mean"], look.line, color=look.colour, zorder=4, **look.mark(3))
    axes.grid(False, axis="x")


@style.styled()
def fading(table: pd.DataFrame) -> Figure:
    """Draw clear gains and clear losses at the first budget, each arm a line to its effect at the second one.

    Args:
        table: what `agreement.points` makes.
    """
    arms = table[table["arm"] != ""].sort_values("second_effect")
    clear = {"clear gains": arms[arms["high"] < 0], "clear losses": arms[arms["low"] > 0]}
    figure, grid = style.subplots(1, 2, figsize=(style.PAGE, 4.2))
    for axes, (title, rows) in zip(grid, clear.items(), strict=True):
        axes.set_yscale("linear" if title == "clear gains" else "log")
        for row in rows.itertuples():
            axes.plot([0, 1], [row.effect, row.second_effect], **_look(row.family), linewidth=0.9, zorder=3)
        axes.set_title(f"{title} ({len(rows)})", loc="left")
        updates = [str(arms[name].iloc[0]).partition(", ")[2] or "usual updates" for name in ("data", "second_data")]
        axes.set_xticks([0, 1], [textwrap.fill(words, 12) for words in updates])
        axes.set_xlim(-0.15, 2.7)
        axes.grid(False, axis="x")
        _name(axes, rows)
    grid[0].axhline(0, color=panels.INK, linewidth=0.6, zorder=1)
    grid[0].set_ylabel("NLL of the arm − NLL of its base, nats per sentence")
    handles = [grid[0].plot([], [], label=family, **_look(family))[0] for family in dict.fromkeys(arms["family"])]
    figure.legend(handles=handles, loc="outside upper right", ncols=2, frameon=False)
    rest = len(arms) - sum(map(len, clear.values()))
    panels.key(figure, f"clear: at first the 95% interval does not contain zero, as in all but {rest} of the arms")
    return figure


def _look(family: Any) -> dict[str, Any]:
    marker, line, colour = LOOKS[family]
    return {"marker": marker, "linestyle": line, "color": colour, "markersize": 3}


def _name(axes: Axes, rows: pd.DataFrame) -> None:
    """Write the names of the arms, which are sorted, to the right of their lines, no two on one another."""
    to = axes.transScale + axes.transLimits
    ends = [float(to.transform((1, value))[1]) for value in rows["second_effect"]]
    spot, start = (float(axes.transLimits.transform((x, 0))[0]) for x in (1.15, 1.03))
    for row, end, place in zip(rows.to_dict("records"), ends, _spread(ends), strict=True):
        colour = _look(row["family"])["color"]
        axes.text(spot, place, arm_words(row["arm"]), transform=axes.transAxes, va="center", fontsize=6, color=colour)
        axes.plot([start, spot - 0.006], [end, place], transform=axes.transAxes, color=style.GREY, linewidth=0.4)


def _spread(places: Sequence[float]) -> list[float]:
    """Move sorted places of an axis apart until neighbours have their distance, and keep them on it."""
    found = list(places)
    for _ in range(500):
        for i in range(1, len(found)):
            lack = max(0.0, GAP - (found[i] - found[i - 1]))
            found[i - 1] -= lack / 2
            found[i] += lack / 2
        found = [min(max(place, 0.01 + GAP * i), 0.99 - GAP * (len(found) - 1 - i)) for i, place in enumerate(found)]
    return found
