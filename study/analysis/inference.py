"""Tests of contrasts between arms, by rules that were fixed before the runs.

A contrast is Σ w_a · (mean of arm a) with Σ w_a = 0. Every contrast of the study is tested here: those of claims, and
those of a sweep's table, which are arm − baseline. A contrast of a single arm is the mean of what are differences
already, by Student's t over its runs.

* Welch's test (1947) with Satterthwaite's degrees of freedom: each arm has its own variance, and no arm changes the
  interval of another contrast.
* A contrast with an arm of fewer than three runs has a difference and no test.
* A contrast with a hole (a run missing, started or failed) is not computed at all.
* p is adjusted by Holm (1979) over all tests of the family. The 95% intervals are simultaneous over the family, by
  Bonferroni; the 90% intervals of equivalence are not adjusted.
* Rank correlations are tested by resampling arms.
* The sentences of a test set are a sample, too. Two numbers stand beside a contrast. The first asks of every seed alone
  if the difference of its two models is more than chance over sentences: approximate randomisation, as k of n seeds.
  The second is an interval that covers seeds and sentences together.

* Two arms whose runs agree exactly are tested by permutation: p is the share of all divisions of the runs into two
  groups whose difference is at least as large. A single arm is tested by all changes of signs. There is no interval.

If the data leave neither a variance nor a difference (or one seed), there is neither interval nor p.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

Method = Literal["welch", "resampled", "within", "few", "exact"]
Weights = Mapping[str, float]
"""Label of an arm ↦ its weight; they sum to 0, or there is one."""

LEVEL = 0.05
POWER = 0.80
FEWEST = 3
"""Fewer runs of an arm give a difference, and neither interval nor p: two runs say next to nothing of their spread."""
FEW = 5
"""Fewer runs per arm are a quick look."""
RESAMPLES = 2000
FEWEST_ARMS = 5
"""A rank correlation over fewer arms says nothing."""
TRIALS = 2000
"""Trials of approximate randomisation."""
ENTRIES = 2**20
"""So many signs are drawn at once, which takes 16 MiB."""
SEED = 12345
"""Seed of its random draws, that of sacreBLEU."""


@dataclass(frozen=True)
class Test:
    """One estimate of a contrast, in units of the score. None: the data have no variance to estimate it from.

    `se` of a rank correlation (`resampled`) is on Fisher's scale, artanh ρ, on which it is tested.
    """

    __test__ = False

    method: Method
    difference: float
    se: float | None = None
    df: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    inner: tuple[float, float] | None = None
    """The 90% interval, on which two one-sided tests at 5% rest; None without a standard error."""


@dataclass(frozen=True)
class SentenceTest:
    """Test of a difference over sentences: p of each seed, and the 95% interval over seeds and sentences."""

    p: tuple[float, ...]
    interval: tuple[float, float] | None
    """None for BLEU, which is no mean over sentences, and for one seed."""

    @property
    def count(self) -> str:
        """`4 of 5`: seeds with p < .05."""
        return f"{sum(p < LEVEL for p in self.p)} of {len(self.p)}"


@dataclass(frozen=True)
class Arm:
    """Values of one arm by seed, and the runs without a value."""

    label: str
    values: Mapping[int, float]
    """Empty where a finished run has null: it means nothing there, and a mean over the others would mislead."""
    diverged: int = 0
    holes: int = 0
    """Declared runs that are missing, started or failed."""
    valid_bleu: float | None = None
    """Mean BLEU on validation, 0–100."""
    runs: tuple[str, ...] = ()
    """Ids of the runs that have a record."""

    @property
    def mean(self) -> float | None:
        """Mean over the runs; None without any."""
        return math.fsum(self.values.values()) / len(self.values) if self.values else None

    @property
    def complete(self) -> bool:
        """Return True if every run has a value."""
        return bool(self.values) and not self.holes and not self.diverged


@dataclass(frozen=True)
class Comparison:
    """A tested contrast, or why there is no test."""

    test: Test | None = None
    holm: float | None = None
    detectable: float | None = None
    """The smallest difference shown with power .80 at Holm's first level: (t_{1−.05/2m} + t_.80) · SE, m tests."""
    why: str = ""
    false_discovery: float | None = None
    """p by Benjamini and Hochberg (1995) over the contrasts of a study."""

    @property
    def significant(self) -> bool:
        """Holm p < .05."""
        return self.holm is not None and self.holm < LEVEL


@dataclass(frozen=True)
class Family:
    """The contrasts arm − baseline of one table: one metric, one baseline, one adjustment."""

    baseline: str
    comparisons: dict[str, Comparison] = field(default_factory=dict)
    correlation: float | None = None
    """Same-seed correlation of the arms that are not collapsed, see `seed_correlation`."""


@dataclass(frozen=True)
class Facet:
    """One corpus and family: its cells, its arms in the order of the sweep, and their comparisons."""

    name: str
    metric: str
    rows: pd.DataFrame
    arms: tuple[Arm, ...]
    family: Family

    @property
    def base(self) -> Arm:
        """The arm that the others are compared with."""
        return next(arm for arm in self.arms if arm.label == self.family.baseline)


def compare(arms: Sequence[Arm], baseline: str) -> Family:
    """Test every arm against the baseline: the contrasts arm − baseline, as one family.

    Raises:
        ValueError: there is no arm of the baseline's name, or complete arms have unequal seeds.
    """
    base = next((arm for arm in arms if arm.label == baseline), None)
    if base is None:
        raise ValueError(f"no arm {baseline!r} among {', '.join(arm.label for arm in arms)}")
    others = [arm for arm in arms if arm is not base]
    tested = contrasted({arm.label: arm for arm in arms}, [{arm.label: 1.0, baseline: -1.0} for arm in others])
    if base.holes or not base.values:
        tested = [Comparison(why="no baseline") for _ in others]
    found = {arm.label: comparison for arm, comparison in zip(others, tested, strict=True)}
    pool = [arm for arm in arms if arm.complete and not collapsed(arm, base)]
    for arm in pool:
        if set(arm.values) != set(pool[0].values):
            raise ValueError(f"arm {arm.label!r} has other seeds than {pool[0].label!r}. Give every arm the same list")
    known = base.complete and len(base.values) >= FEWEST
    return Family(baseline, found, seed_correlation(pool) if known else None)


def contrasted(arms: Mapping[str, Arm], contrasts: Sequence[Weights]) -> list[Comparison]:
    """Test every contrast of a family and adjust p and intervals over all of them.

    Args:
        arms: the arms that take part, by label.
        contrasts: the weights of each contrast.
    """
    return adjusted([compared([arms[label] for label in weights], weights) for weights in contrasts])


def collapsed(arm: Arm, base: Arm) -> bool:
    """Return True if a run of the arm diverged, or if its validation BLEU is below half the baseline's."""
    if arm.diverged:
        return True
    return arm.valid_bleu is not None and base.valid_bleu is not None and arm.valid_bleu < base.valid_bleu / 2


def compared(some: Sequence[Arm], weights: Weights) -> Comparison:
    """Test one contrast, not adjusted; no test where a run is missing or a value is none."""
    if any(arm.holes for arm in some):
        return Comparison(why="missing runs")
    if not all(arm.values for arm in some):
        return Comparison(why="diverged" if any(arm.diverged for arm in some) else "no value")
    if min(len(arm.values) for arm in some) < FEWEST:
        return Comparison(Test("few", sum(weights[arm.label] * (arm.mean or 0.0) for arm in some)))
    if len(some) == 1:
        values = list(some[0].values.values())
        return Comparison(one_sample(values, values))
    return Comparison(welch(some, weights))


def welch(arms: Sequence[Arm], weights: Weights) -> Test:
    """Welch's test (1947) of a contrast, with Satterthwaite's degrees of freedom (1946): no variance is shared."""
    difference = sum(weights[arm.label] * float(np.mean(list(arm.values.values()))) for arm in arms)
    parts = [
        (weights[arm.label] ** 2 * (deviation(arm.values.values()) or 0.0) ** 2 / len(arm.values), len(arm.values) - 1)
        for arm in arms
    ]
    variance = sum(part for part, _ in parts)
    if not variance:
        return without_variance("welch", difference, [len(arm.values) for arm in arms])
    df = variance**2 / sum(part**2 / freedom for part, freedom in parts)
    return t_test("welch", difference, math.sqrt(variance), df)


def without_variance(method: Method, difference: float, counts: Sequence[int]) -> Test:
    """Test a difference of runs that agree exactly within each arm, by permutation of two arms or by signs of one.

    n and m equal runs can be divided in C(n + m, n) ways. One of them gives the difference, and for n = m another one
    its opposite. Signs of n runs can be changed in 2ⁿ ways, of which two give it.
    """
    if not difference or len(counts) > 2:
        return Test(method, difference)
    ways = math.comb(sum(counts), counts[0]) if len(counts) == 2 else 2 ** counts[0]
    return Test("exact", difference, p=(1 + (len(set(counts)) == 1)) / ways)


def adjusted(plain: Sequence[Comparison]) -> list[Comparison]:
    """Adjust p by Holm and intervals by Bonferroni over all tests that have a p.

    Add the difference that each test could have shown.
    """
    tested = [(i, c.test) for i, c in enumerate(plain) if c.test is not None and c.test.p is not None]
    out = list(plain)
    if not tested:
        return out
    level = LEVEL / len(tested)
    for (i, test), p in zip(tested, holm([test.p or 0.0 for _, test in tested]), strict=True):
        if test.se is None or test.df is None:
            out[i] = replace(plain[i], holm=p)
            continue
        half = quantile(1 - level / 2, test.df) * test.se
        detectable = half + quantile(POWER, test.df) * test.se
        ends = test.difference - half, test.difference + half
        if test.method == "resampled":
            middle, detectable = math.atanh(test.difference), math.tanh(detectable)
            ends = math.tanh(middle - half), math.tanh(middle + half)
        out[i] = replace(plain[i], test=replace(test, low=ends[0], high=ends[1]), holm=p, detectable=detectable)
    return out


def holm(p: Sequence[float]) -> list[float]:
    """Adjust m p values by Holm (1979): max over j ≤ i of min(1, (m − j) p_(j)), with p_(0) ≤ p_(1) ≤ ….

    `statsmodels.multipletests` does the same, and collects garbage at every call: .4 s each with all records in memory.
    """
    order, highest, out = sorted(range(len(p)), key=p.__getitem__), 0.0, [0.0] * len(p)
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(p) - rank) * p[place]))
        out[place] = highest
    return out


def false_discovery(p: Sequence[float]) -> list[float]:
    """Adjust m p values by Benjamini and Hochberg (1995): min over j ≥ i of m p_(j) / j, with p_(1) ≤ p_(2) ≤ …."""
    order, lowest, out = sorted(range(len(p)), key=p.__getitem__, reverse=True), 1.0, [0.0] * len(p)
    for rank, place in enumerate(order):
        lowest = min(lowest, len(p) * p[place] / (len(p) - rank))
        out[place] = lowest
    return out


def seed_correlation(arms: Sequence[Arm]) -> float | None:
    """Same-seed correlation: ICC(3,1) = (MS_seed − MS_error) / (MS_seed + (k − 1) MS_error) of k arms.

    The share of variance that the seeds of all arms have in common, 1/(1−k)…1 (Shrout and Fleiss 1979). Above zero,
    comparing seed by seed gains; about zero, a block costs degrees of freedom only. None where nothing varies.
    """
    k, n = len(arms), len(arms[0].values) if arms else 0
    if k < 2 or n < 2:
        return None
    grid = np.array([[arm.values[seed] for seed in sorted(arms[0].values)] for arm in arms])
    seeds, levels, grand = grid.mean(axis=0), grid.mean(axis=1), grid.mean()
    error = float(((grid - seeds - levels[:, None] + grand) ** 2).sum()) / ((k - 1) * (n - 1))
    between = k * float(((seeds - grand) ** 2).sum()) / (n - 1)
    total = between + (k - 1) * error
    return (between - error) / total if math.sqrt(total) > 1e-9 * max(1.0, abs(float(grand))) else None


def correlated(pairs: Sequence[Sequence[tuple[float, float]]], level: str) -> Comparison:
    """Spearman's ρ, its standard error by resampling arms (bootstrap), its test by t over arms − 1; not adjusted.

    Test and interval are taken on Fisher's scale, artanh ρ ± t σ / (1 − ρ²), so that it stays within −1 and 1.

    Args:
        pairs: for every arm the two values of each seed.
        level: `arms`, between the means of arms; `seeds`, within each arm and averaged over arms.
    """
    if level == "arms":
        means = np.array([np.mean(arm, axis=0) for arm in pairs]).reshape(-1, 2)
        values, arms = None, len(means)
    else:
        each = [np.array(arm)[None] for arm in pairs]
        values = np.array([spearman(arm[:, :, 0], arm[:, :, 1])[0] for arm in each])
        values = values[np.isfinite(values)]
        arms = len(values)
    if arms < FEWEST_ARMS:
        return Comparison(why="too few arms")

    def statistic(draw: Any) -> Any:
        return spearman(means[draw, 0], means[draw, 1]) if values is None else values[draw].mean(axis=1)

    whole = float(statistic(np.arange(arms)[None])[0])
    draws = statistic(np.random.default_rng(0).integers(0, arms, (RESAMPLES, arms)))
    error = float(np.nanstd(draws, ddof=1))
    if not math.isfinite(whole):
        return Comparison(why="nothing varies")
    if error < 1e-9:
        return Comparison(Test("resampled", whole))
    return Comparison(rank_correlation(whole, error, arms - 1))


def correlation_power(arms: int, tests: int = 1) -> tuple[float, float]:
    """Return what Spearman's ρ over so many independent arms can show.

    First the smallest |ρ| that is significant with power .80 at Holm's first level, tanh((t_{1−.05/2m} + t_.80) σ) for
    m tests. Then the smallest margin within which an equivalence can be shown, tanh(t_.95 σ): the 90% interval about 0.
    On Fisher's scale σ² = 1.06 / (arms − 3) (Fieller, Hartley and Pearson 1957).

    Args:
        arms: number of arms, at least 4.
        tests: contrasts of the question.
    """
    error, df = math.sqrt(1.06 / (arms - 3)), arms - 1
    shown = (quantile(1 - LEVEL / (2 * tests), df) + quantile(POWER, df)) * error
    return math.tanh(shown), math.tanh(quantile(1 - LEVEL, df) * error)


def spearman(x: Any, y: Any) -> Any:
    """Spearman's ρ of every row; NaN where a row does not vary."""
    import pandas as pd

    ranks = [pd.DataFrame(values).rank(axis=1).to_numpy() for values in (x, y)]
    a, b = (rank - rank.mean(axis=1, keepdims=True) for rank in ranks)
    scale = np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    return np.divide((a * b).sum(axis=1), scale, out=np.full(len(a), np.nan), where=scale > 0)


def deviation(values: Any) -> float | None:
    """Standard deviation with n − 1, or None for fewer than two values. Exactly 0 where all values are equal."""
    some = np.asarray(list(values), dtype=float)
    if len(some) < 2:
        return None
    return 0.0 if np.ptp(some) == 0 else float(some.std(ddof=1))


def one_sample(differences: Sequence[float], scores: Sequence[float]) -> Test:
    """Student's t of differences against zero; `scores` are the values that set the scale of rounding."""
    some = np.asarray(differences, dtype=float)
    mean = float(some.mean())
    if len(some) < 2:
        return Test("within", mean)
    if exact(some - mean, scores):
        return without_variance("within", mean, [len(some)])
    return t_test("within", mean, float(some.std(ddof=1)) / math.sqrt(len(some)), float(len(some) - 1))


def quantile(share: float, df: float) -> float:
    """Return the quantile of Student's t. Importing scipy.stats for it would take a second."""
    from scipy.special import stdtrit

    return float(stdtrit(df, share))


def t_test(method: Method, difference: float, se: float, df: float) -> Test:
    """Test an estimate that has a standard error: 95% and 90% t intervals and two-sided p."""
    from scipy.special import stdtr

    half, less = (quantile(1 - tail, df) * se for tail in (LEVEL / 2, LEVEL))
    p = 2 * float(stdtr(df, -abs(difference) / se))
    inner = difference - less, difference + less
    return Test(method, difference, se, df, difference - half, difference + half, p, inner)


def mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and its 95% t interval; NaN for an end that the values do not give (fewer than two, or all equal)."""
    test = one_sample(values, values)
    low, high = (math.nan if end is None else end for end in (test.low, test.high))
    return test.difference, low, high


def rank_correlation(rho: float, error: float, df: float) -> Test:
    """Test a rank correlation by its standard error σ: of artanh ρ, whose error is σ / (1 − ρ²)."""
    return replace(mapped(t_test("resampled", math.atanh(rho), error / (1 - rho**2), df), math.tanh), difference=rho)


def mapped(test: Test, scale: Callable[[float], float]) -> Test:
    """Return a test with its estimate and intervals on another scale; se, df and p are those of the test."""
    low, high = (None if end is None else scale(end) for end in (test.low, test.high))
    inner = test.inner and (scale(test.inner[0]), scale(test.inner[1]))
    return replace(test, difference=scale(test.difference), low=low, high=high, inner=inner)


def exact(residuals: Any, scores: Any) -> bool:
    """Return True if all residuals are zero up to rounding."""
    return float(np.abs(residuals).max()) <= 1e-9 * max(1.0, float(np.abs(np.asarray(scores)).max()))


def randomised(differences: Any, trials: int = TRIALS) -> float:
    """Return p of a mean difference d̄ of two models over sentences, by approximate randomisation (Noreen 1989).

    In every trial each sentence's difference keeps or changes its sign by chance. p = (c + 1) / (trials + 1), where c
    counts trials whose |sum| is at least that of the data.

    Args:
        differences: one for each sentence.
        trials: their number.
    """
    some = np.asarray(differences, dtype=float)
    some = some[some != 0]
    whole = abs(some.sum())
    draw, count = np.random.default_rng(SEED), 0
    together = max(1, ENTRIES // max(1, len(some)))
    for done in range(0, trials, together):
        signs = 1.0 - 2.0 * draw.integers(2, size=(min(together, trials - done), len(some)))
        count += int((np.abs(signs @ some) >= whole - 1e-9 * max(1.0, whole)).sum())
    return (count + 1) / (trials + 1)


def crossed_interval(differences: Any) -> tuple[float, float] | None:
    """Return the 95% interval of a mean difference over seeds and sentences; None if one of them does not repeat.

    Model: d_si = μ + a_s + b_i + e_si, with random seeds s = 1 … S and sentences i = 1 … I, fitted by the mean squares
    of a two-way table. The variance of d̄ is (MS_seed + max(0, MS_sentence − MS_error)) / (S I). Student's t has the
    degrees of freedom of Satterthwaite (1946). Without a share of sentences this is the paired t-test over seeds.

    Args:
        differences: a row for each seed, a column for each sentence.
    """
    table = np.asarray(differences, dtype=float)
    s, i = table.shape
    if s < 2 or i < 2:
        return None
    middle, seeds, sentences = table.mean(), table.mean(1), table.mean(0)
    error = ((table - seeds[:, None] - sentences + middle) ** 2).sum() / ((s - 1) * (i - 1))
    by_seed = i * ((seeds - middle) ** 2).sum() / (s - 1)
    by_sentence = s * ((sentences - middle) ** 2).sum() / (i - 1)
    parts = [(by_seed, s - 1)]
    if by_sentence > error:
        parts += [(by_sentence, i - 1), (-error, (s - 1) * (i - 1))]
    variance = sum(part for part, _ in parts)
    if variance <= 0:
        return None
    df = variance**2 / sum(part**2 / freedom for part, freedom in parts)
    half = quantile(1 - LEVEL / 2, df) * math.sqrt(variance / (s * i))
    return float(middle) - half, float(middle) + half
