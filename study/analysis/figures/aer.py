"""Figure of alignment error rate against BLEU, one dot per run, in the sweeps of claim 17."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from study.analysis.figures import panels, style
from study.analysis.figures.maps import AXES
from study.analysis.figures.source import Sweep, arm, base_of, first_of_family, interval, point, with_means
from study.analysis.inference import FEW
from study.analysis.labels import arm_words, axis
from study.analysis.tables import DECIMALS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL = 1.45
"""Height in inches of what the points stand in."""

LETTERS = 52
"""So many letters go side by side under a panel."""


def points(sweeps: Sequence[Sweep]) -> pd.DataFrame:
    """A panel a sweep and family: BLEU and AER of every run on the split that decides, and both means of its arm."""
    rows = []
    for sweep in sweeps:
        main, variants, free = AXES[sweep.spec.name]
        runs = sweep.comparable(*free)
        bases = first_of_family(runs)
        for run in runs:
            column = sweep.spec.name + (f", {run.at('model.family')}" if len(bases) > 1 else "")
            line = arm(run, base_of(run, bases), main, *variants)
            error, bleu = (f"{sweep.spec.metric[0]}/{name}" for name in ("aer", "bleu"))
            rows.append(point(run, bleu, line, "", column=column, score=run.score(bleu), aer=run.score(error)))
    known = {row["column"] for row in rows if None not in (row["aer"], row["score"])}
    table = with_means([row for row in rows if row["column"] in known])
    return table if table.empty else _with_errors(table.astype({"aer": float}))


def _with_errors(table: pd.DataFrame) -> pd.DataFrame:
    """Mean and interval of the AER of every arm, beside those of its score."""
    keys = list(zip(table["column"], table["line"], strict=True))
    found: dict[tuple[str, str], list[float]] = {}
    for key, error in zip(keys, table["aer"], strict=True):
        found.setdefault(key, []).append(float(error))
    summaries = {key: interval(errors) for key, errors in found.items()}
    for i, name in enumerate(("aer_mean", "aer_low", "aer_high")):
        table[name] = [summaries[key][i] for key in keys]
    return table.round(dict.fromkeys(("aer", "aer_mean", "aer_low", "aer_high"), DECIMALS)).drop(columns=["x", "row"])


@style.styled()
def draw(table: pd.DataFrame) -> Figure:
    """Panels two in a row, each above the names of its arms."""
    columns = list(dict.fromkeys(table["column"]))
    across = min(2, len(columns))
    down = -(-len(columns) // across)
    names = [_names(table[table["column"] == column]) for column in columns]
    lines = [
        max(-(-len(looks) // fitting) for looks, fitting in names[i : i + across]) for i in range(0, len(names), across)
    ]
    heights = [height for count in lines for height in (PANEL, 0.15 * count + 0.1)]
    size = (style.PAGE if across == 2 else style.COLUMN, sum(heights) + 0.6 * down + 0.3)
    figure, grid = style.subplots(2 * down, across, figsize=size, height_ratios=heights, squeeze=False)
    for axes in grid.flat:
        axes.set_visible(False)
    for i, (column, (looks, fitting)) in enumerate(zip(columns, names, strict=True)):
        row, place = divmod(i, across)
        _panel(grid[2 * row][place], table[table["column"] == column])
        _legend(grid[2 * row + 1][place], looks, fitting)
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


def _legend(axes: Axes, looks: dict[str, style.Look], fitting: int) -> None:
    handles = [panels.legend_handle(look, name) for name, look in looks.items()]
    for handle in handles:
        handle.set_linestyle("")
    axes.set_visible(True)
    axes.set_axis_off()
    legend = axes.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=fitting,
        frameon=False,
        handlelength=1.0,
        borderaxespad=0.0,
        fontsize=style.SMALL,
    )
    legend.set_in_layout(False)  # else the panels give way to the longest name


def _panel(axes: Axes, panel: pd.DataFrame) -> None:
    axes.set_visible(True)
    for line, look in panels.arm_looks(list(dict.fromkeys(panel["line"]))).items():
        rows = panel[panel["line"] == line]
        one = rows.iloc[0]
        axes.hlines(one["mean"], one["aer_low"], one["aer_high"], color=look.colour, linewidth=0.9, zorder=2)
        axes.vlines(one["aer_mean"], one["low"], one["high"], color=look.colour, linewidth=0.9, zorder=2)
        axes.plot(list(rows["aer"]), list(rows["score"]), linestyle="", zorder=3, **panels.mark(look, 4))
    metric = str(panel["metric"].iloc[0])
    axes.set_title(str(panel["column"].iloc[0]), loc="left")
    axes.set_xlabel(axis(f"{metric.partition('/')[0]}/aer"))
    axes.set_ylabel(axis(metric))
    for name, numbers in (("x", panel["aer"]), ("y", panel["score"])):
        low, high = float(numbers.min()), float(numbers.max())
        room = 0.08 * (high - low or 1.0)
        getattr(axes, f"set_{name}lim")(low - room, high + room)
    axes.spines[["top", "right"]].set_visible(False)
