"""Summary of all claims, one line a claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from study.analysis import labels
from study.analysis.tables import Block, Column, Row, Table
from study.claims import table
from study.claims.contrasts import direction
from study.claims.verdicts import NOT_RUN, SATURATED, Verdict, by_claim, counted, fragile, summary

ORDER = ("fails", "mixed", "not decided", "holds", "not asked as published", NOT_RUN)
"""Rows of a mixed claim in the order in which one of them stands for it: first what keeps the claim from holding."""
SHORT = {"holds": "hold", "fails": "fail"}
MINIMUM = 28
"""The least letters of a claim in a terminal."""
KEPT = ("finding", "contrast", "estimate", "interval", "inner", "margin", "effects", "published")
"""Columns of the table of verdicts that the summary keeps."""
DECIDING = ("corpus", "family", "part", "finding", "metric", "contrast", "margin", "difference", "low", "high", "n")
"""Their numbers."""
ENDS = ("difference", "low", "high", "low90", "high90")
TURNED = {"low": "high", "high": "low", "low90": "high90", "high90": "low90"}
"""The end that takes a place where the sign turns."""


def deciding(own: Sequence[Verdict]) -> Verdict:
    """Return the row that stands for a claim, of all its rows.

    Only rows that count are chosen (see `verdicts.counted`). A row with the claim's own verdict comes first; of a
    mixed claim, the row that keeps it from holding. Rows with a margin come before rows without.
    """
    order = [summary(own), *ORDER, "none"]
    return min(counted(own) or own, key=lambda one: (order.index(one.outcome), in_margins(one) is None))


def parts(own: Sequence[Verdict]) -> str:
    """Return how many rows of a claim have each verdict, such as `2 hold, 1 saturated`; descriptive ones aside."""
    own = [one for one in own if one.counts]
    own = [one for one in own if not one.question.post_hoc] or own
    counts = Counter("saturated" if one.word == SATURATED else one.outcome for one in own)
    return ", ".join(f"{n} {SHORT.get(word, word) if n > 1 else word}" for word, n in counts.items())


def summary_table(verdicts: Sequence[Verdict]) -> Table:
    """Return one row per claim: its verdict, how its rows divide, and the row that decides."""
    claims = by_claim(verdicts)
    rows = table.table([deciding(own) for own in claims.values()])
    columns = [
        *table.texts(verdicts, "id", "claim", "verdict"),
        Column("parts", "rows", "left"),
        Column("asked", "deciding row", "left"),
        *(one for one in rows.columns if one.key in KEPT),
    ]
    lines = []
    for (claim, own), row in zip(claims.items(), rows.rows, strict=True):
        facts = {"id": claim, "verdict": summary(own), "fragile": fragile(own), "parts": parts(own)}
        told = {"id": claim, "claim": own[0].claim.statement, "parts": parts(own)}
        told["verdict"] = f"{facts['verdict']}{', fragile' * fragile(own)}"
        facts |= {name: row.numbers[name] for name in DECIDING}
        lines.append(Row({**row.cells, **told}, row.bold, facts, row.runs))
    return Table("Summary", columns, [Block("", lines)], table.RULES)


def summary_lines(verdicts: Sequence[Verdict], width: int) -> Iterator[str]:
    """Yield the summary for a terminal of a width: a line per claim, with the estimate that decides and its 95% CI."""
    body = [("#", "claim", "verdict", "estimate, 95% CI, measure")]
    for cells in (row.cells for row in summary_table(verdicts).rows):
        effect = f"{cells['estimate'].split()[0]} {cells['interval']} {cells['contrast'].rpartition(': ')[2]}"
        verdict = cells["verdict"].replace("not asked as published", "not asked")
        effect = labels.NOTHING if cells["estimate"] == labels.NOTHING else effect
        body.append((cells["id"], cells["claim"], verdict, effect))
    number, full, told, longest = (max(map(len, column)) for column in zip(*body, strict=True))
    room = width - number - told - 6
    claim = min(full, max(MINIMUM, room - longest, room // 2))
    for line in body:
        yield _cut(f"{line[0]:>{number}}  {_cut(line[1], claim):<{claim}}  {line[2]:<{told}}  {line[3]}", width)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1].rstrip()}…"


def in_margins(verdict: Verdict) -> dict[str, float] | None:
    """Return the estimate that decides and its intervals in margins; positive in the direction that the claim predicts.

    None without an interval or a margin.
    """
    scaled, question = table.in_margins(verdict, verdict.deciding), verdict.question
    if len(scaled) < len(ENDS):
        return None
    place = next(i for i, one in enumerate(verdict.findings) if one is verdict.deciding)
    if (direction(question.contrasts[place], question.metric) or 1) > 0:
        return scaled
    return {end: -scaled[TURNED.get(end, end)] for end in ENDS}
