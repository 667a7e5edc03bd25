"""Tests over the sentences of a test set, with values by hand."""

import numpy as np
import pytest
from scipy import stats

from study.analysis.inference import crossed_interval, mean_interval, randomised


def test_randomisation_by_hand():
    """Two of the 16 ways to sign four equal differences are as large: p = 1/8. Sentences without one change nothing."""
    assert randomised([1.0] * 4, 20_000) == pytest.approx(1 / 8, abs=0.01)
    assert randomised([-1.0, 0, -1, 0, 0, -1, -1], 20_000) == randomised([1.0] * 4, 20_000)
    assert randomised([1.0, -1, 0.5, -0.5]) == 1
    assert randomised([0.0, 0.0]) == 1
    assert randomised([1.0] * 40) == pytest.approx(1 / 2001)


def test_an_interval_over_seeds_and_sentences_by_hand():
    """Mean 4; MS_seed = MS_sentence = 16, MS_error = 4: variance (16 + 16 − 4) / 4 = 7, df 28² / (16² + 16² + 4²)."""
    low, high = crossed_interval([[1, 3], [3, 9]])
    half = stats.t.ppf(0.975, 784 / 528) * np.sqrt(7)
    assert (low, high) == pytest.approx((4 - half, 4 + half))
    seeds = np.array([1.0, 2, 6])  # no sentence differs from another: the paired t-test over seeds
    paired = mean_interval(seeds)
    assert crossed_interval(np.repeat(seeds[:, None], 5, axis=1)) == pytest.approx(paired)
    assert crossed_interval([[1.0, 2.0, 3.0]]) is None
    assert crossed_interval([[1.0, 1.0], [1.0, 1.0]]) is None


def test_the_interval_covers_the_mean_of_new_seeds_and_sentences():
    """With few sentences that differ much, an interval over seeds alone covers a third of the time."""
    draw, inside = np.random.default_rng(3), {"crossed": 0, "seeds": 0}
    for _ in range(400):
        table = draw.normal(0, 0.3, (5, 1)) + draw.normal(0, 3, (1, 20)) + draw.normal(0, 1, (5, 20))
        low, high = crossed_interval(table)
        low_, high_ = mean_interval(table.mean(1))
        inside["crossed"] += low <= 0 <= high
        inside["seeds"] += low_ <= 0 <= high_
    assert inside["crossed"] >= 0.92 * 400
    assert inside["seeds"] < 0.75 * 400
