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
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal

from study import metrics
from study.analysis.inference import ENDS, SentenceTest, Test, adjusted, correlation_power, false_discovery
from study.claims.contrasts import Weighted, name_of
from study.claims.schema import Claim, Contrast, Kind, Question


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
ORDER = ("fails", "mixed", "not decided", "holds", "not asked as published", NOT_RUN, "none")
"""Rows of a mixed claim in the order in which one of them stands for it: first what keeps the claim from holding."""
BETTER = "the first arm is better"
"""Note on an equivalence that is contradicted by a gain."""


@dataclass(frozen=True)
class Finding:
    """One contrast: its arms, its test and its word."""

    contrast: Contrast
    weighted: Weighted
    test: Test
    word: Word
    margin: float | None
    notes: tuple[str, ...] = ()
    power: str = ""
    """Words on the smallest rank correlation that the arms could show."""
    sentences: SentenceTest | None = None
    """Test over the sentences of the test set."""

    @property
    def name(self) -> str:
        """The contrast in words."""
        return name_of(self.contrast, costing=self.weighted.costing)

    @property
    def fields(self) -> str:
        """The contrast by names of fields."""
        return name_of(self.contrast, words=False, costing=self.weighted.costing)

    @property
    def in_margins(self) -> dict[str, float]:
        """An estimate and the ends of its intervals in units of the margin; of ratios, logarithms are divided.

        An end that is not known is left out, and everything without a margin.
        """
        if (margin := self.margin) is None:
            return {}
        scale, margin = (math.log, math.log(margin)) if self.contrast.statistic == "ratio" else (float, margin)
        return {name: scale(end) / margin for name in ENDS if (end := getattr(self.test, name)) is not None}

    @property
    def straddles(self) -> bool:
        """Return True if an equivalence is undecided despite a significant difference, which may pass the margin."""
        return self.word == UNDECIDED and self.test.significant and not self.weighted.lost and self.margin is not None


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
    margin: float | None = None
    superseded: tuple[Verdict, ...] = ()
    """Verdicts of the second edition that replace this one. It stays in the tables and does not count."""
    by_score: Mapping[str, Verdict | str] = field(default_factory=dict)
    """Score ↦ the verdict by it, or why there is none; empty for a question outside the matrix."""
    effects: tuple[tuple[float, float], ...] = ()
    """Published effects that belong to this part, in BLEU and in units of its score."""

    @property
    def other_outcomes(self) -> dict[str, Outcome]:
        """Score ↦ the verdict by it, for the scores that give another verdict. With any, the verdict is fragile."""
        found = {score: one.outcome for score, one in self.by_score.items() if isinstance(one, Verdict)}
        return {score: outcome for score, outcome in found.items() if outcome not in (self.outcome, NOT_RUN)}

    @property
    def outcome(self) -> Outcome:
        """The verdict: what became of the claim."""
        return outcome(self.question, [found.word for found in self.findings])

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

        def weakness(found: Finding) -> float:
            test, margin = found.test, found.margin
            if self.word != NO_DIFFERENCE or test.low90 is None or test.high90 is None or margin is None:
                return 1.0 if test.holm is None else test.holm
            if self.question.benchmark is None:
                return max(abs(test.low90), abs(test.high90)) / margin
            return max(abs(math.log(end)) for end in (test.low90, test.high90)) / math.log(margin)

        same = [found for found in self.findings if found.word == self.word]
        return (max if self.question.combine == "all" else min)(same, key=weakness, default=None)

    @property
    def as_claimed(self) -> dict[str, float] | None:
        """The estimate that decides and its intervals in margins; positive in the direction that the claim predicts.

        None without an interval or a margin.
        """
        found = self.deciding
        scaled = found.in_margins if found else {}
        if found is None or len(scaled) < len(ENDS):
            return None
        if (found.contrast.direction(self.question.metric) or 1) > 0:
            return scaled
        turned = {"low": "high", "high": "low", "low90": "high90", "high90": "low90"}
        return {end: -scaled[turned.get(end, end)] for end in ENDS}


def conclude(
    claim: Claim,
    question: Question,
    place: tuple[str, str],
    weighted: Sequence[Weighted],
    margin: float | None = None,
    unknown: str = "",
    effects: Sequence[tuple[float, float]] = (),
) -> Verdict:
    """Test the contrasts of a question as one family; return the verdict in one corpus and family.

    Args:
        claim: the claim.
        question: one of its questions.
        place: corpus and family.
        weighted: the contrasts of the question.
        margin: the smallest difference of interest.
        unknown: why there is no margin where there should be one; empty if there is one, or none is needed.
        effects: the published effects that belong to the question, in BLEU and in units of its score.
    """
    tests = adjusted([one.test(contrast) for one, contrast in zip(weighted, question.contrasts, strict=True)])
    costly, related = (question.statistic == kind for kind in ("costly", "correlation"))
    kind: Kind = "shape" if unknown and not related else question.type
    findings = [
        finding(kind, question, *one, None if costly else margin)
        for one in zip(question.contrasts, weighted, tests, strict=True)
    ]
    if unknown and (question.type == "equivalence" or costly):
        findings = [replace(found, word=NOT_RUN) for found in findings]
    word = combined(question, [found.word for found in findings])
    if question.descriptive and word != NOT_RUN:
        word, findings = DESCRIPTIVE, [replace(found, word=DESCRIPTIVE) for found in findings]
    note = unknown if any(found.test.difference is not None for found in findings) else ""
    return Verdict(claim, question, *place, word, tuple(findings), note, margin, effects=tuple(effects))


def finding(
    kind: Kind, question: Question, contrast: Contrast, weighted: Weighted, test: Test, margin: float | None
) -> Finding:
    """Return a tested contrast with its word. A diverged run leaves a correlation undecided."""
    sign, power, notes = contrast.direction(question.metric), "", list(weighted.notes)
    ratio, lost = contrast.statistic == "ratio", [(weight, arm) for weight, arm in weighted.parts if arm.diverged]
    sides = {1 if weight * sign >= 0 else -1 for weight, _ in lost}
    if (contrast.statistic in ("within", "costly", "draws") and lost) or weighted.diverged:
        sides = {1, -1}  # a run that is not there speaks neither for nor against
    limit = math.log(margin) if ratio and margin else margin
    word = judged(kind, test, sign, limit, saturated(kind, question, contrast, weighted), sides)
    if contrast.between:
        if contrast.level == "arms" and test.difference is not None:
            power = _power(weighted.n, margin if kind == "equivalence" else None, len(question.contrasts))
            notes.append(power)
        if kind == "equivalence" and weighted.diverged and word == CONTRADICTED:
            word = UNDECIDED
        if test.method == "too few arms" and weighted.saturated:
            word = SATURATED
    better = metrics.metric_of(question.metric).direction if contrast.statistic in ("difference", "draws") else 0
    if kind == "equivalence" and word == CONTRADICTED and (-1 if ratio else better) * (test.difference or 0.0) > 0:
        notes.insert(0, BETTER)
    if ratio:  # logarithms ↦ ratios; a standard error of logarithms beside them would mislead
        detectable = None if test.detectable is None else math.exp(test.detectable)
        test = replace(test.mapped(math.exp), se=None, detectable=detectable)
    return Finding(contrast, weighted, test, word, margin, tuple(notes), power)


def _power(arms: int, margin: float | None, tests: int) -> str:
    """Return in words what a rank correlation between so many arms can show."""
    shown, within = correlation_power(arms, tests)
    told = f"{arms} arms show a ρ beyond ±{shown:.2f} with power .80"
    if margin is not None and within >= margin:
        told += f", and equivalence within ±{within:.2f} at best, so not within the margin"
    return told


def saturated(kind: Kind, question: Question, contrast: Contrast, weighted: Weighted) -> bool:
    """Return True if scores at floor or ceiling hide any difference; see the rule at the top of this module.

    A loss shows in an arm that is compared with one at the ceiling; a gain does not.
    """
    limits = metrics.metric_of(question.metric).limits
    if question.by_length or not weighted.bases or limits is None:
        return False
    everywhere, at_base = (
        {metrics.end(arm.mean or 0.0, limits) for arm in arms} for arms in (weighted.scores, weighted.bases)
    )
    if len(at_base) > 1 or at_base == {0}:
        return False
    one_sided = kind != "equivalence" and contrast.statistic in ("difference", "within")
    return everywhere == at_base or (one_sided and at_base == {contrast.direction(question.metric)})


def judged(
    kind: Kind,
    test: Test,
    sign: int,
    margin: float | None = None,
    saturated: bool = False,
    diverged: Collection[int] = (),
) -> Word:
    """Return the word for one contrast, by the rules of this module.

    Args:
        kind: the claim's type; a shape is judged like a superiority, of whatever its statistic is.
        test: the test, adjusted.
        sign: +1 or −1, the sign of the difference that the claim predicts; 0 if it predicts that there is one.
        margin: the smallest difference of interest, if one was given.
        saturated: the base is at its ceiling or floor.
        diverged: for every arm with a diverged run, +1 if the claim is for it and −1 if against.
    """
    if test.difference is None:
        return NOT_RUN if test.method == "missing runs" else UNDECIDED
    word = NO_DIFFERENCE if margin is not None and inside(test, margin) else UNDECIDED
    if kind == "equivalence":
        low, high = (test.difference,) * 2 if test.method == "exact" else (test.low, test.high)
        apart = margin is not None and low is not None and high is not None and (low > margin or high < -margin)
        word = CONTRADICTED if word == UNDECIDED and test.significant and apart else word
    elif test.significant:
        below, for_it = margin is not None and abs(test.difference) < margin, sign * test.difference >= 0
        found = (BELOW if below else SUPPORTED) if for_it else (CONTRADICTED_BELOW if below else CONTRADICTED)
        word = UNDECIDED if (1 if for_it else -1) in diverged else found
    if word == NO_DIFFERENCE and diverged:
        word = UNDECIDED
    return SATURATED if saturated and word in (UNDECIDED, NO_DIFFERENCE) else word


def inside(test: Test, margin: float) -> bool:
    """Two one-sided tests (Schuirmann 1987): the 90% interval lies within ± margin."""
    return test.low90 is not None and test.high90 is not None and -margin < test.low90 and test.high90 < margin


def combined(question: Question, words: Sequence[Word]) -> Word:
    """Return the word for a question from the words of its contrasts."""
    enough = EQUIVALENT if question.type == "equivalence" else STRONGEST
    return min(words, key=(WEAKEST if question.combine == "all" else enough).index)


def outcome(question: Question, words: Sequence[Word]) -> Outcome:
    """Return the verdict on a question from the words of its contrasts, by the rules of this module."""
    if not words or NOT_RUN in words:
        return "not yet run"
    if question.descriptive:
        return "none"
    if question.not_asked:
        return "not asked as published"
    found = [stance(word, question.type) for word in words]
    if question.combine == "all" and {1, -1} <= set(found):
        return "mixed"
    enough = max(found) if question.combine == "any" else min(found)
    return "not decided" if not enough else "holds" if (enough > 0) != question.against else "fails"


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
        return same if given is None else f"{old.corpus}/{old.family}" in given or (same and old.question.part in given)

    second = [one for one in verdicts if one.question.edition == 2 and one.outcome not in ("none", NOT_RUN)]
    return [
        old if old.question.edition == 2 else
        replace(old, superseded=tuple(new for new in second if replaces(new, old)))
        for old in verdicts
    ]  # fmt: skip


def over_the_study(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Add to each contrast its p by Benjamini and Hochberg over all contrasts on which verdicts rest.

    Descriptive and superseded ones have none: the rate of false discoveries is that of what the study says today. Nor
    have exact tests, whose p depends on the number of runs alone.
    """
    live = [found for one in verdicts if one.word != DESCRIPTIVE and not one.superseded for found in one.findings]
    p = {id(one): one.test.p for one in live if one.test.p is not None and one.test.method != "exact"}
    share = dict(zip(p, false_discovery(list(p.values())), strict=True))
    return [
        replace(one, findings=tuple(
            replace(found, test=replace(found.test, false_discovery=share.get(id(found)))) for found in one.findings
        ))
        for one in verdicts
    ]  # fmt: skip


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


def deciding(own: Sequence[Verdict]) -> Verdict:
    """Return the row that stands for a claim, of all its rows.

    Only rows that count are chosen. A row with the claim's own verdict comes first; of a mixed claim, the row that
    keeps it from holding. Rows with a margin come before rows without.
    """
    order = [summary(own), *ORDER]
    return min(counted(own) or own, key=lambda one: (order.index(one.outcome), one.as_claimed is None))
