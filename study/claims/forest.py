"""Forest plot of all claims: every question that votes, in units of the margin."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from study.analysis.figures import style
from study.claims import table
from study.claims.verdicts import FAILS, HOLDS, OPEN, Finding, by_claim, counted, summary

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

MARKS = {HOLDS: ("o", "#0173b2", "#0173b2"), FAILS: ("X", "#d55e00", "#d55e00"), OPEN: ("s", "#555555", "white")}
"""Verdict on a question ↦ marker, its colour, and the colour of its face."""
REACH = 4.0
"""Margins at either end of the axis; an arrow stands for an estimate beyond it."""


def points(rows: Sequence[Finding]) -> pd.DataFrame:
    """Return one row per question that votes: its verdict, and the contrast that decides it in margins.

    Signs are as the claim predicts. A question without a margin has no numbers.
    """
    import pandas as pd

    lines = []
    for claim, own in by_claim(rows).items():
        words = summary(own).words
        for row in counted(own):
            facts = {"id": claim, "claim": row.claim.slug.replace("-", " "), "words": words, "verdict": row.verdict}
            facts |= {"asked": table.asked_in(row), "contrast": row.name(words=False)}
            sign = row.sign or 1
            low, high = sorted((sign * row.in_margins["low"], sign * row.in_margins["high"]))
            ends = {"difference": sign * row.in_margins["difference"], "low": low, "high": high}
            lines.append(facts | {end: round(value, 4) for end, value in ends.items()})
    return pd.DataFrame(lines)


@style.styled()
def draw(data: pd.DataFrame) -> Figure:
    """Draw a thin interval for each question; the bar of a claim reaches from its smallest to its largest estimate."""
    from matplotlib.lines import Line2D

    claims = [some for _, some in data.groupby("id", sort=False)]
    figure, axes = style.subplots(figsize=(style.COLUMN + 1.2, 0.055 * len(data) + 0.1 * len(claims) + 1.0))
    axes.axvspan(-1, 1, color="#e8e8e8", zorder=0)
    axes.axvline(0, color="#888888", linewidth=0.6, zorder=1)
    place, ticks = 0.0, []
    for some in claims:
        known = some.dropna(subset=["difference"])
        first, last = place, place + 0.55 * (len(some) - 1)
        ticks.append(((first + last) / 2, f"{some.claim.iloc[0]}  {some.id.iloc[0]}"))
        ends = known.difference.clip(-REACH, REACH)
        axes.fill_betweenx([first - 0.3, last + 0.3], ends.min(), ends.max(), color="#cfd8e3", zorder=1, linewidth=0)
        word = some.words.iloc[0].partition(" on ")[0]
        word = word if len(known) else word.partition(" ")[0] + "; no margin"
        axes.text(REACH + 0.4, (first + last) / 2, word, va="center", fontsize=style.SMALL, color="#333333")
        for row in some.to_dict("records"):
            marker, colour, face = MARKS[row["verdict"]]
            low, centre, high = (max(-REACH, min(REACH, row[end])) for end in ("low", "difference", "high"))
            if row["difference"] == row["difference"]:  # not NaN
                axes.plot([low, high], [place] * 2, color=colour, linewidth=0.7, zorder=2)
                beyond = abs(row["difference"]) > REACH
                shape = {1: ">", -1: "<"}[1 if centre > 0 else -1] if beyond else marker
                axes.plot(centre, place, marker=shape, markersize=3, color=colour, markerfacecolor=face, zorder=3)
            place += 0.55
        place += 0.6
    axes.set_ylim(place - 0.6, -0.9)
    axes.set_xlim(-REACH - 0.3, REACH + 2.6)
    axes.set_yticks(*zip(*ticks, strict=True))
    axes.set_xticks([-4, -2, -1, 0, 1, 2, 4], ["−4", "−2", "−1", "0", "1", "2", "4"])
    axes.set_xlabel("estimate ÷ margin (+: as claimed)", loc="left")
    axes.grid(visible=False)
    handles = [
        Line2D([], [], marker=marker, markersize=4, color=colour, markerfacecolor=face, linestyle="", label=verdict)
        for verdict, (marker, colour, face) in MARKS.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, handletextpad=0.1)
    return figure


def write(rows: Sequence[Finding], root: Path) -> list[Path]:
    """Write `figures/forest.*` to a folder of results; nothing if no question has runs."""
    data = points(rows)
    return [] if data.empty else style.write(draw(data), data, root / "figures" / "forest")
