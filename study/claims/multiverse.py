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
from study.claims.verdicts import Finding, Rules, conclude
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
    evaluator = Evaluator(runs, file.margins, file, noises)
    for _, group in groupby(rows, key=lambda row: (id(row.question), row.corpus, row.family)):
        contrasts = list(group)
        if not contrasts[0].votes:
            continue
        verdicts = {}
        for name, rules in RULES.items():
            verdicts[name] = _by_rules(contrasts, rules, evaluator)
        for score in SCORES:
            verdicts[f"by {score}"] = _by_score(contrasts[0], score, evaluator)
        yield next(row for row in contrasts if row.decides), verdicts


def _by_rules(contrasts: Sequence[Finding], rules: Rules, evaluator: Evaluator) -> str:
    """Return the verdict on a question under other rules."""
    costing = contrasts[0].measure.costing
    if costing is not None and rules.margin != 1:  # the margin is in what is counted
        return _changed(contrasts[0], {"margin": costing * rules.margin}, evaluator)
    second = [row.second for row in contrasts if row.second]
    return conclude(contrasts, second, rules)[0].verdict


def _by_score(row: Finding, score: str, evaluator: Evaluator) -> str:
    """Return the verdict on the question of a row by a score alone; empty if it has none."""
    question = row.question
    split, declared_score = question.metric.split("/", 1)
    if not split.startswith("test") or declared_score not in SCORES:
        return ""
    if not question.statistics <= {"difference", "interaction", "draws"}:
        return ""
    without_margin = score != declared_score and not isinstance(question.margin, str)
    if without_margin and question.type in NO_DIFFERENCE:
        return ""
    metric = f"{split}/{score}"
    turned = metrics.metric_of(metric).direction != metrics.metric_of(question.metric).direction
    if turned and any(contrast.expect in ("higher", "lower") for contrast in question.contrasts):
        return ""
    changes = {"metric": metric, "second": "", "margin": None if without_margin else question.margin}
    try:
        return _changed(row, changes, evaluator)
    except InputError:  # the question has been checked, so its records or its margin lack the score
        return ""


def _changed(row: Finding, changes: dict[str, Any], evaluator: Evaluator) -> str:
    """Return the verdict on the question of a row with changed fields."""
    question = row.question.model_copy(update=changes)
    return evaluator.answer(row.claim, question, f"{row.corpus}/{row.family}")[0].verdict
