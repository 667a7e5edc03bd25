"""Matrix of verdicts by score: each question of a test score on the grammar or on Multi30k, judged by five scores.

The matrix is post hoc. Contrasts, arms and rules are those of the question; its score is replaced, and its margin by
the same rule: `gap` and named margins have a value in each score. A margin that is a number holds for its own score
only, so the other scores are judged without a margin, and an equivalence is not judged by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from study import metrics
from study.claims.schema import Question

PRONOUNS = "without pronouns"
SCORES = ("exact", f"exact/{PRONOUNS}", "bleu", "nll", f"nll/{PRONOUNS}")
"""Scores by which questions are judged."""
SLOPE = "nll_by_length"
NOT_SCORED = "not scored"
"""Why there is no verdict by a score."""


def own_score(question: Question) -> str:
    """Return the score that decides a question, without its split; a slope over length has that of its score."""
    return question.metric.partition("/")[2].replace(SLOPE, "nll")


def covers(question: Question, pair: str) -> bool:
    """Return True if the matrix has a question: a verdict on differences of a test score of whole sentences."""
    return (
        pair.startswith(("grammar/", "multi30k/"))
        and question.metric.startswith("test")
        and own_score(question) in SCORES
        and question.statistics <= {"difference", "interaction", "trend", "draws"}
        and not (question.descriptive or question.not_asked)
    )


def with_score(question: Question, score: str, worth: Mapping[str, float]) -> Question | str:
    """Return a question with another score, on the same split, or why there is none.

    A slope over length is taken over sentences of NLL, and over groups of lengths of other scores, which have no
    groups without pronouns.

    Args:
        question: the question.
        score: the score, with its subset.
        worth: values of the named margin of the question, by score.
    """
    split, name = question.metric.split("/")[:2]
    if score == own_score(question):
        return question
    changes: dict[str, Any] = {"metric": f"{split}/{score}"}
    if question.by_length or name == SLOPE:
        summed = score.startswith("nll")
        if not summed and PRONOUNS in score:
            return NOT_SCORED
        changes = {"metric": f"{split}/{score.replace('nll', SLOPE)}", "by_length": not summed}
        changes["by_sentences"] = not summed and (question.by_sentences or name == SLOPE)
    if question.margin != "gap" and metrics.unit_of(changes["metric"]) not in worth:
        changes["margin"] = None
    before, after = (metrics.metric_of(metric).direction for metric in (question.metric, changes["metric"]))
    if before != after and any(contrast.expect in ("higher", "lower") for contrast in question.contrasts):
        return NOT_SCORED
    other = question.model_copy(update=changes)
    return "no margin" if other.margin is None and other.type == "equivalence" else other
