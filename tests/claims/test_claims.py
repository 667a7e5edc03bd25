import math
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from claim_cases import CLAIM, RATE, SCORE, SEEDS, WIDE, Study
from scipy import stats

from study.analysis.runs import Runs
from study.claims import costs, forest, matrix, noise, page
from study.claims import table as claims_table
from study.claims.evaluate import evaluate
from study.claims.schema import HERE, Question, read, read_all
from study.claims.verdicts import by_claim, deciding, fragile, summary
from study.commands import claims as command
from study.errors import InputError
from study.files import CHECKOUT
from study.records import Score


@pytest.fixture
def study(tmp_path):
    return Study(tmp_path)


DOT = dict(zip(SEEDS, (80.0, 82.0, 81.5, 79.0, 83.0), strict=True))
LESS = dict(zip(SEEDS, (70.0, 73.0, 71.5, 68.0, 74.0), strict=True))


def test_every_claim_is_there_and_names_what_the_sweeps_have():
    found = evaluate(read_all(), Runs(None, CHECKOUT / "sweeps"))
    assert list(dict.fromkeys(verdict.claim.id for verdict in found)) == list(range(1, 30))
    assert {verdict.word for verdict in found} == {"not yet run"}
    assert "°" not in HERE.read_text(encoding="utf-8")
    text = "\n".join(page.lines(found, everything=True)) + claims_table.table(found).markdown()
    remembered = [claim.unchecked for claim in read(HERE).claims if claim.unchecked]
    assert remembered
    assert not [one for one in remembered if one in text]
    assert text.count("The claim is not yet run.") == 29


def test_a_claim_of_ones_own_by_hand(study):
    """Means 81.1 and 71.3, variances 2.55 and 5.7: SE² = 8.25 / 5, df = 8.25² / ((2.55² + 5.7²) / 4) = 6.98."""
    study.write("dot", 0.001, DOT)
    study.write("bilinear", 0.001, LESS)
    (verdict,) = study.ask()
    assert (verdict.word, verdict.corpus, verdict.family) == ("supported", "grammar", "recurrent")
    test = verdict.deciding.test
    assert (test.difference, test.se, test.df) == pytest.approx(
        (9.8, math.sqrt(1.65), 8.25**2 / ((2.55**2 + 5.7**2) / 4))
    )
    row = claims_table.table([verdict]).blocks[0].rows[0]
    assert row.cells["estimate"] == "+9.8"
    assert row.cells["contrast"] == "dot − bilinear: exact match, %"
    assert (row.cells["n"], row.bold) == ("5", frozenset({"estimate", "interval"}))
    assert (row.numbers["verdict"], row.numbers["finding"]) == ("holds", "supported")
    half = stats.t.ppf(0.95, test.df) * math.sqrt(1.65)
    assert row.cells["inner"] == f"[+{9.8 - half:.1f}, +{9.8 + half:.1f}]"
    assert (row.cells["margin"], row.cells["margins"]) == ("2.0", "+4.90")
    below = study.ask(margin=12)[0]
    assert (below.word, below.outcome) == ("supported, below the margin", "holds")
    equivalence = study.ask({"type": "equivalence"})[0]
    assert (equivalence.word, equivalence.outcome) == ("contradicted", "fails")
    worse = study.ask({"type": "equivalence"}, **contrast(arm={SCORE: "bilinear"}, baseline={SCORE: "dot"}))[0]
    feared = study.ask({"type": "equivalence"}, **contrast(expect="worse"))[0]
    told = [row.cells["finding"] for row in claims_table.table([equivalence, worse, feared]).blocks[0].rows]
    assert told == ["contradicted; the first arm is better", "contradicted", told[0]]
    straddling = study.ask({"type": "equivalence"}, margin=10)[0]
    cells = claims_table.table([straddling]).blocks[0].rows[0].cells
    assert cells["verdict"] == "not decided"
    assert cells["finding"] == (
        "undecided; the difference is clear; whether it passes the margin is not (90% CI [+7.4, +12.2], margin ±10.0)"
    )


def test_how_a_row_is_to_be_read_is_said(study):
    study.write("dot", 0.001, DOT)
    study.write("bilinear", 0.001, LESS)
    row = claims_table.table(study.ask(not_asked="dot has a scale here")).blocks[0].rows[0]
    assert row.cells["verdict"] == "not asked as published: dot has a scale here"
    assert (row.cells["finding"], row.numbers["finding"]) == ("supported", "supported")
    (verdict,) = study.ask(descriptive=True, post_hoc="seen before")
    for table in (claims_table.table([verdict]), claims_table.contrasts_table([verdict])):
        row = table.blocks[0].rows[0]
        assert (row.cells["finding"], row.bold, row.cells["estimate"]) == ("descriptive", frozenset(), "+9.8")
        assert row.cells["asked"] == "grammar, recurrent (post hoc)"
    assert "post hoc: seen before" in "\n".join(page.lines([verdict], everything=True))
    both = [CLAIM["questions"][0]["contrasts"][0], {"arm": {SCORE: "bilinear"}, "baseline": {SCORE: "dot"}}]
    (verdict,) = study.ask(contrasts=both)
    assert claims_table.table([verdict]).blocks[0].rows[0].cells["verdict"] == "mixed: 1 of 2 contrasts hold, 1 fail"


def test_a_missing_run_and_a_diverged_one(study):
    study.write("dot", 0.001, DOT)
    study.write("bilinear", 0.001, {seed: LESS[seed] for seed in SEEDS[1:]})
    (verdict,) = study.ask()
    assert (verdict.word, verdict.deciding.weighted.n, verdict.deciding.weighted.declared) == ("not yet run", 4, 5)
    study.write("bilinear", 0.001, {1: None}, status="diverged", error="the loss became NaN")
    (verdict,) = study.ask()
    assert (verdict.word, verdict.deciding.test.method) == ("supported", "welch")
    against = [{"arm": {SCORE: "bilinear"}, "baseline": {SCORE: "dot"}, "expect": "worse"}]
    (verdict,) = study.ask(contrasts=against)
    assert verdict.word == "supported"
    (verdict,) = study.ask(contrasts=[against[0] | {"expect": "better"}])
    assert verdict.word == "contradicted"
    study.write("dot", 0.001, {2: None}, status="diverged")
    (verdict,) = study.ask()
    assert verdict.word == "undecided"
    assert "1 of 5 runs of score=dot learning_rate=0.001 diverged" in verdict.deciding.weighted.lost
    assert any("diverged" in line for line in page.lines([verdict], everything=True))
    study.write("dot", 0.001, {3: None, 4: None}, status="diverged")
    cells = claims_table.table(study.ask()).blocks[0].rows[0].cells
    assert cells["finding"].endswith("; an arm has fewer than 3 runs")
    assert (cells["interval"], cells["inner"]) == ("–", "–")


def test_a_base_at_the_ceiling_saturates(study):
    study.write("dot", 0.001, dict(zip(SEEDS, (99.4, 99.6, 99.5, 99.3, 99.8), strict=True)))
    study.write("bilinear", 0.001, dict(zip(SEEDS, (99.5, 99.4, 99.6, 99.5, 99.6), strict=True)))
    assert study.ask()[0].word == "saturated"


def test_each_arm_at_its_best_rate_by_validation(study):
    """Validation says .001 for dot and .004 for bilinear; the test says otherwise and is not asked."""

    def valid(loss):
        return lambda value: [Score(split="valid", metric="nll", value=loss, n=50)]

    study.write("dot", 0.001, DOT, more=valid(1.0))
    study.write("dot", 0.004, {seed: value + 9 for seed, value in DOT.items()}, more=valid(2.0))
    study.write("bilinear", 0.001, {seed: value + 7 for seed, value in LESS.items()}, more=valid(2.0))
    study.write("bilinear", 0.004, LESS, more=valid(1.0))
    (verdict,) = study.ask(where={}, contrasts=[CLAIM["questions"][0]["contrasts"][0] | {"best_over": [RATE]}])
    assert verdict.deciding.test.difference == pytest.approx(9.8)
    assert verdict.deciding.notes == (
        "dot is best at learning rate 0.001",
        "bilinear is best at learning rate 0.004",
    )


def test_slopes_over_length_and_diagnostics(study):
    """Exact match falls by 2 a word with dot and by 5 with bilinear: +3, with a wobble of the seed's own."""

    def by_length(slope):
        def scores(value):
            points = {"length 4-7": 5.5, "length 8-10": 9.0, "length 11-13": 12.0}
            return [
                Score(split="test", metric="exact", value=value + slope * x, n=50, subset=name)
                for name, x in points.items()
            ]

        return scores

    wobble = [{"cross": [[{"information": 0.1 * seed}, {"information": None}]]} for seed in SEEDS]
    for seed in SEEDS:
        study.write("dot", 0.001, {seed: 90.0}, more=by_length(-2 + 0.01 * seed), diagnostics=wobble[seed - 1])
        study.write("bilinear", 0.001, {seed: 90.0}, more=by_length(-5 - 0.01 * seed), diagnostics=wobble[0])
    (verdict,) = study.ask(by_length=True, margin=None)
    assert verdict.deciding.test.difference == pytest.approx(3.06, abs=1e-4)
    (verdict,) = study.ask(by_length=True, by_sentences=True, margin=None)
    assert verdict.deciding.test.difference == pytest.approx(3.06, abs=1e-4)
    contrast = CLAIM["questions"][0]["contrasts"][0]
    (verdict,) = study.ask(
        metric="diagnostics/cross/information", margin=None, contrasts=[contrast | {"expect": "higher"}]
    )
    assert verdict.deciding.test.difference == pytest.approx(0.2)


def test_a_slope_weighs_groups_alike_or_by_their_sentences(study):
    """Middles 5.5, 9, 12; dot gains 0, 7, 1. With weights 10, 30, 60 by numpy's least squares."""
    sizes, gains = (10, 30, 60), (0.0, 7.0, 1.0)
    points = list(zip(("length 4-7", "length 8-10", "length 11-13"), sizes, gains, strict=True))

    def by_length(weight):
        return lambda value: [
            Score(split="test", metric="exact", value=50 + weight * gain, n=n, subset=name) for name, n, gain in points
        ]

    for seed in SEEDS:
        study.write("dot", 0.001, {seed: 90.0}, more=by_length(1 + seed / 100))
        study.write("bilinear", 0.001, {seed: 90.0}, more=by_length(0))
    for weighted, weights in ((False, (1, 1, 1)), (True, sizes)):
        (verdict,) = study.ask(by_length=True, by_sentences=weighted, margin=None)
        slope = np.polyfit([5.5, 9.0, 12.0], gains, 1, w=np.sqrt(weights))[0]
        assert verdict.deciding.test.difference == pytest.approx(1.03 * slope, abs=1e-3)


def test_a_verdict_prints_its_test_over_sentences(study, monkeypatch):
    study.write("dot", 0.001, DOT)
    study.write("bilinear", 0.001, LESS)
    (verdict,) = study.ask()
    metric, arm, baseline = noise.key_of(verdict, verdict.deciding)
    assert (metric, [run[-3:] for run in baseline.split()]) == ("test/exact", [f"-s{seed}" for seed in SEEDS])
    path = study.runs / noise.TESTS
    path.parent.mkdir()
    path.write_text(",".join(noise.COLUMNS) + f"\n{metric},{arm},{baseline},0.01 0.2 0.04 0.05 0.001,1.25,7.5\n")
    published = SimpleNamespace(folder=study.runs, published=True)
    found = noise.sentence_tests(published)
    monkeypatch.setattr("study.claims.evaluate.sentence_tests", lambda store: found)
    (row,) = claims_table.contrasts_table(study.ask()).blocks[0].rows
    assert (row.cells["sentences"], row.cells["crossed"]) == ("3 of 5", "[+1.2, +7.5]")
    assert (row.numbers["low crossed"], row.numbers["high crossed"]) == (1.25, 7.5)
    whole = " ".join(" ".join(page.lines(study.ask(), everything=True)).split())
    assert "differ over sentences 3 of 5" in whole
    path.write_text(path.read_text().replace("0.2", "two"))
    with pytest.raises(InputError, match=r"sentences\.csv: could not convert"):
        noise.sentence_tests(published)


def test_the_second_edition_decides_where_it_has_run(study):
    """Rate .001 is asked first and .004 again, with a margin of .5 · 4 points that was fixed under a name."""
    fixed = {"points": {"source": "fixed on runs of the recipe", "values": {"grammar/recurrent": {"exact": 4.0}}}}
    first = CLAIM["questions"][0] | {"part": "once"}
    second = first | {"edition": 2, "where": {RATE: 0.004}, "margin": "0.5 points", "part": "again"}
    study.write("dot", 0.001, DOT)
    study.write("bilinear", 0.001, LESS)

    def editions(**facts):
        found = study.ask({"questions": [first, second | facts]}, margins=fixed)
        return found, summary(found), [claims_table.edition(one) for one in found]

    found, whole, told = editions()
    assert (whole, told) == ("holds", ["first", "second"])
    assert list(page.lines(found))[-1].endswith("Not shown: 1 not yet run. --all prints every row and contrast.")
    study.write("dot", 0.004, LESS)
    study.write("bilinear", 0.004, DOT)
    found, whole, told = editions()
    assert (whole, told) == ("fails", ["first, superseded", "second"])
    text = "\n".join(page.lines(found, everything=True))
    assert text.index("recurrent; again: fails") < text.index("recurrent; once: holds"), "what counts comes first"
    assert [one.deciding.margin for one in found] == [2, 2.0]
    rows = claims_table.table(found).blocks[0].rows
    assert [row.numbers["superseded_by"] for row in rows] == ["grammar, recurrent; again", ""]
    assert [row.cells["verdict"] for row in rows] == ["holds", "fails"]
    assert [one.findings[0].test.false_discovery is None for one in found] == [True, False]
    assert editions(replaces=["once"])[1] == "fails"
    assert editions(part="once")[2] == ["first, superseded", "second"]
    assert editions(descriptive=True)[1:] == ("holds", ["first", "second"]), "a description replaces no verdict"
    assert editions(replaces=[])[1] == "mixed"
    assert editions(replaces=[], not_asked="another rate")[1] == "holds", "what is not the claim does not count"
    for facts, said in (
        ({"replaces": ["twice"]}, "replaces: expected a corpus/family or part of the first edition"),
        ({"margin": "0.5 miles"}, r"margin: expected a number or a multiple of a margin of the file \(gap, points\)"),
        ({"metric": "test/bleu", "margin": "1 points"}, "margin points has no value for bleu in grammar/recurrent"),
        ({"margin": "half"}, "margin: expected a number, gap, or a number and a name such as 0.5 bleu, got 'half'"),
    ):
        with pytest.raises(InputError, match=said):
            editions(**facts)


def test_the_forest_plot_has_a_row_a_claim_in_margins_of_the_predicted_sign(study):
    """+9.8 at a margin of 2 is 4.9 margins, past the axis; a claim that dot is worse turns it."""
    study.write("dot", 0.001, DOT)
    study.write("bilinear", 0.001, LESS)
    half = stats.t.ppf(0.95, 8.25**2 / ((2.55**2 + 5.7**2) / 4)) * math.sqrt(1.65)
    for facts, estimate, word, shown in (
        ({"margin": 2}, 4.9, "holds", "+4.9"),
        ({"margin": 2, **contrast(expect="worse")}, -4.9, "fails", "−4.9"),
        ({"margin": 10}, 0.98, "holds", None),
        ({"margin": None}, math.nan, "holds", "holds; no margin"),
    ):
        found = study.ask(**facts)
        (row,) = (table := forest.points(found)).to_dict("records")
        assert (row["id"], row["claim"], row["verdict"]) == ("mine", "my claim", word)
        assert row["difference"] == pytest.approx(estimate, nan_ok=True)
        assert row["low90"] == pytest.approx(estimate - half / (facts["margin"] or 1), abs=1e-4, nan_ok=True)
        axes = forest.draw(table).axes[0]
        assert [text.get_text() for text in axes.texts] == ([shown] if shown else [])
    first = CLAIM["questions"][0] | {"part": "first"}
    second = first | {"part": "second", **contrast(arm={SCORE: "bilinear"}, baseline={SCORE: "dot"})}
    found = study.ask({"questions": [first, second]})
    assert forest.points(found)["asked"].tolist() == ["grammar, recurrent; second"], "what keeps it from holding"
    assert claims_table.summary_table(found).blocks[0].rows[0].cells["parts"] == "1 holds, 1 fails"


def test_published_effects_stand_beside_the_margin(study):
    """One BLEU is worth 4 points, so .4 BLEU are 1.6 points, less than the margin of 2, and −.6 BLEU are −2.4."""
    effects = [{"bleu": 0.4, "of": "a", "source": "x"}, {"bleu": -0.6, "of": "b", "source": "x"}]
    effects.append({"bleu": 9, "of": "c", "source": "x", "parts": ["elsewhere"]})
    study.write("dot", 0.001, DOT)
    study.write("bilinear", 0.001, LESS)
    question = CLAIM["questions"][0]
    facts = {"effects": effects, "source": ["x"], "questions": [question, question | {"part": "elsewhere"}]}
    named = {"bleu": {"source": "fixed", "values": {"grammar/recurrent": {"exact": 4.0}}}}
    row, other = claims_table.table(study.ask(facts, margins=named)).blocks[0].rows
    assert row.cells["effects"] == "−0.6; +0.4 (smaller than the margin)"
    assert other.cells["effects"] == "−0.6, +9; +0.4 (smaller than the margin)"
    assert (row.numbers["published_in_units"], row.numbers["published_below"]) == ("1.6 -2.4", 1)
    assert claims_table.table(study.ask(facts)).blocks[0].rows[0].cells["effects"] == "–", "one BLEU has no value"


BARE = "– not scored"
WORSE = CLAIM["questions"][0] | {"contrasts": [{**CLAIM["questions"][0]["contrasts"][0], "expect": "lower"}]}


def test_a_verdict_that_another_score_changes_is_fragile(study):
    """+9.8 [+7.4, +12.2] points of both scores: outside ±2 of exact match, inside ±20 of BLEU. Less NLL is better."""

    def losses(value):
        return [Score(split="test", metric="nll", value=value, n=50)]

    study.write("dot", 0.001, DOT, more=losses)
    study.write("bilinear", 0.001, LESS, more=losses)
    worth = {"exact": 4.0, "bleu": 40.0, "exact/without pronouns": 4.0}
    named = {"points": {"source": "fixed", "values": {"grammar/recurrent": worth}}}
    for facts, cells, changed in (
        ({"type": "equivalence"}, ["✗ fails", BARE, "✓ holds", "– no margin", "– no margin"], True),
        ({}, ["✓ holds", BARE, "✓ holds", "✗ fails (no margin)", BARE], True),
        ({"questions": [WORSE]}, ["✗ fails", BARE, "✗ fails (no margin)", BARE, BARE], False),
    ):
        found = study.ask(facts, margins=named, by_score=True, margin="0.5 points")
        (row,) = claims_table.matrix_table(found).blocks[0].rows
        assert [row.cells[score] for score in matrix.SCORES] == cells
        assert (row.numbers["fragile"], fragile(found)) == (changed, changed)
        assert claims_table.summary_table(found).blocks[0].rows[0].cells["verdict"].endswith("fragile") == changed
        assert (row.numbers["decides"], row.numbers["exact difference"]) == ("exact", pytest.approx(9.8))
        assert found[0].by_score["exact"].outcome == found[0].outcome
    assert study.ask(margin=2)[0].by_score == {}, "judged on request"
    assert claims_table.matrix_table(study.ask(by_score=True, not_asked="it has a scale")).blocks[0].rows == []


@pytest.mark.parametrize(
    ("facts", "score", "expected"),
    [
        ({"metric": "test/bleu", "margin": 0.5}, "nll", {"metric": "test/nll", "margin": None}),
        ({"metric": "test/bleu", "margin": 0.5}, "bleu", {"metric": "test/bleu", "margin": 0.5}),
        ({"margin": "gap"}, "exact/without pronouns", {"metric": "test/exact/without pronouns", "margin": "gap"}),
        ({"by_length": True}, "nll", {"metric": "test/nll_by_length", "by_length": False, "by_sentences": False}),
        ({"metric": "test/nll_by_length"}, "exact", {"metric": "test/exact", "by_length": True, "by_sentences": True}),
        ({"by_length": True}, "exact/without pronouns", None),
    ],
)
def test_a_question_in_another_score(facts, score, expected):
    question = Question(
        sweep="x", asked=["grammar/recurrent"], contrasts=[{"arm": {"a": 1}, "baseline": {"a": 2}}], **facts
    )
    other = matrix.with_score(question, score, {})
    assert other == (question.model_copy(update=expected) if expected else "not scored")


@pytest.fixture(scope="module")
def published():
    """Verdicts on all that is published, by every score."""
    runs, folder = Runs(CHECKOUT / "results", CHECKOUT / "sweeps"), CHECKOUT / "results" / "benchmarks"
    return evaluate(read_all(), runs, costs.read(folder), by_score=True)


@pytest.fixture(scope="module")
def answers(published):
    """Verdicts of the first edition, by claim and part."""
    return {(v.claim.id, v.corpus, v.question.part): v for v in published if v.question.edition == 1}


def test_the_answer_to_each_claim_comes_first_and_takes_at_most_40_lines(published):
    claims = by_claim(published)
    assert len(claims) == 29
    for own in claims.values():
        short, whole = list(page.lines(own)), list(page.lines(own, everything=True))
        assert len(short) <= 40
        assert max(map(len, short)) <= 100
        assert short[0].startswith(f"{own[0].claim.id}  ")
        decides = deciding(own)
        head = " ".join(" ".join(short[: short.index("")]).split())
        if summary(own) in ("holds", "fails", "not decided"):
            assert f"The claim {'is ' * (summary(own) == 'not decided')}{summary(own)}." in head
        if decides.deciding and decides.deciding.test.difference is not None:
            cells = claims_table.evidence(decides, decides.deciding)
            assert f"{decides.deciding.name}: {cells['estimate'].split()[0]} " in head
            assert cells["interval"] in head or decides.deciding.test.low is None
        there = " ".join(" ".join(whole).split())
        assert not [f.name for v in own for f in v.findings if f.weighted.n and f"{f.name} (" not in there]


def test_arms_without_variance_are_tested_by_permutation(study):
    """Five runs at 0 and five at 100: of C(10, 5) = 252 divisions two are as far apart. Signs of five: 2 of 32."""
    study.write("dot", 0.001, dict.fromkeys(SEEDS, 100.0))
    study.write("bilinear", 0.001, dict.fromkeys(SEEDS, 0.0))
    (verdict,) = study.ask()
    test = verdict.deciding.test
    assert (test.method, test.difference, test.p, test.low, verdict.deciding.test.low90) == (
        "exact",
        100,
        2 / 252,
        None,
        None,
    )
    assert (verdict.word, verdict.outcome) == ("supported", "holds")
    assert study.ask({"type": "equivalence"})[0].word == "contradicted"
    assert "exact p .008" in " ".join(page.lines([verdict]))
    within = [{"statistic": "within", "arm": {SCORE: "dot"}, "of": "test/exact", "minus": 50.0}]
    (verdict,) = study.ask(contrasts=within)
    assert (verdict.deciding.test.p, verdict.word) == (2 / 32, "undecided")
    study.write("dot", 0.001, dict.fromkeys(SEEDS, 0.0))
    assert study.ask()[0].deciding.test.p is None, "no difference, no variance"


@pytest.mark.parametrize(
    ("claim", "corpus", "part", "outcome", "findings"),
    [
        (2, "multi30k", "", "not decided", [("undecided", 0.086, -0.016, 0.188)]),
        (2, "multi30k", "each length weighs its sentences", "holds", [("supported", 0.493, 0.341, 0.645)]),
        (
            5,
            "grammar",
            "width of the band",
            "not decided",
            [("undecided", 0.20, -1.39, 1.79), ("undecided", 1.24, -0.18, 2.66)],
        ),
        (
            5,
            "grammar",
            "loss at the largest rate, 4e-2",
            "holds",
            [("supported", -7.33, -8.48, -6.18), ("supported", -7.44, -8.60, -6.27)],
        ),
        (
            8,
            "grammar",
            "encoder self-attention",
            "not decided",
            [("undecided", -3.0, -3.9, -2.1), ("no difference larger than the margin", -0.6, -1.6, 0.3)],
        ),
        (
            8,
            "graph",
            "against it: the loss grows with the share of links in rings",
            "fails",
            [("supported", -34.0, -46.7, -21.4), ("supported", -21.9, -32.5, -11.3)],
        ),
        (11, "multi_lookup", "as they are", "not decided", [("saturated", 0.2, -0.2, 0.6)]),
        (
            11,
            "multi_lookup",
            "as they are, too narrow for four labels",
            "not decided",
            [("undecided", -11.8, -20.7, -2.9)],
        ),
        (12, "grammar", "heads that cost more than the margin", "holds", [("supported", -35.0, -39.6, -30.4)]),
        (12, "grammar", "heads that cost more than .5 BLEU", "none", [("descriptive", 14.2, 3.4, 24.9)]),
    ],
)
def test_what_the_published_records_say(answers, claim, corpus, part, outcome, findings):
    """Numbers that were computed elsewhere, by hand or by scripts that share no code with this one."""
    verdict = answers[claim, corpus, part]
    assert verdict.outcome == outcome
    for found, (word, *numbers) in zip(verdict.findings, findings, strict=True):
        test, digits = found.test, len(f"{numbers[0]}".partition(".")[2])
        assert found.word == word
        assert [test.difference, test.low, test.high] == pytest.approx(numbers, abs=0.51 * 10**-digits)


def test_trend_interaction_and_the_margin_of_a_gap(study):
    """dot − bilinear is 10 at rate .001 and 4 at .004, so −2000 per unit of the rate."""
    for rate, gain in ((0.001, 10.0), (0.004, 4.0)):
        study.write("dot", rate, {seed: LESS[seed] + gain + 0.1 * (seed == 3) for seed in SEEDS})
        study.write("bilinear", rate, LESS)
    sides = {"arm": {SCORE: "dot"}, "baseline": {SCORE: "bilinear"}}
    trend = {"statistic": "trend", **sides, "over": RATE, "expect": "lower"}
    (verdict,) = study.ask(where={}, margin=None, contrasts=[trend])
    assert verdict.deciding.test.difference == pytest.approx(-2000)
    inner = {side: chosen | {RATE: 0.001} for side, chosen in sides.items()}
    outer = {side: chosen | {RATE: 0.004} for side, chosen in sides.items()}
    gap = {"sweep": "wide", "share": 0.05, "arm": inner["arm"], "baseline": inner["baseline"]}
    interaction = {"statistic": "interaction", **inner, "minus": outer}
    (verdict,) = study.ask(where={}, margin="gap", gap=gap, contrasts=[interaction])
    assert verdict.deciding.test.difference == pytest.approx(6)
    assert verdict.deciding.margin == pytest.approx(0.05 * 10.02)


def test_tables_and_the_verb(study, tmp_path, capsys, monkeypatch):
    study.write("dot", 0.001, DOT)
    study.write("bilinear", 0.001, LESS)
    study.ask()
    monkeypatch.setattr("study.claims.schema.HERE", tmp_path / "ours.yaml")
    monkeypatch.setattr(command, "CHECKOUT", tmp_path)
    (tmp_path / "ours.yaml").write_text("claims: []")
    to = tmp_path / "tables"
    options = ["--claims", str(tmp_path / "claims.yaml"), "--runs", str(study.runs), "--out", str(to)]
    assert command.main(["mine", *options]) == 0
    said = capsys.readouterr().out
    assert "The claim holds." in said
    assert "    holds        +9.8 [" in said
    written = {path.name: path.read_bytes() for path in to.iterdir()}
    assert set(written) == {f"{stem}.{s}" for stem in ("claims", "contrasts") for s in ("csv", "md")}
    monkeypatch.setenv("COLUMNS", "80")
    assert command.main(options) == 0
    head, line, *notes = capsys.readouterr().out.splitlines()
    assert line.startswith("mine  dot beats bilinear  holds    +9.8 [")
    assert max(len(head), len(line)) <= 80
    assert "study claims mine" in "".join(notes)
    assert (to / "claims.md").read_bytes() == written["claims.md"]
    ours = [CLAIM | {"id": str(n), "slug": f"c{n}"} for n in (1, 2)]
    (tmp_path / "ours.yaml").write_text(yaml.safe_dump({"claims": ours}))
    with pytest.raises(InputError, match="claim: expected 1–2, mine or a name, got 99"):
        command.main(["99", *options])
    with pytest.raises(InputError, match="no such folder"):
        command.main(["--results", str(tmp_path / "nowhere")])


def contrast(**changes):
    return {"contrasts": [CLAIM["questions"][0]["contrasts"][0] | changes]}


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ({"sweep": "wid"}, r"questions\.0\.sweep: no such sweep: wid .* has wide"),
        ({"metric": "test/blue"}, r"questions\.0\.metric: grammar has no test/blue"),
        ({"asked": ["gramar/recurrent"]}, r"questions\.0\.asked: .*'gramar'"),
        (
            {"asked": ["grammar/transformer"]},
            r"questions\.0\.asked: expected a corpus/family of sweep wide, got grammar/transformer",
        ),
        ({"where": {RATE: 0.5}}, r"contrasts\.0: no arm has .*learning_rate is 0.001, 0.004 there"),
        ({"where": {}}, rf"contrasts\.0: expected one arm, got several with {SCORE}=dot. They differ in {RATE}"),
        (contrast(arm={SCORE: "dots"}), r"contrasts\.0: model\.attention\.score: .*'dots'"),
        (
            contrast(arm={"model.attention.scor": "dot"}),
            r"model\.attention\.scor: no such field. Did you mean",
        ),
        (contrast(arm={SCORE: "bilinear"}), r"contrasts\.0: expected different arms, got the same arm and baseline"),
        (
            contrast(best_over=[RATE], select="test/nll"),
            r"contrasts\.0: select: expected a metric of validation such as valid/nll, got test/nll",
        ),
        ({"metric": "diagnostics/cross/entropy"}, r"contrasts\.0\.expect: expected higher, lower or different"),
        (contrast(margin=3), r"questions\.0\.contrasts\.0\.margin: no such field"),
        (contrast(of="test/bleu"), r"contrasts\.0: expected the fields of statistic difference: arm, baseline"),
        ({"margin": "gap"}, r"questions\.0\.margin: expected a number, got gap, which the file does not define"),
        ({"benchmark": "cost"}, r"questions\.0: expected either sweep or benchmark"),
        ({"awaits": "more"}, r"questions\.0\.awaits: no such field here"),
        ({"asked": ["grammar"]}, r"asked: expected pairs such as grammar/recurrent"),
        ({"by_sentences": True}, r"by_sentences: expected by_length: true too"),
        (
            {"margin": None, "contrasts": [{"statistic": "costly", "arm": {SCORE: "dot"}, "minus": 50}]},
            r"questions\.0: costly: expected a margin",
        ),
        (
            {"metric": "test/aer", "contrasts": [{"statistic": "costly", "arm": {SCORE: "dot"}, "minus": 50}]},
            r"contrasts\.0: grammar has no test/aer/without cross 0 0",
        ),
    ],
)
def test_a_claim_that_is_wrong_is_refused_with_file_and_field(study, question, said):
    with pytest.raises(InputError, match=rf"claims\.yaml: claim mine.*{said}"):
        study.ask(**question)


def test_an_equivalence_without_a_margin_and_ids_that_are_taken_are_refused(study, tmp_path):
    with pytest.raises(InputError, match="margin: expected a number or gap for an equivalence, got none"):
        study.ask({"type": "equivalence"}, margin=None)
    own = tmp_path / "own.yaml"
    own.write_text(yaml.safe_dump({"claims": [CLAIM | {"id": 3}]}))
    with pytest.raises(InputError, match=r"own\.yaml: claim 3: expected a new id and slug, got 3 of this study"):
        read_all(own)
    own.write_text(yaml.safe_dump({"claims": [CLAIM, CLAIM]}))
    with pytest.raises(InputError, match="claims: expected each id once, got mine twice"):
        read(own)


def test_a_correlation_over_the_arms_of_a_sweep_and_no_arm_of_other_seeds(study):
    """Five arms whose error rate falls as BLEU rises, one at the ceiling of BLEU, which is left out."""
    places = [(score, rate) for rate in (0.001, 0.004) for score in ("dot", "bilinear", "additive")]
    for i, (score, rate) in enumerate(places):
        exact = 89.8 if i == 5 else 30.0 + 10 * i

        def aer(value, i=i):
            return [Score(split="test", metric="aer", value=0.5 - 0.05 * i - value / 1e5, n=50)]

        study.write(score, rate, {seed: exact + 0.1 * (seed % 3) for seed in SEEDS}, more=aer)
    contrasts = [
        {"statistic": "correlation", "between": ["test/aer", "test/bleu"], "level": level}
        for level in ("arms", "seeds")
    ]
    question = {"metric": "test/bleu", "margin": 0.3, "where": {}, "contrasts": contrasts}
    (verdict,) = study.ask({"type": "equivalence"}, **question)
    assert [found.test.difference for found in verdict.findings] == pytest.approx([-1, -1])
    assert [(found.weighted.n, found.weighted.declared) for found in verdict.findings] == [(5, 6), (5, 6)]
    assert "1 saturated arms left out" in verdict.findings[0].notes
    assert all(found.test.p is None for found in verdict.findings)  # every draw has ρ = −1
    other = WIDE.replace("wide", "other").replace("[1, 2, 3, 4, 5]", "[1, 2]").replace("[0.001, 0.004]", "[0.002]")
    (study.folder / "sweeps" / "other.yaml").write_text(other)
    with pytest.raises(
        InputError,
        match=r"contrasts\.0: with_sweeps: expected the same seeds for every arm, got \[1, 2, 3, 4, 5\] .* \[1, 2\]",
    ):
        study.ask({"type": "equivalence"}, **question, with_sweeps=["other"])
    older = WIDE.replace("wide", "older") + "  protocol: {value: 1}\n"
    (study.folder / "sweeps" / "older.yaml").write_text(older)
    with pytest.raises(InputError, match=r"with_sweeps: expected sweeps of one protocol, got 2 in \w+ and 1 in old"):
        study.ask({"type": "equivalence"}, **question, with_sweeps=["older"])


def test_correlations_are_adjusted_together_and_a_diverged_arm_is_said(study):
    """Six arms; the second contrast is the first again, so that Holm's p is twice either's."""
    order, places = [0, 2, 1, 4, 3, 5], [(s, rate) for s in ("dot", "bilinear", "additive") for rate in (0.001, 0.004)]
    for i, (score, rate) in enumerate(places):

        def aer(value, i=i):
            return [Score(split="test", metric="aer", value=0.5 - 0.05 * order[i], n=50)]

        study.write(score, rate, {seed: 30.0 + 10 * i + 0.1 * (seed % 3) for seed in SEEDS}, more=aer)
    contrast = {"statistic": "correlation", "between": ["test/aer", "test/bleu"], "level": "arms"}
    question = {"metric": "test/bleu", "margin": 0.3, "where": {}, "contrasts": [contrast, contrast]}
    (verdict,) = study.ask({"type": "equivalence"}, **question)
    assert len(verdict.findings) == 2
    for found in verdict.findings:
        assert found.test.difference == pytest.approx(6 * 4 / (6 * 35) - 1)
        assert found.test.holm == pytest.approx(2 * found.test.p)
    study.write("dot", 0.001, {2: None}, status="diverged")
    (verdict,) = study.ask({"type": "equivalence"}, **question)
    assert (verdict.word, verdict.deciding.weighted.n) == ("undecided", 5)
    assert verdict.deciding.weighted.lost == ("1 of 5 runs of score=dot learning_rate=0.001 diverged",)


def test_a_record_without_the_metric_is_named(study):
    study.write("dot", 0.001, DOT)
    study.write("bilinear", 0.001, LESS)
    with pytest.raises(InputError, match=r"record\.json: expected test/nll, got a record with test/bleu, test/exact"):
        study.ask(metric="test/nll")
    with pytest.raises(InputError, match=r"record\.json: expected diagnostics/cross/nothing"):
        study.ask(metric="diagnostics/cross/nothing", margin=None, **contrast(expect="higher"))


def test_a_claim_takes_at_most_forty_lines_and_begins_with_the_answer(study):
    """Thirty questions, of which two have an answer."""
    study.write("dot", 0.001, DOT)
    study.write("bilinear", 0.001, LESS)
    questions = [CLAIM["questions"][0] | {"part": f"question {n}"} for n in range(30)]
    lines = list(page.lines(study.ask({"questions": questions})))
    assert len(lines) <= page.MOST
    assert lines[:2] == ["mine  dot beats bilinear", "    The claim holds."]
    assert "15 more" in lines[-1]
    assert all(len(line) <= page.WIDTH for line in lines)
    published = evaluate(read_all(), Runs(CHECKOUT / "results", CHECKOUT / "sweeps"))
    claims = {str(one.claim.id): [v for v in published if v.claim.id == one.claim.id] for one in published}
    assert max(len(list(page.lines(own))) for own in claims.values()) <= page.MOST
