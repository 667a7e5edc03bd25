"""Predictions against what was found, by hand."""

import pytest
from plot_cases import Case
from scipy import stats

from study.analysis.runs import Runs
from study.claims import predictions
from study.claims.predictions import Predictions, compare
from study.folders import CHECKOUT
from study.scores.score import RecordedScore
from study.sweep.spec import load

ARMS = ["memory=states", "memory=final", "memory=mean", "score=additive", "scale=none", "reach=local_m window=4"]
NLL = dict(zip(ARMS, (5.0, 7.0, 5.5, 4.0, 5.0, 6.0), strict=True))
BLEU = dict(zip(ARMS, (20.0, 10.0, 19.0, 22.0, 20.0, 25.0), strict=True))
TOLD = dict(zip(ARMS[1:], ("costs", "costs", "gains", "no difference", "costs"), strict=True))


def case(folder, name, lr):
    listed = "\n".join(f"      - family=recurrent lr={lr} {arm}" for arm in ARMS)
    made = Case(folder, name, f"  arm:\n    values:\n{listed}\n", "test/nll", (1, 2, 3))

    def arm(e):
        return next(one for one in ARMS if made_of[one] == e.model_copy(update={"seed": 1}))

    made_of = {cell.given["arm"].partition(f"lr={lr} ")[2]: cell.experiment for cell in made.spec.cells[: len(ARMS)]}

    def scores(e):
        bleu = BLEU[arm(e)] + 0.01 * e.seed
        return [RecordedScore(split=split, metric="bleu", value=bleu, n=50) for split in ("test", "test_2016_flickr")]

    made.write(lambda e: NLL[arm(e)] + 0.01 * e.seed, scores)
    return made


def test_classes_and_hits(tmp_path):
    """2 nats break a model, half a nat costs, and a loss in NLL that is a gain in BLEU is open, which nobody hits."""
    first, second = (case(tmp_path, name, lr) for name, lr in (("first", 1e-2), ("second", 3e-3)))
    runs, told = Runs(first.runs, first.sweeps), Predictions(sweeps=("first", "second"), breaks=2.0, arms=TOLD)
    found = compare(runs, told)
    table = found["predictions"].set_index("arm")
    assert table.found.tolist() == ["breaks", "costs", "gains", "no difference", "open"]
    assert table["class"].tolist() == [False, True, True, True, False]
    assert table.direction.tolist() == [True, True, True, True, False]
    assert table.second_effect["memory=final"] == pytest.approx(2.0)
    hits = found["hits"].set_index("predictor")
    assert hits.hits.to_dict() == {
        "the rule, direction": 4, "the rule, class": 3, "every arm is worse": 2, "nothing matters": 1
    }  # fmt: skip
    low, high = stats.beta.ppf([0.025, 0.975], [4, 5], [2, 1])  # Clopper and Pearson
    assert (hits.low.iloc[0], hits.high.iloc[0]) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))
    assert hits.p.iloc[2:].tolist() == pytest.approx([2 * 0.5**2, 2 * 0.5**3])  # two and three arms, all one way
    second.path(2, model__memory="final").unlink()
    assert compare(Runs(first.runs, first.sweeps), told) == {}, "nothing is scored before all runs are there"


def test_every_arm_has_a_prediction():
    told = predictions.read()
    for name in told.sweeps:
        base, *arms = dict.fromkeys(cell.given["arm"] for cell in load(CHECKOUT / "sweeps" / f"{name}.yaml").cells)
        assert (base, arms) == ("heads=4", list(told.arms))
