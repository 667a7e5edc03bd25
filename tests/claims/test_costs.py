"""Measured times as arms of a claim: ratios by hand, the rules for margins, and what is refused."""

import math
import statistics

import pytest
from claim_cases import FIRST, MACHINE
from scipy import stats

from study import files
from study.analysis.runs import Runs
from study.claims import costs, table
from study.claims.costs import Costs, Measured, Site
from study.claims.evaluate import evaluate
from study.claims.schema import Claim, ClaimFile, Question
from study.errors import InputError

ONE = [10.0, 11.0, 9.0, 10.5]
FACTORS = [1.5, 1.6, 1.4, 1.5]
RATIO = {"statistic": "ratio", "arm": {"heads": 4}, "baseline": {"heads": 1}}


@pytest.fixture
def folder(tmp_path):
    def write(factors=FACTORS):
        measured = [
            Measured(site=Site(heads=heads, **FIRST), milliseconds=times, megabytes=size)
            for heads, times, size in (
                (1, ONE, 8.0),
                (4, [time * factor for time, factor in zip(ONE, factors, strict=True)], 10.0),
                (8, [time * 2 * factor for time, factor in zip(ONE, factors, strict=True)], 16.0),
            )
        ]
        found = Costs(provenance=MACHINE, threads=1, rounds=1, tokens=2048, measured=measured)
        files.write(tmp_path / "benchmarks" / costs.FILE, found.model_dump_json())
        return tmp_path

    return write


def ask(folder, kind="equivalence", margin=1.1, others=(), **contrast):
    contrasts = [RATIO | contrast, *others]
    question = Question(benchmark="cost", margin=margin, where={"width": 64, "slots": 16}, contrasts=contrasts)
    claim = Claim(id="mine", slug="mine", statement="Four cost what one costs", type=kind, questions=[question])
    return evaluate([ClaimFile(path=folder / "c.yaml", claims=(claim,))], Runs(folder, folder))


def test_a_ratio_by_hand(folder):
    """Geometric mean of the processes' ratios, with Student's interval of their logarithms."""
    logs = [math.log(factor) for factor in FACTORS]
    middle, half = statistics.mean(logs), stats.t.ppf(0.975, 3) * statistics.stdev(logs) / 2
    (row,) = ask(folder())
    known, ends = table.numbers(row), (math.exp(middle - half), math.exp(middle + half))
    assert [known[name] for name in ("difference", "low", "high")] == pytest.approx([math.exp(middle), *ends])
    assert (row.word, row.corpus, row.family) == ("contradicted", "one site", "AMD EPYC, 1 thread")
    cells, ratio = table.cells(row), stats.t.ppf(0.95, 3) / stats.t.ppf(0.975, 3)
    wanted = {"contrast": "4 heads ÷ 1 head", "n": "4 processes", "notes": "1.25 times the memory", "margin": "1.10"}
    wanted |= {"inner": f"[{math.exp(middle - ratio * half):.2f}, 1.60]", "turns": f"{math.exp(middle - half):.2f}"}
    assert {name: cells[name] for name in wanted} == wanted


def test_two_ratios_are_tested_as_one_family(folder):
    rows = ask(folder(), others=[RATIO | {"arm": {"heads": 8}}])
    assert [table.numbers(row)["difference"] for row in rows] == pytest.approx(
        [statistics.geometric_mean(FACTORS) * n for n in (1, 2)]
    )
    assert rows[0].test.holm == pytest.approx(max(2 * rows[1].test.p, rows[0].test.p))


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
def test_the_words_are_those_of_the_ratio(kind, factors, margin, word, folder):
    assert ask(folder(factors), kind, margin)[0].word == word


def test_what_was_not_measured_is_not_yet_run_or_refused(folder, tmp_path):
    assert ask(tmp_path)[0].verdict == "not yet run"
    for arm, said in (
        ({"heads": 3}, r"got width=64, slots=16, heads=3, which 0 sites have"),
        ({"training": True}, "which 3 sites have"),
        ({"head": 4}, r"the fields of one measured site \(width, score, heads, reach, slots, training\), got"),
    ):
        with pytest.raises(InputError, match=rf"c\.yaml: claim mine\.questions\.0: expected .*{said}"):
            ask(folder(), arm=arm)
    for wrong in ({"margin": 0.5}, {"margin": "1 bleu"}, {"asked": ["grammar/recurrent"]}, {"contrasts": []}):
        given = {"benchmark": "cost", "margin": 1.1, "contrasts": [RATIO]}
        with pytest.raises(ValueError, match=r"benchmark|at least 1 item"):
            Question(**given | wrong)
    with pytest.raises(ValueError, match="expected statistic ratio with a benchmark"):
        Question(sweep="x", asked=["grammar/recurrent"], contrasts=[RATIO])
    files.write(tmp_path / "benchmarks" / costs.FILE, '{"threads": 1}')
    with pytest.raises(InputError, match=r"cost\.json: provenance: Field required"):
        costs.read(tmp_path)
