"""Effects of the same arms in two sweeps: differences, intervals and rank correlation, against scipy."""

import json

import numpy as np
import pytest
from plot_cases import Case
from scipy import stats

from study.analysis import agreement
from study.analysis.runs import Runs

ARMS = [
    "memory=states",
    "memory=final",
    "memory=mean",
    "score=additive",
    "scale=none",
    "weights=sparsemax",
    "score=bilinear",
]
EFFECTS = (0.0, 6.0, 5.0, -0.3, 0.1, -0.2, 0.05)
"""Effects of the arms on the grammar. `OTHER` ranks them otherwise."""
OTHER = (0.0, 9.0, 9.5, -1.0, 2.0, 0.3, 0.2)


def case(folder, name, effects, spread, lr=1e-2, steps=800, seeds=(1, 2, 3)):
    """A sweep of one family whose score of an arm is 20 + its effect + the spread times a number of seed and arm."""
    listed = "\n".join(f"      - family=recurrent lr={lr} {arm}" for arm in ARMS)
    made = Case(
        folder, name, f"  arm:\n    values:\n{listed}\n  training.steps: {{value: {steps}}}\n", "test/exact", seeds
    )
    noise = np.random.default_rng(steps).normal(0, 1, (9, len(ARMS)))
    place = {cell.id: ARMS.index(cell.given["arm"].split(" ", 2)[2]) for cell in made.spec.runnable}
    by_hash = {json.dumps(cell.experiment.model_dump(mode="json")): place[cell.id] for cell in made.spec.runnable}

    def score(e):
        at = by_hash[json.dumps(e.model_dump(mode="json"))]
        return 20.0 + effects[at] + spread * noise[e.seed, at]

    made.write(score)
    made.values = np.array([[20 + e + spread * noise[s, i] for s in seeds] for i, e in enumerate(effects)])
    return made


@pytest.fixture
def both(tmp_path):
    return case(tmp_path, "shorter", EFFECTS, 0.1), case(tmp_path, "longer", OTHER, 0.2, 3e-3, 900)


def agreed(both):
    specs = [one.spec for one in both]
    return agreement.agree(Runs(both[0].runs, both[0].sweeps), specs, ("test/exact", "test/exact"))


def test_effects_and_their_rank_correlation(both):
    found = agreed(both)
    assert [row["arm"] for row in found.effects] == ARMS[1:]
    for side, made in zip(agreement.SIDES, both, strict=True):
        for place, row in enumerate(found.effects, start=1):
            expected = stats.ttest_ind(made.values[place], made.values[0], equal_var=False).confidence_interval()
            assert (row[f"{side}_low"], row[f"{side}_high"]) == pytest.approx((expected.low, expected.high), abs=1e-3)
    means = [made.values.mean(axis=1)[1:] for made in both]
    assert [row["family"] for row in found.correlations] == ["all", "recurrent"]
    assert found.correlations[1]["rho"] == pytest.approx(stats.spearmanr(*means).statistic)


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


def test_an_arm_that_lacks_a_score_is_left_out_and_without_its_baseline_a_family(both):
    both[0].path(2, model__memory="final").unlink()
    path = both[1].path(1, model__memory="mean")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"status": "diverged", "scores": [], "error": "NaN"}))
    found = agreed(both)
    assert (found.seeds, found.lacking) == ("3 and 3", ("memory=final", "memory=mean"))
    assert [row["arm"] for row in found.effects] == ARMS[3:]
    both[0].path(1, model__memory="states").unlink()
    assert agreed(both).effects == [], "no other arm takes the place of the baseline"
