"""Figures of the effects of the same arms in two sweeps.

`draw` has a panel for each family, where an arm is a number, and one for all. `fading` has clear gains and losses, an
arm a line from one effect to the other.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from study.analysis import agreement
from study.analysis.figures import panels, style
from study.analysis.labels import arm_words, interval, number
from study.analysis.runs import Runs, primary
from study.analysis.tables import DECIMALS
from study.metrics import title
from study.sweep.spec import Spec

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINEAR = 0.25
"""Axes are linear within so many units of the score, and logarithmic beyond."""
TICKS = (0.0, 0.5, -0.5, 2.0, -2.0, 10.0, -10.0, 50.0, -50.0)
ROOM = {"x": 0.14, "y": 0.07}
"""Least distance of two ticks, in parts of the axis."""
STEP = 0.05
"""Distance of a number from its point, in parts of the axis; twice and three times as far where there is no room."""
AROUND = [
    (far * STEP * math.cos(turn * math.pi / 4), far * STEP * math.sin(turn * math.pi / 4))
    for far in (1, 1.8, 2.6)
    for turn in range(1, 9)
]
"""Places of a number around its point, the best first."""
WIDTH, HEIGHT = 0.07, 0.055
"""Size of a number, in parts of the axis."""
SIDES = ("", "second_")
"""Beginnings of the columns of both sweeps."""
GAP = 0.038
"""Least distance of two names, in parts of the axis."""
LOOKS = {"recurrent": ("o", "-", "C0"), "transformer": ("s", "--", "C1")}
"""Family ↦ marker, line and colour in the figure of two budgets."""
EFFECT = ["effect", "low", "high"]
COLUMNS = ["family", "arm", "n", "data", "second_data", "metric", "second_metric", "seeds", *EFFECT,
           *(f"second_{name}" for name in EFFECT), "rho", "rho_low", "rho_high", "ceiling"]  # fmt: skip


def points(runs: Runs, *specs: Spec) -> pd.DataFrame:
    """Table of the figure: one line an arm, and one for the rank correlation of each family and of all arms.

    Columns: `COLUMNS`; n is the place of an arm in the key. Lines of a rank correlation have no arm, and that of all
    arms no family. Empty with fewer than two sweeps, or without an effect.
    """
    import pandas as pd

    if len(specs) < 2:
        return pd.DataFrame()
    found = agreement.agree(runs, specs, [primary(spec) for spec in specs])
    facts = {f"{side}data": agreement.SWEEPS[spec.name][0] for side, spec in zip(SIDES, specs, strict=True)}
    facts |= {f"{side}metric": primary(spec) for side, spec in zip(SIDES, specs, strict=True)}
    effects = [row | {"n": place} for place, row in enumerate(found.effects, start=1)]
    rhos = [row | {"family": row["family"].replace("all", ""), "arm": ""} for row in found.correlations]
    table = pd.concat(
        [
            pd.DataFrame(effects).rename(columns=lambda name: name.removeprefix("first_")),
            pd.DataFrame(rhos).rename(columns={"low": "rho_low", "high": "rho_high"}),
        ]
    )
    if table.empty:
        return table
    return table.assign(**facts, seeds=found.seeds).astype({"n": "Int64"}).reindex(columns=COLUMNS).round(DECIMALS)


@style.styled()
def draw(table: pd.DataFrame) -> Figure:
    """Draw a panel for each family above the key to its arms, and one for all arms."""
    arms, rhos = table[table["arm"] != ""], table[table["arm"] == ""].set_index("family")
    families = list(dict.fromkeys(arms["family"]))
    texts = []
    for family in families:
        lines = [f"{arm.n}  {arm_words(arm.arm)}" for arm in arms[arms["family"] == family].itertuples()]
        texts.append("\n".join(textwrap.fill(line, 43, subsequent_indent=" " * 5) for line in lines))
    texts.append(_explained(table))
    room = 0.15 * (1 + max(text.count("\n") for text in texts))
    figure, grid = style.subplots(2, len(texts), (style.PAGE, 2.6 + room), height_ratios=[2.6, room])
    for family, text, top, below in zip([*families, ""], texts, *grid, strict=True):
        own = arms[arms["family"] == family] if family else arms
        _panel(top, own, families)
        rho, low, high = rhos.reindex([family])[["rho", "rho_low", "rho_high"]].iloc[0]
        top.set_title(f"{family or 'all'}\nρ = {number(rho, 2)} {interval(low, high, 2, False)}", loc="left")
        if family:
            _number(top, own)
        else:
            top.legend(loc="best", frameon=False, handletextpad=0.1, borderpad=0.1)
        below.set_axis_off()
        looks = {"va": "top", "fontsize": style.SMALL, "transform": below.transAxes, "linespacing": 1.25}
        below.text(0, 1, text, **looks).set_in_layout(False)
    grid[0][0].set_ylabel(f"effect on {table['second_data'].iloc[0]}")
    return figure


def _panel(axes: Axes, rows: pd.DataFrame, families: list[str]) -> None:
    for name, side, line in (("x", "", axes.axvline), ("y", "second_", axes.axhline)):
        _scale(axes, name, rows[[f"{side}effect", f"{side}low", f"{side}high"]].to_numpy(float).ravel())
        line(0, color=panels.INK, linewidth=0.6, zorder=1)
    for family, some in rows.groupby("family", sort=False):
        place, x, y = families.index(str(family)), some["effect"], some["second_effect"]
        axes.hlines(y, some["low"], some["high"], color=style.GREY, linewidth=0.8, zorder=2)
        axes.vlines(x, some["second_low"], some["second_high"], color=style.GREY, linewidth=0.8, zorder=2)
        axes.plot(x, y, "os"[place], color=f"C{place}", markersize=3.4, markeredgewidth=0, zorder=3, label=str(family))
    axes.set_xlabel(f"effect on {rows['data'].iloc[0]}")


def _scale(axes: Axes, name: str, values: Any) -> None:
    """Set scale and limits of an axis, a tenth beyond its values on its own scale, and ticks from zero outwards."""
    axis = axes.xaxis if name == "x" else axes.yaxis
    getattr(axes, f"set_{name}scale")("symlog", linthresh=LINEAR)
    scale = axis.get_transform()
    places = scale.transform([value for value in [*values, 0.0] if value == value])
    span = max(places) - min(places)
    low, high = scale.inverted().transform([min(places) - 0.1 * span, max(places) + 0.1 * span])
    ticks: dict[float, float] = {}
    for tick in TICKS:
        at = scale.transform([tick])[0] / span
        if low <= tick <= high and all(abs(at - other) > ROOM[name] for other in ticks.values()):
            ticks[tick] = at
    axes.set(**{f"{name}lim": (low, high)})
    axis.set_ticks(list(ticks), [f"{tick:g}".replace("-", "−") for tick in ticks])
    axis.set_ticks([], minor=True)


def _number(axes: Axes, rows: pd.DataFrame) -> None:
    """Write the number of each arm beside its point, where it covers no other number or point, with a line to it."""
    to = axes.transScale + axes.transLimits
    points = [tuple(to.transform(xy)) for xy in zip(rows["effect"], rows["second_effect"], strict=True)]
    taken: list[Any] = []
    for n, point in zip(rows["n"], points, strict=True):

        def crowd(at: Any, point: Any = point) -> Any:
            """Count numbers and points that a number here would cover, and sides of the axes that it would pass."""
            others = [(one, 1.0) for one in taken] + [(one, 0.75) for one in points if one != point]
            near = [abs(at[0] - x) < share * WIDTH and abs(at[1] - y) < share * HEIGHT for (x, y), share in others]
            return sum(near) + sum(not 0.02 < one < 0.98 for one in at)

        place = min([(point[0] + a, point[1] + b) for a, b in AROUND], key=crowd)
        taken.append(place)
        line = {"arrowstyle": "-", "color": style.GREY, "linewidth": 0.4, "shrinkA": 0, "shrinkB": 1}
        looks: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": style.SMALL, "zorder": 4}
        looks |= {"arrowprops": line if math.dist(place, point) > 1.2 * STEP else None}
        axes.annotate(str(n), point, place, "axes fraction", "axes fraction", **looks)


def _explained(table: pd.DataFrame) -> str:
    """Return the words below the panel of all arms."""
    first = table.iloc[0]
    lines = [f"{first[f'{side}data']}: {title(first[f'{side}metric'])}" for side in SIDES]
    lines += ["effect: arm − baseline of its family", "lines: 95% intervals by Welch's test"]
    lines += [f"seeds: {first['seeds']}", f"axes: linear within ±{LINEAR:g}"]
    known = table.dropna(subset=["ceiling"])
    pairs = zip(known["family"], known["ceiling"], strict=True)
    lines += ["ceiling of ρ: " + ", ".join(f"{family or 'all'} {number(one, 2)}" for family, one in pairs)]
    return "\n".join(textwrap.fill(line, 36, subsequent_indent="   ") for line in lines)


@style.styled()
def fading(table: pd.DataFrame) -> Figure:
    """Draw clear gains and clear losses at the first budget, each arm a line to its effect at the second one."""
    arms = table[table["arm"] != ""].sort_values("second_effect")
    clear = {"clear gains": arms[arms["high"] < 0], "clear losses": arms[arms["low"] > 0]}
    figure, grid = style.subplots(1, 2, figsize=(style.PAGE, 4.2))
    for axes, (name, rows) in zip(grid, clear.items(), strict=True):
        axes.set_yscale("linear" if name == "clear gains" else "log")
        for row in rows.itertuples():
            axes.plot([0, 1], [row.effect, row.second_effect], **_look(row.family), linewidth=0.9, zorder=3)
        axes.set_title(f"{name} ({len(rows)})", loc="left")
        updates = [str(arms[f"{side}data"].iloc[0]).partition(", ")[2] or "usual updates" for side in SIDES]
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
