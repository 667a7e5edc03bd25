"""Forest plot of all claims, one row a claim, in units of the margin."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from study.analysis import labels
from study.analysis.figures import style
from study.analysis.inference import ENDS
from study.claims import table
from study.claims.verdicts import NOT_RUN, Verdict, by_claim, deciding, summary

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKS = {
    "holds": ("o", "#0173b2", True),
    "fails": ("X", "#d55e00", True),
    "mixed": ("D", "#cc78bc", True),
    "not decided": ("s", "#555555", False),
    "not asked as published": ("^", "#555555", False),
}
"""Verdict ↦ marker, colour, and whether it is filled."""
REACH = 4.0
"""Margins at either end of the axis; an arrow and a number stand for an estimate beyond it."""


def points(verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """Return one row per claim: its verdict, and its deciding contrast in margins (empty without one)."""
    import pandas as pd

    lines = []
    for claim, own in by_claim(verdicts).items():
        row = deciding(own)
        facts = {"id": claim, "claim": row.claim.slug.replace("-", " "), "verdict": summary(own)}
        facts |= {"asked": table.asked_in(row), "contrast": row.deciding.fields if row.deciding else ""}
        ends = row.as_claimed or dict.fromkeys(ENDS, math.nan)
        lines.append(facts | {end: round(ends[end], 4) for end in ENDS})
    return pd.DataFrame(lines)


@style.styled()
def draw(data: pd.DataFrame) -> Figure:
    """Draw the forest plot: a row per claim, thick 90% and thin 95% intervals, the margin ±1 shaded."""
    from matplotlib.lines import Line2D

    figure, axes = style.subplots(figsize=(style.COLUMN + 0.4, 0.185 * len(data) + 1.0))
    axes.axvspan(-1, 1, color="#e8e8e8", zorder=0)
    axes.axvline(0, color="#888888", linewidth=0.6, zorder=1)
    for place, row in enumerate(data.to_dict("records")):
        _row(axes, place, row)
    axes.set_ylim(len(data) - 0.4, -0.6)
    axes.set_xlim(-REACH - 1.6, REACH + 1.6)
    axes.set_yticks(range(len(data)), [f"{row.claim}  {row.id}" for row in data.itertuples()])
    axes.set_xticks([-4, -2, -1, 0, 1, 2, 4], ["−4", "−2", "−1", "0", "1", "2", "4"])
    axes.set_xlabel("estimate ÷ margin (+: as claimed)")
    axes.grid(visible=False)
    there = [word for word in MARKS if word in set(data["verdict"])]
    handles = [Line2D([], [], linestyle="", **_marker(word), label=word) for word in there]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, handletextpad=0.1)
    return figure


def _row(axes: Axes, place: int, row: Mapping[Any, Any]) -> None:
    """Draw one claim."""
    if row["verdict"] == NOT_RUN or row["difference"] != row["difference"]:
        word = NOT_RUN if row["verdict"] == NOT_RUN else f"{row['verdict']}; no margin"
        axes.text(0, place, word, ha="center", va="center", fontsize=style.SMALL, color="#555555",
                  bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8})  # fmt: skip
        return
    colour, centre = MARKS[row["verdict"]][1], row["difference"]
    for ends, width in ((("low", "high"), 0.9), (("low90", "high90"), 2.4)):
        low, high = (max(-REACH, min(REACH, row[end])) for end in ends)
        axes.plot([low, high], [place] * 2, color=colour, linewidth=width, solid_capstyle="butt", zorder=2)
    if abs(centre) <= REACH:
        axes.plot(centre, place, linestyle="", zorder=3, **_marker(row["verdict"]))
        return
    side = 1 if centre > 0 else -1
    axes.plot(side * (REACH - 0.35), place, linestyle="", zorder=3, **_marker(row["verdict"]))
    text = labels.number(centre, 0 if abs(centre) >= 10 else 1, True)
    axes.annotate(text, (side * REACH, place), (side * (REACH + 0.15), place), va="center", fontsize=style.SMALL,
                  ha="left" if side > 0 else "right", annotation_clip=False)  # fmt: skip
    axes.plot(side * REACH, place, marker=">" if side > 0 else "<", color=colour, markersize=3.5, zorder=3)


def _marker(word: str) -> dict[str, Any]:
    marker, colour, filled = MARKS[word]
    return {"marker": marker, "markersize": 4.5, "color": colour, "markerfacecolor": colour if filled else "white"}


def write(verdicts: Sequence[Verdict], root: Path) -> list[Path]:
    """Write `figures/forest.*` to a folder of results."""
    data = points(verdicts)
    return style.write(draw(data), data, root / "figures" / "forest", png=False)
