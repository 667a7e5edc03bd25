"""Figure of the effects of the same arms in two sweeps: one effect against the other, and the line of equal effects."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.transforms import Bbox

from study.analysis import agreement
from study.analysis.figures import naming, panels, style
from study.analysis.labels import arm_words, interval, number
from study.analysis.runs import Runs
from study.analysis.tables import DECIMALS
from study.scores.metrics import title
from study.sweep.spec import Spec

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

NO_BREAK = "\N{NO-BREAK SPACE}"
NAMED, WRAPPED, UPRIGHT = 14, 22, 28
"""Arms of a panel that have their names beside them, and letters of a line of a name and of the vertical axis."""
NEAR, FAR = 0.75, 3
"""Share of the arms that counts as small effects, and how many times as large others are if they are only listed."""
EDGE = 0.03
"""Share of a panel at its upper ends in which no mark stands."""
HEIGHT, WIDTHS, LISTED = 2.8, (2.6, 1), 33
"""Inches of a row, the shares of its panel and of the list beside it, and letters of a line of the list."""
SPACE, LINES = 0.4, 22
"""Lines between two arms of the list, and lines that have room beside a panel."""
BEYOND = " beyond"
"""End of the name of the list of arms that lie beyond a panel."""
FARTHEST = 1e3
"""How far a corner reaches beyond the panel."""
GAINS, OPPOSITE = ("#e4def2", "both gain"), ("#f1f1f1", "a gain and a loss")
"""Colour and name of the corner where both effects are gains, and of those where one is a gain."""
ARMS = {"today": ["predicted arms"]}
"""Pair ↦ its arms in words, if these were chosen alike."""
HEADINGS = {
    "transfer": "on the toy language carry over to real text",
    "longer": "last when training is four times as long",
    "decoder_only": "in encoder–decoders carry over to decoder-only models",
}
"""First pair of a figure ↦ what it asks."""
CORPORA = ("grammar", "Multi30k")
"""Names of corpora in the words for the sides of a pair."""
LOOKS = {"recurrent": ("o", "C0"), "transformer": ("s", "C1"), "decoder_only": ("^", "C2")}
"""Family ↦ marker and colour."""
MARK = 3.5
EFFECTS = ["effect", "second_effect"]
EFFECT = ["effect", "low", "high"]
COLUMNS = ["pair", "family", "arm", "data", "second_data", "metric", "second_metric", "seeds", *EFFECT,
           *(f"second_{name}" for name in EFFECT), "rho", "rho_low", "rho_high", "ceiling"]  # fmt: skip


def points(runs: Runs, *specs: Spec, pairs: Collection[str] = tuple(agreement.PAIRS)) -> pd.DataFrame:
    """Table of the figure: for each of the pairs whose sweeps are there a line an arm, one a family, one for all.

    Columns: `COLUMNS`. Lines of a rank correlation have no arm, and that of all arms no family.
    """
    import pandas as pd

    by_name = {spec.name: spec for spec in specs}
    tables = [pd.DataFrame()]
    for name, (first, second) in agreement.PAIRS.items():
        if name in pairs and first in by_name and second in by_name:
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
    """Draw a panel for each pair of sweeps; large effects that would hide the others are listed beside it."""
    arms = {str(name): rows for name, rows in table[table["arm"] != ""].groupby("pair", sort=False)}
    frames = {name: frame for name, rows in arms.items() if (frame := _frame(rows))}
    figure = style.NotebookFigure(figsize=(style.PAGE, HEIGHT * len(arms) + 1.05))
    grid = figure.subplot_mosaic(
        [[name, name + BEYOND if name in frames else name] for name in arms],
        width_ratios=WIDTHS,
    )
    names = {}
    for name, rows in arms.items():
        axes, first, frame, inside = grid[name], rows.iloc[0], frames.get(name), rows
        if frame:
            near = np.array(frame.max) - EDGE * np.array(frame.size)  # a mark on the edge would be cut
            inside = rows[((rows[EFFECTS] > frame.min) & (rows[EFFECTS] < near)).all(axis=1)]
            _list(grid[name + BEYOND], rows.drop(inside.index))
        rhos = table[(table["pair"] == name) & (table["arm"] == "") & (table["family"] == "")]
        slope = _scatter(axes, inside)
        if frame:
            axes.set(xlim=frame.intervalx, ylim=frame.intervaly)
        title = [
            ", ".join([f"{first['data']} → {first['second_data']}", *ARMS.get(name, ()), f"{first['seeds']} seeds"]),
            "; ".join([_gains(rows), ", ".join([*map(_order, rhos.to_dict("records")), slope])]),
        ]
        axes.set_title("\n".join(title), loc="left", fontsize=8)
        up = f"{first['second_data']}: effect, nats per sentence (worse →)"
        axes.set_ylabel(textwrap.fill(up, UPRIGHT, break_on_hyphens=False))
        names[axes] = _names(inside)
    keyed = [handle for axes in grid.values() for handle in axes.get_legend_handles_labels()[0]]
    handles = {str(handle.get_label()): handle for handle in keyed}.values()
    figure.legend(handles=handles, ncols=len(handles), **style.ABOVE)
    panels.key(figure, _words(table[table["arm"] != ""]))
    style.heading(figure, f"Does the effect of a change {HEADINGS[next(iter(arms))]}?")
    naming.name(figure, names)
    return figure


def _list(axes: Axes, rows: pd.DataFrame) -> None:
    """Write the arms that lie beyond a panel, each with its two effects, the largest first."""
    axes.axis("off")
    axes.set_title(f"beyond the panel: {len(rows)}\nwith their two effects", loc="left", fontsize=8)
    texts = []
    for _, row in rows.sort_values("effect", ascending=False).iterrows():
        effects = f"{NO_BREAK}→{NO_BREAK}".join(number(row[side], 1, sign=True) for side in EFFECTS)
        text = textwrap.fill(f"{arm_words(row['arm'])}: {effects}", LISTED, break_on_hyphens=False)
        texts.append((text, row["family"]))
    height = 1.0
    step = 1 / max(sum(text.count("\n") + 1 + SPACE for text, _ in texts), LINES)
    for text, family in texts:
        marker, colour = LOOKS[family]
        look: Mapping[str, Any] = {"color": colour, "markersize": MARK, "clip_on": False}
        axes.plot(0.01, height - step / 2, marker, transform=axes.transAxes, **look)
        axes.text(0.05, height, text, transform=axes.transAxes, va="top", fontsize=style.SMALL)
        height -= step * (text.count("\n") + 1 + SPACE)


def _frame(rows: pd.DataFrame) -> Bbox | None:
    """Return a box around all gains and all small effects; None if the other effects leave them room."""
    sizes = rows[EFFECTS].abs()
    share = (sizes / sizes.max()).max(axis=1)
    limits = 1.2 * sizes[share <= share.quantile(NEAR)].max()
    if not (FAR * limits < sizes.max()).all():
        return None
    small = rows[EFFECTS][(sizes <= limits).all(axis=1)]
    low, high = rows[EFFECTS].min().clip(upper=0).to_numpy(), small.max().clip(lower=0).to_numpy()
    # names of the exceptions stand at the low end, beside gains
    return Bbox([low - 0.24 * (high - low), high + 0.12 * (high - low)])


def _gains(rows: pd.DataFrame) -> str:
    """Return how many arms gain on the second side: of those that gain on the first, and of the others."""
    gain, second = rows["high"] < 0, rows["second_high"] < 0
    counts = [f"{second[arms].sum()} of {arms.sum()}" for arms in (gain, ~gain)]
    return f"{counts[0]} gains stay, {counts[1]} others gain"


def _order(rho: Mapping[Any, Any]) -> str:
    """Return a rank correlation in words."""
    return f"ρ = {number(rho['rho'], 2)} {interval(rho['rho_low'], rho['rho_high'], 2, False)}"


def _words(arms: pd.DataFrame) -> str:
    """Return what is said under the panels."""
    scores: dict[str, str] = {}
    for side in ("", "second_"):
        for data, metric in zip(arms[f"{side}data"], arms[f"{side}metric"], strict=True):
            scores |= {corpus: title(metric) for corpus in CORPORA if corpus in data}
    effects = ", ".join(f"{score} on {corpus}" for corpus, score in scores.items())
    equal = " Dashed: equal effects." if arms["metric"].eq(arms["second_metric"]).any() else ""
    return (
        f"Effect: arm − base arm, {effects}. Bars: 95% intervals, unadjusted; that of a gain lies below 0. Solid: "
        f"least squares through the base arm, of the arms shown.{equal} ρ: Spearman's, of all arms."
    )


def _scatter(axes: Axes, rows: pd.DataFrame) -> str:
    """Draw the effects of arms in one sweep against those in the other; return the slope in words."""
    x, y = rows["effect"].astype(float), rows["second_effect"].astype(float)
    axes.axhline(0, color=panels.INK, linewidth=0.6, zorder=1)
    axes.axvline(0, color=panels.INK, linewidth=0.6, zorder=1)
    axes.hlines(y, rows["low"], rows["high"], color=style.GREY, linewidth=0.6, alpha=0.6, zorder=2)
    axes.vlines(x, rows["second_low"], rows["second_high"], color=style.GREY, linewidth=0.6, alpha=0.6, zorder=2)
    for family, (marker, colour) in LOOKS.items():
        of_family = rows[rows["family"] == family]
        if len(of_family):
            name = family.replace("_", "-")
            axes.plot(
                of_family["effect"], of_family["second_effect"], marker, color=colour, markersize=MARK, label=name
            )
    axes.locator_params(nbins=6)
    slope = float((x * y).sum() / (x * x).sum())
    if rows["metric"].eq(rows["second_metric"]).all():
        axes.axline((0, 0), slope=1, linestyle="--", color=style.GREY, linewidth=0.8, zorder=1)
    axes.axline((0, 0), slope=slope, color=panels.INK, linewidth=0.9, zorder=1)
    axes.set_xlabel(f"{rows['data'].iloc[0]}: effect, nats per sentence (worse →)")
    limits = {"xlim": axes.get_xlim(), "ylim": axes.get_ylim()}
    for left, low, (colour, name) in (
        (-FARTHEST, -FARTHEST, GAINS),
        (-FARTHEST, 0, OPPOSITE),
        (0, -FARTHEST, OPPOSITE),
    ):
        corner = [low, low + FARTHEST], left, left + FARTHEST
        axes.fill_betweenx(*corner, color=colour, linewidth=0, zorder=0, label=name)
    axes.set(**limits)
    return f"slope {number(slope, 1)}"


def _names(rows: pd.DataFrame) -> list[tuple[str, NDArray[np.float64]]]:
    """Return names and places of arms: first those that gain in one of both, then those far from the middle."""
    places = rows[EFFECTS].astype(float)
    far = ((places - places.mean()) / places.std()).abs().max(axis=1)
    order = sorted(rows.index, key=lambda arm: (places.loc[arm].min() >= 0, -far[arm]))[:NAMED]
    words = [textwrap.fill(arm_words(arm), WRAPPED, break_on_hyphens=False) for arm in rows.loc[order, "arm"]]
    return list(zip(words, places.loc[order].to_numpy(), strict=True))
