"""Claims as text for a terminal: the answer in words, then a line for each question, or everything."""

from __future__ import annotations

import textwrap
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain

from study.analysis import labels
from study.analysis.inference import FEWEST
from study.claims import table
from study.claims.verdicts import DEPENDS, FAILS, NOT_ASKED, Finding, by_claim, counted, deciding, summary

WIDTH = 100
MOST = 40
"""Lines of a claim without `everything`."""


def lines(rows: Sequence[Finding], everything: bool = False, width: int = WIDTH) -> Iterator[str]:
    """Yield claims for a terminal, at most `MOST` lines each; with `everything`, every question and contrast.

    Questions that have no room are counted; no answer is cut.

    Args:
        rows: the questions.
        everything: whether all of them are shown, with every contrast.
        width: letters of a line.
    """
    for number, (claim, questions) in enumerate(by_claim(rows).items()):
        if number:
            yield ""
        head = _head(claim, questions, width)
        yield from head
        counting = {id(question) for question in counted(questions)}
        ordered = sorted(questions, key=lambda question: id(question) not in counting)
        if everything:
            for question in ordered:
                yield from _in_full(question, rows, width)
        else:
            yield from _in_short(ordered, MOST - len(head), width)


def _head(claim: str, questions: Sequence[Finding], width: int) -> list[str]:
    """Return a claim, its answer, a row that decides it, and what the literature says."""
    verdict = summary(questions)
    row = deciding(questions)
    texts = [f"The answer: {verdict.words}."]
    if row.test.difference is not None and verdict.word != NOT_ASKED:
        role = "What keeps it from holding" if verdict.word in (DEPENDS, FAILS) else "A row that decides"
        texts.append(f"{role}: {row.name()}: {_estimate(row)} ({table.asked_in(row)}).")
    if row.claim.published:
        texts.append(f"in the literature: {row.claim.published}")
    head = _wrapped(f"{claim}  {row.claim.statement}", width, 4, -4)
    for text in texts:
        head += _wrapped(text, width, 4)
    return [*head, ""]


def _in_short(questions: Sequence[Finding], room: int, width: int) -> Iterator[str]:
    """Yield an answer for each question, as far as the lines suffice, and say what is left out."""
    texts = [_wrapped(answer(question), width, 17, -13) for question in questions]
    count = bisect_right([*accumulate(map(len, texts))], room - 3)  # three lines end the claim
    yield from chain(*texts[:count])
    if any(question.question.no_vote for question in questions[:count]):
        yield "    In brackets: not counted. --all says why."
    left = f"{len(questions) - count} of {len(questions)} questions are not shown. " if count < len(questions) else ""
    yield from _wrapped(f"{left}--all prints every question and contrast.", width, 4)


def _in_full(question: Finding, rows: Sequence[Finding], width: int) -> Iterator[str]:
    """Yield the answer to a question, and each of its contrasts."""
    yield from _wrapped(answer(question), width, 17, -13)
    if question.question.no_vote:
        yield from _wrapped(f"not counted: {question.question.no_vote}", width, 19, -2)
    for row in rows:
        if (row.question, row.corpus, row.family) == (question.question, question.corpus, question.family):
            yield from _wrapped(_contrast(row), width, 19, -2)


def answer(row: Finding) -> str:
    """Return the verdict on a question, its estimate and where it is asked, in one line."""
    return f"{table.told_verdict(row):<11}  {_estimate(row)} · {table.asked_in(row)}: {row.name()}"


def _estimate(row: Finding) -> str:
    """`−5.0 [−6.9, −3.1] NLL, margin 0.1`: estimate and 95% interval; of an exact test p instead."""
    if row.test.difference is None:
        return row.word
    cells = table.cells(row)
    text = cells["estimate"].split()[0]
    if row.test.low is not None:
        text += f" {cells['interval']}"
    text += f" {cells['metric']}"
    if row.test.method == "exact":
        text += f", exact p {cells['holm']}"
    if row.test.method == "few":
        text += f", no test of fewer than {FEWEST} runs"
    if row.margin is not None:
        text += f", margin {cells['margin']}"
    if row.second:
        text += f"; {cells['second'].partition(': ')[0]}"
    return text


def _contrast(row: Finding) -> str:
    """Return one contrast: its finding, and every number that is known."""
    cells = table.cells(row)
    numbers = [f"{head} {cells[key]}" for key, head in table.HEADS.items() if cells[key] != labels.NOTHING]
    return f"{row.name()} ({cells['metric']}) [{row.word}]: {', '.join(numbers)}"


def summary_rows(rows: Sequence[Finding]) -> list[dict[str, str]]:
    """Return a row for each claim, with its verdict."""
    lines = []
    for claim, questions in by_claim(rows).items():
        lines.append({"#": claim, "claim": questions[0].claim.statement, "verdict": summary(questions).words})
    return lines


def _wrapped(text: str, width: int, indent: int, first: int = 0) -> list[str]:
    return textwrap.wrap(text, width, initial_indent=" " * (indent + first), subsequent_indent=" " * indent)
