"""Words for findings, questions and claims, on values by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest

from study.analysis.inference import Arm, Test, adjusted, contrast, t_test
from study.analysis.measures import Measure
from study.claims.contrasts import Weighted
from study.claims.schema import Contrast, Question
from study.claims.verdicts import Finding, combine, inside, judged, summary, supersede

BASE = (80.0, 82.0, 81.5, 79.0, 83.0)
BETTER = (85.0, 86.5, 87.0, 83.5, 88.5)
ALIKE = (80.3, 81.9, 81.4, 79.3, 82.9)
NOISY = (90.0, 70.0, 95.0, 74.0, 82.0)
NO = "no difference larger than the margin"
PAIR = {"arm": {"a": 1}, "baseline": {"a": 2}}


def against_base(*others):
    """Tests of arms against BASE, as one family."""
    base = Arm("base", dict(enumerate(BASE)))
    return adjusted([contrast([(1.0, Arm("other", dict(enumerate(one)))), (-1.0, base)]) for one in others])


def judge(kind, test, sign, margin=None, saturated=False, diverged=()):
    return judged(kind, test, sign, margin, saturated, diverged)


def question(**facts):
    return Question(**{"sweep": "x", "asked": ["grammar/recurrent"], "contrasts": [PAIR]} | facts)


def rows_of(asked, words, family="recurrent"):
    """The rows of a question whose contrasts have these words."""
    rows = []
    for word in words:
        measure, weighted = Measure(asked.metric), Weighted([], 5)
        row = Finding(None, asked, asked.contrasts[0], "grammar", family, measure, weighted, 1.0, word=word)
        row.test = Test("welch", 1.0, low90=-0.5, high90=0.5)
        rows.append(row)
    combine(rows)
    return rows


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
    assert judge(kind, *against_base(other), sign, **facts) == word


def test_two_one_sided_tests_by_hand():
    """Difference .3, SE .2, 4 degrees of freedom: the 90% interval is .3 ± 2.132 · .2."""
    test, edge = t_test("welch", 0.3, 0.2, 4), 0.3 + 2.131847 * 0.2
    assert [inside(test, edge + 1e-6), inside(test, edge - 1e-6)] == [True, False]
    assert not inside(Test("welch", 0.0), 100.0)
    assert [judge("shape", Test(method), 1) for method in ("missing runs", "diverged")] == ["not yet run", "undecided"]


@pytest.mark.parametrize(
    ("words", "together", "verdict", "enough", "verdict_of_any"),
    [
        (["supported", "supported, below the margin"], "supported, below the margin", "holds", "supported", "holds"),
        (["supported", "contradicted"], "contradicted", "mixed", "supported", "holds"),
        (["supported", "undecided"], "undecided", "not decided", "supported", "holds"),
        (["contradicted", "undecided"], "contradicted", "fails", "undecided", "not decided"),
        (["contradicted", NO], "contradicted", "fails", NO, "fails"),
        (["supported", NO], NO, "mixed", "supported", "holds"),
        (["saturated", "supported"], "saturated", "not decided", "supported", "holds"),
        (["contradicted, below the margin"], *["contradicted, below the margin", "fails"] * 2),
        (["supported", "not yet run"], *["not yet run", "not yet run"] * 2),
    ],
)
def test_the_verdict_of_several_contrasts(words, together, verdict, enough, verdict_of_any):
    turned = {"holds": "fails", "fails": "holds"}
    for asked, word, expected in (
        (question(), together, verdict),
        (question(combine="any"), enough, verdict_of_any),
        (question(against=True), together, turned.get(verdict, verdict)),
        (question(not_asked="no"), together, verdict if verdict == "not yet run" else "not asked as published"),
        (question(descriptive=True), together, verdict if verdict == "not yet run" else "none"),
    ):
        (row,) = [row for row in rows_of(asked, words) if row.decides]
        assert (row.finding, row.word, row.verdict) == (word, word, expected)


def test_an_equivalence_holds_where_no_difference_is_shown():
    for combined, verdict in (("all", "mixed"), ("any", "holds")):
        asked = question(type="equivalence", margin=1, combine=combined)
        assert rows_of(asked, ["contradicted", NO])[0].verdict == verdict
        assert rows_of(asked, [NO, NO])[0].verdict == "holds"


@pytest.mark.parametrize(
    ("word", "combined", "shown"), [(NO, "all", 1), (NO, "any", 0), ("supported", "all", 0), ("supported", "any", 1)]
)
def test_a_row_shows_the_weakest_contrast_or_the_strongest_if_one_is_enough(word, combined, shown):
    """A wide equivalence is weak, though its p value, of a difference from 0, is small."""
    narrow, wide = rows_of(question(combine=combined), [word, word])
    narrow.test = Test("welch", holm=0.9, low90=-0.4, high90=0.5)
    wide.test = Test("welch", holm=0.01, low90=-1.9, high90=-0.7)
    narrow.decides = wide.decides = False
    combine([narrow, wide])
    assert [narrow.decides, wide.decides].index(True) == shown


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
        rows += rows_of(asked, ["supported" if word == "none" else word])
    assert summary(rows) == whole


@pytest.mark.parametrize("given", [["once"], None])
def test_a_question_replaces_nothing_in_another_family_unless_it_names_it(given):
    """In transformers the old question still counts as long as the new one has not run there."""
    old, new = question(part="once"), question(part="again", edition=2, replaces=given)
    places = (("recurrent", old), ("recurrent", new), ("transformer", old), ("transformer", new))
    words = ("supported", "supported", "supported", "not yet run")
    rows = [rows_of(asked, [word], family)[0] for (family, asked), word in zip(places, words, strict=True)]
    supersede(rows)
    assert [len(row.superseded_by) for row in rows] == [1, 0, 0, 0]


def test_better_is_less_of_a_loss():
    found = [
        ("better", "test/nll"),
        ("worse", "test/exact"),
        ("better", "diagnostics/cross/entropy"),
        ("higher", "test/nll"),
    ]
    assert [Contrast(**PAIR, expect=expect).direction(metric) for expect, metric in found] == [-1, -1, 0, 1]


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
