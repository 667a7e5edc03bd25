"""One test for every contrast between arms, by declared rules.

A contrast is Σ w_a · (mean of arm a) with Σ w_a = 0, or the mean of one arm whose values are differences already.

* Welch's test (1947) with the degrees of freedom of Satterthwaite (1946): each arm has its own variance. Of one arm
  this is Student's t over its runs.
* A contrast with an arm of fewer than three runs has a difference and no test.
* A contrast with a hole (a run missing, started or failed) is not computed at all.
* p is adjusted by Holm (1979) over all tests of the family. The 95% intervals are simultaneous over the family, by
  Bonferroni; the 90% intervals of equivalence are not adjusted.
* If the runs of each arm agree exactly, two arms are tested by permutation: p is the share of all divisions of the runs
  into two groups whose difference is at least as large. A single arm is tested by all changes of signs. There is no
  interval.
* Rank correlations are tested by resampling arms.
* The sentences of a test set are a sample, too. Their share of the variance is added to that of the seeds where the
  scores of sentences are known.
* A design that was declared as paired compares arms seed by seed: Student's t over the differences.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import stdev
from typing import Any

import numpy as np

ENDS = ("difference", "low", "high", "low90", "high90")
"""An estimate and the ends of its intervals, as `Test` has them."""
LEVEL = 0.05
POWER = 0.80
FEWEST = 3
"""Fewer runs of an arm give a difference, and neither interval nor p: two runs say next to nothing of their spread."""
FEW = 5
"""Fewer runs per arm are a quick look."""
RESAMPLES = 2000
FEWEST_ARMS = 5
"""A rank correlation over fewer arms says nothing."""


@dataclass(frozen=True)
class Test:
    """Test of one contrast, in units of the score, or why there is none. None: the data do not give the number.

    Attributes:
        method: welch, within (one arm), resampled (a rank correlation), exact, few; else why there is no difference.
        se: of a rank correlation on Fisher's scale, artanh ρ, on which it is tested.
        low90: the 90% interval, on which two one-sided tests at 5% rest.
        detectable: the smallest difference shown with power .80 at Holm's first level: (t_{1−.05/2m} + t_.80) · SE, m
            tests.
    """

    __test__ = False

    method: str
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    se: float | None = None
    df: float | None = None
    p: float | None = None
    low90: float | None = None
    high90: float | None = None
    holm: float | None = None
    detectable: float | None = None

    @property
    def significant(self) -> bool:
        """Holm p < .05."""
        return self.holm is not None and self.holm < LEVEL

    def mapped(self, scale: Callable[[float], float]) -> Test:
        """Return the test with its estimate and intervals on another scale; se, df and p are those of the test."""
        ends: dict[str, Any] = {name: scale(end) for name in ENDS if (end := getattr(self, name)) is not None}
        return replace(self, **ends)


@dataclass(frozen=True)
class SentenceNoise:
    """Share of the sentences in the variance of a contrast, and where the contrast comes from.

    Attributes:
        variance: of the estimate over test sets of `n` sentences.
        shares: parts of an estimate of NLL that are paid on sentences that all arms translate exactly, some, none; they
            sum up to the estimate. Empty for other scores.
    """

    variance: float
    n: int
    shares: tuple[float, ...] = ()


@dataclass(frozen=True)
class Arm:
    """Values of one arm by seed, and the runs without a value.

    Attributes:
        values: empty where a finished run has null: it means nothing there, and a mean over the others would mislead.
        holes: declared runs that are missing, started or failed.
        runs: ids of the runs that have a record.
        name: its label in the sweep.
    """

    label: str
    values: Mapping[int, float]
    diverged: int = 0
    holes: int = 0
    runs: tuple[str, ...] = ()
    name: str = ""

    @property
    def declared(self) -> int:
        """Number of all its runs."""
        return len(self.values) + self.diverged + self.holes

    @property
    def sample(self) -> Any:
        """The values in the order of the seeds."""
        return np.array([self.values[seed] for seed in sorted(self.values)])

    @property
    def mean(self) -> float | None:
        """Mean over the runs; None without any."""
        return math.fsum(self.values.values()) / len(self.values) if self.values else None

    @property
    def sd(self) -> float | None:
        """Standard deviation over the runs; None of fewer than two."""
        return stdev(self.values.values()) if len(self.values) > 1 else None


def contrast(parts: Sequence[tuple[float, Arm]], noise: SentenceNoise | None = None, paired: bool = False) -> Test:
    """Test Σ weight · mean of (weight, arm), not adjusted.

    The variance is Σ weight² s² / n over arms, with n − 1 degrees of freedom each, plus that of the sentences.

    Args:
        parts: weights and arms.
        noise: of the sentences.
        paired: take the differences of each seed as one arm. The arms have the same seeds.
    """
    arms = [arm for _, arm in parts]
    if any(arm.holes for arm in arms):
        return Test("missing runs")
    if not all(arm.values for arm in arms):
        return Test("diverged" if any(arm.diverged for arm in arms) else "no value")
    samples = [(weight, arm.sample) for weight, arm in parts]
    if paired:
        samples = [(1.0, sum(weight * values for weight, values in samples))]
    counts: list[int] = []
    terms: list[float] = []
    variances: list[tuple[float, int]] = []
    for weight, values in samples:
        n = len(values)
        counts.append(n)
        terms.append(weight * float(values.mean()))
        variances.append((weight**2 * _variance(values) / n, n - 1))
    difference = math.fsum(terms)
    if min(counts) < FEWEST:
        return Test("few", difference)
    method = "welch" if len(samples) > 1 else "within"
    if any(variance for variance, _ in variances):
        if noise:
            variances.append((noise.variance, noise.n - 1))
        variance, df = satterthwaite(variances)
        return t_test(method, difference, math.sqrt(variance), df)
    if not difference or len(counts) > 2:
        return Test(method, difference)
    # n and m equal runs can be divided in C(n + m, n) ways. One of them gives the difference, and for n = m another one
    # its opposite. Signs of n runs can be changed in 2ⁿ ways, of which two give it.
    ways = math.comb(sum(counts), counts[0]) if len(counts) == 2 else 2 ** counts[0]
    return Test("exact", difference, p=(1 + (len(set(counts)) == 1)) / ways)


def _variance(values: Any) -> float:
    """Variance with n − 1; exactly 0 if the values agree up to rounding."""
    return 0.0 if np.ptp(values) <= 1e-9 * max(1.0, np.abs(values).max()) else float(values.var(ddof=1))


def satterthwaite(parts: Sequence[tuple[float, int]]) -> tuple[float, float]:
    """Return a sum of variances and its degrees of freedom, from each variance and its degrees of freedom."""
    variance = math.fsum(part for part, _ in parts)
    return variance, variance**2 / math.fsum(part**2 / freedom for part, freedom in parts)


def t_test(method: str, difference: float, se: float, df: float) -> Test:
    """Test an estimate that has a standard error: 95% and 90% t intervals and two-sided p."""
    from scipy.special import stdtr

    half, less = quantile(1 - LEVEL / 2, df) * se, quantile(1 - LEVEL, df) * se
    p = 2 * float(stdtr(df, -abs(difference) / se))
    low, high = difference - half, difference + half
    return Test(method, difference, low, high, se, df, p, difference - less, difference + less)


def quantile(share: float, df: float) -> float:
    """Return the quantile of Student's t. Importing scipy.stats for it would take a second."""
    from scipy.special import stdtrit

    return float(stdtrit(df, share))


def adjusted(plain: Sequence[Test], family: bool = True) -> list[Test]:
    """Adjust p by Holm and intervals by Bonferroni over all tests that have a p, or (no family) each by itself.

    Add the difference that each test could have shown.
    """
    p_values = {i: test.p for i, test in enumerate(plain) if test.p is not None}
    size = len(p_values) if family else 1
    out = list(plain)
    for i, p in zip(p_values, holm(list(p_values.values())) if family else p_values.values(), strict=True):
        test = out[i] = replace(plain[i], holm=p)
        if test.se is not None and test.df is not None and test.difference is not None:
            ranks = test.method == "resampled"
            scale, middle = (math.tanh, math.atanh(test.difference)) if ranks else (float, test.difference)
            half = quantile(1 - LEVEL / size / 2, test.df) * test.se
            ends = (middle - half, middle + half, half + quantile(POWER, test.df) * test.se)
            low, high, detectable = map(scale, ends)
            out[i] = replace(test, low=low, high=high, detectable=detectable)
    return out


def holm(p: Sequence[float]) -> list[float]:
    """Adjust m p values by Holm (1979): max over j ≤ i of min(1, (m − j) p_(j)), with p_(0) ≤ p_(1) ≤ …."""
    order = np.argsort(p, kind="stable")
    steps = np.minimum(1.0, (len(p) - np.arange(len(p))) * np.array(p)[order])
    return list(map(float, np.maximum.accumulate(steps)[np.argsort(order)]))


def false_discovery(p: Sequence[float]) -> list[float]:
    """Adjust m p values by Benjamini and Hochberg (1995): min over j ≥ i of m p_(j) / j, with p_(1) ≤ p_(2) ≤ …."""
    order = np.argsort(p, kind="stable")[::-1]
    steps = np.minimum(1.0, len(p) * np.array(p)[order] / (len(p) - np.arange(len(p))))
    return list(map(float, np.minimum.accumulate(steps)[np.argsort(order)]))


def correlated(pairs: Sequence[Sequence[tuple[float, float]]], level: str) -> Test:
    """Spearman's ρ, its standard error by resampling arms (bootstrap), its test by t over arms − 1; not adjusted.

    Test and interval are taken on Fisher's scale, artanh ρ ± t σ / (1 − ρ²), so that it stays within −1 and 1.

    Args:
        pairs: for every arm the two values of each seed.
        level: `arms`, between the means of arms; `seeds`, within each arm and averaged over arms.
    """
    units = np.array([np.mean(arm, axis=0) for arm in pairs]).reshape(-1, 2)
    if level == "seeds":
        units = np.array([spearman(*np.array(arm).T[:, None])[0] for arm in pairs])
        units = units[np.isfinite(units)]
    n = len(units)
    if n < FEWEST_ARMS:
        return Test("too few arms")
    samples = units[np.vstack([np.arange(n), np.random.default_rng(0).integers(0, n, (RESAMPLES, n))])]
    whole, *draws = samples.mean(axis=1) if level == "seeds" else spearman(samples[..., 0], samples[..., 1])
    if not math.isfinite(whole):
        return Test("nothing varies")
    error = float(np.nanstd(draws, ddof=1))
    return Test("resampled", float(whole)) if error < 1e-9 else rank_correlation(float(whole), error, n - 1)


def spearman(x: Any, y: Any) -> Any:
    """Spearman's ρ of every row; NaN where a row does not vary."""
    import pandas as pd

    centred = []
    for values in (x, y):
        ranks = pd.DataFrame(values).rank(axis=1).to_numpy()
        centred.append(ranks - ranks.mean(axis=1, keepdims=True))
    a, b = centred
    scale = np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    return np.divide((a * b).sum(axis=1), scale, out=np.full(len(a), np.nan), where=scale > 0)


def rank_correlation(rho: float, error: float, df: float) -> Test:
    """Test a rank correlation by its standard error σ: of artanh ρ, whose error is σ / (1 − ρ²)."""
    test = t_test("resampled", math.atanh(rho), error / (1 - rho**2), df)
    return replace(test.mapped(math.tanh), difference=rho)


def sentence_variance(differences: Any) -> float | None:
    """Return the variance of a mean difference over sentences; None if seeds or sentences do not repeat.

    Model: d_si = μ + a_s + b_i + e_si, with random seeds s = 1 … S and sentences i = 1 … I, fitted by the mean squares
    of a two-way table: max(0, MS_sentence − MS_error) / (S I).

    Args:
        differences: a row for each seed, a column for each sentence.
    """
    table = np.asarray(differences, dtype=float)
    s, i = table.shape
    if s < 2 or i < 2:
        return None
    seeds, sentences = table.mean(axis=1), table.mean(axis=0)
    rest = table - seeds[:, None] - sentences + table.mean()
    error = float((rest**2).sum()) / ((s - 1) * (i - 1))
    return float(max(0.0, s * float(sentences.var(ddof=1)) - error) / (s * i))
