"""Figures of the two findings: the scale by size with every repair, and effects that fade or stay with training."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from study.analysis.figures import panels, style
from study.analysis.figures.points import CROSS, FAMILY, INIT, SCALE, comparable, lines, placed, values, with_means
from study.analysis.figures.points import at as field
from study.analysis.labels import arm_words
from study.analysis.runs import Runs
from study.config import mechanisms
from study.sweep.spec import Spec

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAP_RATE = f"{CROSS}.map_rate"
PARTS = ("scale", "logit_init", "map_rate", "key_width")
"""Fields in which the runs of the figure of scales differ."""
EXACT = "test/exact"
GAP = 0.038
"""Least distance of two names, in parts of the axis."""
ENDS = ("effect", "low", "high", "second_effect", "second_low", "second_high")
"""Columns with numbers of both budgets."""


def scale(runs: Runs, *specs: Spec) -> pd.DataFrame:
    """Panel for each family over d: with the scale, without, with each part of it alone, and with 1/d.

    The sweep `scaling` has 1/d, at the same recipe and size.
    """
    parts = []
    for spec in specs:
        table = comparable(runs, spec, PARTS, [EXACT])
        if spec.name != "scale_parts":
            table = table[[mechanisms.SCALE[field(experiment, SCALE)].power == 1 for experiment in table["experiment"]]]
        line = lines(table, SCALE, INIT, MAP_RATE)
        parts.append(placed(table, EXACT, line, values(table, f"{CROSS}.key_width"), column=values(table, FAMILY)))
    return with_means(parts)


@style.styled()
def draw_scale(table: pd.DataFrame) -> Figure:
    """Draw a panel for each family."""
    note = "d: the number of terms that the score sums"
    return panels.small_multiples(table, "log", lambda column: "d", height=2.5, note=note)


@style.styled()
def draw_fading(table: pd.DataFrame) -> Figure:
    """Draw clear gains and clear losses at the first budget, each arm a line to its effect at the second one.

    Args:
        table: what `agreement.points` makes.
    """
    arms = table[table["arm"] != ""].astype(dict.fromkeys(ENDS, float)).sort_values("second_effect")
    clear = {"clear gains": arms[arms["high"] < 0], "clear losses": arms[arms["low"] > 0]}
    figure, grid = style.subplots(1, 2, figsize=(style.PAGE, 4.2))
    for axes, (title, rows) in zip(grid, clear.items(), strict=True):
        axes.set_yscale("linear" if title == "clear gains" else "log")
        for row in rows.to_dict("records"):
            axes.plot([0, 1], [row["effect"], row["second_effect"]], **_look(row["family"]), linewidth=0.9, zorder=3)
        axes.set_title(f"{title} ({len(rows)})", loc="left")
        axes.set_xticks([0, 1], [_budget(arms, name) for name in ("data", "second_data")])
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


def _budget(arms: pd.DataFrame, column: str) -> str:
    """Return the number of updates in words, from the name of the data."""
    return textwrap.fill(str(arms[column].iloc[0]).partition(", ")[2] or "usual updates", 12)


def _look(family: Any) -> dict[str, Any]:
    marker, line, colour = {"recurrent": ("o", "-", "C0")}.get(str(family), ("s", "--", "C1"))
    return {"marker": marker, "linestyle": line, "color": colour, "markersize": 3}


def _name(axes: Axes, rows: pd.DataFrame) -> None:
    """Write the names of the arms, which are sorted, to the right of their lines, no two on one another."""
    to = axes.transScale + axes.transLimits
    ends = [float(to.transform((1, value))[1]) for value in rows["second_effect"]]
    spot, start = (float(axes.transLimits.transform((x, 0))[0]) for x in (1.15, 1.03))
    for row, end, place in zip(rows.to_dict("records"), ends, _spread(ends), strict=True):
        looks: dict[str, Any] = {"va": "center", "fontsize": 6, "color": _look(row["family"])["color"]}
        axes.text(spot, place, arm_words(row["arm"]), transform=axes.transAxes, **looks)
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
