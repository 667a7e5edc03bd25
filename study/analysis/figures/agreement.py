"""Figure of the effects of the same arms in two sweeps: a panel for each family, an arm a number, and one for all."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from study.analysis import agreement
from study.analysis.figures import panels, style
from study.analysis.figures.source import Sweep
from study.analysis.labels import arm_words, number
from study.analysis.tables import DECIMALS
from study.metrics import title

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINEAR = 0.25
"""Axes are linear within so many units of the score, and logarithmic beyond."""
TICKS = (0.0, 0.5, 2.0, 10.0, 50.0)
"""Places of ticks, on both sides of zero."""
ROOM = {"x": 0.14, "y": 0.07}
"""Least distance of two ticks, in parts of the axis."""
DIRECTIONS = [(math.cos(turn * math.pi / 4), math.sin(turn * math.pi / 4)) for turn in range(1, 9)]
STEP = 0.05
"""Distance of a number from its point, in parts of the axis; twice and three times as far where there is no room."""
WIDTH, HEIGHT = 0.07, 0.055
"""Size of a number, in parts of the axis."""


def points(sweeps: Sequence[Sweep]) -> pd.DataFrame:
    """Table of the figure: one line an arm, and one for the rank correlation of each family and of all arms.

    Columns: family, arm, n (its place in the key), data and second_data, metric and second_metric, effect, low, high
    and second_effect, second_low, second_high, seeds (in words), rho, rho_low, rho_high and ceiling (in lines without
    an arm). Empty with fewer than two sweeps, or if no seed has all arms.
    """
    import pandas as pd

    if len(sweeps) < 2:
        return pd.DataFrame()
    first, second = sweeps[:2]
    found = agreement.agree(first.runs, second.runs, (first.metric, second.metric))
    if not found.effects:
        return pd.DataFrame()
    facts = {"data": agreement.DATA[first.spec.name], "second_data": agreement.DATA[second.spec.name]}
    facts |= {"metric": first.metric, "second_metric": second.metric}
    facts["seeds"] = agreement.seeds_in_words(found.seeds)
    rows = []
    for place, effect in enumerate(found.effects, start=1):
        row = {"family": effect.family, "arm": effect.arm, "n": place, **facts}
        for prefix, test in (("", effect.first), ("second_", effect.second)):
            row |= {f"{prefix}effect": test.difference, f"{prefix}low": test.low, f"{prefix}high": test.high}
        rows.append(row)
    for family, test in found.correlations.items():
        rows.append({"family": family, "arm": "", **facts, "rho": test.difference} |
                    {"rho_low": test.low, "rho_high": test.high, "ceiling": found.ceilings[family]})  # fmt: skip
    table = pd.DataFrame(rows)
    return table if table.empty else table.astype({"n": "Int64"}).round(DECIMALS)


@style.styled()
def draw(table: pd.DataFrame) -> Figure:
    """Draw a panel for each family above the key to its arms, and one for all arms if there are several families."""
    import seaborn as sns

    arms = table[table["arm"] != ""]
    families = list(dict.fromkeys(arms["family"]))
    looks = dict(zip(families, zip("os^D", sns.color_palette("colorblind"), strict=False), strict=False))
    shown = [*families, ""]
    texts = {family: _key(arms[arms["family"] == family]) if family else _explained(table) for family in shown}
    room = 0.15 * (1 + max(text.count("\n") for text in texts.values()))
    figure: Figure
    figure, grid = style.subplots(
        2, len(shown), figsize=(style.PAGE, 2.6 + room), height_ratios=[2.6, room], squeeze=False
    )
    for column, family in enumerate(shown):
        rows = arms[arms["family"] == family] if family else arms
        top, below = grid[0][column], grid[1][column]
        below.set_axis_off()
        if family or len(families) > 1:
            _panel(top, rows, looks, numbered=bool(family))
            top.set_title(_title(table, family), loc="left")
        else:
            top.set_axis_off()
        below.text(
            0, 1, texts[family], va="top", fontsize=style.SMALL, transform=below.transAxes, linespacing=1.25
        ).set_in_layout(False)
    grid[0][0].set_ylabel(f"effect on {table['second_data'].iloc[0]}")
    return figure


def _title(table: pd.DataFrame, family: str) -> str:
    found = table[(table["arm"] == "") & (table["family"] == family)]
    name = family or "all"
    if found.empty:
        return name
    low, high = (found[name].iloc[0] for name in ("rho_low", "rho_high"))
    inside = "" if low is None or math.isnan(low) else f" [{number(low, 2)}, {number(high, 2)}]"
    return f"{name}\nρ = {number(found['rho'].iloc[0], 2)}{inside}"


def _panel(axes: Axes, rows: pd.DataFrame, looks: Mapping[str, tuple[str, Any]], numbered: bool) -> None:
    for axis in ("x", "y"):
        getattr(axes, f"set_{axis}scale")("symlog", linthresh=LINEAR)
        ends = {"x": ("effect", "low", "high"), "y": ("second_effect", "second_low", "second_high")}[axis]
        _limit(axes, axis, rows[list(ends)].astype(float).to_numpy().ravel())
        getattr(axes, f"ax{'v' if axis == 'x' else 'h'}line")(0, color=panels.INK, linewidth=0.6, zorder=1)
    for family, some in rows.groupby("family", sort=False):
        marker, colour = looks[str(family)]
        x, y = some["effect"].astype(float), some["second_effect"].astype(float)
        axes.hlines(y, some["low"].astype(float), some["high"].astype(float), color=style.GREY, linewidth=0.8, zorder=2)
        low, high = some["second_low"].astype(float), some["second_high"].astype(float)
        axes.vlines(x, low, high, color=style.GREY, linewidth=0.8, zorder=2)
        axes.plot(x, y, marker, color=colour, markersize=3.4, markeredgewidth=0, zorder=3, label=str(family))
    axes.set_xlabel(f"effect on {rows['data'].iloc[0]}")
    axes.spines[["top", "right"]].set_visible(False)
    if numbered:
        _number(axes, rows)
    else:
        axes.legend(loc="best", frameon=False, handletextpad=0.1, borderpad=0.1)


def _limit(axes: Axes, axis: str, values: Any) -> None:
    """Set the limits of an axis a tenth beyond its values, on its own scale, and its ticks."""
    scale = (axes.xaxis if axis == "x" else axes.yaxis).get_transform()
    places = scale.transform([value for value in [*values, 0.0] if not math.isnan(value)])
    beyond = 0.1 * (max(places) - min(places) or 1.0)
    low, high = scale.inverted().transform([min(places) - beyond, max(places) + beyond])
    getattr(axes, f"set_{axis}lim")(low, high)
    marks = sorted({*TICKS, *(-tick for tick in TICKS)}, key=abs)
    at = dict(zip(marks, scale.transform(marks) / (max(places) - min(places) or 1.0), strict=True))
    ticks: list[float] = []
    for tick in marks:  # from zero outwards, where there is room
        if low <= tick <= high and all(abs(at[tick] - at[other]) > ROOM[axis] for other in ticks):
            ticks.append(tick)
    getattr(axes, f"set_{axis}ticks")(ticks, [f"{tick:g}".replace("-", "−") for tick in ticks], minor=False)
    getattr(axes, f"set_{axis}ticks")([], minor=True)


def _number(axes: Axes, rows: pd.DataFrame) -> None:
    """Write the number of each arm beside its point, where it covers no other number or point, with a line to it."""
    to = axes.transScale + axes.transLimits
    points = [tuple(to.transform(xy)) for xy in zip(rows["effect"], rows["second_effect"], strict=True)]
    taken: list[tuple[float, float]] = []
    for n, (x, y) in zip(rows["n"], points, strict=True):
        around = [(x + far * STEP * a, y + far * STEP * b) for far in (1, 1.8, 2.6) for a, b in DIRECTIONS]
        others = [one for one in points if one != (x, y)]
        place = min(around, key=lambda at: (_crowd(at, taken, 1.0) + _crowd(at, others, 0.75), around.index(at)))
        taken.append(place)
        line = {"arrowstyle": "-", "color": style.GREY, "linewidth": 0.4, "shrinkA": 0, "shrinkB": 1}
        arrow = line if math.dist(place, (x, y)) > 1.2 * STEP else None
        axes.annotate(str(n), (x, y), place, "axes fraction", "axes fraction", arrowprops=arrow, fontsize=style.SMALL,
                      ha="center", va="center", zorder=4)  # fmt: skip


def _crowd(at: tuple[float, float], others: Sequence[tuple[float, float]], share: float) -> int:
    """Count places so near that a number here would cover them, and sides of the axes that it would pass."""
    near = sum(abs(at[0] - x) < share * WIDTH and abs(at[1] - y) < share * HEIGHT for x, y in others)
    return near + sum(not 0.02 < one < 0.98 for one in at)


def _key(rows: pd.DataFrame) -> str:
    lines = (f"{n}  {arm_words(arm)}" for n, arm in zip(rows["n"], rows["arm"], strict=True))
    return "\n".join(textwrap.fill(line, 43, subsequent_indent=" " * 5) for line in lines)


def _explained(table: pd.DataFrame) -> str:
    """Return the words below the panel of all arms."""
    seeds = str(table["seeds"].iloc[0])
    scores = [f"{table[f'{side}data'].iloc[0]}: {title(table[f'{side}metric'].iloc[0])}" for side in ("", "second_")]
    lines = [*scores, "effect: arm − baseline of its family", "lines: 95% intervals by Welch's test", f"seeds: {seeds}"]
    lines += [f"axes: linear within ±{LINEAR:g}"]
    if "ceiling" in table:
        at = table[(table["arm"] == "") & table["ceiling"].notna()]
        ceilings = [
            f"{family or 'all'} {number(one, 2)}" for family, one in zip(at["family"], at["ceiling"], strict=True)
        ]
        lines += [f"ceiling of ρ: {', '.join(ceilings)}"] * bool(ceilings)
    return "\n".join(textwrap.fill(line, 36, subsequent_indent="   ") for line in lines)
