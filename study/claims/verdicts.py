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
from enum import StrEnum
from typing import Literal

from study import metrics
from study.analysis.inference import Comparison, SentenceTest, false_discovery
from study.claims.contrasts import Weighted, direction, name_of, power
from study.claims.schema import Claim, Kind, Question, ReportedEffect

SentenceKey = tuple[str, str, str]
"""Metric, runs of the arm and runs of the baseline of a test over sentences."""


class Word(StrEnum):
    """Finding on a contrast, or on the contrasts of a question together."""

    SUPPORTED = "supported"
    BELOW = "supported, below the margin"
    CONTRADICTED = "contradicted"
    CONTRADICTED_BELOW = "contradicted, below the margin"
    NO_DIFFERENCE = "no difference larger than the margin"
    UNDECIDED = "undecided"
    SATURATED = "saturated"
    NOT_RUN = "not yet run"
    DESCRIPTIVE = "descriptive"


(SUPPORTED, BELOW, CONTRADICTED, CONTRADICTED_BELOW, NO_DIFFERENCE, UNDECIDED, SATURATED, NOT_RUN, DESCRIPTIVE) = Word
Outcome = Literal["holds", "fails", "mixed", "not decided", "not asked as published", "not yet run", "none"]
"""`none`: the question is descriptive, and gives no verdict."""

WEAKEST = (NOT_RUN, CONTRADICTED, CONTRADICTED_BELOW, SATURATED, UNDECIDED, NO_DIFFERENCE, BELOW, SUPPORTED)
"""Order of words if all contrasts must hold: the first one that any contrast has."""
STRONGEST = (NOT_RUN, SUPPORTED, BELOW, UNDECIDED, SATURATED, NO_DIFFERENCE, CONTRADICTED_BELOW, CONTRADICTED)
"""Order of words if one contrast is enough: the first one that any contrast has."""
EQUIVALENT = (NOT_RUN, NO_DIFFERENCE, UNDECIDED, SATURATED, CONTRADICTED)
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
    """A published effect beside a verdict, in units of the question's score."""

    effect: ReportedEffect
    value: float
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
    def other_outcomes(self) -> dict[str, Outcome]:
        """Score ↦ the verdict by it, for the scores that give another verdict. With any, the verdict is fragile."""
        found = {score: one.outcome for score, one in self.by_score.items() if isinstance(one, Verdict)}
        return {score: outcome for score, outcome in found.items() if outcome not in (self.outcome, NOT_RUN)}

    @property
    def outcome(self) -> Outcome:
        """The verdict: what became of the claim."""
        return outcome(self.question, self.question.type, [found.word for found in self.findings])

    @property
    def counts(self) -> bool:
        """Return True unless the verdict is superseded, descriptive, or without runs."""
        return not self.superseded and self.outcome not in ("none", NOT_RUN)

    @property
    def deciding(self) -> Finding | None:
        """The contrast that the row shows: the weakest of those with the row's word, or the strongest if one is enough.

        If no difference is shown, the weakest is the one whose 90% interval comes nearest to its margin, or passes it.
        Otherwise the weakest has the largest p value.
        """

        def weakness(finding: Finding) -> float:
            if self.word != NO_DIFFERENCE or finding.inner is None or finding.margin is None:
                return 1.0 if finding.comparison.holm is None else finding.comparison.holm
            if self.question.benchmark is None:
                return max(map(abs, finding.inner)) / finding.margin
            return max(abs(math.log(end)) for end in finding.inner) / math.log(finding.margin)

        same = [finding for finding in self.findings if finding.word == self.word]
        return (max if self.question.combine == "all" else min)(same, key=weakness, default=None)


def conclude(
    claim: Claim,
    question: Question,
    pair: str,
    tested: Sequence[tuple[Weighted, Comparison]],
    margin: float | None,
    unknown: str,
    effects: Sequence[PublishedEffect] = (),
) -> Verdict:
    """Return the verdict on a question in one corpus and family.

    Args:
        claim: the claim.
        question: one of its questions.
        pair: corpus and family, such as `grammar/recurrent`.
        tested: the contrasts of the question and their tests.
        margin: the smallest difference of interest.
        unknown: why there is no margin where there should be one; empty if there is one, or none is needed.
        effects: the published effects that belong to the question.
    """
    kind, costly = question.type, any(one.statistic == "costly" for one in question.contrasts)
    rule: Kind = "shape" if unknown and not any(one.between for one in question.contrasts) else kind
    findings = [finding(rule, question, one, test, None if costly else margin) for one, test in tested]
    if unknown and (kind == "equivalence" or costly):
        findings = [replace(found, word=NOT_RUN) for found in findings]
    word = combined(question, kind, [found.word for found in findings])
    if question.descriptive and word != NOT_RUN:
        word, findings = DESCRIPTIVE, [replace(found, word=DESCRIPTIVE) for found in findings]
    note = unknown if any(found.comparison.test for found in findings) else ""
    corpus, _, family = pair.partition("/")
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
        return NOT_RUN if comparison.why == "missing runs" else UNDECIDED
    word = NO_DIFFERENCE if margin is not None and inside(test.inner, margin) else UNDECIDED
    if kind == "equivalence":
        low, high = (test.difference,) * 2 if test.method == "exact" else (test.low, test.high)
        apart = margin is not None and low is not None and high is not None and (low > margin or high < -margin)
        word = CONTRADICTED if word == UNDECIDED and comparison.significant and apart else word
    elif comparison.significant:
        below = margin is not None and abs(test.difference) < margin
        for_it = sign * test.difference >= 0
        if (1 if for_it else -1) in diverged:
            word = UNDECIDED
        elif for_it:
            word = BELOW if below else SUPPORTED
        else:
            word = CONTRADICTED_BELOW if below else CONTRADICTED
    if word == NO_DIFFERENCE and diverged:
        word = UNDECIDED
    return SATURATED if saturated and word in (UNDECIDED, NO_DIFFERENCE) else word


def inside(inner: tuple[float, float] | None, margin: float) -> bool:
    """Two one-sided tests (Schuirmann 1987): the 90% interval lies within ± margin."""
    return inner is not None and -margin < inner[0] and inner[1] < margin


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

    def replaces(new: Verdict, old: Verdict) -> bool:
        given, same = new.question.replaces, (old.corpus, old.family) == (new.corpus, new.family)
        named = given and (f"{old.corpus}/{old.family}" in given or (same and old.question.part in given))
        return same if given is None else bool(named)

    second = [one for one in verdicts if one.question.edition == 2 and one.outcome not in ("none", NOT_RUN)]
    first = [one.question.edition < 2 for one in verdicts]
    return [
        replace(old, superseded=tuple(new for new in second if replaces(new, old))) if early else old
        for old, early in zip(verdicts, first, strict=True)
    ]


def over_the_study(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Add to each contrast its p by Benjamini and Hochberg over all contrasts on which verdicts rest.

    Descriptive and superseded ones have none: the rate of false discoveries is that of what the study says today. Nor
    have exact tests, whose p depends on the number of runs alone.
    """
    p = {}
    for found in (
        found for one in verdicts if one.word != DESCRIPTIVE and not one.superseded for found in one.findings
    ):
        test = found.comparison.test
        if test and test.p is not None and test.method != "exact":
            p[id(found)] = test.p
    share = dict(zip(p, false_discovery(list(p.values())), strict=True))

    def adjusted(found: Finding) -> Finding:
        return replace(found, comparison=replace(found.comparison, false_discovery=share.get(id(found))))

    return [replace(one, findings=tuple(map(adjusted, one.findings))) for one in verdicts]


def by_claim(verdicts: Sequence[Verdict]) -> dict[str, list[Verdict]]:
    """Return the verdicts on each claim, by its id."""
    claims: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        claims.setdefault(str(verdict.claim.id), []).append(verdict)
    return claims


def counted(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the rows of a claim that count: neither superseded, nor descriptive, nor without runs.

    Post hoc rows count where there are no others. So do rows that ask something else than the published claim, and
    saturated rows, which could not have shown anything.
    """
    own = [one for one in verdicts if one.counts]
    own = [one for one in own if not one.question.post_hoc] or own
    own = [one for one in own if one.outcome != "not asked as published"] or own
    return [one for one in own if one.word != SATURATED] or own


def fragile(own: Sequence[Verdict]) -> bool:
    """Return True if a row that counts of a claim has another verdict by another score."""
    return any(one.other_outcomes for one in counted(own))


def summary(own: Sequence[Verdict]) -> str:
    """Return the verdict on a claim from its rows: that of the rows that count, `mixed` where they differ."""
    found = {one.outcome for one in counted(own)}
    if not found:
        return NOT_RUN if any(one.outcome == NOT_RUN for one in own) else "none"
    return found.pop() if len(found) == 1 else "mixed"


def finding(
    kind: Kind, question: Question, weighted: Weighted, comparison: Comparison, margin: float | None
) -> Finding:
    """Return a tested contrast with its word. A diverged run leaves a correlation undecided."""
    contrast = weighted.contrast
    sign, told, notes = direction(contrast, question.metric), "", list(weighted.notes)
    lost = {key: arm.diverged for key, arm in weighted.arms.items() if arm.diverged}
    sides = [1 if weighted.weights.get(key, 0.0) * sign >= 0 else -1 for key in lost]
    if (contrast.statistic in ("within", "costly", "draws") and lost) or weighted.diverged:
        sides = [1, -1]  # a run that is not there speaks neither for nor against
    word = judged(kind, comparison, sign, margin, saturated(kind, question, weighted), sides)
    if contrast.between:
        if contrast.level == "arms" and comparison.test is not None:
            told = power(weighted, margin if kind == "equivalence" else None, len(question.contrasts))
            notes.append(told)
        if kind == "equivalence" and weighted.diverged and word == CONTRADICTED:
            word = UNDECIDED
        if comparison.why == "too few arms" and weighted.saturated:
            word = SATURATED
    better = metrics.metric_of(question.metric).direction if contrast.statistic in ("difference", "draws") else 0
    gain = (-1 if contrast.statistic == "ratio" else better) * (comparison.test.difference if comparison.test else 0.0)
    if kind == "equivalence" and word == CONTRADICTED and gain > 0:
        notes.insert(0, BETTER)
    rates = [f"{n} of {weighted.declared} runs of {weighted.labels[key]} diverged" for key, n in lost.items()]
    return Finding(
        name_of(contrast, costing=weighted.measure),
        word,
        comparison,
        weighted.n,
        weighted.declared,
        margin,
        diverged=tuple(dict.fromkeys(rates)) + tuple(weighted.diverged),
        notes=tuple(notes),
        fields=name_of(contrast, words=False, costing=weighted.measure),
        runs=weighted.runs,
        key=_key(question, weighted),
        power=told,
    )


def _key(question: Question, weighted: Weighted) -> SentenceKey | None:
    """Return the metric and the runs of equal seed of a difference of two arms; None for other contrasts."""
    sides = sorted(weighted.weights, key=weighted.weights.__getitem__, reverse=True)
    plain = weighted.contrast.statistic == "difference" and len(sides) == 2
    if not plain or question.by_length or metrics.is_diagnostic(question.metric):
        return None
    arm, base = (weighted.arms[side] for side in sides)
    seeds = [seed for seed in arm.values if seed in base.values]
    ours, theirs = (" ".join(f"{one.label}-s{seed}" for seed in seeds) for one in (arm, base))
    return (question.metric, ours, theirs) if seeds else None


def saturated(kind: Kind, question: Question, weighted: Weighted) -> bool:
    """Return True if scores at floor or ceiling hide any difference; see the rule at the top of this module.

    A loss shows in an arm that is compared with one at the ceiling; a gain does not.
    """
    statistic, limits = weighted.contrast.statistic, metrics.metric_of(question.metric).limits
    if question.by_length or not weighted.bases or limits is None:
        return False
    scores = weighted.arms.keys() - (weighted.weights.keys() if statistic == "within" else ())
    ends = {key: metrics.end(weighted.arms[key].mean or 0.0, limits) for key in scores}
    at_base = {ends[key] for key in weighted.bases}
    if len(at_base) > 1 or at_base == {0}:
        return False
    one_sided = kind != "equivalence" and statistic in ("difference", "within")
    return set(ends.values()) == at_base or (one_sided and at_base == {direction(weighted.contrast, question.metric)})
