"""Figure of the effects of the same arms in two sweeps: one effect against the other, and the line of equal effects."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from study.analysis import agreement
from study.analysis.figures import panels, style
from study.analysis.labels import arm_words, interval, number
from study.analysis.runs import Runs
from study.analysis.tables import DECIMALS
from study.scores.metrics import title
from study.sweep.spec import Spec

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMED, WRAPPED = 5, 24
"""Arms of a panel that have their names beside them, and letters of a line of a name."""
NEAR = 0.8
"""Share of the arms, those with the smallest effects, that the second panel shows."""
LOOKS = {"recurrent": ("o", "C0"), "transformer": ("s", "C1"), "decoder_only": ("^", "C2")}
"""Family ↦ marker and colour."""
EFFECT = ["effect", "low", "high"]
COLUMNS = ["pair", "family", "arm", "data", "second_data", "metric", "second_metric", "seeds", *EFFECT,
           *(f"second_{name}" for name in EFFECT), "rho", "rho_low", "rho_high", "ceiling"]  # fmt: skip


def points(runs: Runs, *specs: Spec) -> pd.DataFrame:
    """Table of the figure: for each pair of the sweeps a line an arm, one a family and one for all of them.

    Columns: `COLUMNS`. Lines of a rank correlation have no arm, and that of all arms no family.
    """
    import pandas as pd

    by_name = {spec.name: spec for spec in specs}
    tables = [pd.DataFrame()]
    for name, (first, second) in agreement.PAIRS.items():
        if first in by_name and second in by_name:
            tables.append(_points(runs, name, by_name[first], by_name[second]))
    return pd.concat(tables, ignore_index=True)


def _points(runs: Runs, name: str, *pair: Spec) -> pd.DataFrame:
    import pandas as pd

    result = agreement.agree(runs, pair, [spec.metric for spec in pair])
    facts = {"pair": name, "seeds": result.seeds}
    for side, data, spec in zip(("", "second_"), agreement.data_words(pair), pair, strict=True):
        facts |= {f"{side}data": data, f"{side}metric": spec.metric}
    rhos = [row | {"family": row["family"].replace("all", ""), "arm": ""} for row in result.correlations]
    table = pd.concat(
        [
            pd.DataFrame(result.effects).rename(columns=lambda name: name.removeprefix("first_")),
            pd.DataFrame(rhos).rename(columns={"low": "rho_low", "high": "rho_high"}),
        ]
    )
    if table.empty:
        return table
    return table.assign(**facts).reindex(columns=COLUMNS).round(DECIMALS)


@style.styled()
def draw(table: pd.DataFrame) -> Figure:
    """Draw two scatters for each pair of sweeps: all arms, and those with small effects."""
    pairs = [pair for _, pair in table.groupby("pair", sort=False)]
    figure, grid = style.subplots(len(pairs), 2, (style.PAGE, 3.3 * len(pairs) + 0.35), squeeze=False)
    notes = []
    for row, pair in zip(grid, pairs, strict=True):
        first = pair.iloc[0]
        arms, rhos = pair[pair["arm"] != ""], pair[pair["arm"] == ""].set_index("family")
        small = arms[arms["effect"].abs() <= arms["effect"].abs().quantile(NEAR)]
        for axes, rows, words in ((row[0], arms, "all arms"), (row[1], small, "arms with small effects")):
            _scatter(axes, rows)
            axes.set_title(words, loc="left")
            axes.set_xlabel(f"effect, {first['data']} (more is worse)")
        row[0].set_ylabel(f"effect, {first['second_data']}")
        scores = " and ".join(dict.fromkeys(title(first[name]) for name in ("metric", "second_metric")))
        order = _order(rhos.iloc[0]) if "" in rhos.index[:1] else "too few arms for ρ"
        notes.append(f"{first['data']} and {first['second_data']}: {scores}, {first['seeds']} seeds, {order}.")
    lines = "Dashed: equal effects. Solid: least squares through the base arm, with its slope. Grey: 95% intervals."
    panels.key(figure, " ".join([*notes, "Effect: arm − base arm of its family.", lines]))
    return figure


def _order(rho: pd.Series) -> str:
    """Return a rank correlation in words."""
    ends = interval(rho["rho_low"], rho["rho_high"], 2, False)
    return f"ρ = {number(rho['rho'], 2)} {ends}, ceiling {number(rho['ceiling'], 2)}"


def _scatter(axes: Axes, rows: pd.DataFrame) -> None:
    """Draw the effects of arms in one sweep against those in the other, on linear axes."""
    x, y = rows["effect"].astype(float), rows["second_effect"].astype(float)
    axes.axhline(0, color=panels.INK, linewidth=0.6, zorder=1)
    axes.axvline(0, color=panels.INK, linewidth=0.6, zorder=1)
    axes.hlines(y, rows["low"], rows["high"], color=style.GREY, linewidth=0.6, alpha=0.6, zorder=2)
    axes.vlines(x, rows["second_low"], rows["second_high"], color=style.GREY, linewidth=0.6, alpha=0.6, zorder=2)
    for family, (marker, colour) in LOOKS.items():
        of_family = rows[rows["family"] == family]
        if len(of_family):
            name = family.replace("_", "-")
            axes.plot(of_family["effect"], of_family["second_effect"], marker, color=colour, markersize=4, label=name)
    low, high = min(0.0, x.min()), max(0.0, x.max())
    room = 0.08 * (high - low)
    ends = (low - room, high + room)
    slope = float((x * y).sum() / (x * x).sum())
    axes.set_xlim(ends)
    limits = axes.get_ylim()
    axes.plot(ends, ends, "--", color=style.GREY, linewidth=0.8, zorder=1)
    axes.plot(ends, [slope * end for end in ends], color=panels.INK, linewidth=0.9, zorder=1)
    axes.set_ylim(limits)
    axes.set_title(f"slope {number(slope, 1)}", loc="right", fontsize=style.SMALL)
    axes.legend(frameon=False, loc="best", handletextpad=0.2)
    _name(axes, rows)


def _name(axes: Axes, rows: pd.DataFrame) -> None:
    """Write the names of the arms with the largest effects beside them, those left out whose names would overlap."""
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    taken: list[tuple[float, float]] = []
    for index in rows["second_effect"].abs().sort_values(ascending=False).index:
        row = rows.loc[index]
        place = float(row["effect"]), float(row["second_effect"])
        spot = (place[0] - left) / (right - left), (place[1] - bottom) / (top - bottom)
        overlaps = any(abs(spot[0] - x) < 0.5 and abs(spot[1] - y) < 0.085 for x, y in taken)
        if overlaps or len(taken) == NAMED:
            continue
        taken.append(spot)
        aside, align = (-5, "right") if spot[0] > 0.5 else (5, "left")
        name = textwrap.fill(arm_words(row["arm"]), WRAPPED)
        text = axes.annotate(name, place, (aside, 3), textcoords="offset points", fontsize=6.5, ha=align)
        text.set_linespacing(0.9)
