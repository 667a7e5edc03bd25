"""Verdicts on claims, and the findings behind them.

A finding is the word for a contrast, by declared rules. e is the estimate with the sign that the
claim predicts, m the margin, and p Holm's over the contrasts of the question.

* **supported**: p < .05 and e > 0; **supported, below the margin** if besides e < m.
* **contradicted**: p < .05 and e < 0; **contradicted, below the margin** if besides −e < m. Of an equivalence: p < .05,
  and the 95% interval lies outside ±m. Of a noninferiority: p < .05, and the 95% interval lies below −m.
* **no difference larger than the margin**: two one-sided tests, the 90% interval lies inside ±m. This is what supports
  an equivalence.
* **not worse than the margin**: one one-sided test, the 90% interval lies above −m. This is what supports a
  noninferiority.
* **saturated**: neither of the first two, and nothing could show: all arms are at the ceiling, or all at the floor, or
  the claim predicts a difference past the end at which the base is.
* **undecided**: none of these. **not yet run**: a run is missing.

A contrast has a stance: 1 if it is as predicted, −1 if not, 0 if that is open. If a question has two scores, both
decide: the stance is 0 if their estimates differ in sign, or if one says 1 and the other −1.

A question **holds** if all its contrasts are as predicted (one of them, with `combine: any`), **fails** if one is not,
and is **open** otherwise. A claim **holds** if all its questions do, **fails** if some fail and none holds,
**depends** on something if some hold and some fail, and is **open** if none fails and some are open.

A diverged run of an arm blocks a verdict in its favour, and of either arm the verdict of no difference. Where it cannot
be said whom the run would have favoured, as in a correlation, it blocks all.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from study.analysis.inference import FEWEST, LEVEL, POWER, SentenceNoise, Test, adjusted, false_discovery, quantile
from study.analysis.measures import Measure
from study.claims import schema
from study.claims.contrasts import Weighted, name_of
from study.claims.schema import Claim, Contrast, Question
from study.scores import metrics

SUPPORTED, BELOW = "supported", "supported, below the margin"
CONTRADICTED, CONTRADICTED_BELOW = "contradicted", "contradicted, below the margin"
NO_DIFFERENCE, NOT_WORSE = "no difference larger than the margin", "not worse than the margin"
UNDECIDED, SATURATED, NOT_RUN = "undecided", "saturated", "not yet run"
HOLDS, FAILS, DEPENDS, OPEN, NOT_ASKED = "holds", "fails", "depends", "open", "not asked"
MOST = 1000
"""Largest number of seeds that is tried."""


@dataclass(frozen=True)
class Rules:
    """Rules by which contrasts are judged. The multiverse changes one at a time.

    Attributes:
        paired: compare arms seed by seed; None: as the question declares.
        sentences: the variance has the share of the sentences.
        family: p and intervals are adjusted over the contrasts of the question.
        margin: multiple of the margin.
    """

    paired: bool | None = None
    sentences: bool = True
    family: bool = True
    margin: float = 1.0


@dataclass
class Finding:
    """One contrast of a question in one corpus and family: its arms, its test, its word. One row of the tables.

    Attributes:
        claim, question, contrast: entries of the file of claims.
        corpus, family: where the question is asked.
        measure: the number that it reads of a run.
        weighted: the arms with their weights.
        margin: the smallest difference of interest; of a ratio its logarithm, like the numbers of the test.
        effects: published effects that belong to the question, in BLEU and in units of its score.
        noise: of the sentences.
        second: the same contrast by the second score of the question.
        test: the test, adjusted over the contrasts of the question.
        word: the finding.
        verdict: of the question, which is the same for all its contrasts.
        decides: the row stands for its question.
        false_discovery: p by Benjamini and Hochberg over all contrasts on which verdicts rest.
    """

    claim: Claim
    question: Question
    contrast: Contrast
    corpus: str
    family: str
    measure: Measure
    weighted: Weighted
    margin: float | None = None
    effects: Sequence[tuple[float, float]] = ()
    noise: SentenceNoise | None = None
    second: Finding | None = None
    test: Test = field(default_factory=lambda: Test("missing runs"))
    word: str = NOT_RUN
    verdict: str = NOT_RUN
    decides: bool = False
    false_discovery: float | None = None

    def name(self, words: bool = True) -> str:
        """Return the contrast in words, or by names of fields."""
        return name_of(self.contrast, self.measure, words)

    @property
    def votes(self) -> bool:
        """Return True if the answer to the question counts for the claim."""
        return not self.question.no_vote and self.verdict != NOT_RUN

    @property
    def sign(self) -> int:
        """Sign of the difference that the claim predicts; 0 if it predicts none."""
        return self.contrast.direction(self.measure.metric)

    @property
    def better(self) -> str:
        """Note on a clear gain where the claim predicts no difference."""
        if self.question.type not in schema.NO_DIFFERENCE or self.word not in (CONTRADICTED, NOT_WORSE):
            return ""
        plain = self.test.significant and self.contrast.statistic in ("difference", "draws")
        better = -1 if self.contrast.statistic == "ratio" else plain * metrics.metric_of(self.measure.metric).direction
        return "the first arm is better" * (better * (self.test.difference or 0.0) > 0)

    @property
    def turns(self) -> float | None:
        """The margin at which the word for the contrast turns: the nearer end of an interval; None if there is none."""
        test, kind = self.test, self.question.type
        if test.low90 is None or test.high90 is None or test.low is None or test.high is None:
            return None
        if kind not in schema.NO_DIFFERENCE and test.significant:
            return None
        if self.word in (CONTRADICTED, CONTRADICTED_BELOW):
            return min(abs(test.low), abs(test.high))
        if kind == "noninferiority":
            return max(0.0, -min(self.sign * test.low90, self.sign * test.high90))
        return max(abs(test.low90), abs(test.high90))

    @property
    def needed(self) -> int | None:
        """Seeds per arm that would show a difference of the margin, or that there is none, with power .80.

        The smallest n' with (t_level + t_power) √(v n / n' + w) ≤ margin, with v the variance of the estimate over
        seeds and w over sentences; without a margin, the estimate. An equivalence has to exclude both ends, each with
        power .90 if the arms are equal. None: not with 1,000 seeds.
        """
        test, many = self.test, 2 if self.test.method == "welch" else 1
        target = abs(test.difference or 0.0) if self.margin is None else self.margin
        if test.se is None or self.weighted.pairs is not None:
            return None
        sentences = self.noise.variance if self.noise else 0.0
        seeds = max(0.0, test.se**2 - sentences) * self.weighted.n
        tail = LEVEL if self.question.type in schema.NO_DIFFERENCE else LEVEL / 2 / len(self.question.contrasts)
        power = (1 + POWER) / 2 if self.question.type == "equivalence" else POWER
        for n in range(FEWEST, MOST + 1):
            df = many * (n - 1)
            if (quantile(1 - tail, df) + quantile(power, df)) * math.sqrt(seeds / n + sentences) <= target:
                return n
        return None


def conclude(rows: Sequence[Finding]) -> None:
    """Test the contrasts of a question as one family and give each its word, then the question its verdict.

    The row that decides has the weakest stance of all contrasts, or the strongest if one is enough. Of several, the row
    with the largest p is the weakest; if no difference is shown, the row that is nearest to its margin.
    """
    for some in by_score(rows):
        for row, (test, word) in zip(some, judge(some), strict=True):
            row.test, row.word = test, word
    stances = [stance(row) for row in rows]
    least = -1 if rows[0].question.combine == "any" else 1
    order = sorted(range(len(rows)), key=lambda i: (least * stances[i], -least * _weakness(rows[i])))
    rows[order[0]].decides = True
    for row in rows:
        row.verdict = verdict_of(rows[0].question, [one.word for one in rows], stances)


def by_score(rows: Sequence[Finding]) -> list[Sequence[Finding]]:
    """Return the contrasts of a question by its score and, if it has two, by the second one."""
    second = [row.second for row in rows if row.second]
    return [rows, second] if second else [rows]


def judge(rows: Sequence[Finding], rules: Rules = Rules()) -> list[tuple[Test, str]]:
    """Return test and word of each contrast of a question, by one score, under some rules."""
    paired = rows[0].question.design == "paired" if rules.paired is None else rules.paired
    noises = [row.noise if rules.sentences else None for row in rows]
    plain = [row.weighted.test(row.contrast, noise, paired) for row, noise in zip(rows, noises, strict=True)]
    tests = adjusted(plain, rules.family)
    return [(test, _word(row, test, rules.margin)) for row, test in zip(rows, tests, strict=True)]


def verdict_of(question: Question, words: Sequence[str], stances: Sequence[int]) -> str:
    """Return the verdict on a question from the words and stances of its contrasts."""
    if NOT_RUN in words:
        return NOT_RUN
    found = max(stances) if question.combine == "any" else min(stances)
    return OPEN if not found else HOLDS if found > 0 else FAILS


def stance(row: Finding, word: str = "", second: str = "") -> int:
    """Return 1 for a contrast that is as predicted, −1 for one that is not, 0 for one that is open.

    That there is no difference larger than the margin is what an equivalence predicts, and no other claim.

    Args:
        row: the contrast.
        word: the word by its first score, if it is not that of the row.
        second: the same by its second score.
    """
    same = 1 if row.question.type == "equivalence" else -1
    known = {SUPPORTED: 1, BELOW: 1, NOT_WORSE: 1, CONTRADICTED: -1, CONTRADICTED_BELOW: -1, NO_DIFFERENCE: same}
    one = known.get(word or row.word, 0)
    if row.second is None:
        return one
    other = known.get(second or row.second.word, 0)
    if one == other:
        return one
    signs = [side.sign * (side.test.difference or 0.0) for side in (row, row.second)]
    return one + other if signs[0] * signs[1] > 0 else 0  # 1 and −1 make 0, too


def _weakness(row: Finding) -> float:
    """Holm's p; if no difference is shown, the end of the 90% interval that is farthest from 0, in margins."""
    if row.word in (NO_DIFFERENCE, NOT_WORSE):
        return (row.turns or 0.0) / (row.margin or 1.0)
    return 1.0 if row.test.holm is None else row.test.holm


def _word(row: Finding, test: Test, times: float) -> str:
    """Return the word for a contrast by its test."""
    parts, sign = row.weighted.parts, row.sign
    diverged = {1 if weight * sign >= 0 else -1 for weight, arm in parts if arm.diverged}
    if diverged and (len(parts) == 1 or row.contrast.statistic == "correlation"):
        diverged = {1, -1}
    margin = None if row.margin is None else times * row.margin
    return judged(row.question.type, test, sign, margin, _saturated(row, sign), diverged)


def _saturated(row: Finding, sign: int) -> bool:
    """Return True if scores at floor or ceiling hide any difference; see the rule at the top of this module.

    A loss shows in an arm that is compared with one at the ceiling; a gain does not.
    """
    limits = metrics.metric_of(row.measure.metric).limits
    if limits is None:
        return False
    ends = [(weight, metrics.end(arm.mean or 0.0, limits)) for weight, arm in row.weighted.scores]
    at_base = {end for weight, end in ends if weight < 0}
    if len(at_base) != 1 or at_base == {0}:
        return False
    one_sided = row.question.type not in schema.NO_DIFFERENCE and row.contrast.statistic in ("difference", "within")
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
    ends = (test.difference,) if test.method == "exact" else (test.low or 0.0, test.high or 0.0)
    if kind == "noninferiority":
        if test.low90 is not None and test.high90 is not None and 1 not in diverged:
            word = NOT_WORSE if min(sign * test.low90, sign * test.high90) > -limit else UNDECIDED
        if test.significant and max(sign * end for end in ends) < -limit and -1 not in diverged:
            word = CONTRADICTED
        if test.method == "exact" and sign * test.difference > -limit and 1 not in diverged:
            word = NOT_WORSE
        return SATURATED if saturated and word in (UNDECIDED, NOT_WORSE) else word
    if margin is not None and inside(test, margin) and not diverged:
        word = NO_DIFFERENCE
    if test.significant and kind == "equivalence":
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


def over_the_study(rows: Sequence[Finding]) -> None:
    """Add to each contrast its p by Benjamini and Hochberg over all contrasts on which verdicts rest.

    Those without a vote have none, nor have exact tests, whose p depends on the number of runs alone.
    """
    tested = [(row, row.test.p) for row in rows if not row.question.no_vote and row.test.method != "exact"]
    known = [(row, p) for row, p in tested if p is not None]
    for (row, _), p in zip(known, false_discovery([p for _, p in known]), strict=True):
        row.false_discovery = p


def by_claim(rows: Sequence[Finding]) -> dict[str, list[Finding]]:
    """Return the rows of each claim that decide a question, by its id."""
    claims: dict[str, list[Finding]] = {}
    for row in (row for row in rows if row.decides):
        claims.setdefault(str(row.claim.id), []).append(row)
    return claims


@dataclass(frozen=True)
class Verdict:
    """Verdict on a claim.

    Attributes:
        word: holds, fails, depends, open, not asked, not yet run.
        on: what it depends on.
        counts: how many questions that vote have each answer.
        seeds: of an open claim, the seeds that its open questions need; None: more than 1,000, or not known.
    """

    word: str
    on: str
    counts: Counter[str]
    seeds: int | None

    @property
    def words(self) -> str:
        """`holds`; `depends on the size (3 of 5 hold)`; `open (needs 12 seeds)`."""
        if self.word == DEPENDS:
            return f"depends on {self.on} ({self.counts[HOLDS]} of {self.counts.total()} hold)"
        if self.word == OPEN:
            return f"open (needs {self.seeds} seeds)" if self.seeds else "open"
        return self.word


def counted(own: Sequence[Finding]) -> list[Finding]:
    """Return the rows of a claim that vote; saturated rows, which could show nothing, if there is no other."""
    own = [row for row in own if row.votes]
    return [row for row in own if row.word != SATURATED] or own


def summary(own: Sequence[Finding]) -> Verdict:
    """Return the verdict on a claim from the rows that decide its questions."""
    votes = counted(own)
    counts = Counter(row.verdict for row in votes)
    if not votes:
        word = NOT_RUN if any(row.verdict == NOT_RUN for row in own) else NOT_ASKED
    else:
        word = DEPENDS if counts[HOLDS] and counts[FAILS] else FAILS if counts[FAILS] else HOLDS
        word = OPEN if counts[OPEN] and not counts[FAILS] else word
    needs = [row.needed for row in votes if row.verdict == OPEN]
    seeds = max((one for one in needs if one), default=0) if all(needs) else 0
    return Verdict(word, own[0].claim.depends_on, counts, seeds or None)


def deciding(own: Sequence[Finding]) -> Finding:
    """Return the row that stands for a claim: the first that votes, with the verdict that keeps it from holding."""
    order = (FAILS, OPEN, HOLDS, NOT_RUN)
    rows = counted(own) or own
    return min(rows, key=lambda row: (order.index(row.verdict), row.margin is None or row.test.low90 is None))
