"""Verdicts on claims, and the findings behind them.

A finding is the word for a contrast, and for the contrasts of a question together, by rules that were fixed before the
runs. e is the estimate with the sign that the claim predicts, m the margin, and p Holm's over the contrasts of the
question.

* **supported**: p < .05 and e > 0; **supported, below the margin** if besides e < m.
* **contradicted**: p < .05 and e < 0; **contradicted, below the margin** if besides −e < m. Of an equivalence: p < .05,
  and the 95% interval lies outside ±m.
* **no difference larger than the margin**: two one-sided tests, the 90% interval lies inside ±m. This is what supports
  an equivalence.
* **saturated**: neither of the first two, and nothing could show: all arms are at the ceiling, or all at the floor, or
  the claim predicts a difference past the end at which the base is.
* **undecided**: none of these. **not yet run**: a run is missing.

A verdict says what the findings mean for the claim. It **holds** where all contrasts are supported (one of them, with
`combine: any`), or an equivalence is shown. It **fails** where a contrast is contradicted, or a difference that the
claim predicts is not larger than the margin. It is **mixed** where all contrasts must hold, and some do and some fail.
It is **not decided** otherwise. A question that is `against` the claim turns holds and fails round.

A diverged run of an arm blocks a verdict in its favour, and of either arm the verdict of no difference. Of a
correlation it blocks all: which way it would have gone is not known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from study import metrics
from study.analysis.inference import Arm, Comparison, SentenceTest, Test, correlation_power, false_discovery
from study.analysis.runs import SentenceKey
from study.claims.contrasts import CorrelatedArms, WeightedContrast, direction
from study.claims.schema import (
    AnyContrast,
    Claim,
    Contrast,
    Correlation,
    Costly,
    Difference,
    Draws,
    Kind,
    Question,
    Ratio,
    ReportedEffect,
    Within,
)

Word = Literal[
    "supported",
    "supported, below the margin",
    "contradicted",
    "contradicted, below the margin",
    "no difference larger than the margin",
    "undecided",
    "saturated",
    "not yet run",
    "descriptive",
]
Outcome = Literal["holds", "fails", "mixed", "not decided", "not asked as published", "not yet run", "none"]
"""`none`: the question is descriptive, and gives no verdict."""
SUPPORTED: Word = "supported"
BELOW: Word = "supported, below the margin"
CONTRADICTED: Word = "contradicted"
CONTRADICTED_BELOW: Word = "contradicted, below the margin"
NO_DIFFERENCE: Word = "no difference larger than the margin"
UNDECIDED: Word = "undecided"
SATURATED: Word = "saturated"
NOT_RUN: Word = "not yet run"
DESCRIPTIVE: Word = "descriptive"

WEAKEST: tuple[Word, ...] = (
    *(NOT_RUN, CONTRADICTED, CONTRADICTED_BELOW, SATURATED, UNDECIDED, NO_DIFFERENCE, BELOW, SUPPORTED),
)
"""Order of words if all contrasts must hold: the first one that any contrast has."""
STRONGEST: tuple[Word, ...] = (
    *(NOT_RUN, SUPPORTED, BELOW, UNDECIDED, SATURATED, NO_DIFFERENCE, CONTRADICTED_BELOW, CONTRADICTED),
)
"""Order of words if one contrast is enough: the first one that any contrast has."""
EQUIVALENT: tuple[Word, ...] = (NOT_RUN, NO_DIFFERENCE, UNDECIDED, SATURATED, CONTRADICTED)
"""The same for an equivalence."""
BETTER = "the first arm is better"
"""Note on an equivalence that is contradicted by a gain."""


@dataclass(frozen=True)
class Finding:
    """One contrast: its test and its word."""

    name: str
    """The contrast in words."""
    word: Word
    comparison: Comparison
    n: int
    declared: int
    margin: float | None
    diverged: tuple[str, ...] = ()
    """The rate of each arm with a diverged run, such as `2 of 5 runs of scale=none diverged`."""
    notes: tuple[str, ...] = ()
    fields: str = ""
    """The contrast by names of fields."""
    runs: tuple[str, ...] = ()
    """Ids of the runs of its arms."""
    key: SentenceKey | None = None
    """Metric and runs of a difference of two arms, by which its test over sentences is found."""
    sentences: SentenceTest | None = None
    """Test over the sentences of the test set."""
    power: str = ""
    """Words on the smallest rank correlation that the arms could show."""

    @property
    def inner(self) -> tuple[float, float] | None:
        """The 90% interval, which an equivalence holds against the margin."""
        return self.comparison.test.inner if self.comparison.test else None

    @property
    def straddles(self) -> bool:
        """Return True if an equivalence is undecided despite a significant difference, which may pass the margin."""
        return self.word == UNDECIDED and self.comparison.significant and not self.diverged and self.margin is not None


@dataclass(frozen=True)
class PublishedEffect:
    """A published effect beside a verdict."""

    effect: ReportedEffect
    value: float
    """The effect in units of the question's score."""
    margin: float | None

    @property
    def below(self) -> bool:
        """Return True if the effect is smaller than the margin."""
        return self.margin is not None and abs(self.value) < self.margin


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
    superseded: tuple[Verdict, ...] = ()
    """Verdicts of the second edition that replace this one. It stays in the tables and does not count."""
    by_score: Mapping[str, Verdict | str] = field(default_factory=dict)
    """Score ↦ the verdict by it, or why there is none; empty for a question outside the matrix."""

    effects: tuple[PublishedEffect, ...] = ()
    """Published effects that belong to this part; none where one BLEU has no value in its score."""

    @property
    def fragile(self) -> bool:
        """Return True if another score gives another verdict."""
        return bool(self.other_outcomes)

    @property
    def other_outcomes(self) -> dict[str, Outcome]:
        """Score ↦ the verdict by it, for the scores that give another verdict."""
        found = {score: one.outcome for score, one in self.by_score.items() if isinstance(one, Verdict)}
        return {score: outcome for score, outcome in found.items() if outcome not in (self.outcome, NOT_RUN)}

    @property
    def pair(self) -> str:
        """Corpus and family, such as `grammar/recurrent`."""
        return f"{self.corpus}/{self.family}"

    @property
    def outcome(self) -> Outcome:
        """The verdict: what became of the claim."""
        return outcome(self.question, self.question.type, [found.word for found in self.findings])

    @property
    def deciding(self) -> Finding | None:
        """The contrast that the row shows: the weakest of those with the row's word, or the strongest if one is enough.

        If no difference is shown, the weakest is the one whose 90% interval comes nearest to its margin, or passes it.
        Otherwise the weakest has the largest p value.
        """
        same = [finding for finding in self.findings if finding.word == self.word]
        if not same:
            return None
        weakness = self._reach if self.word == NO_DIFFERENCE else _holm
        return (max if self.question.combine == "all" else min)(same, key=weakness)

    def _reach(self, finding: Finding) -> float:
        """Return the farther end of the 90% interval in units of the margin; of ratios, both as logarithms."""
        assert finding.inner is not None
        assert finding.margin is not None
        if self.question.benchmark is not None:
            return max(abs(math.log(end)) for end in finding.inner) / math.log(finding.margin)
        return max(map(abs, finding.inner)) / finding.margin


def _holm(finding: Finding) -> float:
    return 1.0 if finding.comparison.holm is None else finding.comparison.holm


def conclude(
    claim: Claim,
    question: Question,
    pair: str,
    tested: Sequence[tuple[WeightedContrast | CorrelatedArms, Comparison]],
    margin: float | None,
    unknown: str,
    effects: Sequence[PublishedEffect] = (),
) -> Verdict:
    """The verdict on a question in one corpus and family.

    Args:
        claim: the claim.
        question: one of its questions.
        pair: corpus and family, such as `grammar/recurrent`.
        tested: the contrasts of the question and their tests.
        margin: the smallest difference of interest.
        unknown: why there is no margin where there should be one; empty if there is one, or none is needed.
        effects: the published effects that belong to the question.
    """
    kind = question.type
    costly = any(isinstance(contrast, Costly) for contrast in question.contrasts)
    findings = []
    for contrast, (arms, comparison) in zip(question.contrasts, tested, strict=True):
        if isinstance(arms, WeightedContrast):
            rule, held = "shape" if unknown else kind, None if costly else margin
            findings.append(finding(rule, question, contrast, arms, comparison, held))
        elif isinstance(contrast, Correlation):
            tests = len(question.contrasts)
            findings.append(finding_of_arms(kind, contrast, arms, comparison, margin, tests))
    if unknown and (kind == "equivalence" or costly):
        findings = [replace(found, word=NOT_RUN) for found in findings]
    word = combined(question, kind, [found.word for found in findings])
    if question.descriptive and word != NOT_RUN:
        word = DESCRIPTIVE
        findings = [replace(found, word=word) for found in findings]
    any_tested = any(found.comparison.test for found in findings)
    corpus, family = pair.split("/")
    note = unknown if any_tested else ""
    return Verdict(claim, question, corpus, family, word, tuple(findings), note, effects=tuple(effects))


def judged(
    kind: Kind,
    comparison: Comparison,
    sign: int,
    margin: float | None = None,
    saturated: bool = False,
    diverged: Sequence[int] = (),
) -> Word:
    """Return the word for one contrast, by the rules of this module.

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
    blocked[CONTRADICTED_BELOW] = blocked[CONTRADICTED]
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
        below = margin is not None and abs(effect) < margin
        if effect < 0:
            return CONTRADICTED_BELOW if below else CONTRADICTED
        return BELOW if below else SUPPORTED
    return NO_DIFFERENCE if equal else UNDECIDED


def inside(test: Test, margin: float) -> bool:
    """Two one-sided tests (Schuirmann 1987): the 90% interval lies within ± margin."""
    return test.inner is not None and -margin < test.inner[0] and test.inner[1] < margin


def combined(question: Question, kind: Kind, words: Sequence[Word]) -> Word:
    """Return the word for a question from the words of its contrasts."""
    order = WEAKEST if question.combine == "all" else EQUIVALENT if kind == "equivalence" else STRONGEST
    return min(words, key=order.index)


def outcome(question: Question, kind: Kind, words: Sequence[Word]) -> Outcome:
    """Return the verdict on a question from the words of its contrasts, by the rules of this module."""
    if not words or NOT_RUN in words:
        return "not yet run"
    if question.descriptive:
        return "none"
    if question.not_asked:
        return "not asked as published"
    found = [stance(word, kind) for word in words]
    enough = max(found) if question.combine == "any" else min(found)
    if question.combine == "all" and {1, -1} <= set(found):
        return "mixed"
    if not enough:
        return "not decided"
    return "holds" if (enough > 0) != question.against else "fails"


def stance(word: Word, kind: Kind) -> int:
    """Return 1 for a finding that its contrast predicts, −1 for one that it does not, 0 for one that decides nothing.

    That there is no difference larger than the margin is what an equivalence predicts, and no other claim.
    """
    if word == NO_DIFFERENCE:
        return 1 if kind == "equivalence" else -1
    return 1 if word in (SUPPORTED, BELOW) else -1 if word in (CONTRADICTED, CONTRADICTED_BELOW) else 0


def supersede(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Mark the verdicts of the first edition on a claim that a question of the second replaces and that has a verdict.

    A descriptive question has none.
    """
    second = [one for one in verdicts if one.question.edition == 2 and one.outcome not in ("none", NOT_RUN)]
    marked = []
    for old in verdicts:
        new = [one for one in second if old.question.edition < 2 and _replaces(one, old)]
        marked.append(replace(old, superseded=tuple(new)))
    return marked


def _replaces(new: Verdict, old: Verdict) -> bool:
    given = new.question.replaces
    same = old.pair == new.pair
    return same if given is None else old.pair in given or (same and old.question.part in given)


def over_the_study(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Add to each contrast its p by Benjamini and Hochberg over all contrasts on which verdicts rest.

    Descriptive and superseded ones have none: the rate of false discoveries is that of what the study says today.
    """
    counted = [found for one in verdicts if one.word != DESCRIPTIVE and not one.superseded for found in one.findings]
    p = {id(found): test.p for found in counted if (test := found.comparison.test) and test.p is not None}
    adjusted = dict(zip(p, false_discovery(list(p.values())), strict=True))
    out = []
    for one in verdicts:
        findings = [
            replace(found, comparison=replace(found.comparison, false_discovery=adjusted.get(id(found))))
            for found in one.findings
        ]
        out.append(replace(one, findings=tuple(findings)))
    return out


def counted(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the rows of a claim that count: neither superseded, nor descriptive, nor without runs.

    Post hoc rows count where there are no others. So do rows that ask something else than the published claim, and
    saturated rows, which could not have shown anything.
    """
    own = [one for one in verdicts if not one.superseded and one.outcome not in ("none", NOT_RUN)]
    own = [one for one in own if not one.question.post_hoc] or own
    own = [one for one in own if one.outcome != "not asked as published"] or own
    return [one for one in own if one.word != SATURATED] or own


def fragile(verdicts: Sequence[Verdict]) -> frozenset[str]:
    """Return the ids of the claims with a fragile row that counts."""
    claims: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        claims.setdefault(str(verdict.claim.id), []).append(verdict)
    return frozenset(claim for claim, own in claims.items() if any(one.fragile for one in counted(own)))


def summaries(verdicts: Sequence[Verdict]) -> dict[str, str]:
    """Return the verdict on each claim, by its id: that of its rows that count, `mixed` where they differ."""
    claims: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        claims.setdefault(str(verdict.claim.id), []).append(verdict)
    return {claim: _summary(own) for claim, own in claims.items()}


def _summary(own: Sequence[Verdict]) -> str:
    found = {one.outcome for one in counted(own)}
    if not found:
        return NOT_RUN if any(one.outcome == NOT_RUN for one in own) else "none"
    return found.pop() if len(found) == 1 else "mixed"


def finding(kind: Kind, question: Question, contrast: AnyContrast, weighted: WeightedContrast, comparison: Comparison,
            margin: float | None) -> Finding:  # fmt: skip
    """Return a tested contrast with its word."""
    sign = direction(contrast, question.metric)
    rates = {key: arm.diverged for key, arm in weighted.arms.items() if arm.diverged}
    sides = [1 if weighted.weights.get(key, 0.0) * sign >= 0 else -1 for key in rates]
    if (
        isinstance(contrast, Within | Costly | Draws) and rates
    ):  # a run that is not there speaks neither for nor against
        sides = [1, -1]
    word = judged(kind, comparison, sign, margin, saturated(kind, question, contrast, weighted), sides)
    better = 0.0
    if kind == "equivalence" and word == CONTRADICTED and comparison.test:
        better = _better(contrast, question.metric) * comparison.test.difference
    return Finding(
        name=weighted.name,
        fields=weighted.fields,
        word=word,
        comparison=comparison,
        n=min(len(arm.values) for arm in weighted.arms.values()),
        declared=weighted.declared,
        margin=margin,
        diverged=tuple(
            dict.fromkeys(
                f"{n} of {weighted.declared} runs of {weighted.labels[key]} diverged" for key, n in rates.items()
            )
        ),
        notes=(BETTER, *weighted.notes) if better > 0 else weighted.notes,
        runs=tuple(run for arm in weighted.arms.values() for run in arm.runs),
        key=_key(question, weighted),
    )


def _better(contrast: AnyContrast, metric: str) -> int:
    """Return the sign of a difference with which the first arm is better; 0 if the contrast compares no two arms."""
    if isinstance(contrast, Difference | Draws):
        return metrics.metric_of(metric).direction
    return -1 if isinstance(contrast, Ratio) else 0


def _key(question: Question, weighted: WeightedContrast) -> SentenceKey | None:
    """Return the metric and the runs of equal seed of a difference of two arms; None for other contrasts."""
    alone = {*weighted.weights.values()} == {1, -1} and (len(weighted.sides), len(weighted.bases)) == (1, 1)
    if not alone or len(weighted.arms) != 2 or question.by_length or metrics.is_diagnostic(question.metric):
        return None
    arm, base = weighted.arms[weighted.sides[0]], weighted.arms[weighted.bases[0]]
    seeds = [seed for seed in arm.values if seed in base.values]
    if not seeds:
        return None
    ours, theirs = (" ".join(f"{one.label}-s{seed}" for seed in seeds) for one in (arm, base))
    return question.metric, ours, theirs


def finding_of_arms(kind: Kind, contrast: Correlation, arms: CorrelatedArms, comparison: Comparison,
                    margin: float | None, tests: int) -> Finding:  # fmt: skip
    """Return a tested rank correlation, one of several tests, with its word. A diverged run leaves it undecided."""
    power = ""
    if contrast.level == "arms" and comparison.test is not None:
        shown, within = correlation_power(len(arms.pairs), tests)
        power = f"{len(arms.pairs)} arms show a ρ beyond ±{shown:.2f} with power .80"
        if margin is not None and kind == "equivalence" and within >= margin:
            power += f", and equivalence within ±{within:.2f} at best, so not within the margin"
    sides = (1, -1) if arms.diverged else ()
    word = judged(kind, comparison, direction(contrast, contrast.between[1]), margin, diverged=sides)
    if kind == "equivalence" and arms.diverged and word == CONTRADICTED:
        word = UNDECIDED
    if comparison.why == "too few arms" and arms.saturated:
        word = SATURATED
    return Finding(
        name=arms.name,
        fields=arms.fields,
        word=word,
        comparison=comparison,
        n=len(arms.pairs),
        declared=arms.declared,
        margin=margin,
        diverged=tuple(arms.diverged),
        notes=(*arms.notes, *([power] if power else [])),
        runs=tuple(arms.runs),
        power=power,
    )


def saturated(kind: Kind, question: Question, contrast: Contrast, weighted: WeightedContrast) -> bool:
    """Return True if scores at floor or ceiling hide any difference; see the rule at the top of this module.

    A loss shows in an arm that is compared with one at the ceiling; a gain does not.
    """
    limits = None if question.by_length else metrics.metric_of(question.metric).limits
    if limits is None or not weighted.bases:
        return False
    ends = {key: metrics.end(_mean(weighted.arms[key]), limits) for key in (*weighted.sides, *weighted.bases)}
    at_base = {ends[key] for key in weighted.bases}
    if len(at_base) > 1 or at_base == {0}:
        return False
    one_sided = kind != "equivalence" and isinstance(contrast, Difference | Within)
    return set(ends.values()) == at_base or (one_sided and at_base == {direction(contrast, question.metric)})


def _mean(arm: Arm) -> float:
    return sum(arm.values.values()) / max(1, len(arm.values))
