"""Differences between arms, by rules that were fixed before the runs.

* Pooled model: `score ~ arm + seed` by least squares over the complete arms; the difference of an arm to the
  baseline with its 95% t interval. Seeds are blocks: the same list for every arm.
* A *collapsed* arm (a run diverged, or its mean validation BLEU is below half the baseline's) stays out of the model,
  whose one variance it would spoil, and is compared by Welch's t-test over the runs that have a score.
* Where the standard deviations of an arm and the baseline differ threefold, the paired t-test of that contrast
  decides; the model's answer, with such arms in it, is kept beside it. The others' model goes without them: one seed
  that goes astray in one arm would hide differences between arms in which none does.
* Arms of fewer than three runs have a difference and no test.
* An arm with a hole (a run missing, started or failed) is not compared at all.
* Intervals are unadjusted; p is adjusted by Holm (1979) over all tests of the family.

Where the data leave no variance to estimate (one seed, or runs that agree exactly) there is a difference, and
neither interval nor p.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from study.analysis.estimates import FEWEST, LEVEL, Test, deviation, exact, paired, welch

POWER = 0.80
THREEFOLD = 3.0


@dataclass(frozen=True)
class Arm:
    """One arm of a comparison: the value of the primary metric by seed, and what is not there."""

    label: str
    values: Mapping[int, float]
    """Empty where a finished run has null: it means nothing there, and a mean over the others would mislead."""
    diverged: int = 0
    holes: int = 0
    """Declared runs that are missing, started or failed."""
    valid_bleu: float | None = None
    """Mean BLEU on validation, 0–100."""


@dataclass(frozen=True)
class Comparison:
    """An arm against the baseline: the test that decides, the model's where another decides, or why there is none."""

    arm: str
    test: Test | None = None
    model: Test | None = None
    holm: float | None = None
    detectable: float | None = None
    """The smallest difference shown with power .80 at Holm's first level: (t_{1−.05/2m} + t_.80) · SE, m tests."""
    why: str = ""

    @property
    def significant(self) -> bool:
        """Holm p < .05."""
        return self.holm is not None and self.holm < LEVEL


@dataclass(frozen=True)
class Family:
    """All comparisons of one table: one metric, one baseline, one adjustment."""

    baseline: str
    comparisons: dict[str, Comparison] = field(default_factory=dict)
    correlation: float | None = None
    """Same-seed correlation of the arms in the model, see `seed_correlation`."""


def compare(arms: Sequence[Arm], baseline: str) -> Family:
    """Every arm against the baseline, by the rules on top.

    Raises:
        ValueError: there is no arm of the baseline's name, or complete arms have unequal seeds.
    """
    base = next((arm for arm in arms if arm.label == baseline), None)
    if base is None:
        raise ValueError(f"no arm {baseline!r} among {', '.join(arm.label for arm in arms)}")
    pool = [arm for arm in arms if arm is base or (not arm.holes and arm.values and not collapsed(arm, base))]
    sound = bool(base.values) and not base.holes and not base.diverged
    if sound:
        _same_seeds(pool, base)
    even = [arm for arm in pool if arm is base or not threefold([arm, base])]
    model = _model(pool, base) | _model(even, base) if sound else {}
    plain = {arm.label: _contrast(arm, base, model) for arm in arms if arm is not base}
    return Family(baseline, adjusted(plain), seed_correlation(pool) if sound and len(base.values) >= FEWEST else None)


def collapsed(arm: Arm, base: Arm) -> bool:
    """Whether a run diverged, or validation BLEU is below half the baseline's."""
    if arm.diverged:
        return True
    return arm.valid_bleu is not None and base.valid_bleu is not None and arm.valid_bleu < base.valid_bleu / 2


def _contrast(arm: Arm, base: Arm, model: Mapping[str, Test]) -> Comparison:
    if base.holes or not base.values:
        return Comparison(arm.label, why="no baseline")
    if arm.holes or not arm.values:
        return Comparison(arm.label, why="missing runs" if arm.holes else "diverged" if arm.diverged else "no value")
    if min(len(arm.values), len(base.values)) < FEWEST:
        means = [math.fsum(one.values.values()) / len(one.values) for one in (arm, base)]
        return Comparison(arm.label, Test("few", means[0] - means[1]))
    if base.diverged or collapsed(arm, base):
        return Comparison(arm.label, welch(list(arm.values.values()), list(base.values.values())))
    pooled = model[arm.label]
    if threefold([arm, base]):
        return Comparison(arm.label, paired(arm.values, base.values), model=pooled)
    return Comparison(arm.label, pooled)


def threefold(arms: Sequence[Arm]) -> bool:
    """Whether the largest standard deviation among the arms is three times the smallest, or more."""
    low, *_, high = sorted(deviation(arm.values.values()) or 0.0 for arm in arms)
    return high > 0 and high >= THREEFOLD * low


@dataclass(frozen=True)
class Fit:
    """`score ~ arm + seed`, fitted: arm ↦ the place of its parameter, which is its difference to the base."""

    result: Any
    places: Mapping[str, int]
    exact: bool
    """Nothing is left to estimate a variance from."""


def fitted(pool: Sequence[Arm], base: Arm) -> Fit:
    """`score ~ arm + seed` by least squares over complete arms, treatment contrasts to the base."""
    from statsmodels.regression.linear_model import OLS

    others = [arm for arm in pool if arm is not base]
    seeds = sorted(base.values)
    places = {arm.label: 1 + i for i, arm in enumerate(others)}
    rows, scores = [], []
    for arm in (base, *others):
        for number, seed in enumerate(seeds):
            row = np.zeros(len(others) + len(seeds))
            row[[0, *([places[arm.label]] if arm is not base else []), *([len(others) + number] if number else [])]] = 1
            rows.append(row)
            scores.append(arm.values[seed])
    result = OLS(np.array(scores), np.array(rows)).fit()
    return Fit(result, places, result.df_resid < 1 or exact(result.resid, scores))


def _model(pool: Sequence[Arm], base: Arm) -> dict[str, Test]:
    """The difference of each arm of the pool to the baseline."""
    if len(pool) < 2:
        return {}
    fit = fitted(pool, base)
    found = fit.result
    if fit.exact:
        return {label: Test("model", float(found.params[place])) for label, place in fit.places.items()}
    bounds = found.conf_int(LEVEL)
    return {
        label: Test(
            "model",
            difference=float(found.params[place]),
            se=float(found.bse[place]),
            df=float(found.df_resid),
            low=float(bounds[place, 0]),
            high=float(bounds[place, 1]),
            p=float(found.pvalues[place]),
        )
        for label, place in fit.places.items()
    }


def adjusted(plain: Mapping[str, Comparison]) -> dict[str, Comparison]:
    """Holm over all tests that have a p, and what each could have shown at Holm's first level."""
    from scipy.stats import t
    from statsmodels.stats.multitest import multipletests

    tested = [(arm, c.test) for arm, c in plain.items() if c.test is not None and c.test.p is not None]
    if not tested:
        return dict(plain)
    adjusted = multipletests([test.p for _, test in tested], LEVEL, method="holm")[1]
    level = LEVEL / len(tested)
    out = dict(plain)
    for (arm, test), holm in zip(tested, adjusted, strict=True):
        assert test.se is not None
        detectable = float(t.ppf(1 - level / 2, test.df) + t.ppf(POWER, test.df)) * test.se
        detectable = math.tanh(detectable) if test.method == "resampled" else detectable
        out[arm] = replace(plain[arm], holm=float(holm), detectable=detectable)
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


def _same_seeds(arms: Sequence[Arm], base: Arm) -> None:
    for arm in arms:
        if set(arm.values) != set(base.values):
            raise ValueError(f"arm {arm.label!r} has other seeds than {base.label!r}; give every arm the same list")
