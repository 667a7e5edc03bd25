"""Power of comparisons of two arms: how many seeds show a difference, or exclude one larger than a margin.

Scores of runs are taken as normal, with one standard deviation σ in both arms. Then the t of two arms of n seeds has a
noncentral t distribution with 2 (n − 1) degrees of freedom and effect size margin / σ. In a paired design arms are
compared seed by seed: n − 1 degrees of freedom, and effect size margin / (σ √(2 (1 − r))), where r is the correlation
of two arms over the same seeds. Welch's test has slightly fewer degrees of freedom, and may need one seed more below 8.

Superiority is a difference of the size of the margin, in the right direction of a two-sided test. For non-inferiority
and equivalence both arms have the same mean, and each end that is excluded has a one-sided test. If one end is excluded
with probability 1 − β, both are with at least 1 − 2 β. Equivalence uses this bound, so its number of seeds may be
slightly too high.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from study.analysis.inference import FEWEST, quantile
from study.analysis.inference import LEVEL as LEVEL
from study.analysis.inference import POWER as POWER

AIMS = ("superiority", "non-inferiority", "equivalence")
MOST = 1000
"""Largest number of seeds that is tried."""
LARGEST = 30.0
"""Effect size × √seeds that every test shows. The noncentral t is not computed for larger ones."""


@dataclass(frozen=True)
class Spread:
    """Standard deviation over seeds, pooled over arms; the smallest and largest of one arm; same-seed correlation.

    Attributes:
        correlation: None with one arm, or where nothing varies.
    """

    sd: float
    ends: tuple[float, float]
    correlation: float | None


def spread(values: Sequence[Sequence[float]]) -> Spread:
    """Return the spread of scores, a row for each arm and a column for each seed."""
    covariance = np.atleast_2d(np.cov(np.asarray(values, dtype=float)))
    each, arms = covariance.diagonal(), len(covariance)
    variance = float(each.mean())
    shared = (covariance.sum() / arms - variance) / (arms - 1) if arms > 1 else 0.0
    ends = math.sqrt(each.min()), math.sqrt(each.max())
    return Spread(math.sqrt(variance), ends, float(shared / variance) if arms > 1 and variance else None)


def effect_size(margin: float, sd: float, correlation: float | None) -> float:
    """Return the margin in standard deviations: of a run, or with a correlation of a paired difference."""
    return margin / (sd if correlation is None else sd * math.sqrt(2 * (1 - correlation)))


def power(aim: str, effect: float, seeds: int, level: float = LEVEL, paired: bool = False) -> float:
    """Return the probability that so many seeds per arm show what the aim asks.

    Args:
        aim: one of `AIMS`.
        effect: margin in standard deviations, see `effect_size`.
        seeds: runs per arm.
        level: two-sided level of superiority. The one-sided level of the other aims is .05.
        paired: compare arms seed by seed.
    """
    from scipy.special import nctdtr

    if seeds < FEWEST:  # no test is made
        return 0.0
    df, n = (seeds - 1, seeds) if paired else (2 * (seeds - 1), seeds / 2)
    tail = level / 2 if aim == "superiority" else LEVEL
    noncentrality = min(effect, LARGEST / math.sqrt(seeds)) * math.sqrt(n)
    one_sided = 1 - float(nctdtr(df, noncentrality, quantile(1 - tail, df)))
    return max(0.0, 2 * one_sided - 1) if aim == "equivalence" else one_sided


def seeds_for(aim: str, effect: float, wanted: float = POWER, level: float = LEVEL, paired: bool = False) -> int | None:
    """Return the smallest number of seeds per arm with the power that is wanted; None above 1,000."""
    numbers = range(FEWEST, MOST + 1)
    return next((n for n in numbers if power(aim, effect, n, level, paired) >= wanted), None)
