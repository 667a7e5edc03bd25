"""Summary of all claims, one line a claim, and its forest plot in units of the margin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from study.analysis import labels
from study.analysis.figures import style
from study.analysis.tables import Block, Column, Row, Table
from study.claims import table as rows
from study.claims.contrasts import direction
from study.claims.verdicts import NOT_RUN, SATURATED, Finding, Verdict, counted, fragile, summaries

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ORDER = ("fails", "mixed", "not decided", "holds", "not asked as published", NOT_RUN)
"""Rows of a mixed claim in the order in which one of them stands for it: first what keeps the claim from holding."""
SHORT = {"holds": "hold", "fails": "fail"}

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


def deciding(verdicts: Sequence[Verdict]) -> dict[str, Verdict]:
    """Return for each claim, by its id, the row that stands for it.

    Only rows that count are chosen (see `verdicts.summaries`). A row with the claim's own verdict comes first; of a
    mixed claim, the row that keeps it from holding. Rows with a margin come before rows without.
    """
    whole, found = summaries(verdicts), dict[str, Verdict]()
    for claim in whole:
        own = [one for one in verdicts if str(one.claim.id) == claim]
        rows_ = counted(own) or own
        first = [whole[claim], *ORDER]
        places = {id(one): first.index(one.outcome) if one.outcome in first else len(first) for one in rows_}
        found[claim] = min(rows_, key=lambda one: (places[id(one)], in_margins(one, one.deciding) is None))
    return found


def parts(verdicts: Sequence[Verdict], claim: str) -> str:
    """Return how many rows of a claim have each verdict, such as `2 hold, 1 saturated`; descriptive ones aside."""
    own = [one for one in verdicts if str(one.claim.id) == claim and not one.superseded]
    own = [one for one in own if one.outcome not in ("none", NOT_RUN)]
    own = [one for one in own if not one.question.post_hoc] or own
    counts = Counter(SATURATED if one.word == SATURATED else one.outcome for one in own)
    return ", ".join(f"{n} {SHORT.get(word, word) if n > 1 else word}" for word, n in counts.items())


def summary_table(verdicts: Sequence[Verdict]) -> Table:
    """Return one row per claim: its verdict, how its rows divide, and the row that decides."""
    whole, chosen = summaries(verdicts), deciding(verdicts)
    columns = [
        *rows.texts(verdicts, "id", "claim", "verdict"),
        Column("parts", "rows", "left"),
        Column("asked", "deciding row", "left"),
        *(Column(one.key, one.head, one.align) for one in rows.table(verdicts).columns if one.key in KEPT),
    ]
    lines, weak = [], fragile(verdicts)
    for (claim, verdict), row in zip(chosen.items(), rows.table(list(chosen.values())).blocks[0].rows, strict=True):
        told = f"{whole[claim]}, fragile" if claim in weak else whole[claim]
        more = {"id": claim, "claim": verdict.claim.statement, "verdict": told, "parts": parts(verdicts, claim)}
        numbers = {"id": claim, "verdict": whole[claim], "fragile": claim in weak, "parts": more["parts"]}
        cells = {**row.cells, **more}
        kept = ("corpus", "family", "part", "finding", "metric", "contrast", "margin", "difference", "low", "high", "n")
        lines.append(Row(cells, row.bold, numbers | {name: row.numbers[name] for name in kept}, row.runs))
    return Table("Summary", columns, [Block("", lines)], rows.RULES)


def summary_lines(verdicts: Sequence[Verdict], width: int) -> Iterator[str]:
    """Yield the summary for a terminal of a width: a line per claim, with the estimate that decides and its 95% CI."""
    body = []
    for row in summary_table(verdicts).blocks[0].rows:
        cells = row.cells
        there = cells["estimate"] != labels.NOTHING
        measure = cells["contrast"].rpartition(": ")[2]
        effect = f"{cells['estimate'].split()[0]} {cells['interval']} {measure}" if there else labels.NOTHING
        verdict = cells["verdict"].replace("not asked as published", "not asked")
        body.append((cells["id"], cells["claim"], verdict, effect))
    head = ("#", "claim", "verdict", "estimate, 95% CI, measure")
    number, full, told, longest = (max(len(line[i]) for line in [head, *body]) for i in range(4))
    room = width - number - told - 6
    claim = min(full, max(MINIMUM, room - longest, room // 2))
    for line in [head, *body]:
        text = f"{line[0]:>{number}}  {_cut(line[1], claim):<{claim}}  {line[2]:<{told}}  {line[3]}"
        yield _cut(text, width)


MINIMUM = 28
"""The least letters of a claim."""


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1].rstrip()}…"


KEPT = ("finding", "contrast", "estimate", "interval", "inner", "margin", "effects", "published")
"""Columns of the table of verdicts that the summary keeps."""


def in_margins(verdict: Verdict, found: Finding | None) -> dict[str, float] | None:
    """Return an estimate and the ends of its intervals in margins; positive in the direction that the claim predicts.

    None without an interval or a margin.
    """
    if found is None:
        return None
    scaled = rows.ends_in_margins(rows.numbers_of(verdict, found))
    if scaled is None:
        return None
    place = next(i for i, one in enumerate(verdict.findings) if one is found)
    if (direction(verdict.question.contrasts[place], verdict.question.metric) or 1) > 0:
        return scaled
    turned = {"difference": "difference", "low": "high", "high": "low", "low90": "high90", "high90": "low90"}
    return {name: -scaled[other] for name, other in turned.items()}


def points(verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """Return one row per claim: its verdict, and its deciding contrast in margins (empty without one)."""
    import pandas as pd

    whole, lines = summaries(verdicts), []
    for claim, verdict in deciding(verdicts).items():
        found = verdict.deciding
        facts: dict[str, Any] = {"id": claim, "claim": verdict.claim.slug.replace("-", " "), "verdict": whole[claim]}
        facts |= {"asked": rows.asked_in(verdict), "contrast": found.fields if found else ""}
        ends = in_margins(verdict, found) or dict.fromkeys(("difference", "low", "high", "low90", "high90"))
        lines.append(facts | {name: None if end is None else round(end, 4) for name, end in ends.items()})
    return pd.DataFrame(lines).astype(dict.fromkeys(("difference", "low", "high", "low90", "high90"), float))


@style.styled()
def draw(table: pd.DataFrame) -> Figure:
    """Draw the forest plot: a row per claim, thick 90% and thin 95% intervals, the margin ±1 shaded."""
    from matplotlib.lines import Line2D

    figure, axes = style.subplots(figsize=(style.COLUMN + 0.4, 0.185 * len(table) + 1.0))
    axes.axvspan(-1, 1, color="#e8e8e8", zorder=0)
    axes.axvline(0, color="#888888", linewidth=0.6, zorder=1)
    for place, row in enumerate(table.to_dict("records")):
        _row(axes, place, row)
    axes.set_ylim(len(table) - 0.4, -0.6)
    axes.set_xlim(-REACH - 1.6, REACH + 1.6)
    axes.set_yticks(range(len(table)), [f"{row.claim}  {row.id}" for row in table.itertuples()])
    axes.set_xticks([-4, -2, -1, 0, 1, 2, 4], ["−4", "−2", "−1", "0", "1", "2", "4"])
    axes.set_xlabel("estimate ÷ margin (+: as claimed)")
    axes.grid(visible=False)
    there = [word for word in MARKS if word in set(table["verdict"])]
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
    """Write `tables/summary.*` and `figures/forest.*` to a folder of results."""
    data = points(verdicts)
    return [
        *summary_table(verdicts).write(root / "tables", "summary"),
        *style.write(draw(data), data, root / "figures" / "forest", png=False),
    ]
