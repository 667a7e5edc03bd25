"""Words for findings, questions and claims, on values by hand."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from study.analysis.inference import Arm, SentenceNoise, Test, adjusted, contrast, t_test
from study.analysis.measures import Measure
from study.claims.contrasts import Weighted
from study.claims.schema import Contrast, Question
from study.claims.verdicts import Finding, Judged, inside, stance, summary, verdict_of, word_for

BASE = (80.0, 82.0, 81.5, 79.0, 83.0)
BETTER = (85.0, 86.5, 87.0, 83.5, 88.5)
ALIKE = (80.3, 81.9, 81.4, 79.3, 82.9)
NOISY = (90.0, 70.0, 95.0, 74.0, 82.0)
NO, NOT_WORSE = "no difference larger than the margin", "not worse than the margin"
PAIR = {"arm": {"a": 1}, "baseline": {"a": 2}}


def against_base(*others):
    """Tests of arms against BASE, as one family."""
    base = Arm("base", dict(enumerate(BASE)))
    return adjusted([contrast([(1.0, Arm("other", dict(enumerate(one)))), (-1.0, base)]) for one in others])


def judge(kind, test, sign, margin=None, saturated=False, diverged=()):
    return word_for(kind, test, sign, margin, saturated, diverged)


def question(**facts):
    return Question(**{"sweep": "x", "asked": ["grammar/recurrent"], "contrasts": [PAIR]} | facts)


def row_of(asked, word, difference=1.0, **facts):
    """A contrast of a question, judged with this word."""
    made = {
        "claim": None,
        "question": asked,
        "contrast": asked.contrasts[0],
        "corpus": "grammar",
        "family": "recurrent",
    }
    made |= {"measure": Measure(asked.metric), "weighted": Weighted([], 5), "margin": 1.0, "effects": (), "noise": None}
    return Judged(**made | {"word": word, "test": Test("welch", difference, low90=-0.5, high90=0.5)} | facts)


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
        ("undecided", "equivalence", BETTER, 1, {"margin": 2.0, "diverged": [1, -1]}),
        (NO, "equivalence", ALIKE, 1, {"margin": 2.0}),
        (NO, "superiority", ALIKE, 1, {"margin": 2.0}),
        ("undecided", "equivalence", ALIKE, 1, {"margin": 0.1}),
        ("undecided", "superiority", ALIKE, 1, {}),
        ("saturated", "superiority", NOISY, 1, {"margin": 2.0, "saturated": True}),
        ("saturated", "equivalence", ALIKE, 1, {"margin": 2.0, "saturated": True}),
        ("supported", "superiority", BETTER, 1, {"saturated": True}),
        (NOT_WORSE, "noninferiority", ALIKE, 1, {"margin": 2.0}),
        ("contradicted", "noninferiority", BETTER, -1, {"margin": 2.0}),
        ("undecided", "noninferiority", BETTER, -1, {"margin": 4.8}),
        (NOT_WORSE, "noninferiority", BETTER, -1, {"margin": 20.0}),
        ("undecided", "noninferiority", ALIKE, 1, {"margin": 2.0, "diverged": [1]}),
        (NOT_WORSE, "noninferiority", ALIKE, 1, {"margin": 2.0, "diverged": [-1]}),
        ("saturated", "noninferiority", ALIKE, 1, {"margin": 2.0, "saturated": True}),
        ("undecided", "superiority", BETTER, 1, {"diverged": [1]}),
        ("supported", "superiority", BETTER, 1, {"diverged": [-1]}),
        ("undecided", "superiority", BETTER, -1, {"diverged": [-1], "margin": 20.0}),
        ("undecided", "equivalence", ALIKE, 1, {"margin": 2.0, "diverged": [-1]}),
    ],
)
def test_every_word_is_reached_by_data(word, kind, other, sign, facts):
    assert judge(kind, *against_base(other), sign, **facts) == word


def test_two_one_sided_tests_by_hand():
    """Difference .3, SE .2, 4 degrees of freedom: the 90% interval is .3 ± 2.132 · .2."""
    test, edge = t_test("welch", 0.3, 0.2, 4), 0.3 + 2.131847 * 0.2
    assert [inside(test, edge + 1e-6), inside(test, edge - 1e-6)] == [True, False]
    assert not inside(Test("welch", 0.0), 100.0)
    assert [judge("shape", Test(method), 1) for method in ("missing runs", "diverged")] == ["not yet run", "undecided"]


@pytest.mark.parametrize(
    ("words", "verdict", "verdict_of_any"),
    [
        (["supported", "supported, below the margin"], "holds", "holds"),
        (["supported", "contradicted"], "fails", "holds"),
        (["supported", "undecided"], "open", "holds"),
        (["contradicted", "undecided"], "fails", "open"),
        (["supported", NO], "fails", "holds"),
        (["saturated", "supported"], "open", "holds"),
        (["contradicted, below the margin"], "fails", "fails"),
        (["supported", "not yet run"], "not yet run", "not yet run"),
    ],
)
def test_the_verdict_of_several_contrasts(words, verdict, verdict_of_any):
    for asked, expected in ((question(), verdict), (question(combine="any"), verdict_of_any)):
        assert verdict_of(asked, words, [stance(row_of(asked, word)) for word in words]) == expected


def test_no_difference_is_what_an_equivalence_predicts_and_no_other_claim():
    kinds = {"equivalence": 1, "superiority": -1, "shape": -1}
    assert {kind: stance(row_of(question(type=kind, margin=1), NO)) for kind in kinds} == kinds
    assert stance(row_of(question(type="noninferiority", margin=1), NOT_WORSE)) == 1


@pytest.mark.parametrize(
    ("first", "second", "signs", "expected"),
    [
        ("supported", "supported", (1, 1), 1),
        ("supported", "undecided", (1, 1), 1),
        ("undecided", "contradicted", (-1, -1), -1),
        ("contradicted", "undecided", (-1, 1), 0),
        ("contradicted", NOT_WORSE, (-1, 1), 0),
        ("contradicted", NOT_WORSE, (-1, -1), 0),
        (NOT_WORSE, NOT_WORSE, (-1, 1), 1),
    ],
)
def test_two_scores_decide_together_and_are_open_where_they_differ_in_sign(first, second, signs, expected):
    """NLL and BLEU: a negative difference of NLL is better, of BLEU worse."""
    asked = question(type="noninferiority", margin="0.5 bleu", metric="test/nll", second="test/bleu")
    row = row_of(asked, first, difference=-1.0 * signs[0])
    beside = row_of(asked, second, difference=1.0 * signs[1], measure=Measure("test/bleu"))
    assert stance(row, beside) == expected


@pytest.mark.parametrize(
    ("parts", "whole", "words"),
    [
        (["holds", "holds"], "holds", "holds"),
        (["fails", "open"], "fails", "fails"),
        (["holds", "fails", "open"], "depends", "depends on the question (1 of 3 hold)"),
        (["holds", "open"], "open", "open"),
        (["holds", "fails without a vote", "not yet run"], "holds", "holds"),
        (["holds", "fails, post hoc"], "depends", "depends on the question (1 of 2 hold)"),
        (["holds", "open, saturated"], "holds", "holds"),
        (["not yet run"], "not yet run", "not yet run"),
        (["fails without a vote"], "not asked", "not asked"),
    ],
)
def test_the_verdict_on_a_claim(parts, whole, words):
    rows, claim = [], SimpleNamespace(depends_on="the question")
    for part in parts:
        asked = question(no_vote="a control" * ("vote" in part), post_hoc="later" * ("post hoc" in part))
        verdict = next(word for word in ("holds", "fails", "open", "not yet run") if part.startswith(word))
        word = "saturated" if "saturated" in part else "undecided"
        row = row_of(asked, word, claim=claim)
        rows.append(Finding(**vars(row), second=None, verdict=verdict, decides=True, false_discovery=None))
    found = summary(rows)
    assert (found.word, found.words) == (whole, words)
    claim.depends_on = "the size"
    assert whole != "depends" or summary(rows).words.startswith("depends on the size (1 of ")


def test_the_margin_at_which_a_word_turns_and_the_seeds_that_a_row_needs():
    """Five runs, difference .3 ± SE .2 of 8 degrees of freedom: 90% .3 ± 1.860 · .2, 95% .3 ± 2.306 · .2."""
    test = replace(t_test("welch", 0.3, 0.2, 8), holm=0.2)
    for kind, metric, turns in (
        ("superiority", "test/exact", 0.672),
        ("equivalence", "test/exact", 0.672),
        ("noninferiority", "test/exact", 0.072),
        ("noninferiority", "test/nll", 0.672),
    ):
        row = row_of(question(type=kind, margin=1, metric=metric), "undecided", test=test)
        assert row.turns == pytest.approx(turns, abs=1e-3)
    row = replace(row, test=replace(t_test("welch", 0.9, 0.2, 8), holm=0.002), word="contradicted")
    assert row.turns == pytest.approx(0.9 - 2.306 * 0.2, abs=1e-3), "the nearer end of the 95% interval"
    five = Weighted([(1.0, Arm("a", dict.fromkeys(range(5), 1.0)))], 5)
    half = stats.t.ppf(0.95, 2 * 6 - 2) + stats.t.ppf(0.8, 2 * 6 - 2)
    margin = half * 0.2 * math.sqrt(5 / 6) + 1e-9
    row = replace(row, weighted=five, test=Test("welch", 0.1, se=0.2, df=8), margin=margin)
    assert row.needed == 6
    half = stats.t.ppf(0.95, 2 * 9 - 2) + stats.t.ppf(0.9, 2 * 9 - 2)
    asked, margin = question(type="equivalence", margin=1), half * 0.2 * math.sqrt(5 / 9) + 1e-9
    assert replace(row, question=asked, margin=margin).needed == 9, "each of two ends with power .90"
    row = replace(row, noise=SentenceNoise(0.2**2, 100), margin=0.3)
    assert row.needed is None, "all of the variance is that of the sentences, which more seeds do not lower"


def test_better_is_less_of_a_loss():
    signs = {("better", "test/nll"): -1, ("worse", "test/exact"): -1, ("higher", "test/nll"): 1}
    signs["better", "diagnostics/cross/entropy"] = 0
    assert {asked: Contrast(**PAIR, expect=asked[0]).direction(asked[1]) for asked in signs} == signs


def test_under_the_null_a_claim_is_supported_in_one_of_twenty_tables_at_most():
    """300 questions of three contrasts, of which any is enough; nothing differs, and seeds are shared.

    And with a true difference that equals the margin, `no difference` is found as rarely.
    """
    draw, tables = np.random.default_rng(11), 300
    false = equal = covered = 0
    for _ in range(tables):
        base, *others = (Arm(name, dict(enumerate(draw.normal(80, 1, 5)))) for name in "abcd")
        found = adjusted([contrast([(1.0, other), (-1.0, base)]) for other in others])
        false += "supported" in [judge("superiority", one, 0) for one in found]
        moved = t_test("welch", found[0].difference + 2.0, found[0].se, found[0].df)
        equal += judge("equivalence", replace(moved, holm=moved.p), 1, 2.0) == NO
        covered += all(one.low <= 0 <= one.high for one in found)
    error = 3 * math.sqrt(0.05 * 0.95 / tables)
    assert false / tables <= 0.05 + error
    assert equal / tables <= 0.05 + error
    assert covered / tables >= 0.95 - error
