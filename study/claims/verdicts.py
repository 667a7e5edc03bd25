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
from dataclasses import dataclass, fields, replace

from study.analysis.inference import FEWEST, LEVEL, POWER, SentenceNoise, Test, adjusted, false_discovery, quantile
from study.analysis.measures import Measure
from study.analysis.power import MOST
from study.claims import schema
from study.claims.contrasts import Weighted, name_of
from study.claims.schema import Claim, Contrast, Question
from study.scores import metrics

SUPPORTED = "supported"
BELOW = "supported, below the margin"
CONTRADICTED = "contradicted"
CONTRADICTED_BELOW = "contradicted, below the margin"
NO_DIFFERENCE = "no difference larger than the margin"
NOT_WORSE = "not worse than the margin"
SATURATED = "saturated"
UNDECIDED = "undecided"
NOT_RUN = "not yet run"
"""Words for a contrast, as above. The last is a verdict, too."""
HOLDS, FAILS, OPEN = "holds", "fails", "open"
"""Verdicts on a question, and on a claim."""
DEPENDS, NOT_ASKED = "depends", "not asked"
"""Further verdicts on a claim."""


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


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One contrast of a question in one corpus and family, by one score: its arms, and what they are judged by.

    Attributes:
        claim, question, contrast: entries of the file of claims.
        corpus, family: where the question is asked.
        measure: the number that it reads of a run.
        weighted: the arms with their weights.
        margin: the smallest difference of interest.
        effects: published effects that belong to the question, in BLEU and in units of its score.
        noise: of the sentences.
    """

    claim: Claim
    question: Question
    contrast: Contrast
    corpus: str
    family: str
    measure: Measure
    weighted: Weighted
    margin: float | None
    effects: Sequence[tuple[float, float]]
    noise: SentenceNoise | None

    def name(self, words: bool = True) -> str:
        """Return the contrast in words, or by names of fields."""
        return name_of(self.contrast, self.measure, words)

    @property
    def sign(self) -> int:
        """Sign of the difference that the claim predicts; 0 if it predicts none."""
        return self.contrast.direction(self.measure.metric)

    def judged(self, test: Test, word: str) -> Judged:
        """Return the comparison with its test and its word."""
        facts = {each.name: getattr(self, each.name) for each in fields(Comparison)}
        return Judged(**facts, test=test, word=word)


@dataclass(frozen=True, kw_only=True)
class Judged(Comparison):
    """A comparison, its test (adjusted over the contrasts of the question) and the word for it."""

    test: Test
    word: str

    @property
    def estimate(self) -> float:
        """The difference; 0 without one."""
        return self.test.difference or 0.0

    @property
    def gain(self) -> str:
        """Note on a clear gain where the claim predicts no difference."""
        if self.question.type not in schema.NO_DIFFERENCE or self.word not in (CONTRADICTED, NOT_WORSE):
            return ""
        if self.contrast.statistic not in ("difference", "draws") or not self.test.significant:
            return ""
        direction = metrics.metric_of(self.measure.metric).direction
        return "the first arm is better" if direction * self.estimate > 0 else ""

    @property
    def turns(self) -> float | None:
        """The margin at which the word for the contrast turns: the nearer end of an interval; None if there is none."""
        test = self.test
        kind = self.question.type
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
        seeds and w over sentences. An equivalence has to exclude both ends, each with power .90 if the arms are equal.
        None: without a margin, not with 1,000 seeds, or the n seeds have this power.
        """
        if self.test.se is None or self.weighted.pairs is not None or self.margin is None:
            return None
        sentences = self.noise.variance if self.noise else 0.0
        seeds = max(0.0, self.test.se**2 - sentences) * self.weighted.n
        tail = LEVEL if self.question.type in schema.NO_DIFFERENCE else LEVEL / 2 / len(self.question.contrasts)
        power = (1 + POWER) / 2 if self.question.type == "equivalence" else POWER
        samples = 2 if self.test.method == "welch" else 1
        for n in range(FEWEST, MOST + 1):
            df = samples * (n - 1)
            if (quantile(1 - tail, df) + quantile(power, df)) * math.sqrt(seeds / n + sentences) <= self.margin:
                return n if n > self.weighted.n else None
        return None


@dataclass(frozen=True, kw_only=True)
class Finding(Judged):
    """A judged contrast and the answer to its question. One row of the tables. `conclude` makes it.

    Attributes:
        second: the same contrast by the second score of the question.
        verdict: of the question, which is the same for all its contrasts.
        decides: the row stands for its question.
        false_discovery: p by Benjamini and Hochberg, see `over_the_study`; None if not all claims are evaluated.
    """

    second: Judged | None
    verdict: str
    decides: bool
    false_discovery: float | None = None

    @property
    def votes(self) -> bool:
        """Return True if the answer to the question counts for the claim."""
        return not self.question.no_vote and self.verdict != NOT_RUN


def conclude(contrasts: Sequence[Comparison], second: Sequence[Comparison], rules: Rules = Rules()) -> list[Finding]:
    """Test the contrasts of a question as one family, give each its word, and answer the question.

    The contrast that decides has the weakest stance of all, or the strongest if one is enough. Of several, the one
    with the largest p is the weakest; if no difference is shown, the one that is nearest to its margin.

    Args:
        contrasts: the contrasts by the score of the question.
        second: the same by its second score, if it has one.
        rules: the rules.
    """
    first_score = judge(contrasts, rules)
    second_score = judge(second, rules) if second else [None] * len(contrasts)
    stances = list(map(stance, first_score, second_score))
    question = contrasts[0].question
    weakest = -1 if question.combine == "any" else 1

    def strength(number: int) -> tuple[int, float]:
        return weakest * stances[number], -weakest * _weakness(first_score[number])

    verdict = verdict_of(question, [row.word for row in first_score], stances)
    decisive = min(range(len(contrasts)), key=strength)
    rows = []
    for number, (row, by_second) in enumerate(zip(first_score, second_score, strict=True)):
        rows.append(Finding(**vars(row), second=by_second, verdict=verdict, decides=number == decisive))
    return rows


def over_the_study(rows: Sequence[Finding]) -> list[Finding]:
    """Return all findings of a file, with p by Benjamini and Hochberg over the contrasts on which verdicts rest.

    Those without a vote have none, nor have exact tests, whose p depends on the number of runs alone.
    """
    adjusted_rows = list(rows)
    p_values = {}
    for number, row in enumerate(rows):
        if row.test.p is not None and row.test.method != "exact" and not row.question.no_vote:
            p_values[number] = row.test.p
    for number, p in zip(p_values, false_discovery(list(p_values.values())), strict=True):
        adjusted_rows[number] = replace(rows[number], false_discovery=p)
    return adjusted_rows


def judge(contrasts: Sequence[Comparison], rules: Rules) -> list[Judged]:
    """Test the contrasts of a question by one score under some rules, and give each its word."""
    paired = contrasts[0].question.design == "paired" if rules.paired is None else rules.paired
    plain = []
    for row in contrasts:
        noise = row.noise if rules.sentences else None
        plain.append(row.weighted.test(row.contrast, noise, paired))
    tests = adjusted(plain, rules.family)
    return [row.judged(test, _word(row, test, rules.margin)) for row, test in zip(contrasts, tests, strict=True)]


def verdict_of(question: Question, words: Sequence[str], stances: Sequence[int]) -> str:
    """Return the verdict on a question from the words and stances of its contrasts."""
    if NOT_RUN in words:
        return NOT_RUN
    decisive = max(stances) if question.combine == "any" else min(stances)
    return {1: HOLDS, 0: OPEN, -1: FAILS}[decisive]


def stance(row: Judged, second: Judged | None = None) -> int:
    """Return 1 for a contrast that is as predicted, −1 for one that is not, 0 for one that is open.

    Args:
        row: the contrast.
        second: the same by the second score of its question.
    """
    first_stance = _stance_by_one(row)
    if second is None:
        return first_stance
    second_stance = _stance_by_one(second)
    if first_stance == second_stance:
        return first_stance
    same_sign = row.sign * row.estimate * second.sign * second.estimate > 0
    return first_stance + second_stance if same_sign else 0  # 1 and −1 make 0, too


def _stance_by_one(row: Judged) -> int:
    """Return the stance of a contrast by one score alone.

    That there is no difference larger than the margin is what an equivalence predicts, and no other claim.
    """
    if row.word == NO_DIFFERENCE:
        return 1 if row.question.type == "equivalence" else -1
    if row.word in (SUPPORTED, BELOW, NOT_WORSE):
        return 1
    return -1 if row.word in (CONTRADICTED, CONTRADICTED_BELOW) else 0


def _weakness(row: Judged) -> float:
    """Holm's p; if no difference is shown, the end of the 90% interval that is farthest from 0, in margins."""
    if row.word in (NO_DIFFERENCE, NOT_WORSE):
        return (row.turns or 0.0) / (row.margin or 1.0)
    return 1.0 if row.test.holm is None else row.test.holm


def _word(row: Comparison, test: Test, multiple: float) -> str:
    """Return the word for a contrast by its test, with a multiple of its margin."""
    parts = row.weighted.parts
    diverged = {1 if weight * row.sign >= 0 else -1 for weight, arm in parts if arm.diverged}
    if diverged and (len(parts) == 1 or row.contrast.statistic == "correlation"):
        diverged = {1, -1}
    margin = None if row.margin is None else multiple * row.margin
    return word_for(row.question.type, test, row.sign, margin, _saturated(row), diverged)


def _saturated(row: Comparison) -> bool:
    """Return True if scores at floor or ceiling hide any difference; see the rule at the top of this module.

    A loss shows in an arm that is compared with one at the ceiling; a gain does not.
    """
    limits = metrics.metric_of(row.measure.metric).limits
    if limits is None:
        return False
    ends: set[int] = set()
    base_ends: set[int] = set()
    for weight, arm in row.weighted.scores:
        end = metrics.end(arm.mean or 0.0, limits)
        ends.add(end)
        if weight < 0:
            base_ends.add(end)
    if len(base_ends) != 1 or base_ends == {0}:
        return False
    one_sided = row.question.type not in schema.NO_DIFFERENCE and row.contrast.statistic in ("difference", "within")
    return ends == base_ends or (one_sided and base_ends == {row.sign})


def word_for(kind: str, test: Test, sign: int, margin: float | None, saturated: bool, diverged: Collection[int]) -> str:
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
    if kind == "noninferiority":
        word = _word_for_noninferiority(test, sign, math.inf if margin is None else margin, diverged)
    elif kind == "equivalence":
        word = _word_for_equivalence(test, margin, diverged)
    else:
        word = _word_for_superiority(test, sign, margin, diverged)
    return SATURATED if saturated and word in (UNDECIDED, NO_DIFFERENCE, NOT_WORSE) else word


def _word_for_noninferiority(test: Test, sign: int, margin: float, diverged: Collection[int]) -> str:
    if test.significant and -1 not in diverged and max(sign * end for end in _ends(test)) < -margin:
        return CONTRADICTED
    if 1 in diverged:
        return UNDECIDED
    if test.method == "exact":
        nearest = sign * _ends(test)[0]
    elif test.low90 is not None and test.high90 is not None:
        nearest = min(sign * test.low90, sign * test.high90)
    else:
        return UNDECIDED
    return NOT_WORSE if nearest > -margin else UNDECIDED


def _word_for_equivalence(test: Test, margin: float | None, diverged: Collection[int]) -> str:
    if margin is None:
        return UNDECIDED
    if test.significant and len(diverged) < 2 and (min(_ends(test)) > margin or max(_ends(test)) < -margin):
        return CONTRADICTED
    return NO_DIFFERENCE if inside(test, margin) and not diverged else UNDECIDED


def _word_for_superiority(test: Test, sign: int, margin: float | None, diverged: Collection[int]) -> str:
    if not test.significant:
        return NO_DIFFERENCE if margin is not None and inside(test, margin) and not diverged else UNDECIDED
    difference = test.difference or 0.0
    below = margin is not None and abs(difference) < margin
    if sign * difference >= 0:
        favoured, word = 1, BELOW if below else SUPPORTED
    else:
        favoured, word = -1, CONTRADICTED_BELOW if below else CONTRADICTED
    return UNDECIDED if favoured in diverged else word


def _ends(test: Test) -> tuple[float, ...]:
    """Ends of the 95% interval; of an exact test, which has none, the estimate."""
    return (test.difference or 0.0,) if test.method == "exact" else (test.low or 0.0, test.high or 0.0)


def inside(test: Test, margin: float) -> bool:
    """Two one-sided tests (Schuirmann 1987): the 90% interval lies within ± margin."""
    return test.low90 is not None and test.high90 is not None and -margin < test.low90 and test.high90 < margin


def by_claim(rows: Sequence[Finding]) -> dict[str, list[Finding]]:
    """Return the rows of each claim that decide a question, by its id."""
    claims: dict[str, list[Finding]] = {}
    for row in rows:
        if row.decides:
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


def counted(rows: Sequence[Finding]) -> list[Finding]:
    """Return the rows of a claim that vote; saturated rows, which could show nothing, if there are no others."""
    votes = [row for row in rows if row.votes]
    return [row for row in votes if row.word != SATURATED] or votes


def summary(rows: Sequence[Finding]) -> Verdict:
    """Return the verdict on a claim from the rows that decide its questions."""
    votes = counted(rows)
    counts = Counter(row.verdict for row in votes)
    if not votes:
        word = NOT_RUN if any(row.verdict == NOT_RUN for row in rows) else NOT_ASKED
    elif counts[FAILS]:
        word = DEPENDS if counts[HOLDS] else FAILS
    else:
        word = OPEN if counts[OPEN] else HOLDS
    needs = [row.needed for row in votes if row.verdict == OPEN]
    seeds = max((n for n in needs if n is not None), default=None)
    return Verdict(word, rows[0].claim.depends_on, counts, None if None in needs else seeds)


def deciding(rows: Sequence[Finding]) -> Finding:
    """Return the row that stands for a claim: the first that votes, with the verdict that keeps it from holding."""
    order = (FAILS, OPEN, HOLDS, NOT_RUN)

    def rank(row: Finding) -> tuple[int, bool]:
        return order.index(row.verdict), row.margin is None or row.test.low90 is None

    return min(counted(rows) or rows, key=rank)
