"""One estimate with its interval: Student's, Welch's and two one-sided tests.

Where the data leave no variance to estimate (one seed, or runs that agree exactly) there is a difference, and neither
interval nor p.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

Method = Literal["model", "paired", "welch", "resampled", "within", "few"]

LEVEL = 0.05
FEWEST = 3
"""Fewer runs of an arm give a difference, and neither interval nor p: two say next to nothing of their spread."""


@dataclass(frozen=True)
class Test:
    """One estimate of arm − baseline, in units of the score. None: the data have no variance to estimate it from.

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


def deviation(values: Any) -> float | None:
    """Standard deviation with n − 1, or None for fewer than two values. Exactly 0 where all values are equal."""
    some = np.asarray(list(values), dtype=float)
    if len(some) < 2:
        return None
    return 0.0 if np.ptp(some) == 0 else float(some.std(ddof=1))


def paired(arm: Mapping[int, float], base: Mapping[int, float]) -> Test:
    """Paired t over the seeds of two arms."""
    return one_sample([arm[seed] - base[seed] for seed in sorted(base)], list(base.values()))


def one_sample(differences: Sequence[float], scores: Sequence[float]) -> Test:
    """Student's t of differences against zero; `scores` are what they were taken from, for what counts as rounding."""
    from statsmodels.stats.weightstats import DescrStatsW

    some = np.asarray(differences, dtype=float)
    mean = float(some.mean())
    if len(some) < 2 or exact(some - mean, scores):
        return Test("paired", mean)
    stats = DescrStatsW(some)
    low, high = stats.tconfint_mean(LEVEL)
    _, p, df = stats.ttest_mean(0.0)
    return Test("paired", mean, float(stats.std_mean), float(df), float(low), float(high), float(p))


def t_test(method: Method, difference: float, se: float, df: float) -> Test:
    """The test of an estimate that has a standard error."""
    from scipy.stats import t

    half = float(t.ppf(1 - LEVEL / 2, df)) * se
    p = 2 * float(t.sf(abs(difference) / se, df))
    return Test(method, difference, se, df, difference - half, difference + half, p)


def rank_correlation(rho: float, error: float, df: float) -> Test:
    """The test of a rank correlation by its standard error σ: of artanh ρ, whose error is σ / (1 − ρ²)."""
    test = t_test("resampled", math.atanh(rho), error / (1 - rho**2), df)
    assert test.low is not None
    assert test.high is not None
    return replace(test, difference=rho, low=math.tanh(test.low), high=math.tanh(test.high))


def inner(test: Test) -> tuple[float, float] | None:
    """Return the 90% interval, on which two one-sided tests at 5% rest; None without a standard error."""
    from scipy.stats import t

    if test.se is None:
        return None
    half = float(t.ppf(1 - LEVEL, test.df)) * test.se
    if test.method == "resampled":
        middle = math.atanh(test.difference)
        return math.tanh(middle - half), math.tanh(middle + half)
    return test.difference - half, test.difference + half


def inside(test: Test, margin: float) -> bool:
    """Two one-sided tests (Schuirmann 1987): the 90% interval lies within ± margin."""
    interval = inner(test)
    return interval is not None and -margin < interval[0] and interval[1] < margin


def welch(arm: Sequence[float], base: Sequence[float]) -> Test:
    """Welch's t-test (1947) of two arms, seeds not matched and variances not pooled."""
    from statsmodels.stats.weightstats import CompareMeans, DescrStatsW

    mean = float(np.mean(arm) - np.mean(base))
    if min(len(arm), len(base)) < 2 or not (deviation(arm) or deviation(base)):
        return Test("welch", mean)
    both = CompareMeans(DescrStatsW(np.asarray(arm)), DescrStatsW(np.asarray(base)))
    low, high = both.tconfint_diff(LEVEL, usevar="unequal")
    _, p, df = both.ttest_ind(usevar="unequal")
    return Test("welch", mean, float(both.std_meandiff_separatevar), float(df), float(low), float(high), float(p))


def exact(residuals: Any, scores: Any) -> bool:
    """Whether residuals are zero but for rounding."""
    return float(np.abs(residuals).max()) <= 1e-9 * max(1.0, float(np.abs(np.asarray(scores)).max()))
