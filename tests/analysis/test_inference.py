"""The one test, against scipy and by hand."""

import math
import warnings

import numpy as np
import pytest
from scipy import stats

from study.analysis.comparison import facet_of
from study.analysis.inference import (
    Arm,
    SentenceNoise,
    Test,
    adjusted,
    contrast,
    correlated,
    false_discovery,
    sentence_variance,
)

BASE = {1: 80.0, 2: 82.0, 3: 81.5, 4: 79.0, 5: 83.0}
OTHER = {1: 81.0, 2: 82.5, 3: 83.0, 4: 79.5, 5: 84.5}
THIRD = {1: 78.0, 2: 81.0, 3: 79.0, 4: 78.5, 5: 80.0}


def arms(*values, **facts):
    return tuple(Arm(name, data, **facts) for name, data in zip("abcdef", values, strict=False))


def against(*values):
    """Tests of arms against the first, as one family, by label."""
    some = arms(*values) if isinstance(values[0], dict) else values
    return facet_of("", "test/exact", None, tuple(some), "a").tests


def test_two_arms_give_welchs_t_test_and_one_arm_students():
    test = against(BASE, OTHER)["b"]
    expected = stats.ttest_ind([*OTHER.values()], [*BASE.values()], equal_var=False)
    bounds, inner = expected.confidence_interval(0.95), expected.confidence_interval(0.90)
    assert (test.method, test.difference) == ("welch", pytest.approx(1.0))
    assert (test.p, test.df) == pytest.approx((expected.pvalue, expected.df))
    assert (test.low, test.high, test.low90, test.high90) == pytest.approx((*bounds, *inner))
    test, expected = contrast([(1.0, Arm("a", OTHER))]), stats.ttest_1samp([*OTHER.values()], 0)  # one arm
    assert (test.method, test.df) == ("within", 4)
    assert (test.p, test.low, test.high) == pytest.approx((expected.pvalue, *expected.confidence_interval()))


def test_weights_of_several_arms_and_an_arm_that_does_not_vary():
    """Variances 1, 4, 9 and 16 of five runs each: SE² = 30 / 5, and df = 30² / ((1 + 16 + 81 + 256) / 4)."""
    unit = np.array([-1.0, -1.0, 0.0, 1.0, 1.0])
    some = [Arm(name, dict(enumerate(10 * i + (i + 1) * unit))) for i, name in enumerate("abcd")]
    test = contrast(list(zip((1.0, -1.0, -1.0, 1.0), some, strict=True)))
    assert (test.difference, test.se, test.df) == pytest.approx((0.0, math.sqrt(6), 900 / (354 / 4)))
    flat, other = dict.fromkeys((1, 2, 3, 4), 0.0), {1: 80.0, 2: 84.0, 3: 88.0}
    test = against(Arm("a", flat), Arm("b", other, diverged=1))["b"]
    assert (test.difference, test.se, test.df) == pytest.approx((84, 4 / math.sqrt(3), 2))
    assert contrast([(1.0, Arm("b", {1: 81.0, 2: 84.0})), (-1.0, Arm("a", BASE))]) == Test("few", pytest.approx(1.4))


def test_sums_are_exact_whatever_the_version_of_python():
    """The sum() of Python 3.11 gives 0 here, that of 3.12 gives 1."""
    large, small = (Arm(name, {1: value, 2: value, 3: value}) for name, value in (("large", 1e16), ("small", 1.0)))
    assert contrast([(1.0, large), (1.0, small), (-1.0, large)]).difference == 1.0


def test_holm_adjusts_p_and_bonferroni_the_95_percent_intervals_of_a_family():
    """Another arm changes the level, 1 − .05/2 instead of .95, and nothing else: not the SE, not the 90% interval."""
    family, alone = against(BASE, OTHER, THIRD), against(BASE, OTHER)["b"]
    b, c = family["b"], family["c"]
    p = sorted([b.p, c.p])
    assert sorted([b.holm, c.holm]) == pytest.approx([2 * p[0], max(2 * p[0], p[1])])
    assert (b.se, b.df, b.low90, b.high90, b.p) == (alone.se, alone.df, alone.low90, alone.high90, alone.p)
    half = stats.t.ppf(1 - 0.05 / 4, b.df) * b.se
    assert (b.low, b.high) == pytest.approx((1 - half, 1 + half))
    assert b.detectable == pytest.approx(half + stats.t.ppf(0.8, b.df) * b.se)


def test_holm_and_false_discovery_by_hand():
    """For p .01, .02, .04 and .5, 4 p / rank is .04, .04, .0533 and .5, and Holm has .04, .06, .08 and .5."""
    p = [0.5, 0.02, 0.01, 0.04]
    assert false_discovery(p) == pytest.approx([0.5, 0.04, 0.04, 4 / 3 * 0.04])
    assert [one.holm for one in adjusted([Test("welch", 1.0, p=x) for x in p])] == pytest.approx(
        [0.5, 0.06, 0.04, 0.08]
    )
    assert [one.holm for one in adjusted([Test("few", 1.0), Test("welch", 1.0, p=0.03)])] == [None, 0.03]


def test_an_arm_with_a_hole_is_not_compared_and_divergence_is_a_result():
    found = against(Arm("a", BASE), Arm("b", {1: 80.0}, holes=4), Arm("c", THIRD))
    assert found == {"b": Test("missing runs"), "c": against(Arm("a", BASE), Arm("c", THIRD))["c"]}
    assert against(Arm("a", {1: 1.0}, holes=1), Arm("b", OTHER)) == {"b": Test("no baseline")}
    found = against(Arm("a", BASE), Arm("b", {}, diverged=5), Arm("c", {1: 3.0, 2: 4.0, 3: 5.0}, diverged=2))
    assert (found["b"], found["c"].method) == (Test("diverged"), "welch")


@pytest.mark.parametrize("seeds", [1, 2, 5])
def test_equal_runs_without_a_difference_have_no_test(seeds):
    flat, other = dict.fromkeys(range(seeds), 100.0), dict.fromkeys(range(seeds), 50.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = against(flat, flat, other if seeds < 3 else flat)
    assert [test.difference for test in found.values()] == [0, -50 if seeds < 3 else 0]
    assert all((test.se, test.low, test.p, test.significant) == (None, None, None, False) for test in found.values())


def test_a_difference_of_equal_runs_is_tested_by_permutation():
    """2 of the 252 divisions of ten runs are as large, 1 of 35 of four and three; 2 of 32 signs of five runs."""
    flat, other = dict.fromkeys(range(5), 0.0), dict.fromkeys(range(5), 100.0)
    found = against(flat, other)["b"]
    assert (found.method, found.difference, found.p) == ("exact", 100.0, pytest.approx(2 / 252))
    assert (found.low, found.low90, found.detectable, found.significant) == (None, None, None, True)
    uneven = [(1.0, Arm("a", dict.fromkeys(range(4), 1.0))), (-1.0, Arm("b", dict.fromkeys(range(3), 2.0)))]
    assert contrast(uneven).p == pytest.approx(1 / 35)
    assert contrast([(1.0, Arm("a", dict.fromkeys(range(5), 1.0)))]).p == pytest.approx(2 / 32)


def test_rank_correlations_between_and_within_arms():
    rng = np.random.default_rng(5)
    related = [[(level + x, 2 * level - x) for x in rng.normal(0, 0.1, 5)] for level in rng.normal(0, 10, 12)]
    between, within = correlated(related, "arms"), correlated(related, "seeds")
    assert (between.difference, within.difference) == pytest.approx((1, -1))
    free = correlated([list(zip(*rng.normal(0, 1, (2, 5)), strict=True)) for _ in range(40)], "seeds")
    assert free.low < 0 < free.high
    assert correlated(related[:4], "arms") == Test("too few arms")
    mixed = [[(x, y) for x, y in rng.normal(0, 1, (5, 2))] for _ in range(30)]
    means = np.array(mixed).mean(axis=1)
    assert correlated(mixed, "arms").difference == pytest.approx(stats.spearmanr(*means.T).statistic)


def test_the_variance_over_sentences_by_hand():
    """MS_sentence = 16 and MS_error = 4 of two seeds and two sentences: (16 − 4) / 4 = 3."""
    assert sentence_variance([[1, 3], [3, 9]]) == pytest.approx(3)
    assert sentence_variance(np.repeat(np.array([[1.0], [2], [6]]), 5, axis=1)) == 0, "no sentence differs from another"
    assert sentence_variance([[1.0, 2.0, 3.0]]) is None


def test_intervals_cover_the_difference_for_new_seeds_and_sentences():
    """Two arms with the same few sentences, which differ much: over seeds alone the interval is far too short."""
    draw, inside = np.random.default_rng(3), {"both": 0, "seeds": 0}
    for _ in range(400):
        sentences = draw.normal(0, 3, (1, 40))
        scores = [own + draw.normal(0, 0.3, (5, 1)) + draw.normal(0, 1, (5, 40)) for own in (sentences, 0)]
        noise = SentenceNoise(sentence_variance(scores[0] - scores[1]), 40)
        some = arms(*(dict(enumerate(one.mean(axis=1))) for one in scores))
        for name, known in (("both", noise), ("seeds", None)):
            test = contrast([(1.0, some[0]), (-1.0, some[1])], known)
            inside[name] += test.low <= 0 <= test.high
    assert 0.92 * 400 <= inside["both"] <= 0.98 * 400
    assert inside["seeds"] < 0.75 * 400
