"""Claims as text for a terminal: the answer in words, then a line for each question, or everything."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from study.analysis import labels
from study.claims import table
from study.claims.verdicts import NOT_ASKED, NOT_RUN, SATURATED, Finding, by_claim, counted, deciding, fragile, summary

WIDTH = 100
MOST = 14
"""Questions of a claim without `everything`; each takes at most two lines."""
ANSWERS = {
    "holds": "The claim holds.",
    "fails": "The claim fails.",
    "mixed": "The claim is mixed: its questions have different answers.",
    "not decided": "The claim is not decided.",
    NOT_ASKED: "These runs test something else than the published claim.",
    NOT_RUN: "The claim is not yet run.",
    "none": "The claim has no verdict: estimates and intervals are printed alone.",
}


def lines(rows: Sequence[Finding], everything: bool = False) -> Iterator[str]:
    """Yield claims for a terminal, at most 40 lines each; with `everything`, every question and contrast."""
    for number, (claim, own) in enumerate(by_claim(rows).items()):
        word, row = summary(own), deciding(own)
        yield from [""] * bool(number)
        yield from _wrapped(f"{claim}  {row.claim.statement}", 4, -4)
        yield from _wrapped(ANSWERS[word] + " Another score gives another verdict (fragile)." * fragile(own), 4)
        if row.test.difference is not None:
            what = "What keeps it from holding" if word == "mixed" else "What decides"
            yield from _wrapped(f"{what}: {row.name()}: {_estimate(row)} ({table.asked_in(row)}).", 4)
        if row.claim.published:
            yield from _wrapped(f"in the literature: {row.claim.published}", 4)
        yield ""
        first = {id(one) for one in counted(own)}
        live = sorted((one for one in own if one.counts or everything), key=lambda one: id(one) not in first)
        shown = live if everything else live[:MOST]
        for one in shown:
            verdict = SATURATED if one.finding == SATURATED else one.verdict.replace(NOT_ASKED, "not asked")
            superseded = " (superseded)" * bool(one.superseded_by)
            told = f"{verdict:<11}  {_estimate(one)} · {table.asked_in(one)}{superseded}: {one.name()}"
            yield from _wrapped(told, 17, -13) if everything else _wrapped(told, 17, -13)[:2]
            for found in rows if everything else ():
                if found.question is one.question and (found.corpus, found.family) == (one.corpus, one.family):
                    yield from _wrapped(_contrast(found), 19, -2)
        if not everything:
            left = f"{len(own) - len(shown)} of {len(own)} questions are not shown. " * (len(shown) < len(own))
            yield f"    {left}--all prints every question and contrast."


def _estimate(row: Finding) -> str:
    """`−5.0 [−6.9, −3.1] NLL, margin 0.1`: estimate and 95% interval; of an exact test p instead."""
    if row.test.difference is None:
        return row.word
    cells = table.cells(row)
    interval = f" {cells['interval']}" if row.test.low is not None else ""
    exact = f", exact p {cells['holm']}" if row.test.method == "exact" else ""
    margin = "" if row.margin is None else f", margin {cells['margin']}"
    return f"{cells['estimate'].split()[0]}{interval} {cells['metric']}{exact}{margin}"


def _contrast(row: Finding) -> str:
    """Return one contrast: its finding, and every number that is known."""
    cells = table.cells(row)
    known = [f"{table.HEADS[key]} {cells[key]}" for key in (*table.TESTED, "notes") if cells[key] != labels.NOTHING]
    return f"{row.name()} ({cells['metric']}) [{row.word}]: {', '.join(known)}"


def summary_lines(rows: Sequence[Finding], width: int) -> Iterator[str]:
    """Yield the summary for a terminal of a width: a line per claim, with the estimate that decides and its 95% CI."""
    yield f"   #  {'claim':<36}{'verdict':<20}estimate, 95% CI, measure"[:width]
    for claim, own in by_claim(rows).items():
        row, verdict = deciding(own), summary(own).replace(NOT_ASKED, "not asked") + ", fragile" * fragile(own)
        statement = textwrap.shorten(row.claim.statement, 34, placeholder="…")
        yield f"{claim:>4}  {statement:<36}{verdict:<20}{_estimate(row).partition(', margin')[0]}"[:width]


def _wrapped(text: str, indent: int, first: int = 0) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=" " * (indent + first), subsequent_indent=" " * indent)
