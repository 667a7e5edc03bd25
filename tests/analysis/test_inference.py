import itertools
import math
import warnings

import numpy as np
import pytest
from scipy import stats

from study.analysis.inference import Arm, Test, compare, contrasted, false_discovery, one_sample, seed_correlation

BASE = {1: 80.0, 2: 82.0, 3: 81.5, 4: 79.0, 5: 83.0}
OTHER = {1: 81.0, 2: 82.5, 3: 83.0, 4: 79.5, 5: 84.5}
THIRD = {1: 78.0, 2: 81.0, 3: 79.0, 4: 78.5, 5: 80.0}


def arms(*values, **facts):
    return [Arm(name, data, **facts) for name, data in zip("abcdef", values, strict=False)]


def test_two_arms_give_welchs_t_test():
    test = compare(arms(BASE, OTHER), "a").comparisons["b"].test
    expected = stats.ttest_ind([*OTHER.values()], [*BASE.values()], equal_var=False)
    bounds, inner = expected.confidence_interval(0.95), expected.confidence_interval(0.90)
    assert (test.method, test.difference) == ("welch", pytest.approx(1.0))
    assert (test.p, test.df) == pytest.approx((expected.pvalue, expected.df))
    assert (test.low, test.high, *test.inner) == pytest.approx((bounds.low, bounds.high, inner.low, inner.high))


def test_holm_adjusts_p_and_bonferroni_the_95_percent_intervals_of_a_family():
    """Another arm changes the level, 1 − .05/2 instead of .95, and nothing else: not the SE, not the 90% interval."""
    family, alone = compare(arms(BASE, OTHER, THIRD), "a"), compare(arms(BASE, OTHER), "a").comparisons["b"]
    b, c = family.comparisons["b"], family.comparisons["c"]
    p = sorted([b.test.p, c.test.p])
    assert sorted([b.holm, c.holm]) == pytest.approx([2 * p[0], max(2 * p[0], p[1])])
    assert (b.test.se, b.test.df, b.test.inner, b.test.p) == (
        alone.test.se,
        alone.test.df,
        alone.test.inner,
        alone.test.p,
    )
    half = stats.t.ppf(1 - 0.05 / 4, b.test.df) * b.test.se
    assert (b.test.low, b.test.high) == pytest.approx((1 - half, 1 + half))
    assert b.detectable == pytest.approx(half + stats.t.ppf(0.8, b.test.df) * b.test.se)


def test_false_discovery_by_hand():
    """Four p values .01, .02, .04 and .5: 4 p / rank is .04, .04, .0533 and .5."""
    assert false_discovery([0.5, 0.02, 0.01, 0.04]) == pytest.approx([0.5, 0.04, 0.04, 4 / 3 * 0.04])


def test_an_arm_with_a_hole_is_not_compared_and_does_not_hide_the_others():
    family = compare([Arm("a", BASE), Arm("b", {1: 80.0}, holes=4), Arm("c", THIRD)], "a")
    assert (family.comparisons["b"].test, family.comparisons["b"].why) == (None, "missing runs")
    assert family.comparisons["c"].test == compare([Arm("a", BASE), Arm("c", THIRD)], "a").comparisons["c"].test
    without = compare([Arm("a", {1: 1.0}, holes=1), Arm("b", OTHER)], "a")
    assert without.comparisons["b"].why == "no baseline"


def test_divergence_is_a_result():
    left = {1: 3.0, 2: 4.0, 3: 5.0}
    family = compare([Arm("a", BASE), Arm("b", {}, diverged=5), Arm("c", left, diverged=2)], "a")
    assert family.comparisons["b"].why == "diverged"
    assert family.comparisons["c"].test.method == "welch"
    assert compare([Arm("a", left, diverged=2), Arm("b", BASE)], "a").comparisons["b"].test.method == "welch"


@pytest.mark.parametrize("seeds", [1, 2, 5])
def test_equal_runs_without_a_difference_have_no_test(seeds):
    flat, other = dict.fromkeys(range(seeds), 100.0), dict.fromkeys(range(seeds), 50.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        family = compare(arms(flat, flat, other if seeds < 3 else flat), "a")
    found = [family.comparisons["b"].test, family.comparisons["c"].test]
    assert [test.difference for test in found] == [0, -50 if seeds < 3 else 0]
    assert all((test.se, test.low, test.p) == (None, None, None) for test in found)
    assert not family.comparisons["c"].significant
    assert family.correlation is None


def test_a_difference_of_equal_runs_is_tested_by_permutation():
    """2 of the 252 divisions of ten runs are as large, 1 of 35 of four and three; 2 of 32 signs of five runs."""
    flat, other = dict.fromkeys(range(5), 0.0), dict.fromkeys(range(5), 100.0)
    family = compare(arms(flat, other), "a")
    found = family.comparisons["b"]
    assert (found.test.method, found.test.difference, found.test.p) == ("exact", 100.0, pytest.approx(2 / 252))
    assert (found.test.low, found.test.inner, found.detectable) == (None, None, None)
    assert found.holm == pytest.approx(2 / 252)
    assert found.significant
    uneven = [Arm("a", dict.fromkeys(range(4), 1.0)), Arm("b", dict.fromkeys(range(3), 2.0))]
    assert contrasted({arm.label: arm for arm in uneven}, [{"b": 1, "a": -1}])[0].test.p == pytest.approx(1 / 35)
    assert one_sample([1.0] * 5, [1.0]).p == pytest.approx(2 / 32)
    whole = [0.0] * 5 + [100.0] * 5
    counts = [abs(sum(some) / 5 - (500 - sum(some)) / 5) for some in itertools.combinations(whole, 5)]
    assert sum(count >= 100 for count in counts) / len(counts) == pytest.approx(2 / 252)


def test_one_flat_arm_still_meets_one_that_varies():
    """sd 4 of three runs over √3, and two degrees of freedom, since the flat arm has no variance."""
    varying = Arm("b", {1: 80.0, 2: 84.0, 3: 88.0}, diverged=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        test = compare([Arm("a", dict.fromkeys((1, 2, 3, 4), 0.0)), varying], "a").comparisons["b"].test
    assert test.method == "welch"
    assert (test.difference, test.se, test.df) == pytest.approx((84, 4 / math.sqrt(3), 2))


@pytest.mark.parametrize("facts", [{}, {"valid_bleu": 1.0}, {"diverged": 3}])
def test_two_values_give_a_difference_and_no_test(facts):
    whole = [Arm("a", BASE, valid_bleu=30.0), Arm("b", {1: 81.0, 2: 84.0}, **facts)]
    base = whole[0] if facts.get("diverged") else Arm("a", {1: 80.0, 2: 82.0}, valid_bleu=30.0)
    comparison = compare([base, whole[1]], "a").comparisons["b"]
    assert comparison.test == Test("few", 82.5 - sum(base.values.values()) / len(base.values))
    assert (comparison.holm, comparison.detectable, comparison.significant) == (None, None, False)
    assert contrasted({"a": base, "b": whole[1]}, [{"b": 1.0, "a": -1.0}]) == [comparison]
    difference = contrasted({"b": whole[1]}, [{"b": 1.0}])[0]
    assert (difference.test, difference.holm) == (Test("few", 82.5), None)


def test_same_seed_correlation_at_its_ends():
    shift = {s: v + 3 for s, v in BASE.items()}
    assert seed_correlation(arms(BASE, shift)) == pytest.approx(1)
    mirrored = {s: 160 - v for s, v in BASE.items()}
    assert seed_correlation(arms(BASE, mirrored)) == pytest.approx(-1)


def test_unequal_seeds_and_unknown_baselines_are_refused():
    with pytest.raises(ValueError, match="other seeds"):
        compare(arms(BASE, {1: 1.0, 2: 2.0}), "a")
    with pytest.raises(ValueError, match="no arm 'z'"):
        compare(arms(BASE), "z")


def test_intervals_cover_and_holm_keeps_the_family_error():
    """200 tables of four arms and five seeds; all arms equal but the last, which is 2 sd of the noise better."""
    draw = np.random.default_rng(3)
    covered = false = 0
    tables = 200
    for _ in range(tables):
        data = 80 + draw.normal(0, 1, (4, 5)) + np.array([[0], [0], [0], [2]])
        family = compare([Arm(n, dict(enumerate(row))) for n, row in zip("abcd", data, strict=True)], "a")
        c = family.comparisons
        covered += all(
            c[arm].test.low <= effect <= c[arm].test.high for arm, effect in zip("bcd", (0, 0, 2), strict=True)
        )
        false += c["b"].significant or c["c"].significant
    assert 0.95 - 3 * math.sqrt(0.95 * 0.05 / tables) < covered / tables
    assert false / tables < 0.05 + 3 * math.sqrt(0.95 * 0.05 / tables)
