"""Measured times as a table: ratios by hand, and a file that is none."""

import math
import statistics

import pytest
from claim_cases import FIRST, MACHINE
from scipy import stats

from study import files
from study.analysis import costs
from study.analysis.costs import Costs, Measured, TimedSite
from study.errors import InputError

ONE = [10.0, 11.0, 9.0, 10.5]
FACTORS = [1.5, 1.6, 1.4, 1.5]


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


def test_a_ratio_by_hand(folder):
    """Geometric mean of the processes' ratios, with Student's interval of their logarithms."""
    logs = [math.log(factor) for factor in FACTORS]
    middle, half = statistics.mean(logs), stats.t.ppf(0.975, 3) * statistics.stdev(logs) / 2
    (row,) = costs.compare(folder).rows
    low, high = math.exp(middle - half), math.exp(middle + half)
    assert row.numbers == pytest.approx(
        {"arm": "4 heads, width 64", "processes": 4, "memory_16": 1.25}
        | {"time_16": math.exp(middle), "low_16": low, "high_16": high}
    )
    assert row.cells["time 16"] == f"{math.exp(middle):.2f} [{low:.2f}, {high:.2f}]"
    assert row.cells["memory 16"] == "1.25"


def test_a_file_that_no_benchmark_wrote_is_refused_and_none_is_no_table(folder):
    path = folder / "benchmarks" / costs.FILE
    path.write_text('{"threads": 1}')
    with pytest.raises(InputError, match=r"cost\.json: provenance: Field required"):
        costs.compare(folder)
    path.unlink()
    assert costs.compare(folder) is None
