"""Contrasts of arms that are not only pairs: Σ w_a · (mean of arm a) with Σ w_a = 0, and rank correlations.

A contrast of a single arm is the mean of what are differences already, by Student's t over its runs.

The rules of `statistics` hold: one model for the arms without a collapse, Welch for a contrast with a collapsed arm,
the paired t where standard deviations differ threefold, in arms that no other contrast's model has then, no test where
a run is missing or an arm has fewer than three, Holm over all of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from study.analysis.estimates import FEWEST, Test, deviation, one_sample, rank_correlation, t_test
from study.analysis.statistics import Arm, Comparison, Fit, adjusted, collapsed, fitted, threefold

Weights = Mapping[str, float]
"""Label of an arm ↦ its weight; they sum to 0, or there is one."""

RESAMPLES = 2000
FEWEST_ARMS = 5
"""A rank correlation over fewer arms says nothing."""


def contrasted(arms: Mapping[str, Arm], contrasts: Sequence[Weights], reference: Arm) -> list[Comparison]:
    """Every contrast, tested and adjusted by Holm over all of them.

    Args:
        arms: the arms that take part, by label; complete ones have the same seeds.
        contrasts: the weights of each.
        reference: the arm whose validation BLEU says what a collapse is.
    """
    fit = _fit(arms, [weights for weights in contrasts if len(weights) > 1], reference)
    even = _fit(arms, [weights for weights in contrasts if len(weights) > 1 and _even(arms, weights)], reference)
    plain = {
        str(i): _compare(str(i), arms, weights, reference, even if _even(arms, weights) else fit)
        for i, weights in enumerate(contrasts)
    }
    return list(adjusted(plain).values())


def _even(arms: Mapping[str, Arm], weights: Weights) -> bool:
    some = [arms[label] for label in weights]
    return len(some) < 2 or not threefold(some)


def _fit(arms: Mapping[str, Arm], contrasts: Sequence[Weights], reference: Arm) -> Fit | None:
    """The model of all arms that these contrasts name, without what is incomplete or collapsed."""
    named = {label for weights in contrasts for label in weights}
    pool = [arm for label, arm in arms.items() if label in named and _complete(arm) and not collapsed(arm, reference)]
    return fitted(pool, pool[0]) if len(pool) > 1 else None


def _complete(arm: Arm) -> bool:
    return bool(arm.values) and not arm.holes and not arm.diverged


def _compare(name: str, arms: Mapping[str, Arm], weights: Weights, reference: Arm, fit: Fit | None) -> Comparison:
    some = [arms[label] for label in weights]
    if any(arm.holes for arm in some):
        return Comparison(name, why="missing runs")
    if not all(arm.values for arm in some):
        return Comparison(name, why="diverged" if any(arm.diverged for arm in some) else "no value")
    if min(len(arm.values) for arm in some) < FEWEST:
        means = {label: math.fsum(arms[label].values.values()) / len(arms[label].values) for label in weights}
        return Comparison(name, Test("few", sum(weight * means[label] for label, weight in weights.items())))
    if len(some) == 1:
        values = list(some[0].values.values())
        return Comparison(name, replace(one_sample(values, values), method="within"))
    if fit is None or any(arm.diverged or collapsed(arm, reference) for arm in some):
        return Comparison(name, _welch(some, weights))
    model = _from_model(fit, weights)
    if threefold(some):
        seeds = sorted(some[0].values)
        differences = [sum(weights[arm.label] * arm.values[seed] for arm in some) for seed in seeds]
        return Comparison(name, one_sample(differences, [v for arm in some for v in arm.values.values()]), model=model)
    return Comparison(name, model)


def _from_model(fit: Fit, weights: Weights) -> Test:
    """The contrast in the fitted model, whose parameters are differences to its base: the base's weight is implied."""
    row = np.zeros(len(fit.result.params))
    for label, weight in weights.items():
        if label in fit.places:
            row[fit.places[label]] = weight
    difference = float(row @ fit.result.params)
    if fit.exact:
        return Test("model", difference)
    return t_test("model", difference, float(fit.result.t_test(row).sd.item()), float(fit.result.df_resid))


def _welch(arms: Sequence[Arm], weights: Weights) -> Test:
    """Welch's test of a contrast, with Satterthwaite's degrees of freedom (1946): no variance is shared."""
    difference = sum(weights[arm.label] * float(np.mean(list(arm.values.values()))) for arm in arms)
    if any(len(arm.values) < 2 for arm in arms):
        return Test("welch", difference)
    parts = [
        (weights[arm.label] ** 2 * (deviation(arm.values.values()) or 0.0) ** 2 / len(arm.values), len(arm.values) - 1)
        for arm in arms
    ]
    variance = sum(part for part, _ in parts)
    if not variance:
        return Test("welch", difference)
    df = variance**2 / sum(part**2 / freedom for part, freedom in parts)
    return t_test("welch", difference, math.sqrt(variance), df)


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
        values = np.array([_spearman(arm[:, :, 0], arm[:, :, 1])[0] for arm in each])
        values = values[np.isfinite(values)]
        arms = len(values)
    if arms < FEWEST_ARMS:
        return Comparison(level, why="too few arms")

    def statistic(draw: Any) -> Any:
        return _spearman(means[draw, 0], means[draw, 1]) if values is None else values[draw].mean(axis=1)

    whole = float(statistic(np.arange(arms)[None])[0])
    draws = statistic(np.random.default_rng(0).integers(0, arms, (RESAMPLES, arms)))
    error = float(np.nanstd(draws, ddof=1))
    if not math.isfinite(whole):
        return Comparison(level, why="nothing varies")
    if error < 1e-9:
        return Comparison(level, Test("resampled", whole))
    return Comparison(level, rank_correlation(whole, error, arms - 1))


def _spearman(x: Any, y: Any) -> Any:
    """Spearman's ρ of every row; NaN where a row does not vary."""
    from scipy.stats import rankdata

    ranks = [rankdata(values, axis=1) for values in (x, y)]
    a, b = (rank - rank.mean(axis=1, keepdims=True) for rank in ranks)
    scale = np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    return np.divide((a * b).sum(axis=1), scale, out=np.full(len(a), np.nan), where=scale > 0)
