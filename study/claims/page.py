"""Claims as text for a terminal: the answer in words, then a line for each question, or everything."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from study.analysis import labels
from study.analysis.inference import FEWEST
from study.claims import table
from study.claims.verdicts import DEPENDS, FAILS, NOT_ASKED, Finding, by_claim, counted, deciding, summary

WIDTH = 100
MOST = 12
"""Questions of a claim without `everything`; each takes at most two lines."""


def lines(rows: Sequence[Finding], everything: bool = False) -> Iterator[str]:
    """Yield claims for a terminal, at most 40 lines each; with `everything`, every question and contrast."""
    for number, (claim, own) in enumerate(by_claim(rows).items()):
        verdict, row = summary(own), deciding(own)
        yield from [""] * bool(number)
        yield from _wrapped(f"{claim}  {row.claim.statement}", 4, -4)
        yield from _wrapped(f"The answer: {verdict.words}.", 4)
        if row.test.difference is not None and verdict.word != NOT_ASKED:
            what = "What keeps it from holding" if verdict.word in (DEPENDS, FAILS) else "A row that decides"
            yield from _wrapped(f"{what}: {row.name()}: {_estimate(row)} ({table.asked_in(row)}).", 4)
        if row.claim.published:
            yield from _wrapped(f"in the literature: {row.claim.published}", 4)
        yield ""
        first = {id(one) for one in counted(own)}
        ordered = sorted(own, key=lambda one: id(one) not in first)
        shown = ordered if everything else ordered[:MOST]
        for one in shown:
            told = answer(one)
            yield from _wrapped(told, 17, -13) if everything else _wrapped(told, 17, -13)[:2]
            if everything and one.question.no_vote:
                yield from _wrapped(f"no vote: {one.question.no_vote}", 19, -2)
            for found in rows if everything else ():
                if found.question is one.question and (found.corpus, found.family) == (one.corpus, one.family):
                    yield from _wrapped(_contrast(found), 19, -2)
        if any(one.question.no_vote for one in shown):
            yield "    In brackets: no vote. --all says why."
        if not everything:
            left = f"{len(own) - len(shown)} of {len(own)} questions are not shown. " * (len(shown) < len(own))
            yield f"    {left}--all prints every question and contrast."


def answer(row: Finding) -> str:
    """Return the verdict on a question, its estimate and where it is asked, in one line."""
    return f"{table.told_verdict(row):<11}  {_estimate(row)} · {table.asked_in(row)}: {row.name()}"


def _estimate(row: Finding) -> str:
    """`−5.0 [−6.9, −3.1] NLL, margin 0.1`: estimate and 95% interval; of an exact test p instead."""
    if row.test.difference is None:
        return row.word
    cells = table.cells(row)
    interval = f" {cells['interval']}" if row.test.low is not None else ""
    exact = f", exact p {cells['holm']}" if row.test.method == "exact" else ""
    exact += f", no test of fewer than {FEWEST} runs" * (row.test.method == "few")
    margin = "" if row.margin is None else f", margin {cells['margin']}"
    other = f"; {cells['second'].partition(': ')[0]}" if row.second else ""
    return f"{cells['estimate'].split()[0]}{interval} {cells['metric']}{exact}{margin}{other}"


def _contrast(row: Finding) -> str:
    """Return one contrast: its finding, and every number that is known."""
    cells = table.cells(row)
    known = [f"{head} {cells[key]}" for key, head in table.HEADS.items() if cells[key] != labels.NOTHING]
    return f"{row.name()} ({cells['metric']}) [{row.word}]: {', '.join(known)}"


def summary_lines(rows: Sequence[Finding], width: int) -> Iterator[str]:
    """Yield the summary for a terminal of a width: a line per claim, with its verdict and its questions."""
    yield f"   #  {'claim':<38}verdict"[:width]
    for claim, own in by_claim(rows).items():
        statement = textwrap.shorten(own[0].claim.statement, 36, placeholder="…")
        yield f"{claim:>4}  {statement:<38}{summary(own).words}"[:width]


def _wrapped(text: str, indent: int, first: int = 0) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=" " * (indent + first), subsequent_indent=" " * indent)
