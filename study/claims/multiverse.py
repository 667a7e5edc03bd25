"""Multiverse: the verdict on every question that votes, with one rule or the score changed at a time.

The table is post hoc. A margin that is a number holds for its own score only. By other scores such a question is judged
without a margin, and an equivalence or a noninferiority is not judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from study import metrics
from study.claims.schema import NO_DIFFERENCE, Question
from study.claims.verdicts import Finding, Rules, judge, stance, verdict_of
from study.errors import InputError

RULES = {
    "paired by seed": Rules(paired=True),
    "seeds alone": Rules(sentences=False),
    "not adjusted": Rules(family=False),
    "half the margin": Rules(margin=0.5),
    "twice the margin": Rules(margin=2.0),
}
"""Change of a rule ↦ the rules."""
SCORES = ("exact", "exact/without pronouns", "bleu", "nll", "nll/without pronouns")
"""Scores by which questions of whole sentences are judged."""
Ask = Callable[[Finding, Question], Sequence[Finding]]


def verdicts(rows: Sequence[Finding], ask: Ask) -> dict[str, str]:
    """Return the verdicts on a question by change, empty where a change does not apply.

    Args:
        rows: the contrasts of the question.
        ask: asks another question at the place of a row.
    """
    question, found = rows[0].question, dict[str, str]()
    for name, rules in RULES.items():
        by_score = [[word for _, word in judge(some, rules)] for some in _by_score(rows)]
        stances = [stance(row, *words) for row, *words in zip(rows, *by_score, strict=True)]
        found[name] = verdict_of(question, by_score[0], stances)
    for score in SCORES:
        found[f"by {score}"] = next(_scored(rows[0], score, ask), "")
    return found


def _by_score(rows: Sequence[Finding]) -> Iterator[Sequence[Finding]]:
    yield rows
    if second := [row.second for row in rows if row.second]:
        yield second


def _scored(row: Finding, score: str, ask: Ask) -> Iterator[str]:
    """Yield the verdict by a score alone, if the question has one."""
    question, (split, own) = row.question, row.question.metric.split("/", 1)
    plain = question.statistics <= {"difference", "interaction", "trend", "draws"}
    if not (plain and split.startswith("test") and own in SCORES):
        return
    named = isinstance(question.margin, str)
    if not named and score != own and question.type in NO_DIFFERENCE:
        return
    margin = question.margin if named or score == own else None
    metric = f"{split}/{score}"
    if any(one.expect in ("higher", "lower") for one in question.contrasts) and (
        metrics.metric_of(metric).direction != metrics.metric_of(question.metric).direction
    ):
        return
    try:
        yield ask(row, question.model_copy(update={"metric": metric, "second": "", "margin": margin}))[0].verdict
    except InputError:  # the question has been checked, so its records or its margin lack the score
        return
