"""Figure of the effects of the same arms in two sweeps: an arm is a line from its first effect to its second one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from study.analysis import agreement
from study.analysis.figures import panels, style
from study.analysis.labels import arm_words, interval, number
from study.analysis.runs import Runs, primary
from study.analysis.tables import DECIMALS
from study.scores.metrics import title
from study.sweep.spec import Spec

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINEAR = 0.25
"""Axes are linear within so many units of the score, and logarithmic beyond."""
TICKS = (-10.0, -1.0, 0.0, 1.0, 10.0)
LINE, HEAD = 0.14, 0.62
"""Inches of an arm, and of a panel's title and axis."""
EFFECT = ["effect", "low", "high"]
COLUMNS = ["family", "arm", "data", "second_data", "metric", "second_metric", "seeds", *EFFECT,
           *(f"second_{name}" for name in EFFECT), "rho", "rho_low", "rho_high", "ceiling"]  # fmt: skip


def points(runs: Runs, *specs: Spec) -> pd.DataFrame:
    """Table of the figure: for each pair of the sweeps a line an arm, one a family and one for all of them.

    Columns: `COLUMNS`. Lines of a rank correlation have no arm, and that of all arms no family.
    """
    import pandas as pd

    by_name = {spec.name: spec for spec in specs}
    tables = [pd.DataFrame()]
    for first, second in agreement.PAIRS.values():
        if first in by_name and second in by_name:
            tables.append(_points(runs, by_name[first], by_name[second]))
    return pd.concat(tables)


def _points(runs: Runs, *pair: Spec) -> pd.DataFrame:
    import pandas as pd

    result = agreement.agree(runs, pair, [primary(spec) for spec in pair])
    facts = {"seeds": result.seeds}
    for side, spec in zip(("", "second_"), pair, strict=True):
        facts |= {f"{side}data": agreement.SWEEPS[spec.name][0], f"{side}metric": primary(spec)}
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
    """Draw a row of panels for each pair of sweeps, and in it a panel for each family."""
    pairs = [pair for _, pair in table.groupby(["data", "second_data"], sort=False)]
    families = list(dict.fromkeys(table["family"][table["arm"] != ""]))
    heights = [HEAD + LINE * pair["family"][pair["arm"] != ""].value_counts().max() for pair in pairs]
    size = (style.PAGE, sum(heights) + 0.3)
    figure, grid = style.subplots(len(pairs), len(families), size, height_ratios=heights, squeeze=False)
    notes = []
    for row, pair in zip(grid, pairs, strict=True):
        first, rhos = pair.iloc[0], pair[pair["arm"] == ""].set_index("family")
        sides = f"○ {first['data']}, ● {first['second_data']}"
        order = {family: _order(rho) for family, rho in rhos.iterrows()}
        scores = " and ".join(dict.fromkeys(title(first[name]) for name in ("metric", "second_metric")))
        notes.append(f"{sides}: {scores}, {first['seeds']} seeds, {order.get('', 'too few arms for ρ')}.")
        for axes, family in zip(row, families, strict=True):
            _panel(axes, pair[(pair["family"] == family) & (pair["arm"] != "")].sort_values("effect", ascending=False))
            axes.set_title(f"{family}: {sides}\n{order.get(family, '')}", loc="right", fontsize=style.SMALL)
            axes.set_xlabel("effect: arm − base arm of its family", loc="right")
    panels.key(figure, " ".join([*notes, "Grey: 95% intervals by Welch's test, that of ○ below."]))
    return figure


def _order(found: pd.Series) -> str:
    """Return a rank correlation in words."""
    ends = interval(found["rho_low"], found["rho_high"], 2, False)
    return f"ρ = {number(found['rho'], 2)} {ends}, ceiling {number(found['ceiling'], 2)}"


def _panel(axes: Axes, rows: pd.DataFrame) -> None:
    places = range(len(rows))
    axes.axvline(0, color=panels.INK, linewidth=0.6, zorder=1)
    axes.hlines(places, rows["effect"], rows["second_effect"], color="C0", linewidth=0.9, zorder=2)
    for side, aside, fill in (("", -0.2, "white"), ("second_", 0.2, "C0")):
        beside = [place + aside for place in places]
        axes.hlines(beside, rows[f"{side}low"], rows[f"{side}high"], color=style.GREY, linewidth=0.8, zorder=2)
        axes.plot(rows[f"{side}effect"], places, "o", color="C0", markerfacecolor=fill, markersize=3.6, zorder=3)
    axes.set_yticks(places, list(map(arm_words, rows["arm"])), fontsize=6.5)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xscale("symlog", linthresh=LINEAR, linscale=2)
    axes.set_xticks(TICKS, [f"{tick:g}".replace("-", "−") for tick in TICKS])
    axes.set_xticks([], minor=True)
    axes.autoscale(axis="x")
    axes.grid(False, axis="y")
