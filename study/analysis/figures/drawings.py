"""Drawings of the fixed figures, each from its table of `points` and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from study.analysis.figures import panels, style
from study.analysis.figures.panels import small_multiples
from study.analysis.figures.points import LENGTH_SPLITS
from study.analysis.inference import FEW
from study.analysis.labels import arm_words, axis

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LETTERS = 52
"""Letters of the names of arms that go side by side under a panel."""

INTERVAL = f"95% t interval, unadjusted, of {FEW} runs or more"


@style.styled()
def lengths(table: pd.DataFrame) -> Figure:
    """Draw panels on common axes; buckets of untrained lengths stand on grey."""
    figure = small_multiples(table, "even", lambda column: "words in the source", height=1.75)
    buckets = dict(zip(table["x"], table["metric"], strict=True))
    beyond = [i for i, metric in enumerate(buckets.values()) if not metric.startswith(LENGTH_SPLITS[0])]
    for axes in figure.axes:
        axes.tick_params(axis="x", rotation=50, labelsize=style.SMALL)
        if beyond:
            axes.axvspan(beyond[0] - 0.5, axes.get_xlim()[1], color="#f0f0f0", linewidth=0, zorder=0)
            axes.set_xlim(right=axes.get_xlim()[1])
    return figure


@style.styled()
def pruning(table: pd.DataFrame) -> Figure:
    """Draw panels two in a row; thin lines: runs; thick lines: means; a band for random orders, else bars."""
    columns = list(dict.fromkeys(table["column"]))
    looks = panels.arm_looks(list(dict.fromkeys(table["line"])))
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
            some, look = panel[panel["line"] == line], looks[line]
            panels.curves(axes, some, look, None if line == "order=random" else 0.9 * (place - len(here) / 2))
            panels.absences(axes, 4 * place, some, look.colour)
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
    panels.key(figure, f"{runs} · bar, and band of random orders: its {INTERVAL}")
    return figure


@style.styled()
def aer(table: pd.DataFrame) -> Figure:
    """Draw panels two in a row, each above the names of its arms."""
    found = [panel for _, panel in table.groupby("column", sort=False)]
    across = min(2, len(found))
    down = -(-len(found) // across)
    names = [_names(panel) for panel in found]
    lines = [max(-(-len(looks) // fits) for looks, fits in names[i : i + across]) for i in range(0, len(names), across)]
    heights = [height for count in lines for height in (1.45, 0.15 * count + 0.1)]
    size = (style.PAGE if across == 2 else style.COLUMN, sum(heights) + 0.6 * down + 0.3)
    figure, grid = style.subplots(2 * down, across, figsize=size, height_ratios=heights, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for i, (panel, (looks, fitting)) in enumerate(zip(found, names, strict=True)):
        row, place = divmod(i, across)
        _scatter(grid[2 * row][place], panel, list(looks.values()))
        handles = [panels.legend_handle(look, name, line="") for name, look in looks.items()]
        grid[2 * row + 1][place].legend(
            handles=handles, loc="upper left", bbox_to_anchor=(0.0, 1.0), ncols=fitting, frameon=False,
            handlelength=1.0, borderaxespad=0.0, fontsize=style.SMALL,
        ).set_in_layout(False)  # else the panels give way to the longest name  # fmt: skip
    panels.key(figure, f"mark: a run · cross: means and their 95% t intervals, unadjusted, of {FEW} runs or more")
    return figure


def _names(panel: pd.DataFrame) -> tuple[dict[str, style.Look], int]:
    """The arms of a panel, each with the number of its points if some are not there, and how many go side by side."""
    names = {}
    for line, look in panels.arm_looks(list(dict.fromkeys(panel["line"]))).items():
        rows = panel[panel["line"] == line]
        there = len(rows.dropna(subset=["aer", "score"]))
        names[arm_words(line) + (f" ({there} of {len(rows)})" if there < len(rows) else "")] = look
    lengths = [len(name) for name in names]
    half = -(-len(lengths) // 2)
    return names, 2 if max(lengths[:half]) + max(lengths[half:], default=0) < LETTERS else 1


def _scatter(axes: Axes, panel: pd.DataFrame, looks: list[style.Look]) -> None:
    axes.set_axis_on()
    for (_, rows), look in zip(panel.groupby("line", sort=False), looks, strict=True):
        one, line = rows.iloc[0], {"color": look.colour, "linewidth": 0.9, "zorder": 2}
        axes.hlines(one["mean"], one["aer_low"], one["aer_high"], **line)
        axes.vlines(one["aer_mean"], one["low"], one["high"], **line)
        axes.plot(list(rows["aer"]), list(rows["score"]), linestyle="", zorder=3, **panels.mark(look, 4))
    metric = str(panel["metric"].iloc[0])
    axes.set_title(str(panel["column"].iloc[0]), loc="left")
    axes.set_xlabel(axis(f"{metric.partition('/')[0]}/aer"))
    axes.set_ylabel(axis(metric))
    for limit, numbers in ((axes.set_xlim, panel["aer"]), (axes.set_ylim, panel["score"])):
        low, high = float(numbers.min()), float(numbers.max())
        room = 0.08 * (high - low or 1.0)
        limit(low - room, high + room)
