"""Measured times as arms of a claim: ratios by hand, the rules for margins, and what is refused."""

import math
import statistics

import pytest
from claim_cases import FIRST, MACHINE
from scipy import stats

from study import files
from study.analysis.runs import Runs
from study.claims import costs, table
from study.claims.costs import Costs, Measured, TimedSite
from study.claims.evaluate import evaluate
from study.claims.schema import Claim, ClaimFile, Question
from study.errors import InputError

ONE = [10.0, 11.0, 9.0, 10.5]
FACTORS = [1.5, 1.6, 1.4, 1.5]
RATIO = {"statistic": "ratio", "arm": {"heads": 4}, "baseline": {"heads": 1}}


@pytest.fixture
def folder(tmp_path):
    """Four heads and one, measured in four processes."""
    sites = {1: (ONE, 8.0), 4: ([time * factor for time, factor in zip(ONE, FACTORS, strict=True)], 10.0)}
    measured = [
        Measured(site=TimedSite(heads=heads, **FIRST), milliseconds=times, megabytes=size)
        for heads, (times, size) in sites.items()
    ]
    found = Costs(provenance=MACHINE, threads=1, rounds=1, tokens=2048, measured=measured)
    files.write(tmp_path / "benchmarks" / costs.FILE, found.model_dump_json())
    return tmp_path


def ask(folder, **contrast):
    where = {"width": 64, "slots": 16}
    question = Question(benchmark="cost", margin=1.1, where=where, contrasts=[RATIO | contrast])
    claim = Claim(id="mine", slug="mine", statement="Four cost as one", type="equivalence", questions=[question])
    return evaluate([ClaimFile(path=folder / "c.yaml", claims=(claim,))], Runs(folder, folder))


def test_a_ratio_by_hand(folder):
    """Geometric mean of the processes' ratios, with Student's interval of their logarithms."""
    logs = [math.log(factor) for factor in FACTORS]
    middle, half = statistics.mean(logs), stats.t.ppf(0.975, 3) * statistics.stdev(logs) / 2
    (row,) = ask(folder)
    known, ends = table.numbers(row), (math.exp(middle - half), math.exp(middle + half))
    assert [known[name] for name in ("difference", "low", "high")] == pytest.approx([math.exp(middle), *ends])
    assert (row.word, row.corpus, row.family) == ("contradicted", "one site", "AMD EPYC, 1 thread")
    cells, ratio = table.cells(row), stats.t.ppf(0.95, 3) / stats.t.ppf(0.975, 3)
    wanted = {"contrast": "4 heads ÷ 1 head", "n": "4 processes", "notes": "1.25 times the memory", "margin": "1.10"}
    wanted |= {"inner": f"[{math.exp(middle - ratio * half):.2f}, 1.60]", "turns": f"{math.exp(middle - half):.2f}"}
    assert {name: cells[name] for name in wanted} == wanted


def test_what_was_not_measured_is_not_yet_run_or_refused(folder):
    for arm, said in (
        ({"heads": 3}, r"got {'width': 64, 'slots': 16, 'heads': 3}, which 0 sites have"),
        ({"training": True}, "which 2 sites have"),
        ({"head": 4}, r"the fields of one measured site \(width, score, heads, reach, slots, training\), got"),
    ):
        with pytest.raises(InputError, match=rf"c\.yaml: claim mine\.questions\.0: expected .*{said}"):
            ask(folder, arm=arm)
    for wrong in ({"margin": 0.5}, {"margin": "1 bleu"}, {"asked": ["grammar/recurrent"]}, {"contrasts": []}):
        given = {"benchmark": "cost", "margin": 1.1, "contrasts": [RATIO]}
        with pytest.raises(ValueError, match=r"benchmark|at least 1 item"):
            Question(**given | wrong)
    with pytest.raises(ValueError, match="with another statistic than ratio"):
        Question(sweep="x", asked=["grammar/recurrent"], contrasts=[RATIO])
    path = folder / "benchmarks" / costs.FILE
    path.write_text('{"threads": 1}')
    with pytest.raises(InputError, match=r"cost\.json: provenance: Field required"):
        costs.read(folder)
    path.unlink()
    assert ask(folder)[0].verdict == "not yet run"
