"""Forest plot of all claims, one row a claim, in units of the margin."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from study.analysis import labels
from study.analysis.figures import style
from study.claims import table
from study.claims.verdicts import NOT_ASKED, NOT_RUN, Finding, by_claim, deciding, summary

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

MARKS = {
    "holds": ("o", "#0173b2", "#0173b2"),
    "fails": ("X", "#d55e00", "#d55e00"),
    "mixed": ("D", "#cc78bc", "#cc78bc"),
    "not decided": ("s", "#555555", "white"),
    NOT_ASKED: ("^", "#555555", "white"),
}
"""Verdict ↦ marker, its colour, and the colour of its face."""
REACH = 4.0
"""Margins at either end of the axis; an arrow and a number stand for an estimate beyond it."""


def points(rows: Sequence[Finding]) -> pd.DataFrame:
    """Return one row per claim: its verdict, and its deciding contrast in margins (empty without one)."""
    import pandas as pd

    lines = []
    for claim, own in by_claim(rows).items():
        row = deciding(own)
        facts = {"id": claim, "claim": row.claim.slug.replace("-", " "), "verdict": summary(own)}
        facts |= {"asked": table.asked_in(row), "contrast": row.name(words=False)}
        ends = row.in_margins
        if row.contrast.direction(row.question.metric) < 0:
            turned = {"low": "high", "high": "low", "low90": "high90", "high90": "low90"}
            ends = {end: -ends[turned.get(end, end)] for end in ends}
        lines.append(facts | {end: round(value, 4) for end, value in ends.items()})
    return pd.DataFrame(lines)


@style.styled()
def draw(data: pd.DataFrame) -> Figure:
    """Draw the forest plot: a row per claim, thick 90% and thin 95% intervals, the margin ±1 shaded."""
    from matplotlib.lines import Line2D

    looks: dict[str, dict[str, Any]] = {
        verdict: {"marker": marker, "markersize": 4.5, "color": colour, "markerfacecolor": face, "linestyle": ""}
        for verdict, (marker, colour, face) in MARKS.items()
    }
    figure, axes = style.subplots(figsize=(style.COLUMN + 0.4, 0.185 * len(data) + 1.0))
    axes.axvspan(-1, 1, color="#e8e8e8", zorder=0)
    axes.axvline(0, color="#888888", linewidth=0.6, zorder=1)
    for place, row in enumerate(data.to_dict("records")):
        verdict, centre = row["verdict"], row["difference"]
        if verdict == NOT_RUN or centre != centre:
            word = NOT_RUN if verdict == NOT_RUN else f"{verdict}; no margin"
            axes.text(0, place, word, ha="center", va="center", fontsize=style.SMALL, color="#555555",
                      bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8})  # fmt: skip
            continue
        colour, side = MARKS[verdict][1], 1 if centre > 0 else -1
        for ends, width in ((("low", "high"), 0.9), (("low90", "high90"), 2.4)):
            low, high = (max(-REACH, min(REACH, row[end])) for end in ends)
            axes.plot([low, high], [place] * 2, color=colour, linewidth=width, solid_capstyle="butt", zorder=2)
        if abs(centre) <= REACH:
            axes.plot(centre, place, zorder=3, **looks[verdict])
            continue
        axes.plot(side * (REACH - 0.35), place, zorder=3, **looks[verdict])
        text = labels.number(centre, 0 if abs(centre) >= 10 else 1, True)
        axes.annotate(text, (side * REACH, place), (side * (REACH + 0.15), place), va="center", fontsize=style.SMALL,
                      ha="left" if side > 0 else "right", annotation_clip=False)  # fmt: skip
        axes.plot(side * REACH, place, marker=">" if side > 0 else "<", color=colour, markersize=3.5, zorder=3)
    axes.set_ylim(len(data) - 0.4, -0.6)
    axes.set_xlim(-REACH - 1.6, REACH + 1.6)
    axes.set_yticks(range(len(data)), [f"{row.claim}  {row.id}" for row in data.itertuples()])
    axes.set_xticks([-4, -2, -1, 0, 1, 2, 4], ["−4", "−2", "−1", "0", "1", "2", "4"])
    axes.set_xlabel("estimate ÷ margin (+: as claimed)")
    axes.grid(visible=False)
    handles = [Line2D([], [], label=verdict, **looks[verdict]) for verdict in MARKS if verdict in set(data["verdict"])]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, handletextpad=0.1)
    return figure


def write(rows: Sequence[Finding], root: Path) -> list[Path]:
    """Write `figures/forest.*` to a folder of results."""
    data = points(rows)
    return style.write(draw(data), data, root / "figures" / "forest", png=False)
