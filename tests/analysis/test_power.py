"""Numbers of seeds: values of textbooks and of the noncentral t, a simulation, and what `study plan` reads."""

import math

import pytest
from scipy import stats

from study.__main__ import main
from study.analysis import power
from study.analysis.runs import Runs
from study.folders import CHECKOUT

SCORES = CHECKOUT / "sweeps" / "scores.yaml"


def test_power_is_that_of_the_noncentral_t_and_seeds_those_of_cohens_table():
    shift, df = 1.5 * math.sqrt(6 / 2), 10
    one_sided = stats.nct.sf(stats.t.ppf(0.95, df), df, shift)
    assert power.power("non-inferiority", 1.5, 6) == pytest.approx(one_sided)
    assert power.power("equivalence", 1.5, 6) == pytest.approx(2 * one_sided - 1)
    holm = stats.nct.sf(stats.t.ppf(1 - 0.05 / 4 / 2, df), df, shift)
    assert power.power("superiority", 1.5, 6, level=0.05 / 4) == pytest.approx(holm)
    paired = stats.nct.sf(stats.t.ppf(0.975, 5), 5, 1.5 * math.sqrt(6))
    assert power.power("superiority", 1.5, 6, paired=True) == pytest.approx(paired)
    assert all(power.power(aim, effect, n) > 0.999 for aim in power.AIMS for effect in (40, 1e9) for n in (3, 100))
    assert power.power("superiority", 9, 2) == 0, "of two seeds no test is made"
    cohen = {0.5: 64, 0.8: 26, 1.0: 17, 0.01: None}
    assert {effect: power.seeds_for("superiority", effect) for effect in cohen} == cohen


def test_a_spread_by_hand():
    found = power.spread([[1, 2, 3], [2, 4, 6]])
    assert found.sd == pytest.approx(math.sqrt((1 + 4) / 2))
    assert found.ends == pytest.approx((1, 2))
    assert found.correlation == pytest.approx(2 / 2.5)
    assert power.effect_size(1, found.sd, found.correlation) == pytest.approx(1 / math.sqrt(5 * 0.2))
    assert power.spread([[1, 2, 3]]).correlation is None


def test_a_plan_from_flags(printed):
    plan = ["plan", str(SCORES), "--margin", "1", "--sd", "1", "--paired"]
    assert printed(*plan, "--correlation", "0.5").splitlines()[0] == "margin 1, power 0.8, paired by seed, 9 contrasts"
    assert main(plan) == 2


def test_a_plan_reads_validation_scores_alone(monkeypatch, printed, tmp_path):
    read, values = set(), Runs.values
    monkeypatch.setattr(
        Runs, "values", lambda runs, arm, measure: read.add(measure.metric) or values(runs, arm, measure)
    )
    monkeypatch.chdir(tmp_path)
    lines = printed("plan", SCORES, "--margin", "2.5").splitlines()
    assert read == {"valid/exact"}
    assert len(lines) <= 15
    assert lines[0].startswith("valid/exact on grammar/recurrent: 10 arms with 5 seeds in ")
    sd, arms = float(lines[1].split(";")[0].split()[-1]), 10
    for line in lines[-3:]:
        aim, seeds, runs, hours, now = line.split()
        wanted = power.seeds_for(aim, 2.5 / sd, level=0.05 / 9)
        assert (int(seeds), int(runs), float(hours) > 0) == (wanted, wanted * arms, True)
        assert float(now) == pytest.approx(power.power(aim, 2.5 / sd, 5, 0.05 / 9), abs=0.01)
