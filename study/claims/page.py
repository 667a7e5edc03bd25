"""One claim as text for a terminal: the answer in words, then a line for each question, or everything."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from study.analysis import labels
from study.claims import table
from study.claims.verdicts import NOT_RUN, SATURATED, Finding, Verdict, by_claim, counted, deciding, fragile, summary

WIDTH = 100
MINIMUM = 28
"""The least letters of a claim in the summary."""
MOST = 40
"""Lines of a claim without `everything`."""
ANSWERS = {
    "holds": "The claim holds.",
    "fails": "The claim fails.",
    "mixed": "The claim is mixed: its questions have different answers.",
    "not decided": "The claim is not decided.",
    "not asked as published": "These runs test something else than the published claim.",
    NOT_RUN: "The claim is not yet run.",
    "none": "The claim has no verdict: estimates and intervals are printed alone.",
}


def lines(verdicts: Sequence[Verdict], everything: bool = False) -> Iterator[str]:
    """Yield the verdicts for a terminal, at most 40 lines a claim; with `everything`, every contrast in full."""
    for number, own in enumerate(by_claim(verdicts).values()):
        yield from [""] * bool(number)
        yield from _answer(own)
        yield from _whole(own) if everything else _short(own, MOST - 10)


def _answer(own: Sequence[Verdict]) -> Iterator[str]:
    """Yield statement, verdict in a sentence, the row that decides, and what stands in the literature."""
    claim, word, row = own[0].claim, summary(own), deciding(own)
    yield from _wrapped(f"{claim.id}  {claim.statement}", 4, -4)
    fragile_too = " Another score gives another verdict (fragile)." if fragile(own) else ""
    yield from _wrapped(f"{ANSWERS[word]}{fragile_too}", 4)
    if row.deciding is not None and row.deciding.test.difference is not None:
        what = "What keeps it from holding" if word == "mixed" else "What decides"
        told = f"{row.deciding.name}: {_estimate(row, row.deciding)} ({table.asked_in(row)})."
        yield from _wrapped(f"{what}: {told}", 4)
    if claim.published:
        yield from _wrapped(f"in the literature: {claim.published}", 4)


def _short(own: Sequence[Verdict], most: int) -> Iterator[str]:
    """Yield a line for each question that has an answer and is not superseded; count the others."""
    live = [one for one in own if one.counts]
    first = {id(one) for one in counted(own)}
    live.sort(key=lambda one: id(one) not in first)
    yield ""
    for one in live[: most // 2]:
        verdict = "saturated" if one.word == SATURATED else one.outcome.replace("not asked as published", "not asked")
        found = one.deciding
        told = f"{_estimate(one, found)} · " if found else ""
        name = f": {found.name}" if found else ""
        text = _wrapped(f"{verdict:<11}  {told}{table.asked_in(one)}{name}", 17, -13)
        yield from [*text[:1], f"{text[1][: WIDTH - 1]}…" if len(text) > 2 else text[1]] if text[1:] else text
    left = Counter("superseded by the second edition" if one.superseded else
                   "descriptive" if one.outcome == "none" else NOT_RUN for one in own if one not in live)  # fmt: skip
    hidden = [f"{len(live) - most // 2} more"] * (len(live) > most // 2)
    others = ", ".join([*hidden, *(f"{count} {what}" for what, count in left.items())])
    yield from _wrapped(f"Not shown: {others}. --all prints every row and contrast." if others else
                        "--all prints every contrast.", 4)  # fmt: skip


def _estimate(verdict: Verdict, found: Finding) -> str:
    """`−5.0 [−6.9, −3.1] NLL, margin 0.1`: estimate and 95% interval; of an exact test p instead."""
    cells, test = table.evidence(verdict, found), found.test
    if test.difference is None:
        return found.word
    interval = "" if cells["interval"] == labels.NOTHING else f" {cells['interval']}"
    exact = f", exact p {cells['holm']}" if test.method == "exact" else ""
    margin = "" if found.margin is None else f", margin {cells['margin']}"
    return f"{cells['estimate'].split()[0]}{interval} {cells['metric']}{exact}{margin}"


def _whole(own: Sequence[Verdict]) -> Iterator[str]:
    """Yield every question with every contrast; superseded ones last, then those without runs."""
    asked = [verdict.question for verdict in own]
    names = dict.fromkeys(name for one in asked for name in (one.sweep, *one.with_sweeps, one.benchmark) if name)
    yield from _wrapped(f"sweeps: {', '.join(names)}", 4)
    waiting = [one for one in own if one.outcome == NOT_RUN and not any(found.weighted.n for found in one.findings)]
    for verdict in sorted(own, key=lambda one: bool(one.superseded)):
        if verdict not in waiting:
            yield from _question(verdict)
    if waiting:
        yield from _wrapped(f"not yet run: {'; '.join(map(table.asked_in, waiting))}", 4)


def _question(verdict: Verdict) -> Iterator[str]:
    became, finding = table.verdict_in_words(verdict), table.finding_in_words(verdict, verdict.deciding)
    told = (
        finding
        if became in (labels.NOTHING, NOT_RUN)
        else f"{became}{', fragile' * bool(verdict.other_outcomes)} ({finding})"
    )
    yield from _wrapped(f"{table.asked_in(verdict)}: {told}", 4)
    if (of := table.edition(verdict)) != "first":
        yield from _wrapped(f"edition: {of}", 8)
    if verdict.question.post_hoc:
        yield from _wrapped(f"post hoc: {verdict.question.post_hoc}", 8)
    if others := [f"{table.score_title(score)}: {other}" for score, other in verdict.other_outcomes.items()]:
        yield from _wrapped(f"fragile: by {'; '.join(others)}", 8)
    for found in verdict.findings:
        yield from _wrapped(_sentence(verdict, found), 8)
    if verdict.note:
        yield from _wrapped(verdict.note, 8)


def _sentence(verdict: Verdict, found: Finding) -> str:
    """Return one contrast: its finding, diverged runs, and every number that is known."""
    cells = table.evidence(verdict, found)
    known = [f"{table.HEADS[key]} {cells[key]}" for key in table.TESTED if cells[key] != labels.NOTHING]
    return f"{found.name} ({cells['metric']}) [{found.word}]: {', '.join([*found.weighted.lost, *known, *found.notes])}"


def summary_lines(verdicts: Sequence[Verdict], width: int) -> Iterator[str]:
    """Yield the summary for a terminal of a width: a line per claim, with the estimate that decides and its 95% CI."""
    body = [("#", "claim", "verdict", "estimate, 95% CI, measure")]
    for cells in (row.cells for row in table.summary_table(verdicts).rows):
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


def _wrapped(text: str, indent: int, first: int = 0) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=" " * (indent + first), subsequent_indent=" " * indent)
