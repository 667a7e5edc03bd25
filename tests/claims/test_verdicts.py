"""Words for findings, questions and claims, on values by hand."""

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from study.analysis.inference import Arm, Test, adjusted, contrast, rank_correlation, t_test
from study.claims.contrasts import Weighted, band
from study.claims.schema import Contrast, Question
from study.claims.verdicts import Finding, Verdict, combined, finding, inside, judged, outcome, summary, supersede

BASE = (80.0, 82.0, 81.5, 79.0, 83.0)
BETTER = (85.0, 86.5, 87.0, 83.5, 88.5)
ALIKE = (80.3, 81.9, 81.4, 79.3, 82.9)
NOISY = (90.0, 70.0, 95.0, 74.0, 82.0)
NO = "no difference larger than the margin"


def against_base(*others):
    """Tests of arms against BASE, as one family."""
    base = Arm("base", dict(enumerate(BASE)))
    return adjusted([contrast([(1.0, Arm("other", dict(enumerate(one)))), (-1.0, base)]) for one in others])


def question(**facts):
    return Question(
        **{"sweep": "x", "asked": ["grammar/recurrent"], "contrasts": [{"arm": {"a": 1}, "baseline": {"a": 2}}]} | facts
    )


@pytest.mark.parametrize(
    ("word", "kind", "other", "sign", "facts"),
    [
        ("supported", "superiority", BETTER, 1, {"margin": 2.0}),
        ("supported", "shape", BETTER, 0, {}),
        ("supported, below the margin", "superiority", BETTER, 1, {"margin": 20.0}),
        ("contradicted", "superiority", BETTER, -1, {"margin": 2.0}),
        ("contradicted, below the margin", "superiority", BETTER, -1, {"margin": 20.0}),
        ("contradicted", "equivalence", BETTER, 1, {"margin": 2.0}),
        ("undecided", "equivalence", BETTER, 1, {"margin": 4.8}),
        (NO, "equivalence", ALIKE, 1, {"margin": 2.0}),
        (NO, "superiority", ALIKE, 1, {"margin": 2.0}),
        ("undecided", "equivalence", ALIKE, 1, {"margin": 0.1}),
        ("undecided", "superiority", NOISY, 1, {"margin": 0.5}),
        ("undecided", "superiority", ALIKE, 1, {}),
        ("saturated", "superiority", NOISY, 1, {"margin": 2.0, "saturated": True}),
        ("saturated", "equivalence", ALIKE, 1, {"margin": 2.0, "saturated": True}),
        ("supported", "superiority", BETTER, 1, {"saturated": True}),
        ("undecided", "superiority", BETTER, 1, {"diverged": [1]}),
        ("supported", "superiority", BETTER, 1, {"diverged": [-1]}),
        ("undecided", "superiority", BETTER, -1, {"diverged": [-1], "margin": 20.0}),
        ("undecided", "equivalence", ALIKE, 1, {"margin": 2.0, "diverged": [-1]}),
    ],
)
def test_every_word_is_reached_by_data(word, kind, other, sign, facts):
    assert judged(kind, *against_base(other), sign, **facts) == word


def test_without_runs_there_is_no_verdict():
    assert judged("superiority", Test("missing runs"), 1) == "not yet run"
    assert judged("superiority", Test("diverged"), 1) == "undecided"


def test_two_one_sided_tests_by_hand():
    """Difference .3, SE .2, 4 degrees of freedom: the 90% interval is .3 ± 2.132 · .2, the 95% one .3 ± 2.776 · .2."""
    test, edge = t_test("welch", 0.3, 0.2, 4), 0.3 + 2.131847 * 0.2
    assert (test.low, test.high) == pytest.approx((0.3 - 2.776445 * 0.2, 0.3 + 2.776445 * 0.2), abs=1e-6)
    assert [inside(test, edge + 1e-6), inside(test, edge - 1e-6), inside(Test("welch", 0.0), 100.0)] == [
        True,
        False,
        False,
    ]


def test_a_clear_difference_may_straddle_its_margin():
    found = Finding(None, Weighted(), replace(t_test("welch", 0.3, 0.02, 4), holm=0.001), "undecided", 0.3)
    assert found.straddles
    assert not replace(found, test=replace(found.test, holm=0.2)).straddles
    assert not replace(found, weighted=Weighted(diverged=["1 of 5"])).straddles


def test_what_all_and_any_make_of_several_words():
    everything, anything = question(), question(combine="any")
    words = ["supported", NO, "supported, below the margin"]
    assert combined(everything, words) == NO
    assert combined(everything, [*words, "undecided"]) == "undecided"
    assert combined(everything, [*words, "contradicted"]) == "contradicted"
    assert combined(anything, [*words, "undecided", "contradicted"]) == "supported"
    assert combined(anything, ["contradicted", "undecided"]) == "undecided"
    assert combined(question(combine="any", type="equivalence", margin=1), ["contradicted", NO]) == NO
    assert combined(anything, ["supported", "not yet run"]) == "not yet run"


@pytest.mark.parametrize(
    ("kind", "word", "said"),
    [
        ("superiority", "supported", "holds"),
        ("superiority", "supported, below the margin", "holds"),
        ("superiority", "contradicted, below the margin", "fails"),
        ("superiority", NO, "fails"),
        ("superiority", "undecided", "not decided"),
        ("superiority", "saturated", "not decided"),
        ("superiority", "not yet run", "not yet run"),
        ("equivalence", NO, "holds"),
        ("equivalence", "contradicted", "fails"),
    ],
)
def test_a_verdict_says_what_the_finding_means_for_the_claim(kind, word, said):
    facts = {"type": kind, "margin": 1.0}
    assert outcome(question(**facts), [word]) == said
    assert outcome(question(against=True, **facts), [word]) == {"holds": "fails", "fails": "holds"}.get(said, said)
    for more, other in (({"descriptive": True}, "none"), ({"not_asked": "no"}, "not asked as published")):
        assert outcome(question(**facts, **more), [word]) == (said if said == "not yet run" else other)


@pytest.mark.parametrize(
    ("words", "all_", "any_"),
    [
        (["supported", "supported, below the margin"], "holds", "holds"),
        (["supported", "contradicted"], "mixed", "holds"),
        (["supported", "undecided"], "not decided", "holds"),
        (["contradicted", "undecided"], "fails", "not decided"),
        (["contradicted", NO], "fails", "fails"),
        (["supported", "not yet run"], "not yet run", "not yet run"),
        ([], "not yet run", "not yet run"),
    ],
)
def test_the_verdict_of_several_contrasts(words, all_, any_):
    assert (outcome(question(), words), outcome(question(combine="any"), words)) == (all_, any_)


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        (["supported", "supported"], "holds"),
        (["supported", "contradicted"], "mixed"),
        (["supported", "none", "not yet run", "contradicted, post hoc"], "holds"),
        (["none", "contradicted, post hoc"], "fails"),
        (["supported", "saturated"], "holds"),
        (["contradicted, post hoc", "saturated"], "not decided"),
        (["not yet run"], "not yet run"),
        (["none"], "none"),
    ],
)
def test_a_claim_has_the_verdict_that_its_parts_share(parts, whole):
    rows = []
    for part in parts:
        word = part.partition(",")[0]
        asked = question(descriptive=word == "none", post_hoc="later" * ("post hoc" in part))
        word = "supported" if word == "none" else word
        found = Finding(asked.contrasts[0], Weighted(), Test("welch", 1.0), word, None)
        rows.append(Verdict(None, asked, "grammar", "recurrent", word, (found,)))
    assert summary(rows) == whole


@pytest.mark.parametrize("given", [["once"], None])
def test_a_question_replaces_nothing_in_another_family_unless_it_names_it(given):
    """In transformers the old question still counts as long as the new one has not run there."""
    asked = [question(part="once"), question(part="again", edition=2, replaces=given)]
    rows = [
        Verdict(None, one, "grammar", family, word, (Finding(one.contrasts[0], Weighted(), Test(""), word, None),))
        for family, words in (("recurrent", ["supported"] * 2), ("transformer", ["supported", "not yet run"]))
        for one, word in zip(asked, words, strict=True)
    ]
    assert [len(one.superseded) for one in supersede(rows)] == [1, 0, 0, 0]


@pytest.mark.parametrize(
    ("base", "other", "kind", "expect", "word"),
    [
        (99.8, 88.0, "equivalence", "better", "undecided"),  # a loss shows below the ceiling
        (99.8, 99.7, "equivalence", "better", "saturated"),
        (99.8, 98.0, "equivalence", "better", NO),
        (99.8, 98.9, "superiority", "better", "saturated"),  # the gain that is claimed cannot show
        (99.8, 88.0, "superiority", "worse", "undecided"),
        (0.3, 1.5, "superiority", "worse", "saturated"),
        (0.3, 12.0, "superiority", "better", "undecided"),
        (0.3, 99.7, "superiority", "different", "undecided"),
    ],
)
def test_nothing_is_saturated_that_could_show(base, other, kind, expect, word):
    """The spread of the other arm, ±12 or ±1 by seed, is too large to tell it from its base."""
    ours, theirs = Arm("b", {1: other}), Arm("a", {1: base})
    asked = Contrast(arm={"a": 1}, baseline={"a": 2}, expect=expect)
    weighed = Weighted([(1.0, ours), (-1.0, theirs)], 5, [theirs], [ours, theirs])
    test = replace(t_test("welch", other - base, abs(other - base) + 1, 4), holm=0.4)
    if word == NO:
        test = replace(t_test("welch", other - base, 0.1, 4), holm=0.001)
    assert finding(kind, question(metric="test/exact"), asked, weighed, test, 5.0).word == word


def test_better_is_less_of_a_loss():
    pair = {"arm": {"a": 1}, "baseline": {"a": 2}}
    found = [
        ("better", "test/nll"),
        ("worse", "test/exact"),
        ("better", "diagnostics/cross/entropy"),
        ("higher", "test/nll"),
    ]
    assert [Contrast(**pair, expect=expect).direction(metric) for expect, metric in found] == [-1, -1, 0, 1]


def test_the_band_of_learning_rates_by_hand():
    """Seed 1: best at .004, .002 and .008 within .5, .001 not: two doublings. Seed 2 diverged at .008, best at .001."""
    losses = {0.001: {1: 3.0, 2: 1.0}, 0.002: {1: 1.4, 2: 1.2}, 0.004: {1: 1.0, 2: 2.0}, 0.008: {1: 1.5}}
    rates = [(rate, Arm(str(rate), some, diverged=2 - len(some))) for rate, some in losses.items()]
    arm, edges = band("x", rates, 0.5)
    assert (arm.values, arm.diverged, arm.holes, edges) == ({1: 2.0, 2: 1.0}, 0, 0, 1)
    nowhere, _ = band("x", [(0.1, Arm("x", {1: 2.0}, diverged=1)), (0.2, Arm("y", {}, diverged=2))], 0.5)
    assert (nowhere.values, nowhere.diverged) == ({1: 0.0}, 1)


def test_under_the_null_a_claim_is_supported_in_one_of_twenty_tables_at_most():
    """300 questions of three contrasts, of which any is enough; nothing differs, and seeds are shared.

    And with a true difference that equals the margin, `no difference` is found as rarely.
    """
    draw, tables = np.random.default_rng(11), 300
    false = equal = covered = 0
    for _ in range(tables):
        base, *others = (Arm(name, dict(enumerate(draw.normal(80, 1, 5)))) for name in "abcd")
        found = adjusted([contrast([(1.0, other), (-1.0, base)]) for other in others])
        false += combined(question(combine="any"), [judged("superiority", one, 0) for one in found]) == "supported"
        moved = t_test("welch", found[0].difference + 2.0, found[0].se, found[0].df)
        equal += judged("equivalence", replace(moved, holm=moved.p), 1, 2.0) == NO
        covered += all(one.low <= 0 <= one.high for one in found)
    error = 3 * math.sqrt(0.05 * 0.95 / tables)
    assert false / tables <= 0.05 + error
    assert equal / tables <= 0.05 + error
    assert covered / tables >= 0.95 - error


@pytest.mark.parametrize(
    ("word", "combine", "shown"),
    [(NO, "all", "wide"), (NO, "any", "narrow"), ("supported", "all", "narrow"), ("supported", "any", "wide")],
)
def test_a_row_shows_the_weakest_contrast_or_the_strongest_if_one_is_enough(word, combine, shown):
    """A wide equivalence is weak, though its p value, of a difference from 0, is small. Of ratios: the farthest."""
    tests = {
        "narrow": Test("welch", holm=0.9, low90=-0.4, high90=0.5),
        "wide": Test("welch", holm=0.01, low90=-1.9, high90=-0.7),
    }
    both = tuple(
        Finding(Contrast(name=name, arm={}, baseline={}), Weighted(), test, word, 2.0) for name, test in tests.items()
    )
    assert Verdict(None, question(combine=combine), "grammar", "recurrent", word, both).deciding.name == shown
    ends = {"slower": (1.0, 1.05), "faster": (0.92, 0.98)}
    ratios = [
        Finding(Contrast(name=name, arm={}, baseline={}), Weighted(), Test("", low90=low, high90=high), NO, 1.1)
        for name, (low, high) in ends.items()
    ]
    asked = SimpleNamespace(combine="all", benchmark="cost")
    assert Verdict(None, asked, "one site", "x", NO, tuple(ratios)).deciding.name == "faster"


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
        assert inside(test, 0.3) == (max(map(abs, ends)) < 0.3)
    (alone,) = adjusted([wide])
    assert alone.detectable == pytest.approx(math.tanh((2.5706 + stats.t.ppf(0.8, 5)) * 0.8333), abs=1e-4)
