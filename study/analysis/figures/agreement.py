"""Figure of the effects of the same arms in two sweeps: a panel for each family, an arm a number, both intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from study.analysis import agreement
from study.analysis.figures import panels, style
from study.analysis.figures.source import Sweep
from study.analysis.labels import arm_words, axis, number
from study.analysis.tables import DECIMALS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINEAR = 0.25
"""Axes are linear within so many units of the score, and logarithmic beyond."""


def points(sweeps: Sequence[Sweep]) -> pd.DataFrame:
    """Table of the figure: one line an arm, and one for the rank correlation of each family and of all arms.

    Columns: family, arm, n (its place in the key), metric and second_metric, effect, low, high and second_effect,
    second_low, second_high, seeds and second_seeds, rho, rho_low, rho_high (in lines without an arm). Empty with fewer
    than two sweeps, or if no seed has all arms.
    """
    import pandas as pd

    if len(sweeps) < 2:
        return pd.DataFrame()
    first, second = sweeps[:2]
    found = agreement.agree(first.runs, second.runs, (first.metric, second.metric))
    facts = {"metric": first.metric, "second_metric": second.metric, "seeds": found.seeds[0]}
    facts |= {"second_seeds": found.seeds[1]}
    rows = []
    for place, effect in enumerate(found.effects, start=1):
        row = {"family": effect.family, "arm": effect.arm, "n": place, **facts}
        for prefix, test in (("", effect.first), ("second_", effect.second)):
            row |= {f"{prefix}effect": test.difference, f"{prefix}low": test.low, f"{prefix}high": test.high}
        rows.append(row)
    for family, test in found.correlations.items():
        rows.append({"family": family, "arm": "", **facts, "rho": test.difference} |
                    {"rho_low": test.low, "rho_high": test.high})  # fmt: skip
    table = pd.DataFrame(rows)
    return table if table.empty else table.astype({"n": "Int64"}).round(DECIMALS)


@style.styled()
def draw(table: pd.DataFrame) -> Figure:
    """Panels side by side, each above the key to its arms."""
    arms = table[table["arm"] != ""]
    families = list(dict.fromkeys(arms["family"]))
    longest = max((arms["family"] == family).sum() for family in families)
    figure: Figure
    figure, grid = style.subplots(
        2,
        len(families),
        figsize=(style.PAGE, 2.9 + 0.13 * longest),
        height_ratios=[2.6, 0.13 * longest],
        squeeze=False,
    )
    for column, family in enumerate(families):
        rows = arms[arms["family"] == family]
        _panel(grid[0][column], rows, _title(table, family))
        _key(grid[1][column], rows)
    whole = _rho(table, "")
    seeds = f"{table['seeds'].iloc[0]} and {table['second_seeds'].iloc[0]} seeds"
    panels.key(
        figure,
        f"effect: arm − baseline; bars: 95% intervals (Welch), {seeds}; axes linear within ±{LINEAR:g}"
        + (f"; all arms: {whole}" if whole else ""),
    )
    return figure


def _title(table: pd.DataFrame, family: str) -> str:
    rho = _rho(table, family)
    return family + (f": {rho}" if rho else "")


def _rho(table: pd.DataFrame, family: str) -> str:
    if "rho" not in table:
        return ""
    found = table[(table["arm"] == "") & (table["family"] == family)]
    if found.empty:
        return ""
    low, high = (found[name].iloc[0] for name in ("rho_low", "rho_high"))
    inside = "" if low is None or math.isnan(low) else f" [{number(low, 2)}, {number(high, 2)}]"
    return f"ρ = {number(found['rho'].iloc[0], 2)}{inside}"


def _panel(axes: Axes, rows: pd.DataFrame, title: str) -> None:
    x, y = list(rows["effect"]), list(rows["second_effect"])
    for at, low, high in zip(y, rows["low"].astype(float), rows["high"].astype(float), strict=True):
        axes.plot([low, high], [at, at], color=style.GREY, linewidth=0.9, zorder=2)
    for at, low, high in zip(x, rows["second_low"].astype(float), rows["second_high"].astype(float), strict=True):
        axes.plot([at, at], [low, high], color=style.GREY, linewidth=0.9, zorder=2)
    axes.plot(x, y, "o", color=panels.INK, markersize=3.2, markeredgewidth=0, zorder=3)
    for n, a, b in zip(rows["n"], x, y, strict=True):
        axes.annotate(str(n), (a, b), xytext=(2.5, 2.5), textcoords="offset points", fontsize=style.SMALL)
    for line in (axes.axhline, axes.axvline):
        line(0, color=panels.INK, linewidth=0.6, zorder=1)
    axes.set_xscale("symlog", linthresh=LINEAR)
    axes.set_yscale("symlog", linthresh=LINEAR)
    axes.set_title(title, loc="left")
    axes.set_xlabel(f"effect on {axis(str(rows['metric'].iloc[0]))}")
    axes.set_ylabel(f"effect on {axis(str(rows['second_metric'].iloc[0]))}")
    axes.spines[["top", "right"]].set_visible(False)


def _key(axes: Axes, rows: pd.DataFrame) -> None:
    text = "\n".join(f"{n}  {arm_words(arm)}" for n, arm in zip(rows["n"], rows["arm"], strict=True))
    axes.set_axis_off()
    axes.text(0, 1, text, va="top", fontsize=style.SMALL, transform=axes.transAxes, linespacing=1.25).set_in_layout(
        False
    )
