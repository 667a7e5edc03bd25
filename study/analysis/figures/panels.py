"""Small multiples: a panel for each row and column of a table; a line an arm, every run a dot, the interval beside."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from study.analysis.figures import style
from study.analysis.inference import FEW
from study.analysis.labels import arm_words
from study.scores import metrics

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#444444"
ABSENT: dict[str, Any] = {"marker": "x", "markersize": 4, "markeredgewidth": 1.0, "label": "no score"}
"""Mark of runs without a score: diverged, failed or missing."""
KEY, BANDS = "dot: a run · mark: mean", f" · band: its 95% t interval, unadjusted, of {FEW} runs or more"


def small_multiples(
    panes: Mapping[str, pd.DataFrame],
    across: int,
    label: str,
    height: float,
    note: str,
    keyed: Collection[str] | None = None,
    beside: float = 0,
) -> Figure:
    """Return the whole figure.

    Args:
        panes: title of a panel ↦ what `points` makes, with numbers as places.
        across: panels in a row, which share the vertical axis.
        label: the horizontal axis in words.
        height: inches of a row of panels.
        note: said under the panels before the key to the marks.
        keyed: lines that a legend names (default: all).
        beside: width of an empty panel at the right of all rows, the last of the figure; 0: none.
    """
    import pandas as pd

    table = pd.concat(panes.values())
    looks = {line: style.look(line) for line in dict.fromkeys(table["line"])}
    down = math.ceil(len(panes) / across)
    widths = [1.0] * across
    if beside:
        widths.append(beside)
    size = (style.PAGE, height * down + 0.75)
    figure, cells = style.subplots(down, len(widths), size, squeeze=False, width_ratios=widths)
    grid = cells[:, :across]
    for axes in (*grid.flat[len(panes) :], *cells[:, across:].flat):
        axes.remove()
    if beside:
        figure.add_subplot(cells[0, -1].get_gridspec()[:, -1])
    for i, (axes, (words, panel)) in enumerate(zip(grid.flat, panes.items(), strict=False)):
        for line, rows in panel.groupby("line", sort=False):
            _line(axes, rows, looks[line])
        first, last = i - i % across, i + across >= len(panes)
        limit(axes, pd.concat(list(panes.values())[first : first + across]))
        axes.set_title(words, loc="left", fontsize=8)
        axes.set_xlabel(label if last else "")
        axes.set_ylabel("" if i % across else metrics.title(str(panel["metric"].iloc[0])))
        axes.tick_params(labelbottom=last, labelleft=i % across == 0)
        axes.grid(False, axis="x")
    legend(figure, {line: look for line, look in looks.items() if keyed is None or line in keyed}, table)
    key(figure, f"{note} · {KEY}{BANDS if table['low'].notna().any() else ''}")
    return figure


def _line(axes: Axes, rows: pd.DataFrame, look: style.Look) -> None:
    """Draw one arm: dots, the mean with a band for its interval, and marks for what is not there."""
    cells = rows.drop_duplicates("x").sort_values("x").set_index("x")[["mean", "low", "high"]].astype(float)
    axes.fill_between(cells.index, cells["low"], cells["high"], color=look.colour, alpha=0.2, linewidth=0)
    axes.plot(cells["mean"], look.line, color=look.colour, linewidth=1.0, zorder=3, **look.mark(4))
    axes.plot(rows["x"], rows["score"], ".", color=look.colour, markersize=3, markeredgewidth=0, zorder=2)
    for place, runs in rows.groupby("x"):
        absences(axes, place, runs, look.colour)


def absences(axes: Axes, place: Any, rows: pd.DataFrame, colour: Any) -> None:
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
    if not handles:
        return
    longest = max(len(str(handle.get_label())) for handle in handles)
    fitting = int(figure.get_figwidth() * 72 // (longest * 4.1 + 36))
    columns = max(1, min(fitting, len(handles)))
    spacing: dict[str, Any] = {"handlelength": 2.2, "columnspacing": 1.4}
    figure.legend(handles=handles, ncols=columns, **style.ABOVE, **spacing)


def key(figure: Figure, text: str) -> None:
    """Write an explanation in small type under all panels."""
    fitting = int(figure.get_figwidth() * 72 / (0.55 * style.SMALL))
    figure.supxlabel(textwrap.fill(text, fitting), fontsize=style.SMALL, color=INK)
