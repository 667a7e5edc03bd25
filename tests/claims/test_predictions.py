"""Predictions against what was found, by hand."""

import csv
import re

import pytest
from plot_cases import Case
from scipy import stats

from study.analysis.runs import Runs
from study.claims import predictions
from study.claims.predictions import Predictions, compare
from study.config import config_hash, encoder_decoder
from study.folders import CHECKOUT
from study.scores.score import RecordedScore
from study.store.manifest import PAGES
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
        "the rule, direction": 4, "the rule, class": 3, "every arm is worse": 2, "nothing matters": 1,
        "the rule, class in the fitted unit": 2, "the rule, arms that gain": 1,
    }  # fmt: skip
    low, high = stats.beta.ppf([0.025, 0.975], [4, 5], [2, 1])  # Clopper and Pearson
    assert (hits.low.iloc[0], hits.high.iloc[0]) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))
    # both sweeps have the same effects, so the fitted limit is .25: two nats and half a nat break
    # two and three arms, all one way; the one arm of five that gains was the one that was predicted to
    assert hits.p.iloc[3:].tolist() == pytest.approx([2 * 0.5**2, 2 * 0.5**3, 1 / 5])
    second.path(2, model__memory="final").unlink()
    assert compare(Runs(first.runs, first.sweeps), told) == {}, "nothing is scored before all runs are there"


def test_bleu_decides_only_where_the_file_names_it(tmp_path):
    first, _ = (case(tmp_path, name, lr) for name, lr in (("first", 1e-2), ("second", 3e-3)))
    told = Predictions(sweeps=("first", "second"), bleu=None, breaks=2.0, arms=TOLD)
    table = compare(Runs(first.runs, first.sweeps), told)["predictions"].set_index("arm")
    assert table.found["reach=local_m window=4"] == "costs"
    assert "bleu_effect" not in table


def test_every_arm_has_a_prediction():
    told = predictions.read()[""]
    for name in told.sweeps:
        base, *arms = dict.fromkeys(cell.given["arm"] for cell in load(CHECKOUT / "sweeps" / f"{name}.yaml").cells)
        assert (base, arms) == ("heads=4", list(told.arms))


@pytest.mark.parametrize("name", ["decoder_only", "decoder_only_multi30k"])
def test_predictions_for_decoder_only_models_are_those_of_their_sweep_file(name):
    """The sweep file, committed before the runs, has a line for each arm: arm, config hash, effect, class."""
    told = predictions.read()[f"-{name}"]
    path = CHECKOUT / "sweeps" / f"{name}.yaml"
    declared = re.findall(r"^#   (\S.*?) +([0-9a-f]{8}) +([+-][\d.]+)  (\w.*)$", path.read_text(encoding="utf-8"), re.M)
    assert {arm: kind for arm, _, _, kind in declared} == told.arms
    hashes = {str(cell.given["arm"]): encoder_decoder(cell.overrides) for cell in load(path).runnable}
    for arm, digest, _, _ in declared:
        assert config_hash(hashes[arm])[:8] == digest
    own = {
        "joint.maps=tied", "joint.score=additive", "joint.score=uniform", "joint.score=fixed_random",
        "joint.reach=local_m joint.window=4", "source_mask=full",
    }  # fmt: skip
    assert {arm for arm, counterpart in hashes.items() if counterpart is None} == own & hashes.keys()


def test_predictions_for_decoder_only_models_on_multi30k_are_the_classes_on_the_grammar():
    rows = csv.DictReader((CHECKOUT / "results/tables/predictions-decoder_only.csv").open(encoding="utf-8"))
    classes = {row["arm"]: row["found"] for row in rows}
    told = predictions.read()["-decoder_only_transfer"].arms
    assert told == {arm: classes[arm] for arm in told}
    assert told.keys() == predictions.read()["-decoder_only_multi30k"].arms.keys()


def test_every_file_of_predictions_is_under_the_root_hash():
    assert {f"study/claims/{name}" for name in predictions.FILES.values()} < set(PAGES)
