import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from study.analysis.inference import (
    Arm,
    Comparison,
    Test,
    adjusted,
    contrasted,
    correlated,
    correlation_power,
    rank_correlation,
    t_test,
)
from study.analysis.measures import Measure
from study.claims.contrasts import Weighted, band, direction
from study.claims.schema import Contrast, Question
from study.claims.verdicts import Finding, Verdict, combined, finding, inside, judged, outcome, summary, supersede

BASE = {1: 80.0, 2: 82.0, 3: 81.5, 4: 79.0, 5: 83.0}
BETTER = {1: 85.0, 2: 86.5, 3: 87.0, 4: 83.5, 5: 88.5}
ALIKE = {1: 80.3, 2: 81.9, 3: 81.4, 4: 79.3, 5: 82.9}
PAIR = {"b": 1.0, "a": -1.0}


def arms(**values):
    return {name: Arm(name, data) for name, data in values.items()}


def one(weights=PAIR, **values):
    return contrasted(arms(**values), [weights])[0]


def question(**facts):
    return Question(sweep="x", asked=["grammar/recurrent"], contrasts=[{"arm": {}, "baseline": {}}], **facts)


def shift(values, by):
    return {seed: value + by for seed, value in values.items()}


NOISY = {1: 90.0, 2: 70.0, 3: 95.0, 4: 74.0, 5: 82.0}


@pytest.mark.parametrize(
    ("word", "kind", "other", "sign", "facts"),
    [
        ("supported", "superiority", BETTER, 1, {"margin": 2.0}),
        ("supported", "superiority", BETTER, 1, {}),
        ("supported", "shape", BETTER, 0, {}),
        ("supported, below the margin", "superiority", BETTER, 1, {"margin": 20.0}),
        ("contradicted", "superiority", BETTER, -1, {"margin": 2.0}),
        ("contradicted, below the margin", "superiority", BETTER, -1, {"margin": 20.0}),
        ("undecided", "superiority", BETTER, -1, {"margin": 20.0, "diverged": [-1]}),
        ("contradicted", "equivalence", BETTER, 1, {"margin": 2.0}),
        ("undecided", "equivalence", BETTER, 1, {"margin": 4.8}),
        ("no difference larger than the margin", "equivalence", ALIKE, 1, {"margin": 2.0}),
        ("no difference larger than the margin", "superiority", ALIKE, 1, {"margin": 2.0}),
        ("undecided", "equivalence", ALIKE, 1, {"margin": 0.1}),
        ("undecided", "superiority", NOISY, 1, {"margin": 0.5}),
        ("undecided", "superiority", ALIKE, 1, {}),
        ("saturated", "superiority", NOISY, 1, {"margin": 2.0, "saturated": True}),
        ("saturated", "equivalence", ALIKE, 1, {"margin": 2.0, "saturated": True}),
        ("supported", "superiority", BETTER, 1, {"saturated": True}),
        ("undecided", "superiority", BETTER, 1, {"diverged": [1]}),
        ("supported", "superiority", BETTER, 1, {"diverged": [-1]}),
        ("undecided", "superiority", BETTER, -1, {"diverged": [-1]}),
        ("undecided", "equivalence", ALIKE, 1, {"margin": 2.0, "diverged": [-1]}),
    ],
)
def test_every_word_is_reached_by_data(word, kind, other, sign, facts):
    assert judged(kind, one(a=BASE, b=other), sign, **facts) == word


def test_without_runs_there_is_no_verdict():
    whole = {"a": Arm("a", BASE), "b": Arm("b", {1: 80.0}, holes=4)}
    assert judged("superiority", contrasted(whole, [PAIR])[0], 1) == "not yet run"
    whole["b"] = Arm("b", {}, diverged=5)
    assert judged("superiority", contrasted(whole, [PAIR])[0], 1) == "undecided"


def test_two_one_sided_tests_by_hand():
    """Difference .3, SE .2, 4 degrees of freedom: the 90% interval is .3 ± 2.132 · .2, the 95% one .3 ± 2.776 · .2."""
    test = t_test("welch", 0.3, 0.2, 4)
    assert (test.low, test.high) == pytest.approx((0.3 - 2.776445 * 0.2, 0.3 + 2.776445 * 0.2), abs=1e-6)
    edge = 0.3 + 2.131847 * 0.2
    assert inside(test.inner, edge + 1e-6)
    assert not inside(test.inner, edge - 1e-6)
    assert not inside(Test("welch", 0.0).inner, 100.0)


def test_holm_by_hand_over_the_contrasts_of_a_question():
    data = {"a": BASE, "b": BETTER, "c": ALIKE, "d": shift(NOISY, 2)}
    contrasts = [{name: 1.0, "a": -1.0} for name in "bcd"]
    found = contrasted(arms(**data), contrasts)
    p = [c.test.p for c in found]
    order = sorted(range(3), key=p.__getitem__)
    highest, expected = 0.0, {}
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (3 - rank) * p[place]))
        expected[place] = highest
    assert [c.holm for c in found] == pytest.approx([expected[i] for i in range(3)])
    test = found[1].test
    assert found[1].detectable == pytest.approx(
        (stats.t.ppf(1 - 0.05 / 6, test.df) + stats.t.ppf(0.8, test.df)) * test.se
    )


def test_an_interaction_is_the_difference_of_differences():
    """Variances 1, 4, 9 and 16 of five runs each: SE² = 30 / 5, and df = 30² / ((1 + 16 + 81 + 256) / 4)."""
    unit = np.array([-1.0, -1.0, 0.0, 1.0, 1.0])
    data = {name: dict(enumerate(10 * i + (i + 1) * unit)) for i, name in enumerate("abcd")}
    test = one({"d": 1.0, "c": -1.0, "b": -1.0, "a": 1.0}, **data).test
    assert test.method == "welch"
    assert (test.difference, test.se, test.df) == pytest.approx((0.0, math.sqrt(6), 900 / (354 / 4)))


def test_what_all_and_any_make_of_several_words():
    everything, anything = question(), question(combine="any")
    words = ["supported", "no difference larger than the margin", "supported, below the margin"]
    assert combined(everything, "superiority", words) == "no difference larger than the margin"
    assert combined(everything, "superiority", [*words, "undecided"]) == "undecided"
    assert combined(everything, "superiority", [*words, "contradicted"]) == "contradicted"
    assert combined(anything, "superiority", [*words, "undecided", "contradicted"]) == "supported"
    assert combined(anything, "superiority", ["contradicted", "undecided"]) == "undecided"
    assert combined(anything, "equivalence", ["contradicted", words[1]]) == words[1]
    assert combined(anything, "superiority", ["supported", "not yet run"]) == "not yet run"


WORDS = {
    "superiority": {
        "supported": "holds",
        "supported, below the margin": "holds",
        "contradicted": "fails",
        "contradicted, below the margin": "fails",
        "no difference larger than the margin": "fails",
        "undecided": "not decided",
        "saturated": "not decided",
        "not yet run": "not yet run",
    },
    "equivalence": {"no difference larger than the margin": "holds", "contradicted": "fails"},
}


@pytest.mark.parametrize(("kind", "word"), [(kind, word) for kind, words in WORDS.items() for word in words])
def test_a_verdict_says_what_the_finding_means_for_the_claim(kind, word):
    said = WORDS[kind][word]
    assert outcome(question(), kind, [word]) == said
    turned = {"holds": "fails", "fails": "holds"}.get(said, said)
    assert outcome(question(against=True), kind, [word]) == turned
    for facts, other in (({"descriptive": True}, "none"), ({"not_asked": "no"}, "not asked as published")):
        assert outcome(question(**facts), kind, [word]) == (said if said == "not yet run" else other)


@pytest.mark.parametrize("given", [["once"], None])
def test_a_question_replaces_nothing_in_another_family_unless_it_names_it(given):
    """In transformers the old question still counts as long as the new one has not run there."""
    asked = {"once": question(part="once"), "again": question(part="again", edition=2, replaces=given)}
    rows = [
        Verdict(None, asked[part], "grammar", family, word, (Finding(part, word, Comparison(), 5, 5, None),))
        for family, words in (("recurrent", ["supported"] * 2), ("transformer", ["supported", "not yet run"]))
        for part, word in zip(asked, words, strict=True)
    ]
    assert [len(one.superseded) for one in supersede(rows)] == [1, 0, 0, 0]


@pytest.mark.parametrize(
    ("words", "all_", "any_"),
    [
        (["supported", "supported, below the margin"], "holds", "holds"),
        (["supported", "contradicted"], "mixed", "holds"),
        (["supported", "undecided"], "not decided", "holds"),
        (["contradicted", "undecided"], "fails", "not decided"),
        (["contradicted", "no difference larger than the margin"], "fails", "fails"),
        (["supported", "contradicted", "saturated"], "mixed", "holds"),
        (["supported", "not yet run"], "not yet run", "not yet run"),
        ([], "not yet run", "not yet run"),
    ],
)
def test_the_verdict_of_several_contrasts(words, all_, any_):
    assert outcome(question(), "superiority", words) == all_
    assert outcome(question(combine="any"), "superiority", words) == any_


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        (["holds", "holds"], "holds"),
        (["holds", "fails"], "mixed"),
        (["holds", "none", "not yet run", "fails, post hoc"], "holds"),
        (["none", "fails, post hoc"], "fails"),
        (["holds", "saturated"], "holds"),
        (["fails, post hoc", "saturated"], "not decided"),
        (["not yet run"], "not yet run"),
        (["none"], "none"),
    ],
)
def test_a_claim_has_the_verdict_that_its_parts_share(parts, whole):
    rows = []
    for part in parts:
        word = "undecided" if part != "saturated" else part
        outcome_ = "not decided" if part == "saturated" else part.partition(",")[0]
        asked = SimpleNamespace(post_hoc="later" * ("post hoc" in part))
        counts = outcome_ not in ("none", "not yet run")
        row = {"claim": SimpleNamespace(id=1), "outcome": outcome_, "word": word, "counts": counts, "question": asked}
        rows.append(SimpleNamespace(**row))
    assert summary(rows) == whole


@pytest.mark.parametrize(
    ("base", "other", "kind", "expect", "word"),
    [
        (99.8, 88.0, "equivalence", "better", "undecided"),  # a loss shows below the ceiling
        (99.8, 99.7, "equivalence", "better", "saturated"),
        (99.8, 98.0, "equivalence", "better", "no difference larger than the margin"),
        (99.8, 98.9, "superiority", "better", "saturated"),  # the gain that is claimed cannot show
        (99.8, 88.0, "superiority", "worse", "undecided"),
        (0.3, 1.5, "superiority", "worse", "saturated"),
        (0.3, 12.0, "superiority", "better", "undecided"),
        (0.3, 99.7, "superiority", "different", "undecided"),
    ],
)
def test_nothing_is_saturated_that_could_show(base, other, kind, expect, word):
    """The spread of the other arm, ±12 or ±1 by seed, is too large to tell it from its base."""
    spread = 10 if 2 < other < 98 else 0.2
    values = [
        dict(enumerate(mean + spread_ * d for d in (-1, 1, 0, 0.5, -0.5)))
        for mean, spread_ in ((base, 0.2), (other, spread))
    ]
    contrast = Contrast(arm={}, baseline={}, expect=expect)
    measure = Measure("test/exact")
    weighed = Weighted(contrast, measure, arms(a=values[0], b=values[1]), PAIR, {}, 5, ("a",))
    comparison = Comparison(t_test("welch", other - base, abs(other - base) + 1, 4), holm=0.4)
    if word.startswith("no difference"):
        comparison = Comparison(t_test("welch", other - base, 0.1, 4), holm=0.001)
    assert finding(kind, question(metric="test/exact"), weighed, comparison, 5.0).word == word


def test_an_interval_of_90_percent_by_hand():
    """.3 ± 2.132 · .02 with 4 degrees of freedom. A clear difference may straddle its margin."""
    test = t_test("welch", 0.3, 0.02, 4)
    low, high = test.inner
    assert (low, high) == pytest.approx((0.3 - 2.131847 * 0.02, 0.3 + 2.131847 * 0.02))
    assert Test("few", 0.3).inner is None
    found = Finding("x", "undecided", Comparison(test, holm=0.001), 5, 5, 0.3)
    assert found.straddles
    assert not replace(found, comparison=Comparison(test, holm=0.2)).straddles
    assert not replace(found, diverged=("1 of 5",)).straddles


def test_better_is_less_of_a_loss():
    pair = {"arm": {}, "baseline": {}}
    assert direction(Contrast(**pair), "test/nll") == -1
    assert direction(Contrast(**pair, expect="worse"), "test/exact") == -1
    assert direction(Contrast(**pair), "diagnostics/cross/entropy") == 0
    assert direction(Contrast(arm={}, baseline={}, expect="higher"), "test/nll") == 1


def test_the_band_of_learning_rates_by_hand():
    """Seed 1: best at .004, .002 and .008 within .5, .001 not: two doublings. Seed 2 diverged at .008, best at .001."""
    losses = {0.001: (3.0, 1.0), 0.002: (1.4, 1.2), 0.004: (1.0, 2.0), 0.008: (1.5, None)}
    rates = [
        (
            rate,
            Arm(str(rate), {s: v for s, v in zip((1, 2), pair, strict=True) if v is not None}, diverged=None in pair),
        )
        for rate, pair in losses.items()
    ]
    arm, edges = band("x", rates, 0.5)
    assert arm.values == {1: 2.0, 2: 1.0}
    assert (arm.diverged, arm.holes, edges) == (0, 0, 1)
    nowhere, _ = band("x", [(0.1, Arm("x", {1: 2.0}, diverged=1)), (0.2, Arm("y", {}, diverged=2))], 0.5)
    assert (nowhere.values, nowhere.diverged) == ({1: 0.0}, 1)


def test_rank_correlations_between_and_within_arms():
    rng = np.random.default_rng(5)
    levels = rng.normal(0, 10, 12)
    related = [[(level + x, 2 * level - x) for x in rng.normal(0, 0.1, 5)] for level in levels]
    between, within = correlated(related, "arms"), correlated(related, "seeds")
    assert (between.test.difference, within.test.difference) == pytest.approx((1, -1))
    assert judged("equivalence", between, 0, 0.3) == "undecided"
    free = correlated([list(zip(*rng.normal(0, 1, (2, 5)), strict=True)) for _ in range(40)], "seeds")
    assert free.test.low < 0 < free.test.high
    assert correlated(related[:4], "arms").why == "too few arms"
    mixed = [[(x, y) for x, y in rng.normal(0, 1, (5, 2))] for _ in range(30)]
    means = np.array(mixed).mean(axis=1)
    assert correlated(mixed, "arms").test.difference == pytest.approx(stats.spearmanr(*means.T).statistic)


def test_a_correlation_is_tested_where_its_interval_is_taken():
    """ρ = .8, σ = .3, 5 degrees: artanh .8 = 1.0986, its error .3 / .36 = .8333, t(.975, 5) = 2.5706."""
    wide = rank_correlation(0.8, 0.3, 5)
    assert (wide.low, wide.high) == pytest.approx((math.tanh(1.0986 - 2.1421), math.tanh(1.0986 + 2.1421)), abs=1e-4)
    assert wide.p == pytest.approx(2 * stats.t.sf(1.0986 / 0.8333, 5), abs=1e-4)
    for rho, error in itertools.product((-0.95, -0.6, 0.2, 0.6, 0.9), (0.02, 0.1, 0.2, 0.3)):
        test = rank_correlation(rho, error, 9)
        assert -1 < test.low < rho < test.high < 1
        assert (test.p < 0.05) == (test.low > 0 or test.high < 0)
        ends = [math.tanh(math.atanh(rho) + side * stats.t.ppf(0.95, 9) * test.se) for side in (-1, 1)]
        assert inside(test.inner, 0.3) == (max(map(abs, ends)) < 0.3)
    (alone,) = adjusted([Comparison(wide)])
    assert alone.detectable == pytest.approx(math.tanh((2.5706 + stats.t.ppf(0.8, 5)) * 0.8333), abs=1e-4)


def test_what_a_number_of_arms_can_show_of_a_rank_correlation():
    """σ = √(1.06 / 18) = .2427; t.975(20) = 2.086, t.80(20) = .860, t.95(20) = 1.725: tanh .7149 and tanh .4185."""
    assert correlation_power(21) == pytest.approx((0.6137, 0.3957), abs=2e-4)
    assert correlation_power(21, tests=2)[0] > correlation_power(21)[0]


def test_under_the_null_a_claim_is_supported_in_one_of_twenty_tables_at_most():
    """300 questions of three contrasts, of which any is enough; nothing differs, and seeds are shared.

    And with a true difference that equals the margin, `no difference` is found as rarely.
    """
    draw, tables = np.random.default_rng(11), 300
    false = equal = covered = 0
    contrasts = [{name: 1.0, "a": -1.0} for name in "bcd"]
    for _ in range(tables):
        data = 80 + draw.normal(0, 1, (4, 5))
        whole = arms(**{name: dict(enumerate(row)) for name, row in zip("abcd", data, strict=True)})
        found = contrasted(whole, contrasts)
        false += (
            combined(question(combine="any"), "superiority", [judged("superiority", c, 0) for c in found])
            == "supported"
        )
        at_margin = found[0].test
        moved = t_test("welch", at_margin.difference + 2.0, at_margin.se, at_margin.df)
        equal += judged("equivalence", Comparison(moved, holm=moved.p), 1, 2.0).startswith("no difference")
        covered += all(c.test.low <= 0 <= c.test.high for c in found)
    error = 3 * math.sqrt(0.05 * 0.95 / tables)
    assert false / tables <= 0.05 + error
    assert equal / tables <= 0.05 + error
    assert covered / tables >= 0.95 - error


@pytest.mark.parametrize(
    ("word", "combine", "shown"),
    [
        ("no difference larger than the margin", "all", "wide"),
        ("no difference larger than the margin", "any", "narrow"),
        ("supported", "all", "narrow"),
        ("supported", "any", "wide"),
    ],
)
def test_a_row_shows_the_weakest_contrast_or_the_strongest_if_one_is_enough(word, combine, shown):
    """A wide equivalence is weak, though its p value, of a difference from 0, is small."""
    both = [
        Finding(name, word, SimpleNamespace(holm=holm, test=SimpleNamespace(inner=inside_)), 5, 5, 2.0)
        for name, holm, inside_ in (("narrow", 0.9, (-0.4, 0.5)), ("wide", 0.01, (-1.9, -0.7)))
    ]
    assert Verdict(None, question(combine=combine), "grammar", "recurrent", word, tuple(both)).deciding.name == shown


def test_the_weakest_ratio_is_the_farthest_from_one():
    asked, word = SimpleNamespace(combine="all", benchmark="cost"), "no difference larger than the margin"
    both = [
        Finding(name, word, SimpleNamespace(holm=1.0, test=SimpleNamespace(inner=ends)), 10, 10, 1.1)
        for name, ends in (("slower", (1.0, 1.05)), ("faster", (0.92, 0.98)))
    ]
    assert Verdict(None, asked, "one site", "x", word, tuple(both)).deciding.name == "faster"
