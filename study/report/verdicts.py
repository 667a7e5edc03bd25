"""Verdicts: one word for each claim, corpus and family, by rules that were fixed before the runs.

e is the estimate with the sign that the claim predicts, m the margin, p Holm's over the contrasts of the question.

* **supported**: p < .05 and e > 0; **supported, below the margin** if besides e < m.
* **contradicted**: p < .05 and e < 0. Of an equivalence: p < .05, and the 95% interval lies outside ±m.
* **no difference larger than the margin**: two one-sided tests, the 90% interval lies inside ±m. This is what supports
  an equivalence.
* **saturated**: neither of the first two, and the base is at its ceiling or floor, where nothing could show.
* **undecided**: none of these. **not yet run**: a run is missing, or the sweep is yet to be made.

A diverged run of an arm blocks a verdict in its favour, and of either arm the verdict of no difference. Of a
correlation it blocks all: which way it would have gone is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from study.report import measures
from study.report.claims import Claim, Kind, Question
from study.report.estimates import inside
from study.report.kinds import AnyContrast, Band, Contrast, Within
from study.report.statistics import Comparison
from study.report.weighing import Weighed

Word = Literal[
    "supported",
    "supported, below the margin",
    "contradicted",
    "no difference larger than the margin",
    "undecided",
    "saturated",
    "not yet run",
]
SUPPORTED: Word = "supported"
BELOW: Word = "supported, below the margin"
CONTRADICTED: Word = "contradicted"
NO_DIFFERENCE: Word = "no difference larger than the margin"
UNDECIDED: Word = "undecided"
SATURATED: Word = "saturated"
NOT_RUN: Word = "not yet run"

WEAKEST: tuple[Word, ...] = (NOT_RUN, CONTRADICTED, SATURATED, UNDECIDED, NO_DIFFERENCE, BELOW, SUPPORTED)
"""Where all contrasts must hold, the first of these that any has."""
STRONGEST: tuple[Word, ...] = (NOT_RUN, SUPPORTED, BELOW, UNDECIDED, SATURATED, NO_DIFFERENCE, CONTRADICTED)
"""Where one contrast is enough, the first of these that any has."""
EQUIVALENT: tuple[Word, ...] = (NOT_RUN, NO_DIFFERENCE, UNDECIDED, SATURATED, CONTRADICTED)
"""The same for an equivalence."""


@dataclass(frozen=True)
class Finding:
    """One contrast: its test and its word."""

    name: str
    word: Word
    comparison: Comparison
    n: int
    declared: int
    margin: float | None
    diverged: tuple[str, ...] = ()
    """The rate of each arm with a diverged run, such as `2 of 5 runs of scale=none diverged`."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """One row of the table: a claim, or a part of it, in one corpus and family."""

    claim: Claim
    question: Question
    corpus: str
    family: str
    word: Word
    findings: tuple[Finding, ...] = ()
    note: str = ""

    @property
    def deciding(self) -> Finding | None:
        """The contrast that the verdict is the word of: of several, the weakest where all must hold."""
        same = [finding for finding in self.findings if finding.word == self.word]
        if not same:
            return None
        return (max if self.question.combine == "all" else min)(same, key=_holm)


def _holm(finding: Finding) -> float:
    return 1.0 if finding.comparison.holm is None else finding.comparison.holm


def judged(
    kind: Kind,
    comparison: Comparison,
    sign: int,
    margin: float | None = None,
    saturated: bool = False,
    diverged: Sequence[int] = (),
) -> Word:
    """The word for one contrast, by the rules on top.

    Args:
        kind: the claim's type; a shape is judged like a superiority, of whatever its statistic is.
        comparison: the test.
        sign: +1 or −1, the sign of the difference that the claim predicts; 0 if it predicts that there is one.
        margin: the smallest difference of interest, if one was given.
        saturated: the base is at its ceiling or floor.
        diverged: for every arm with a diverged run, +1 if the claim is for it and −1 if against.
    """
    test = comparison.test
    if test is None:
        return UNDECIDED if comparison.why != "missing runs" else NOT_RUN
    found = _tested(kind, comparison, sign, margin)
    blocked = {SUPPORTED: 1 in diverged, BELOW: 1 in diverged, CONTRADICTED: -1 in diverged}
    if kind == "equivalence":
        blocked = {}
    if blocked.get(found, False) or (found == NO_DIFFERENCE and diverged):
        found = UNDECIDED
    return SATURATED if saturated and found in (UNDECIDED, NO_DIFFERENCE) else found


def _tested(kind: Kind, comparison: Comparison, sign: int, margin: float | None) -> Word:
    test = comparison.test
    assert test is not None
    equal = margin is not None and inside(test, margin)
    if kind == "equivalence":
        assert margin is not None
        apart = test.low is not None and test.high is not None and (test.low > margin or test.high < -margin)
        return NO_DIFFERENCE if equal else CONTRADICTED if comparison.significant and apart else UNDECIDED
    if comparison.significant:
        effect = sign * test.difference if sign else abs(test.difference)
        if effect < 0:
            return CONTRADICTED
        return BELOW if margin is not None and effect < margin else SUPPORTED
    return NO_DIFFERENCE if equal else UNDECIDED


def combined(question: Question, kind: Kind, words: Sequence[Word]) -> Word:
    """The word for a question from those of its contrasts."""
    order = WEAKEST if question.combine == "all" else EQUIVALENT if kind == "equivalence" else STRONGEST
    return min(words, key=order.index)


def finding(kind: Kind, question: Question, contrast: AnyContrast, weighed: Weighed, comparison: Comparison,
            margin: float | None) -> Finding:  # fmt: skip
    """A tested contrast with its word."""
    sign = direction(contrast, question.metric)
    rates = {key: arm.diverged for key, arm in weighed.arms.items() if arm.diverged}
    sides = [1 if weighed.weights.get(key, 0.0) * sign >= 0 else -1 for key in rates]
    if isinstance(contrast, Within) and rates:  # a run that is not there speaks neither for nor against
        sides = [1, -1]
    return Finding(
        name=weighed.name,
        word=judged(kind, comparison, sign, margin, saturated(question, weighed), sides),
        comparison=comparison,
        n=min(len(arm.values) for arm in weighed.arms.values()),
        declared=weighed.declared,
        margin=margin,
        diverged=tuple(f"{n} of {weighed.declared} runs of {weighed.labels[key]} diverged" for key, n in rates.items()),
        notes=weighed.notes,
    )


def direction(contrast: Contrast, metric: str) -> int:
    """The sign of the difference that a claim predicts; 0 where it predicts none, or better and worse mean nothing."""
    if contrast.expect == "different":
        return 0
    if contrast.expect in ("higher", "lower"):
        return 1 if contrast.expect == "higher" else -1
    better = 1 if isinstance(contrast, Band) else measures.better(metric)
    return better if contrast.expect == "better" else -better


def saturated(question: Question, weighed: Weighed) -> bool:
    """Whether every base of a contrast is at the floor or the ceiling of the score."""
    limits = question.bounds or (None if question.by_length else measures.bounds(question.metric))
    if limits is None:
        return False
    means = [sum(weighed.arms[key].values.values()) / max(1, len(weighed.arms[key].values)) for key in weighed.bases]
    return bool(means) and all(at_edge(mean, limits) for mean in means)


def at_edge(mean: float, limits: tuple[float, float]) -> bool:
    """Whether a mean is within 1% of the range from one of its ends, or past it."""
    floor, ceiling = limits
    slack = measures.EDGE * (ceiling - floor)
    return mean <= floor + slack or mean >= ceiling - slack
