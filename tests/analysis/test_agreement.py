"""Rank correlation of effects of the same arms in two sweeps, its interval and its ceiling, by hand."""

import json

import numpy as np
import pytest
from plot_cases import Case
from scipy import stats

from study.analysis import agreement
from study.analysis.figures.agreement import draw, points
from study.analysis.runs import Runs

ARMS = ["memory=states", "memory=final", "memory=mean", "score=additive", "scale=none"]


def case(folder, name, lr):
    """A sweep of one family."""
    listed = "\n".join(f"      - family=recurrent lr={lr} {arm}" for arm in ARMS)
    made = Case(folder, name, f"  arm:\n    values:\n{listed}\n", "test/exact", (1, 2, 3))
    made.write(lambda e: 20.0 + e.seed)
    return made


def test_the_interval_of_a_rank_correlation_by_hand():
    """Six arms, d² sums to 6: ρ = 1 − 36/210, with variance (1 + ρ²/2) / 3 on Fisher's scale. Equal orders, too."""
    exact, swapped = (np.array(some, dtype=float).repeat(2).reshape(7, 2) for some in (range(7), (0, 2, 1, 4, 3, 6, 5)))
    found = agreement.correlation([[exact, swapped]])
    rho = 1 - 36 / 210
    assert (found["rho"], found["ceiling"]) == (pytest.approx(rho), 1.0)
    half = stats.t.ppf(0.975, 5) * np.sqrt((1 + rho**2 / 2) / 3)
    assert (found["low"], found["high"]) == pytest.approx(tuple(np.tanh(np.arctanh(rho) + np.array([-half, half]))))
    found = agreement.correlation([[exact, exact]])
    near = 1 - 6 / 210
    half = stats.t.ppf(0.975, 5) * np.sqrt((1 + near**2 / 2) / 3)
    assert (found["rho"], found["low"]) == (1.0, pytest.approx(np.tanh(np.arctanh(near) - half)))
    assert found["conclusion"] == "agree"
    assert agreement.correlation([[exact[:5], exact[:5]]]) is None, "four arms say nothing"


def test_baselines_shift_a_family_and_noise_lowers_the_ceiling():
    """Variance 1 of effects and of their noise: the reliability is 1/2, of ranks 6/π asin(1/4) = .48."""
    draw = np.random.default_rng(0)
    true = draw.normal(size=(160, 1))
    sides = [true + draw.normal(0, 3**0.5, (160, 3)) for _ in range(2)]
    certain, noisy = np.zeros((1, 3)), np.array([[-9.0, 0.0, 9.0]])

    def width(found):
        return np.arctanh(found["high"]) - np.arctanh(found["low"])

    own = agreement.correlation([[np.vstack([certain, side]) for side in sides]])
    assert own["ceiling"] == pytest.approx(0.48, abs=0.08)
    assert own["rho"] == pytest.approx(0.48, abs=0.1), "the true effects agree; the observed ones reach the ceiling"
    wide = 2 * stats.t.ppf(0.975, 159)
    assert width(own) == pytest.approx(wide * np.sqrt((1 + own["rho"] ** 2 / 2) / 157))
    halves = [[np.vstack([base, side[i::2]]) for side in sides] for i, base in enumerate((certain, noisy))]
    two = agreement.correlation(halves)
    assert width(two) > 1.5 * wide * np.sqrt((1 + two["rho"] ** 2 / 2) / 157)
    single = agreement.correlation([[np.vstack([certain, side])[:, :1] for side in sides]])
    assert np.isnan(single["ceiling"])
    assert single["low"] < single["rho"] < single["high"]


def test_an_arm_that_lacks_a_score_is_left_out_and_without_its_baseline_a_family(tmp_path):
    first, second = case(tmp_path, "shorter", 1e-2), case(tmp_path, "longer", 3e-3)

    def agreed():
        return agreement.agree(Runs(first.runs, first.sweeps), (first.spec, second.spec), ("test/exact",) * 2)

    first.path(2, model__memory="final").unlink()
    path = second.path(1, model__memory="mean")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"status": "diverged", "scores": [], "error": "NaN"}))
    assert (agreed().seeds, agreed().lacking) == ("3 and 3", ("memory=final", "memory=mean"))
    assert [row["arm"] for row in agreed().effects] == ARMS[3:]
    table = points(Runs(first.runs, first.sweeps), first.spec, second.spec)
    assert table["arm"].tolist() == ARMS[3:], "too few arms for a rank correlation"
    draw(table).draw_without_rendering()
    first.path(1, model__memory="states").unlink()
    assert agreed().effects == [], "no other arm takes the place of the baseline"
