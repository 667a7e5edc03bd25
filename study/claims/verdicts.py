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

A diverged run of an arm blocks a verdict in its favour, and of either arm the verdict of no difference. Where it cannot
be said whom the run would have favoured, as in a correlation, it blocks all.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from study import metrics
from study.analysis.inference import ENDS, SentenceTest, Test, adjusted, correlation_power, false_discovery
from study.analysis.measures import Measure
from study.claims.contrasts import Weighted, name_of
from study.claims.schema import Claim, Contrast, Question

SUPPORTED, BELOW = "supported", "supported, below the margin"
CONTRADICTED, CONTRADICTED_BELOW = "contradicted", "contradicted, below the margin"
NO_DIFFERENCE, UNDECIDED, SATURATED = "no difference larger than the margin", "undecided", "saturated"
NOT_RUN, DESCRIPTIVE = "not yet run", "descriptive"
NOT_ASKED = "not asked as published"
WEAKEST = (NOT_RUN, CONTRADICTED, CONTRADICTED_BELOW, SATURATED, UNDECIDED, NO_DIFFERENCE, BELOW, SUPPORTED)
"""Order of words if all contrasts must hold: the first one that any contrast has."""
STRONGEST = (NOT_RUN, SUPPORTED, BELOW, UNDECIDED, SATURATED, NO_DIFFERENCE, CONTRADICTED_BELOW, CONTRADICTED)
"""Order of words if one contrast is enough: the first one that any contrast has."""
EQUIVALENT = (NOT_RUN, NO_DIFFERENCE, UNDECIDED, SATURATED, CONTRADICTED)
"""The same for an equivalence."""
ORDER = ("fails", "mixed", "not decided", "holds", NOT_ASKED, NOT_RUN, "none")
"""Rows of a mixed claim in the order in which one of them stands for it: first what keeps the claim from holding."""


@dataclass
class Finding:
    """One contrast of a question in one corpus and family: its arms, its test, its word. One row of the tables.

    Attributes:
        claim, question, contrast: entries of the file of claims.
        corpus, family: where the question is asked.
        measure: the number that it reads of a run.
        weighted: the arms with their weights.
        margin: the smallest difference of interest; of a ratio its logarithm, like the numbers of the test.
        unknown: why there is no margin where there should be one.
        effects: published effects that belong to the question, in BLEU and in units of its score.
        test: the test, adjusted over the contrasts of the question.
        word: the finding.
        better: note on an equivalence that is contradicted by a gain.
        finding, words: the word for the question, and those of all its contrasts.
        decides: the row stands for its question.
        superseded_by: rows of the second edition that stand for this one. It stays in the tables and does not count.
        by_score: score ↦ the finding that decides by it, or why there is none; empty outside the matrix.
        false_discovery: p by Benjamini and Hochberg over all contrasts on which verdicts rest.
        sentences: test over the sentences of the test set.
    """

    claim: Claim
    question: Question
    contrast: Contrast
    corpus: str
    family: str
    measure: Measure
    weighted: Weighted
    margin: float | None = None
    unknown: str = ""
    effects: Sequence[tuple[float, float]] = ()
    test: Test = field(default_factory=lambda: Test("missing runs"))
    word: str = NOT_RUN
    better: str = ""
    finding: str = NOT_RUN
    words: tuple[str, ...] = ()
    decides: bool = False
    superseded_by: Sequence[Finding] = ()
    by_score: Mapping[str, Finding | str] = field(default_factory=dict)
    false_discovery: float | None = None
    sentences: SentenceTest | None = None

    def name(self, words: bool = True) -> str:
        """Return the contrast in words, or by names of fields."""
        return name_of(self.contrast, self.measure, words)

    @property
    def stances(self) -> list[int]:
        """Stance of each contrast of the question: 1 as predicted, −1 not as predicted, 0 undecided.

        That there is no difference larger than the margin is what an equivalence predicts, and no other claim.
        """
        same = 1 if self.question.type == "equivalence" else -1
        known = {SUPPORTED: 1, BELOW: 1, CONTRADICTED: -1, CONTRADICTED_BELOW: -1, NO_DIFFERENCE: same}
        return [known.get(word, 0) for word in self.words]

    @property
    def verdict(self) -> str:
        """Verdict of the question; `none` if it is descriptive."""
        found, asked = self.stances, self.question
        if NOT_RUN in self.words or asked.descriptive or asked.not_asked:
            return NOT_RUN if NOT_RUN in self.words else "none" if asked.descriptive else NOT_ASKED
        if asked.combine == "all" and {1, -1} <= set(found):
            return "mixed"
        enough = max(found) if asked.combine == "any" else min(found)
        return "not decided" if not enough else "holds" if (enough > 0) != asked.against else "fails"

    @property
    def counts(self) -> bool:
        """Return True unless the verdict is superseded, descriptive, or without runs."""
        return not self.superseded_by and self.verdict not in ("none", NOT_RUN)

    @property
    def other_verdicts(self) -> dict[str, str]:
        """Score ↦ the verdict by it, for the scores that give another verdict. With any, the verdict is fragile."""
        found = {score: one.verdict for score, one in self.by_score.items() if isinstance(one, Finding)}
        return {score: verdict for score, verdict in found.items() if verdict not in (self.verdict, NOT_RUN)}

    @property
    def in_margins(self) -> dict[str, float]:
        """Estimate and ends of its intervals in units of the margin. NaN: not known."""
        values = {end: math.nan if (value := getattr(self.test, end)) is None else value for end in ENDS}
        return {end: value / (math.nan if self.margin is None else self.margin) for end, value in values.items()}

    @property
    def power(self) -> str:
        """Words on what a rank correlation between arms can show."""
        if self.contrast.statistic != "correlation" or self.contrast.level != "arms" or self.test.difference is None:
            return ""
        shown, within = correlation_power(self.weighted.n, len(self.words))
        told = f"{self.weighted.n} arms show a ρ beyond ±{shown:.2f} with power .80"
        if self.question.type != "equivalence" or self.margin is None or within < self.margin:
            return told
        return f"{told}, and equivalence within ±{within:.2f} at best, so not within the margin"


def conclude(rows: Sequence[Finding]) -> None:
    """Test the contrasts of a question as one family and give each its word, then the question."""
    question, tests = rows[0].question, adjusted([row.weighted.test(row.contrast) for row in rows])
    for row, test in zip(rows, tests, strict=True):
        row.test, row.word = test, _word(row, test)
        if question.type == "equivalence" and row.word == CONTRADICTED:
            plain = row.contrast.statistic in ("difference", "draws")
            better = -1 if row.contrast.statistic == "ratio" else plain * metrics.metric_of(question.metric).direction
            row.better = "the first arm is better" * (better * (test.difference or 0.0) > 0)
    if question.descriptive and all(row.word != NOT_RUN for row in rows):
        for row in rows:
            row.word = DESCRIPTIVE
    combine(rows)


def combine(rows: Sequence[Finding]) -> None:
    """Give a question the weakest word of its contrasts, or the strongest if one is enough; that row decides.

    Of several with this word the row with the largest p is the weakest. If no difference is shown, it is the row whose
    90% interval comes nearest to its margin, or passes it.
    """
    question = rows[0].question
    enough = EQUIVALENT if question.type == "equivalence" else STRONGEST
    order, sign = (WEAKEST, -1) if question.combine == "all" else (enough, 1)
    first = min(rows, key=lambda row: ((*order, DESCRIPTIVE).index(row.word), sign * _weakness(row)))
    first.decides = True
    for row in rows:
        row.finding, row.words = first.word, tuple(one.word for one in rows)


def _weakness(row: Finding) -> float:
    """Holm's p; if no difference is shown, the end of the 90% interval that is farthest from 0, in margins."""
    if row.word == NO_DIFFERENCE:
        return max(abs(row.in_margins[end]) for end in ("low90", "high90"))
    return 1.0 if row.test.holm is None else row.test.holm


def _word(row: Finding, test: Test) -> str:
    """Return the word for a contrast by its test."""
    kind, statistic, parts = row.question.type, row.contrast.statistic, row.weighted.parts
    if row.unknown and (kind == "equivalence" or statistic == "costly"):
        return NOT_RUN
    sign = row.contrast.direction(row.question.metric)
    diverged = {1 if weight * sign >= 0 else -1 for weight, arm in parts if arm.diverged}
    if diverged and (len(parts) == 1 or statistic == "correlation"):
        diverged = {1, -1}
    return judged(kind, test, sign, row.margin, _saturated(row, sign), diverged)


def _saturated(row: Finding, sign: int) -> bool:
    """Return True if scores at floor or ceiling hide any difference; see the rule at the top of this module.

    A loss shows in an arm that is compared with one at the ceiling; a gain does not.
    """
    limits = metrics.metric_of(row.question.metric).limits
    if row.question.by_length or limits is None:
        return False
    ends = [(weight, metrics.end(arm.mean or 0.0, limits)) for weight, arm in row.weighted.scores]
    at_base = {end for weight, end in ends if weight < 0}
    if len(at_base) != 1 or at_base == {0}:
        return False
    one_sided = row.question.type != "equivalence" and row.contrast.statistic in ("difference", "within")
    return {end for _, end in ends} == at_base or (one_sided and at_base == {sign})


def judged(kind: str, test: Test, sign: int, margin: float | None, saturated: bool, diverged: Collection[int]) -> str:
    """Return the word for one contrast, by the rules of this module.

    Args:
        kind: the type of the claim; a shape is judged like a superiority.
        test: the test, adjusted.
        sign: +1 or −1, the sign of the difference that the claim predicts; 0 if it predicts that there is one.
        margin: the smallest difference of interest, if one was given.
        saturated: the base is at its ceiling or floor.
        diverged: for every arm with a diverged run, +1 if the claim is for it and −1 if against.
    """
    if test.difference is None:
        return NOT_RUN if test.method == "missing runs" else UNDECIDED
    word, limit = UNDECIDED, math.inf if margin is None else margin
    if margin is not None and inside(test, margin) and not diverged:
        word = NO_DIFFERENCE
    if test.significant and kind == "equivalence":
        ends = (test.difference,) if test.method == "exact" else (test.low or 0.0, test.high or 0.0)
        if (min(ends) > limit or max(ends) < -limit) and len(diverged) < 2:
            word = CONTRADICTED
    elif test.significant:
        below, favoured = margin is not None and abs(test.difference) < margin, sign * test.difference >= 0
        found = (BELOW if below else SUPPORTED) if favoured else (CONTRADICTED_BELOW if below else CONTRADICTED)
        word = UNDECIDED if (1 if favoured else -1) in diverged else found
    return SATURATED if saturated and word in (UNDECIDED, NO_DIFFERENCE) else word


def inside(test: Test, margin: float) -> bool:
    """Two one-sided tests (Schuirmann 1987): the 90% interval lies within ± margin."""
    return test.low90 is not None and test.high90 is not None and -margin < test.low90 and test.high90 < margin


def supersede(rows: Sequence[Finding]) -> None:
    """Mark the rows of the first edition of a claim that a question of the second replaces and that has a verdict.

    A descriptive question has none.
    """
    second = [row for row in rows if row.decides and row.question.edition == 2 and row.counts]
    for old in (row for row in rows if row.question.edition == 1):
        for new in second:
            given, same = new.question.replaces, (old.corpus, old.family) == (new.corpus, new.family)
            named = given and (f"{old.corpus}/{old.family}" in given or (same and old.question.part in given))
            if named or (given is None and same):
                old.superseded_by = (*old.superseded_by, new)


def over_the_study(rows: Sequence[Finding]) -> None:
    """Add to each contrast its p by Benjamini and Hochberg over all contrasts on which verdicts rest.

    Descriptive and superseded ones have none: the rate of false discoveries is that of what the study says today. Nor
    have exact tests, whose p depends on the number of runs alone.
    """
    live = [row for row in rows if row.word != DESCRIPTIVE and not row.superseded_by and row.test.method != "exact"]
    tested = {id(row): row.test.p for row in live if row.test.p is not None}
    adjusted_p = dict(zip(tested, false_discovery(list(tested.values())), strict=True))
    for row in live:
        row.false_discovery = adjusted_p.get(id(row))


def by_claim(rows: Sequence[Finding]) -> dict[str, list[Finding]]:
    """Return the rows of each claim that decide a question, by its id."""
    claims: dict[str, list[Finding]] = {}
    for row in (row for row in rows if row.decides):
        claims.setdefault(str(row.claim.id), []).append(row)
    return claims


def counted(own: Sequence[Finding]) -> list[Finding]:
    """Return the rows of a claim that count: neither superseded, nor descriptive, nor without runs.

    Post hoc rows count where there are no others. So do rows that ask something else than the published claim, and
    saturated rows, which could not have shown anything.
    """
    own = [row for row in own if row.counts]
    own = [row for row in own if not row.question.post_hoc] or own
    own = [row for row in own if row.verdict != NOT_ASKED] or own
    return [row for row in own if row.finding != SATURATED] or own


def fragile(own: Sequence[Finding]) -> bool:
    """Return True if a row that counts of a claim has another verdict by another score."""
    return any(row.other_verdicts for row in counted(own))


def summary(own: Sequence[Finding]) -> str:
    """Return the verdict on a claim from its rows: that of the rows that count, `mixed` where they differ."""
    found = {row.verdict for row in counted(own)}
    if not found:
        return NOT_RUN if any(row.verdict == NOT_RUN for row in own) else "none"
    return found.pop() if len(found) == 1 else "mixed"


def deciding(own: Sequence[Finding]) -> Finding:
    """Return the row that stands for a claim, of all its rows.

    Only rows that count are chosen. A row with the claim's own verdict comes first; of a mixed claim, the row that
    keeps it from holding. Rows with a margin come before rows without.
    """
    order = [summary(own), *ORDER]
    return min(counted(own) or own, key=lambda row: (order.index(row.verdict), math.isnan(row.in_margins["low90"])))
