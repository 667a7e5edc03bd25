"""Claims of one's own on runs that are written by value, and the claims of the study on what is published."""

import csv
import math

import numpy as np
import pytest
import yaml
from claim_cases import CLAIM, RATE, SCORE, SEEDS, WIDE, Study
from scipy import stats

from study.analysis.runs import Runs
from study.analysis.tables import as_csv
from study.claims import contrasts, page, sentences, table
from study.claims.evaluate import evaluate
from study.claims.multiverse import multiverse
from study.claims.schema import read, read_all
from study.claims.sentences import SentenceNoises
from study.claims.verdicts import by_claim, deciding, summary
from study.errors import InputError
from study.folders import CHECKOUT
from study.scores.score import RecordedScore
from study.store.folder import Store

PAIR = CLAIM["questions"][0]["contrasts"][0]
TURNED = {"arm": PAIR["baseline"], "baseline": PAIR["arm"]}
DOT = dict(zip(SEEDS, (80.0, 82.0, 81.5, 79.0, 83.0), strict=True))
LESS = dict(zip(SEEDS, (70.0, 73.0, 71.5, 68.0, 74.0), strict=True))
SE, DF = math.sqrt(1.65), 8.25**2 / ((2.55**2 + 5.7**2) / 4)
"""Of DOT − LESS, +9.8: variances 2.55 and 5.7, SE² = 8.25 / 5."""


def compared(folder):
    """Runs of two arms."""
    made = Study(folder)
    made.write("dot", 0.001, DOT)
    made.write("bilinear", 0.001, LESS)
    return made


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """The same, for tests that change no run."""
    return compared(tmp_path_factory.mktemp("study"))


def contrast(**changes):
    return {"contrasts": [PAIR | changes]}


def test_a_claim_of_ones_own_by_hand(study):
    (row,) = study.ask()
    assert (row.verdict, row.word, row.corpus, row.family) == ("holds", "supported", "grammar", "recurrent")
    assert (row.test.difference, row.test.se, row.test.df) == pytest.approx((9.8, SE, DF))
    cells, half = table.cells(row), stats.t.ppf(0.95, DF) * SE
    wanted = {"estimate": "+9.8", "contrast": "dot − bilinear", "metric": "exact match, %", "n": "5", "margin": "2.0"}
    wanted |= {"inner": f"[+{9.8 - half:.1f}, +{9.8 + half:.1f}]", "turns": "–"}
    assert {name: cells[name] for name in wanted} == wanted
    (row,) = study.ask(margin=12)
    assert (row.word, row.verdict) == ("supported, below the margin", "holds")
    better = "the first arm is better"
    for entry, said in ((PAIR, better), (TURNED, "–"), (PAIR | {"expect": "worse"}, better)):
        (row,) = study.ask({"type": "equivalence"}, contrasts=[entry])
        assert (row.word, table.cells(row)["notes"], row.verdict) == ("contradicted", said, "fails")
    (row,) = study.ask({"type": "equivalence"}, margin=10)
    assert (row.word, row.verdict, table.cells(row)["turns"]) == ("undecided", "open", f"{9.8 + half:.1f}")


def test_a_paired_design_compares_seed_by_seed(tmp_path):
    """The differences of the five seeds, by Student's t; other seeds in one arm are refused."""
    study = compared(tmp_path)
    (row,) = study.ask(design="paired")
    test = stats.ttest_1samp([DOT[seed] - LESS[seed] for seed in SEEDS], 0)
    assert (row.test.method, row.test.p) == ("within", pytest.approx(test.pvalue))
    assert row.test.low == pytest.approx(test.confidence_interval(0.95).low)
    study.write("dot", 0.001, {2: None}, status="diverged")
    with pytest.raises(InputError, match="design: expected the same seeds in all arms of a paired contrast"):
        study.ask(design="paired")


def test_two_scores_decide_together(tmp_path):
    """Exact match +9.8 and NLL +9.8, which is worse: their signs differ, so the question is open."""
    made = Study(tmp_path)
    for score, values in (("dot", DOT), ("bilinear", LESS)):
        made.write(
            score, 0.001, values, more=lambda value: [RecordedScore(split="test", metric="nll", value=value, n=50)]
        )
    worth = {"points": {"source": "fixed", "values": {"grammar/recurrent": {"exact": 4.0, "nll": 1.0, "bleu": 2.0}}}}
    for second, verdict in (("test/nll", "open"), ("test/bleu", "holds")):
        (row,) = made.ask(margins=worth, margin="0.5 points", second=second)
        assert (row.verdict, row.word, row.margin) == (verdict, "supported", 2.0)
        assert row.second.margin == {"test/nll": 0.5, "test/bleu": 1.0}[second]
        assert table.contrasts([row])["second_difference"].item() == pytest.approx(9.8)
        assert table.cells(row)["second"].endswith({"open": "contradicted", "holds": "supported"}[verdict])
    with pytest.raises(InputError, match=r"margin: expected one such as 0\.5 bleu with second, got a number"):
        made.ask(margin=2.0, second="test/nll")


def test_missing_diverged_and_few_runs(tmp_path):
    study = compared(tmp_path)
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
    (row,) = study.ask()
    assert (table.cells(row)["interval"], table.cells(row)["inner"]) == ("–", "–")
    assert "no test of fewer than 3 runs" in page.answer(row)


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


def test_sentences_add_their_variance(study):
    """w = .36 over 1,001 sentences: SE² = 1.65 + .36, degrees of freedom by Satterthwaite."""
    (row,) = study.ask()
    key = sentences._key(row.contrast, row.measure.metric, row.weighted)
    metric, sides = key.cells
    assert (metric, sides[:2], sides.count("-s3")) == ("test/exact", "1 ", 2)
    noises = SentenceNoises(Store(study.runs))
    noises.of = lambda *_: sentences.SentenceNoise(0.36, 1001, (5.0, 4.0, 0.8))
    (row,) = evaluate([read(study.folder / "claims.yaml")], Runs(study.runs, study.folder / "sweeps"), noises=noises)
    df = 2.01**2 / ((0.51**2 + 1.14**2) / 4 + 0.36**2 / 1000)
    assert (row.test.se, row.test.df) == pytest.approx((math.sqrt(2.01), df))
    assert table.cells(row)["shares"] == "+5.0 / +4.0 / +0.8"
    assert table.contrasts([row])["sentences"].item() == pytest.approx(0.6)


def test_the_noise_of_published_sentences_is_computed_again(study_runs):
    """A row of NLL, from the losses and the translations of the sentences. Its three shares make its estimate."""
    store = study_runs.store
    with (CHECKOUT / "results" / sentences.TABLE).open(encoding="utf-8", newline="") as file:
        row = next(row for row in csv.reader(file) if row[0] == "test/nll/without pronouns" and row[4])
    sides = [side.split() for side in row[1].split("; ")]
    key = sentences.Key(row[0], tuple((float(weight), tuple(names)) for weight, *names in sides))
    assert key.cells == tuple(row[:2])
    noise = sentences._measured(store, key)
    assert sentences._cells(noise) == row[2:]
    kept = {name: score["value"] for _, *names in sides for name in names for score in store.score_rows(name)
            if (score["split"], score["metric"], score["subset"]) == ("test", "nll", "without pronouns")}  # fmt: skip
    estimate = sum(float(weight) * np.mean([kept[name] for name in names]) for weight, *names in sides)
    assert sum(noise.shares) == pytest.approx(estimate, abs=1e-4)


def test_a_contrast_of_ones_own_counts_the_sentences_of_published_runs(study_runs, tmp_path):
    scales = [{"model.attention.scale": scale} for scale in ("none", "rsqrt")]
    asked = CLAIM["questions"][0] | {"sweep": "quickstart", "where": {"model.attention.key_width": 16}}
    asked |= {"metric": "test/exact/length 4-7", "contrasts": [dict(zip(("arm", "baseline"), scales, strict=True))]}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump({"claims": [CLAIM | {"questions": [asked]}]}))
    (row,) = evaluate([read(tmp_path / "own.yaml")], study_runs)
    own = study_runs.store.score_rows("grammar-recurrent-dot-c61874e4-s1")
    (short,) = (one for one in own if (one["split"], one["metric"], one["subset"]) == ("test", "exact", "length 4-7"))
    assert row.noise.n == short["n"] < 500


def test_named_margins(study):
    fixed = {"points": {"source": "fixed on runs of the recipe", "values": {"grammar/recurrent": {"exact": 4.0}}}}
    assert study.ask(margins=fixed, margin="0.5 points")[0].margin == 2.0
    for facts, said in (
        ({"margin": "0.5 miles"}, "margin: expected miles with a value for exact in grammar/recurrent"),
        ({"metric": "test/bleu", "margin": "1 points"}, "margin: expected points with a value for bleu in grammar/rec"),
        ({"margin": "half"}, r"claim mine\.questions\.0\.margin.*half"),
    ):
        with pytest.raises(InputError, match=said):
            study.ask(margins=fixed, **facts)


def test_published_effects_stand_beside_the_margin(study):
    """One BLEU is worth 4 points, so .4 BLEU are 1.6 points, less than the margin of 2, and −.6 BLEU are −2.4."""
    effects = [{"bleu": 0.4, "of": "a", "source": "x"}, {"bleu": -0.6, "of": "b", "source": "x"}]
    effects.append({"bleu": 9, "of": "c", "source": "x", "parts": ["elsewhere"]})
    question = CLAIM["questions"][0]
    facts = {"effects": effects, "source": ["x"], "questions": [question, question | {"part": "elsewhere"}]}
    named = {"bleu": {"source": "fixed", "values": {"grammar/recurrent": {"exact": 4.0}}}}
    rows = study.ask(facts, margins=named)
    assert [table.cells(row)["published"] for row in rows] == ["+0.4↓, −0.6", "+0.4↓, −0.6, +9"]
    assert table.numbers(rows[0])["published_in_units"] == "1.6 -2.4"
    assert table.cells(study.ask(facts)[0])["published"] == "–", "one BLEU has no value"


def test_the_multiverse_changes_one_rule_at_a_time(tmp_path):
    """+9.8, 90% [+7.4, +12.2], in all scores; less NLL is better. The margin is 7 points, half of it 3.5, twice 14."""
    made = Study(tmp_path)
    for score, values in (("dot", DOT), ("bilinear", LESS)):
        made.write(
            score, 0.001, values, more=lambda value: [RecordedScore(split="test", metric="nll", value=value, n=50)]
        )
    named = {"points": {"source": "fixed", "values": {"grammar/recurrent": {"exact": 14.0, "bleu": 80.0}}}}
    equal = {"half the margin": "fails", "twice the margin": "holds", "by bleu": "holds", "by nll": ""}
    better = dict.fromkeys(("half the margin", "paired by seed", "not adjusted", "by bleu"), "holds")
    for facts, expected in (({"type": "equivalence"}, equal), ({}, better)):
        rows = made.ask(facts, margins=named, margin="0.5 points")
        runs = Runs(made.runs, made.folder / "sweeps")
        found = list(multiverse(rows, read(made.folder / "claims.yaml"), runs, SentenceNoises(runs.store)))
        ((row, under),) = found
        assert under | expected == under
        (one,) = table.multiverse(found).to_dict("records")
        changed = [word for word in under.values() if word not in ("", row.verdict)]
        assert (one["changes"], one["verdict"]) == (len(changed), row.verdict)
    assert under["by nll"] == "", "one point is worth nothing in nats here"
    rows = made.ask(no_vote="a control", margins=named)
    assert not list(multiverse(rows, read(made.folder / "claims.yaml"), runs, SentenceNoises(runs.store)))


@pytest.fixture(scope="module")
def published(study_runs):
    """The findings on all that is published."""
    return evaluate(read_all(), study_runs)


@pytest.mark.parametrize("name", ["contrasts", "summary"])
def test_the_tables_of_the_claims_are_made_again(name, published):
    """`tests/recompute.py` computes their numbers by itself."""
    expected = (CHECKOUT / "results" / "tables" / f"{name}.csv").read_text(encoding="utf-8")
    assert as_csv(getattr(table, name)(published)) == expected


def test_the_answer_to_each_claim_comes_first_and_takes_at_most_40_lines(published):
    claims = by_claim(published)
    assert len(claims) == 30
    for claim, own in claims.items():
        rows = [row for row in published if str(row.claim.id) == claim]
        short, whole = list(page.lines(rows)), " ".join(" ".join(page.lines(rows, everything=True)).split())
        assert len(short) <= 40
        assert max(map(len, short)) <= 100
        assert short[0].startswith(f"{claim}  ")
        decides, head = deciding(own), " ".join(" ".join(short[: short.index("")]).split())
        if summary(own).word in ("holds", "fails", "depends", "open"):
            assert f"The answer: {summary(own).words}." in head
            assert f"{decides.name()}: {table.cells(decides)['estimate'].split()[0]} " in head
        assert not [row.name() for row in rows if f"{row.name()} (" not in whole]


COSTLY = {"statistic": "costly", "arm": {SCORE: "dot"}, "minus": 50}


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ({"sweep": "wid"}, "wid.yaml: no such sweep file"),
        ({"metric": "test/blue"}, "grammar has no test/blue"),
        ({"asked": ["gramar/recurrent"]}, "data.name: .*'gramar'"),
        ({"asked": ["grammar/transformer"]}, "asked: expected a corpus/family of sweep wide, got grammar/transformer"),
        ({"where": {RATE: 0.5}}, "no arm has .*learning_rate is 0.001, 0.004"),
        ({"where": {}}, rf"expected one arm, got several with {SCORE}=dot. They differ in {RATE}"),
        (contrast(arm={"model.attention.scor": "dot"}), r"model\.attention\.scor: no such field. Did you mean"),
        (contrast(arm={SCORE: "bilinear"}), "expected different arms, got the same arm and baseline"),
        ({"metric": "diagnostics/cross/entropy"}, "expect: expected higher or lower for a superiority"),
        (contrast(of="test/bleu"), r"contrasts\.0: expected the fields of statistic difference: arm, baseline"),
        (contrast(statistic="diference"), r"contrasts\.0: statistic: expected difference, .*, got diference"),
        ({"awaits": "more"}, r"questions\.0\.awaits: no such field here"),
        ({"asked": ["grammar"]}, r"questions\.0\.asked\.0: .*, got 'grammar'"),
        ({"type": "equivalence", "margin": None}, "margin: expected a number for an equivalence or noninferiority"),
        ({"margin": None, "contrasts": [COSTLY]}, "costly: expected a margin"),
        ({"metric": "test/aer", "contrasts": [COSTLY]}, "grammar has no test/aer/without cross 0 0"),
        ({"metric": "test/nll"}, r"record\.json: expected test/nll, got a record without it"),
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
        aer = [RecordedScore(split="test", metric="aer", value=0.5 - 0.05 * order[i], n=50)]
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
    with pytest.raises(InputError, match=r"with_sweeps: expected sweeps of one protocol"):
        made.ask({"type": "equivalence"}, **question, with_sweeps=["older"])


@pytest.mark.parametrize("lost", [0.001, 0.004])
def test_a_diverged_run_leaves_draws_undecided(lost, tmp_path, monkeypatch):
    """A draw's difference has a hole in one of its arms: which way it would have gone is not known.

    The scores stand for draws of the corpus, so that the sweep needs no further field.
    """
    monkeypatch.setattr(contrasts, "DRAW", SCORE)
    made, words = Study(tmp_path), []
    for i, score in enumerate(("dot", "bilinear", "additive")):
        for rate, value in ((0.001, 80.0), (0.004, 40.0)):
            made.write(score, rate, {seed: value * (1 + i / 50) + seed for seed in SEEDS})
    for _ in range(2):
        for arm, base in ((0.001, 0.004), (0.004, 0.001)):
            entry = {"statistic": "draws", "arm": {RATE: arm}, "baseline": {RATE: base}}
            (row,) = made.ask({"type": "shape"}, where={}, margin=None, contrasts=[entry])
            words.append(row.word)
        made.write("dot", lost, {1: None}, status="diverged")
    assert words == ["supported", "contradicted", "undecided", "undecided"]
    cells = table.cells(row)
    assert cells["n"] == "3 draws"
    assert cells["notes"].endswith("n counts draws of the corpus, of 4 seeds each")
