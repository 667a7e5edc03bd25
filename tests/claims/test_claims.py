"""Claims of one's own on runs that are written by value, and the claims of the study on what is published."""

import csv
import math
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from claim_cases import CLAIM, RATE, SCORE, SEEDS, WIDE, Study
from scipy import stats

from study.analysis.runs import Runs
from study.claims import costs, forest, matrix, noise, page, table
from study.claims.evaluate import evaluate
from study.claims.schema import HERE, Question, read, read_all
from study.claims.verdicts import by_claim, deciding, fragile, summary
from study.commands import claims as command
from study.errors import InputError
from study.files import CHECKOUT
from study.records import Score
from study.store import Store

PAIR = CLAIM["questions"][0]["contrasts"][0]
TURNED = {"arm": PAIR["baseline"], "baseline": PAIR["arm"]}
DOT = dict(zip(SEEDS, (80.0, 82.0, 81.5, 79.0, 83.0), strict=True))
LESS = dict(zip(SEEDS, (70.0, 73.0, 71.5, 68.0, 74.0), strict=True))
SE, DF = math.sqrt(1.65), 8.25**2 / ((2.55**2 + 5.7**2) / 4)
"""Of DOT − LESS, +9.8: variances 2.55 and 5.7, SE² = 8.25 / 5."""


@pytest.fixture
def study(tmp_path):
    made = Study(tmp_path)
    made.write("dot", 0.001, DOT)
    made.write("bilinear", 0.001, LESS)
    return made


def contrast(**changes):
    return {"contrasts": [PAIR | changes]}


def test_every_claim_is_there_and_names_what_the_sweeps_have():
    rows = evaluate(read_all(), Runs(None, CHECKOUT / "sweeps"))
    assert list(dict.fromkeys(row.claim.id for row in rows)) == list(range(1, 30))
    assert {row.verdict for row in rows} == {"not yet run"}
    text = "\n".join(page.lines(rows, everything=True)) + table.table(rows).markdown()
    remembered = [claim.unchecked for claim in read(HERE).claims if claim.unchecked]
    assert remembered
    assert not [one for one in remembered if one in text]


def test_a_claim_of_ones_own_by_hand(study):
    (row,) = study.ask()
    assert (row.verdict, row.finding, row.corpus, row.family) == ("holds", "supported", "grammar", "recurrent")
    assert (row.test.difference, row.test.se, row.test.df) == pytest.approx((9.8, SE, DF))
    cells, half = table.words(row), stats.t.ppf(0.95, DF) * SE
    wanted = {"estimate": "+9.8", "contrast": "dot − bilinear: exact match, %", "n": "5", "margin": "2.0"}
    wanted |= {"inner": f"[+{9.8 - half:.1f}, +{9.8 + half:.1f}]", "margins": "+4.90"}
    assert {name: cells[name] for name in wanted} == wanted
    assert table.table([row]).rows[0].bold == {"estimate", "interval"}
    (row,) = study.ask(margin=12)
    assert (row.word, row.verdict) == ("supported, below the margin", "holds")
    for contrasts, said in (
        ([PAIR], "contradicted; the first arm is better"),
        ([TURNED], "contradicted"),
        ([PAIR | {"expect": "worse"}], "contradicted; the first arm is better"),
    ):
        (row,) = study.ask({"type": "equivalence"}, contrasts=contrasts)
        assert (table.words(row)["finding"], row.verdict) == (said, "fails")
    cells = table.words(*study.ask({"type": "equivalence"}, margin=10))
    assert cells["verdict"] == "not decided"
    assert cells["finding"] == (
        "undecided; the difference is clear; whether it passes the margin is not (90% CI [+7.4, +12.2], margin ±10.0)"
    )


def test_how_a_row_is_to_be_read_is_said(study):
    cells = table.words(*study.ask(not_asked="dot has a scale here"))
    assert (cells["verdict"], cells["finding"]) == ("not asked as published: dot has a scale here", "supported")
    (row,) = study.ask(descriptive=True, post_hoc="seen before")
    for (one,) in (table.table([row]).rows, table.contrasts_table([row]).rows):
        assert (one.cells["finding"], one.bold, one.cells["estimate"]) == ("descriptive", frozenset(), "+9.8")
        assert one.cells["asked"] == "grammar, recurrent (post hoc)"
    rows = study.ask(contrasts=[PAIR, TURNED])
    assert [one.cells["verdict"] for one in table.table(rows).rows] == ["mixed: 1 of 2 contrasts hold, 1 fail"]


def test_missing_diverged_and_few_runs(study):
    next(study.runs.glob("*bilinear*-s1")).joinpath("record.json").unlink()
    (row,) = study.ask()
    assert (row.word, row.weighted.n, row.weighted.declared) == ("not yet run", 4, 5)
    study.write("bilinear", 0.001, {1: None}, status="diverged", error="the loss became NaN")
    for entry, word in ((PAIR, "supported"), (TURNED | {"expect": "worse"}, "supported"), (TURNED, "contradicted")):
        assert study.ask(contrasts=[entry])[0].word == word
    study.write("dot", 0.001, {2: None}, status="diverged")
    (row,) = study.ask()
    assert (row.word, row.weighted.lost[0]) == ("undecided", "1 of 5 runs of score=dot learning_rate=0.001 diverged")
    assert any("diverged" in line for line in page.lines([row], everything=True))
    study.write("dot", 0.001, {3: None, 4: None}, status="diverged")
    cells = table.words(*study.ask())
    assert cells["finding"].endswith("; an arm has fewer than 3 runs")
    assert (cells["interval"], cells["inner"]) == ("–", "–")


@pytest.mark.parametrize(
    ("base", "other", "spread", "kind", "expect", "word"),
    [
        (99.8, 88.0, 12, "equivalence", "better", "undecided"),  # a loss shows below the ceiling
        (99.8, 99.7, 0.1, "equivalence", "better", "saturated"),
        (99.8, 98.0, 0.1, "equivalence", "better", "no difference larger than the margin"),
        (99.8, 98.9, 1, "superiority", "better", "saturated"),  # the gain that is claimed cannot show
        (99.8, 88.0, 30, "superiority", "worse", "undecided"),
        (0.3, 1.5, 3, "superiority", "worse", "saturated"),
        (0.3, 12.0, 12, "superiority", "better", "undecided"),
        (0.3, 50, 60, "superiority", "different", "undecided"),
    ],
)
def test_nothing_is_saturated_that_could_show(base, other, spread, kind, expect, word, tmp_path):
    made = Study(tmp_path)
    made.write("bilinear", 0.001, {seed: base + seed / 1000 for seed in SEEDS})
    made.write("dot", 0.001, {seed: other + spread * (seed - 3) / 2 for seed in SEEDS})
    assert made.ask({"type": kind}, margin=5.0, **contrast(expect=expect))[0].word == word


def test_each_arm_at_its_best_rate_by_validation(tmp_path):
    """Validation says .001 for dot and .004 for bilinear; the test says otherwise and is not asked."""
    made = Study(tmp_path)

    def valid(loss):
        return lambda value: [Score(split="valid", metric="nll", value=loss, n=50)]

    made.write("dot", 0.001, DOT, more=valid(1.0))
    made.write("dot", 0.004, {seed: value + 9 for seed, value in DOT.items()}, more=valid(2.0))
    made.write("bilinear", 0.001, {seed: value + 7 for seed, value in LESS.items()}, more=valid(2.0))
    made.write("bilinear", 0.004, LESS, more=valid(1.0))
    (row,) = made.ask(where={}, **contrast(best_over=[RATE]))
    assert row.test.difference == pytest.approx(9.8)
    assert row.weighted.notes == ["dot is best at learning rate 0.001", "bilinear is best at learning rate 0.004"]


def test_slopes_over_length_and_diagnostics(tmp_path):
    """Groups of lengths weigh alike, or by their sentences; slopes by numpy's least squares."""
    made, sizes, gains = Study(tmp_path), (10, 30, 60), (0.0, 7.0, 1.0)
    points = list(zip(("length 4-7", "length 8-10", "length 11-13"), sizes, gains, strict=True))

    def by_length(weight):
        return lambda value: [
            Score(split="test", metric="exact", value=50 + weight * gain, n=n, subset=name) for name, n, gain in points
        ]

    wobble = [{"cross": [[{"information": 0.1 * seed}, {"information": None}]]} for seed in SEEDS]
    for seed in SEEDS:
        made.write("dot", 0.001, {seed: 90.0}, more=by_length(1 + seed / 100), diagnostics=wobble[seed - 1])
        made.write("bilinear", 0.001, {seed: 90.0}, more=by_length(0), diagnostics=wobble[0])
    for weighted, weights in ((False, (1, 1, 1)), (True, sizes)):
        (row,) = made.ask(by_length=True, by_sentences=weighted, margin=None)
        slope = np.polyfit([5.5, 9.0, 12.0], gains, 1, w=np.sqrt(weights))[0]
        assert row.test.difference == pytest.approx(1.03 * slope, abs=1e-3)
    (row,) = made.ask(metric="diagnostics/cross/information", margin=None, **contrast(expect="higher"))
    assert row.test.difference == pytest.approx(0.2)


def test_tests_over_sentences_are_read_beside_published_runs(study):
    (row,) = study.ask()
    metric, arm, baseline = noise.key_of(row)
    assert (metric, [run[-3:] for run in baseline.split()]) == ("test/exact", [f"-s{seed}" for seed in SEEDS])
    path = study.runs / noise.TESTS
    path.parent.mkdir()
    lines = ["metric,arm,baseline,p,low,high", f"{metric},{arm},{baseline},0.01 0.2 0.04 0.05 0.001,1.25,7.5"]
    path.write_text("\n".join(lines))
    noise.add_sentence_tests([row], SimpleNamespace(folder=study.runs, published=True))
    (one,) = table.contrasts_table([row]).rows
    assert (one.cells["sentences"], one.cells["crossed"]) == ("3 of 5", "[+1.2, +7.5]")
    assert (one.numbers["low crossed"], one.numbers["high crossed"]) == (1.25, 7.5)


def test_a_test_over_sentences_is_the_one_that_is_published():
    """A row of NLL, computed again from the losses of the sentences."""
    with (CHECKOUT / "results" / noise.TESTS).open(encoding="utf-8", newline="") as file:
        row = next(row for row in csv.reader(file) if row[0] == "test/nll/without pronouns")
    assert noise._tested(Store(CHECKOUT / "results"), tuple(row[:3])) == row[3:]


def test_the_second_edition_decides_where_it_has_run(study):
    """Rate .001 is asked first and .004 again, with a margin of .5 · 4 points that was fixed under a name."""
    fixed = {"points": {"source": "fixed on runs of the recipe", "values": {"grammar/recurrent": {"exact": 4.0}}}}
    first = CLAIM["questions"][0] | {"part": "once"}
    second = first | {"edition": 2, "where": {RATE: 0.004}, "margin": "0.5 points", "part": "again"}

    def editions(**facts):
        rows = study.ask({"questions": [first, second | facts]}, margins=fixed)
        return rows, summary(rows), [table.edition(one) for one in rows]

    assert editions()[1:] == ("holds", ["first", "second"])
    study.write("dot", 0.004, LESS)
    study.write("bilinear", 0.004, DOT)
    rows, whole, told = editions()
    assert (whole, told) == ("fails", ["first, superseded", "second"])
    text = "\n".join(page.lines(rows, everything=True))
    assert text.index("recurrent; again") < text.index("recurrent; once"), "what counts comes first"
    assert [one.margin for one in rows] == [2, 2.0]
    assert [row.numbers["superseded_by"] for row in table.table(rows).rows] == ["grammar, recurrent; again", ""]
    assert [one.false_discovery is None for one in rows] == [True, False]
    assert editions(replaces=["once"])[1] == "fails"
    assert editions(part="once")[2] == ["first, superseded", "second"]
    assert editions(descriptive=True)[1:] == ("holds", ["first", "second"]), "a description replaces no verdict"
    assert editions(replaces=[])[1] == "mixed"
    assert editions(replaces=[], not_asked="another rate")[1] == "holds", "what is not the claim does not count"
    for facts, said in (
        ({"replaces": ["twice"]}, "replaces: expected a corpus/family or part of the first edition"),
        ({"margin": "0.5 miles"}, "margin: expected miles with a value for exact in grammar/recurrent"),
        ({"metric": "test/bleu", "margin": "1 points"}, "margin: expected points with a value for bleu in grammar/rec"),
        ({"margin": "half"}, r"claim mine\.questions\.1\.margin.*half"),
    ):
        with pytest.raises(InputError, match=said):
            editions(**facts)


def test_the_forest_plot_has_a_row_a_claim_in_margins_of_the_predicted_sign(study):
    """+9.8 at a margin of 2 is 4.9 margins, past the axis; a claim that dot is worse turns it."""
    half = stats.t.ppf(0.95, DF) * SE
    for facts, estimate, word, shown in (
        ({"margin": 2}, 4.9, "holds", "+4.9"),
        ({"margin": 2, **contrast(expect="worse")}, -4.9, "fails", "−4.9"),
        ({"margin": 10}, 0.98, "holds", None),
        ({"margin": None}, math.nan, "holds", "holds; no margin"),
    ):
        (row,) = (data := forest.points(study.ask(**facts))).to_dict("records")
        assert (row["id"], row["claim"], row["verdict"]) == ("mine", "my claim", word)
        assert row["difference"] == pytest.approx(estimate, nan_ok=True)
        assert row["low90"] == pytest.approx(estimate - half / (facts["margin"] or 1), abs=1e-4, nan_ok=True)
        axes = forest.draw(data).axes[0]
        assert [text.get_text() for text in axes.texts] == ([shown] if shown else [])
    first = CLAIM["questions"][0] | {"part": "first"}
    rows = study.ask({"questions": [first, first | {"part": "second", "contrasts": [TURNED]}]})
    assert forest.points(rows)["asked"].tolist() == ["grammar, recurrent; second"], "what keeps it from holding"
    assert table.summary_table(rows).rows[0].cells["parts"] == "1 holds, 1 fails"


def test_published_effects_stand_beside_the_margin(study):
    """One BLEU is worth 4 points, so .4 BLEU are 1.6 points, less than the margin of 2, and −.6 BLEU are −2.4."""
    effects = [{"bleu": 0.4, "of": "a", "source": "x"}, {"bleu": -0.6, "of": "b", "source": "x"}]
    effects.append({"bleu": 9, "of": "c", "source": "x", "parts": ["elsewhere"]})
    question = CLAIM["questions"][0]
    facts = {"effects": effects, "source": ["x"], "questions": [question, question | {"part": "elsewhere"}]}
    named = {"bleu": {"source": "fixed", "values": {"grammar/recurrent": {"exact": 4.0}}}}
    row, other = table.table(study.ask(facts, margins=named)).rows
    assert row.cells["effects"] == "−0.6; +0.4 (smaller than the margin)"
    assert other.cells["effects"] == "−0.6, +9; +0.4 (smaller than the margin)"
    assert (row.numbers["published_in_units"], row.numbers["published_below"]) == ("1.6 -2.4", 1)
    assert table.table(study.ask(facts)).rows[0].cells["effects"] == "–", "one BLEU has no value"


BARE = "– not scored"


def test_a_verdict_that_another_score_changes_is_fragile(tmp_path):
    """+9.8 [+7.4, +12.2] points of both scores: outside ±2 of exact match, inside ±20 of BLEU. Less NLL is better."""
    made = Study(tmp_path)
    for score, values in (("dot", DOT), ("bilinear", LESS)):
        made.write(score, 0.001, values, more=lambda value: [Score(split="test", metric="nll", value=value, n=50)])
    worth = {"exact": 4.0, "bleu": 40.0, "exact/without pronouns": 4.0}
    named = {"points": {"source": "fixed", "values": {"grammar/recurrent": worth}}}
    for facts, expect, cells, changed in (
        ({"type": "equivalence"}, "better", ["✗ fails", BARE, "✓ holds", "– no margin", "– no margin"], True),
        ({}, "better", ["✓ holds", BARE, "✓ holds", "✗ fails (no margin)", BARE], True),
        ({}, "lower", ["✗ fails", BARE, "✗ fails", BARE, BARE], False),
    ):
        rows = made.ask(facts, margins=named, by_score=True, margin="0.5 points", **contrast(expect=expect))
        (row,) = table.matrix_table(rows).rows
        assert [row.cells[score] for score in matrix.SCORES] == cells
        assert (row.numbers["fragile"], fragile(rows)) == (changed, changed)
        assert table.summary_table(rows).rows[0].cells["verdict"].endswith("fragile") == changed
        assert (row.numbers["decides"], row.numbers["exact difference"]) == ("exact", pytest.approx(9.8))
    assert made.ask(margin=2)[0].by_score == {}, "judged on request"
    assert table.matrix_table(made.ask(by_score=True, not_asked="it has a scale")).rows == []


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
    pair = {"arm": {"a": 1}, "baseline": {"a": 2}}
    question = Question(sweep="x", asked=["grammar/recurrent"], contrasts=[pair], **facts)
    other = matrix.with_score(question, score, {})
    assert other == (question.model_copy(update=expected) if expected else "not scored")


def test_arms_without_variance_are_tested_by_permutation(study):
    """Five runs at 0 and five at 100: of C(10, 5) = 252 divisions two are as far apart. Signs of five: 2 of 32."""
    study.write("dot", 0.001, dict.fromkeys(SEEDS, 100.0))
    study.write("bilinear", 0.001, dict.fromkeys(SEEDS, 0.0))
    (row,) = study.ask()
    assert (row.test.method, row.test.difference, row.test.p, row.test.low) == ("exact", 100, 2 / 252, None)
    assert (row.word, row.verdict) == ("supported", "holds")
    assert study.ask({"type": "equivalence"})[0].word == "contradicted"
    assert "exact p .008" in " ".join(page.lines([row]))
    (row,) = study.ask(contrasts=[{"statistic": "within", "arm": {SCORE: "dot"}, "of": "test/exact", "minus": 50.0}])
    assert (row.test.p, row.word) == (2 / 32, "undecided")


@pytest.fixture(scope="module")
def published():
    """The findings on all that is published, by every score."""
    folder = CHECKOUT / "results"
    return evaluate(read_all(), Runs(folder, CHECKOUT / "sweeps"), costs.read(folder / "benchmarks"), by_score=True)


def test_the_answer_to_each_claim_comes_first_and_takes_at_most_40_lines(published):
    claims = by_claim(published)
    assert len(claims) == 29
    for claim, own in claims.items():
        rows = [row for row in published if str(row.claim.id) == claim]
        short, whole = list(page.lines(rows)), " ".join(" ".join(page.lines(rows, everything=True)).split())
        assert len(short) <= 40
        assert max(map(len, short)) <= 100
        assert short[0].startswith(f"{claim}  ")
        decides, head = deciding(own), " ".join(" ".join(short[: short.index("")]).split())
        if summary(own) in ("holds", "fails"):
            assert f"The claim {summary(own)}." in head
        if decides.test.difference is not None:
            assert f"{decides.name()}: {table.cells(decides)['estimate'].split()[0]} " in head
        assert not [row.name() for row in rows if f"{row.name()} (" not in whole]


@pytest.mark.parametrize(
    ("claim", "corpus", "part", "verdict", "findings"),
    [
        (2, "multi30k", "", "not decided", [("undecided", 0.086, -0.016, 0.188)]),
        (2, "multi30k", "each length weighs its sentences", "holds", [("supported", 0.493, 0.341, 0.645)]),
        (5, "grammar", "width of the band", "not decided",
         [("undecided", 0.20, -1.39, 1.79), ("undecided", 1.24, -0.18, 2.66)]),
        (5, "grammar", "loss at the largest rate, 4e-2", "holds",
         [("supported", -7.33, -8.48, -6.18), ("supported", -7.44, -8.60, -6.27)]),
        (8, "grammar", "encoder self-attention", "not decided",
         [("undecided", -3.0, -3.9, -2.1), ("no difference larger than the margin", -0.6, -1.6, 0.3)]),
        (8, "graph", "against it: the loss grows with the share of links in rings", "fails",
         [("supported", -34.0, -46.7, -21.4), ("supported", -21.9, -32.5, -11.3)]),
        (11, "multi_lookup", "as they are", "not decided", [("saturated", 0.2, -0.2, 0.6)]),
        (11, "multi_lookup", "as they are, too narrow for four labels", "not decided",
         [("undecided", -11.8, -20.7, -2.9)]),
        (12, "grammar", "heads that cost more than the margin", "holds", [("supported", -35.0, -39.6, -30.4)]),
        (12, "grammar", "heads that cost more than .5 BLEU", "none", [("descriptive", 14.2, 3.4, 24.9)]),
    ],
)  # fmt: skip
def test_what_the_published_records_say(published, claim, corpus, part, verdict, findings):
    """Numbers that were computed elsewhere, by hand or by scripts that share no code with this one."""
    place = (1, claim, corpus, part)
    rows = [r for r in published if (r.question.edition, r.claim.id, r.corpus, r.question.part) == place]
    assert {row.verdict for row in rows} == {verdict}
    for row, (word, *numbers) in zip(rows, findings, strict=True):
        digits = len(f"{numbers[0]}".partition(".")[2])
        assert row.word == word
        ends = [row.test.difference, row.test.low, row.test.high]
        assert ends == pytest.approx(numbers, abs=0.51 * 10**-digits)


def test_the_margin_of_a_gap(study):
    for rate in (0.001, 0.004):
        study.write("dot", rate, {seed: LESS[seed] + 10 for seed in SEEDS})
        study.write("bilinear", rate, LESS)
    gap = {"sweep": "wide", "share": 0.05, **{side: chosen | {RATE: 0.004} for side, chosen in PAIR.items()}}
    assert study.ask(margin="gap", gap=gap)[0].margin == pytest.approx(0.5)


def test_the_verb(study, tmp_path, capsys, monkeypatch):
    study.ask()
    monkeypatch.setattr("study.claims.schema.HERE", tmp_path / "ours.yaml")
    monkeypatch.setattr(command, "sweeps_folder", lambda: tmp_path / "sweeps")
    (tmp_path / "ours.yaml").write_text("claims: []")
    options = ["--claims", str(tmp_path / "claims.yaml"), "--runs", str(study.runs)]
    assert command.main(["mine", *options]) == 0
    said = capsys.readouterr().out
    assert "The claim holds." in said
    assert "    holds        +9.8 [" in said
    monkeypatch.setenv("COLUMNS", "80")
    assert command.main(options) == 0
    head, line, *notes = capsys.readouterr().out.splitlines()
    assert line.startswith("mine  dot beats bilinear  ")
    assert "holds               +9.8 [" in line
    assert max(len(head), len(line)) <= 80
    assert "study claims mine" in "".join(notes)
    with pytest.raises(InputError, match="claim: expected a number or name of a claim, got 99"):
        command.main(["99", *options])


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ({"sweep": "wid"}, "no such sweep: wid .* has wide"),
        ({"metric": "test/blue"}, "grammar has no test/blue"),
        ({"asked": ["gramar/recurrent"]}, "data.name: .*'gramar'"),
        ({"asked": ["grammar/transformer"]}, "asked: expected a corpus/family of sweep wide, got grammar/transformer"),
        ({"where": {RATE: 0.5}}, "no arm has .*learning_rate is 0.001, 0.004 there"),
        ({"where": {}}, rf"expected one arm, got several with {SCORE}=dot. They differ in {RATE}"),
        (contrast(arm={SCORE: "dots"}), r"model\.attention\.score: .*'dots'"),
        (contrast(arm={"model.attention.scor": "dot"}), r"model\.attention\.scor: no such field. Did you mean"),
        (contrast(arm={SCORE: "bilinear"}), "expected different arms, got the same arm and baseline"),
        (contrast(best_over=[RATE], select="test/nll"), r"contrasts\.0\.select: .*, got 'test/nll'"),
        ({"metric": "diagnostics/cross/entropy"}, "expect: expected higher, lower or different"),
        (contrast(of="test/bleu"), r"contrasts\.0: expected the fields of statistic difference: arm, baseline"),
        (contrast(statistic="diference"), r"contrasts\.0: statistic: expected difference, .*, got diference"),
        (contrast(statistic="interaction", minus=3), r"contrasts\.0: minus: expected that of statistic interaction"),
        ({"margin": "gap"}, "margin: expected a number, got gap, which no file defines"),
        ({"margin": 0}, r"questions\.0\.margin"),
        ({"benchmark": "cost"}, "expected either sweep or benchmark"),
        ({"awaits": "more"}, r"questions\.0\.awaits: no such field here"),
        ({"asked": ["grammar"]}, r"questions\.0\.asked\.0: .*, got 'grammar'"),
        ({"type": "equivalence", "margin": None}, "margin: expected a number or gap for an equivalence, got none"),
        (
            {"margin": None, "contrasts": [{"statistic": "costly", "arm": {SCORE: "dot"}, "minus": 50}]},
            "costly: expected a margin",
        ),
        (
            {"metric": "test/aer", "contrasts": [{"statistic": "costly", "arm": {SCORE: "dot"}, "minus": 50}]},
            "grammar has no test/aer/without cross 0 0",
        ),
        ({"metric": "test/nll"}, r"record\.json: expected test/nll, got a record with test/bleu, test/exact"),
    ],
)
def test_a_claim_that_is_wrong_is_refused_with_file_and_field(study, question, said):
    with pytest.raises(InputError, match=rf"claims\.yaml: claim mine.*{said}"):
        study.ask(**question)


def test_ids_that_are_taken_are_refused(tmp_path):
    own = tmp_path / "own.yaml"
    for claims, said in (([CLAIM | {"id": 3}], "claim 3: .*, got 3"), ([CLAIM, CLAIM], "claim mine: .*, got mi?y?")):
        own.write_text(yaml.safe_dump({"claims": claims}))
        with pytest.raises(InputError, match=rf"own\.yaml: {said}"):
            read_all(own)


def test_a_correlation_leaves_arms_out_and_is_blocked_by_a_diverged_run(tmp_path):
    """Six arms, of which one is at the ceiling of BLEU; the second contrast is the first again."""
    made, order = Study(tmp_path), [0, 2, 1, 4, 3, 5]
    places = [(score, rate) for score in ("dot", "bilinear", "additive") for rate in (0.001, 0.004)]

    def write(i, exact, **facts):
        aer = [Score(split="test", metric="aer", value=0.5 - 0.05 * order[i], n=50)]
        made.write(*places[i], {seed: exact + 0.1 * (seed % 3) for seed in SEEDS}, more=lambda value: aer, **facts)

    for i in range(6):
        write(i, 30.0 + 10 * i)
    entry = {"statistic": "correlation", "between": ["test/aer", "test/bleu"], "level": "arms"}
    question = {"metric": "test/bleu", "margin": 0.3, "where": {}, "contrasts": [entry, entry]}
    rows = made.ask({"type": "equivalence"}, **question)
    for row in rows:
        assert row.test.difference == pytest.approx(6 * 4 / (6 * 35) - 1)
        assert row.test.holm == pytest.approx(2 * row.test.p)
    write(5, 89.8)
    row, _ = made.ask({"type": "equivalence"}, **question)
    assert (row.weighted.n, row.weighted.declared) == (5, 6)
    assert row.weighted.notes[1] == "1 arms left out: diverged, without a value, or at an edge of the range"
    made.write("dot", 0.001, {2: None}, status="diverged")
    row, _ = made.ask({"type": "equivalence"}, **question)
    assert (row.word, row.weighted.lost) == ("undecided", ["1 of 5 runs of score=dot learning_rate=0.001 diverged"])
    older = WIDE.replace("wide", "older") + "  protocol: {value: 1}\n"
    (made.folder / "sweeps" / "older.yaml").write_text(older)
    with pytest.raises(InputError, match=r"with_sweeps: expected sweeps of one protocol, got 2 in \w+ and 1 in old"):
        made.ask({"type": "equivalence"}, **question, with_sweeps=["older"])
