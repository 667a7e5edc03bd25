"""Measured times as arms of a claim: ratios by hand, the rules for margins, and what is refused."""

import json
import math
import statistics

import pytest
from claim_cases import FIRST, MACHINE
from scipy import stats

from study.analysis.runs import Runs
from study.claims import costs
from study.claims import table as claims_table
from study.claims.costs import Costs, Measured, Site
from study.claims.evaluate import evaluate
from study.claims.schema import Claim, ClaimFile, Question
from study.errors import InputError

ONE = [10.0, 11.0, 9.0, 10.5]
FACTORS = [1.5, 1.6, 1.4, 1.5]
RATIO = {"statistic": "ratio", "arm": {"heads": 4, "slots": 16}, "baseline": {"heads": 1, "slots": 16}}


@pytest.fixture
def folder(tmp_path):
    def write(factors=FACTORS, more=0, **changed):
        four = [time * factor for time, factor in zip(ONE, factors, strict=True)]
        measured = [
            Measured(site=Site(heads=1, **FIRST), milliseconds=ONE, megabytes=8.0),
            Measured(site=Site(heads=4, **FIRST), milliseconds=four + [1.0] * more, megabytes=10.0),
        ]
        found = Costs(
            provenance=MACHINE.model_copy(update=changed), threads=1, rounds=1, tokens=2048, measured=measured
        )
        path = tmp_path / "results" / "benchmarks" / costs.FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found.model_dump(mode="json")))
        return path.parent

    return write


def ask(folder, tmp_path, kind="equivalence", margin=1.1, **contrast):
    question = Question(benchmark="cost", margin=margin, where={"width": 64}, contrasts=[RATIO | contrast])
    claim = Claim(id="mine", slug="mine", statement="Four cost what one costs", type=kind, questions=[question])
    return evaluate([ClaimFile(path=tmp_path / "c.yaml", claims=(claim,))], Runs(None, tmp_path), costs.read(folder))


def test_a_ratio_by_hand(folder, tmp_path):
    """Geometric mean of the processes' ratios, with Student's interval of their logarithms."""
    logs = [math.log(factor) for factor in FACTORS]
    middle, half = statistics.mean(logs), stats.t.ppf(0.975, 3) * statistics.stdev(logs) / 2
    (verdict,) = ask(folder(), tmp_path)
    test = verdict.findings[0].test
    assert test.difference == pytest.approx(math.exp(middle))
    assert (test.low, test.high) == pytest.approx((math.exp(middle - half), math.exp(middle + half)))
    assert (verdict.word, verdict.corpus, verdict.family) == ("contradicted", "one site", "AMD EPYC, 1 thread")
    assert (verdict.findings[0].weighted.n, verdict.findings[0].margin) == (4, 1.1)
    ratio, said = stats.t.ppf(0.95, 3) / stats.t.ppf(0.975, 3), claims_table.evidence(verdict, verdict.findings[0])
    assert (said["contrast"], said["n"], said["notes"]) == (
        "4 heads ÷ 1 head, slots 16", "4 processes", "1.25 times the memory",
    )  # fmt: skip
    assert (said["inner"], said["margin"]) == (f"[{math.exp(middle - ratio * half):.2f}, 1.60]", "1.10")
    assert said["margins"] == f"+{middle / math.log(1.1):.2f}"


@pytest.mark.parametrize(
    ("kind", "factors", "margin", "word"),
    [
        ("equivalence", [1.02, 1.03, 1.02, 1.03], 1.1, "no difference larger than the margin"),
        ("equivalence", [0.5, 0.51, 0.49, 0.5], 1.1, "contradicted"),
        ("equivalence", FACTORS, 1.55, "undecided"),
        ("superiority", FACTORS, 1.1, "contradicted"),
        ("superiority", [1 / factor for factor in FACTORS], 1.1, "supported"),
        ("superiority", [1 / factor for factor in FACTORS], 1.7, "supported, below the margin"),
        ("superiority", [0.5, 2.0, 0.6, 1.5], 1.1, "undecided"),
    ],
)
def test_the_words_are_those_of_the_ratio(kind, factors, margin, word, folder, tmp_path):
    assert ask(folder(factors), tmp_path, kind, margin)[0].word == word


def test_what_was_not_measured_is_not_yet_run_or_refused(folder, tmp_path):
    (verdict,) = ask(tmp_path / "absent", tmp_path)
    assert (verdict.word, verdict.note) == ("not yet run", costs.AWAITS)
    there = folder()
    with pytest.raises(
        InputError, match=r"questions\.0: contrasts\.0: expected the fields of one measured site, got .*heads=3"
    ):
        ask(there, tmp_path, arm={"heads": 3, "slots": 16})
    with pytest.raises(InputError, match=r"contrasts\.0: expected .* got width=64, slots=16, which 2 sites have"):
        ask(there, tmp_path, arm={"slots": 16})
    with pytest.raises(
        InputError,
        match=r"contrasts\.0: expected fields of a site \(width, score, heads, reach, slots, training\), got head",
    ):
        ask(there, tmp_path, arm={"head": 4})
    for wrong in ({"margin": 0.5}, {"margin": "gap"}, {"asked": ["grammar/recurrent"]}, {"contrasts": []}):
        given = {"benchmark": "cost", "margin": 1.1, "contrasts": [RATIO]}
        with pytest.raises(ValueError, match=r"benchmark|at least 1 item"):
            Question(**given | wrong)
    with pytest.raises(ValueError, match="expected statistic ratio with a benchmark"):
        Question(sweep="x", asked=["grammar/recurrent"], contrasts=[RATIO])


def test_a_file_that_is_not_whole_is_found(folder):
    with pytest.raises(InputError, match=r"cost\.json: measured: expected every site from every process"):
        costs.read(folder(more=1))
    place = folder()
    (place / costs.FILE).write_text('{"threads": 1}')
    with pytest.raises(InputError, match=r"cost\.json: provenance: Field required"):
        costs.read(place)
