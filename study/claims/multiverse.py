"""Multiverse: the verdict on every question that votes, with one rule or the score changed at a time.

The table is post hoc. A margin that is a number holds for its own score only. By other scores such a question is judged
without a margin, and an equivalence or a noninferiority is not judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from study.analysis.runs import Runs
from study.claims.evaluate import Evaluator
from study.claims.schema import NO_DIFFERENCE, ClaimFile
from study.claims.sentences import SentenceNoises
from study.claims.verdicts import Finding, Rules, by_score, judge, stance, verdict_of
from study.errors import InputError
from study.scores import metrics

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


def multiverse(
    rows: Sequence[Finding], file: ClaimFile, runs: Runs, noises: SentenceNoises
) -> Iterator[tuple[Finding, dict[str, str]]]:
    """Yield the row that decides each question that votes, and its verdicts by change, empty where it does not apply.

    Args:
        rows: contrasts of claims of one file.
        file: the file.
        runs: sweeps and runs.
        noises: noise of the sentences.
    """
    evaluator = Evaluator(runs, file.margins, file.path, noises)
    for _, some in groupby(rows, key=lambda row: (id(row.question), row.corpus, row.family)):
        own = list(some)
        if own[0].votes:
            found = {name: _by_rules(own, rules, evaluator) for name, rules in RULES.items()}
            found |= {f"by {score}": _by_score(own[0], score, evaluator) for score in SCORES}
            yield next(row for row in own if row.decides), found


def _by_rules(rows: Sequence[Finding], rules: Rules, evaluator: Evaluator) -> str:
    """Return the verdict on a question under other rules."""
    if (costing := rows[0].measure.costing) is not None and rules.margin != 1:  # the margin is in what is counted
        return _asked(rows[0], {"margin": costing * rules.margin}, evaluator)
    words = [[word for _, word in judge(some, rules)] for some in by_score(rows)]
    stances = [stance(row, *own) for row, *own in zip(rows, *words, strict=True)]
    return verdict_of(rows[0].question, words[0], stances)


def _by_score(row: Finding, score: str, evaluator: Evaluator) -> str:
    """Return the verdict on the question of a row by a score alone; empty if it has none."""
    question, (split, own) = row.question, row.question.metric.split("/", 1)
    if not (question.statistics <= {"difference", "interaction", "draws"} and split.startswith("test")):
        return ""
    without_margin = score != own and not isinstance(question.margin, str)
    if own not in SCORES or (without_margin and question.type in NO_DIFFERENCE):
        return ""
    metric = f"{split}/{score}"
    turned = metrics.metric_of(metric).direction != metrics.metric_of(question.metric).direction
    if turned and any(one.expect in ("higher", "lower") for one in question.contrasts):
        return ""
    changes = {"metric": metric, "second": "", "margin": None if without_margin else question.margin}
    try:
        return _asked(row, changes, evaluator)
    except InputError:  # the question has been checked, so its records or its margin lack the score
        return ""


def _asked(row: Finding, changes: dict[str, Any], evaluator: Evaluator) -> str:
    """Return the verdict on the question of a row with other fields."""
    question = row.question.model_copy(update=changes)
    return evaluator.ask(row.claim, question, f"{row.corpus}/{row.family}")[0].verdict
