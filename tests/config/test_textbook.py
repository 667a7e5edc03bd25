"""The textbook arms keep their identities, lie below everything else, and leave no name behind."""

import json

import pytest
import torch

from study.attention import Lengths
from study.commands import train
from study.config import TEXTBOOK, experiment_from, experiment_id
from study.errors import InputError
from study.models import build
from study.sweep.fields import expand
from study.sweep.spec import load

IDS = {
    "bahdanau2015": "grammar-recurrent-additive-5291a7a6-s1",
    "luong2015_dot": "grammar-recurrent-dot-c0b6112c-s1",
    "luong2015_general": "grammar-recurrent-bilinear-7dcc589d-s1",
    "luong2015_concat": "grammar-recurrent-concat_luong-936cb490-s1",
    "luong2015_location": "grammar-recurrent-location-2e903f2f-s1",
    "luong2015_local_m": "grammar-recurrent-bilinear-ebc0fe0c-s1",
    "luong2015_local_p": "grammar-recurrent-bilinear-bad69f86-s1",
    "vaswani2017": "grammar-transformer-dot-d86ff0e8-s1",
    "lin2017": "grammar-recurrent-dot-6a06f7b9-s1",
}
"""Identities under which runs of the presets are found."""
GRID = "method: grid\nmetric: {name: test/exact, goal: maximize}\nparameters: "


@pytest.mark.parametrize("name", TEXTBOOK)
def test_an_arm_keeps_its_identity_has_its_fields_everywhere_and_runs(name):
    assert experiment_id(experiment_from({"preset": name})) == IDS[name]
    model = experiment_from({"preset": name, "model.width": 16}).model
    for field, wanted in TEXTBOOK[name].overrides.items():
        *above, last = field.split(".")[1:]
        places = [getattr(model.attention, site) for site in type(model.attention).model_fields] if above else [model]
        assert [getattr(place, last) for place in places] == [wanted] * len(places)
    source, target = torch.randint(4, 23, (3, 7)), torch.randint(4, 23, (3, 5))
    translator = build(model, 23, 1, Lengths(11, 9)).eval()
    logits = translator.decode(translator.encode(source, torch.ones_like(source).bool()), target).logits
    assert logits.shape == (3, 5, 23)
    assert logits.isfinite().all()


def test_everything_given_lies_over_a_preset_wherever_it_stands():
    first = experiment_from({"model.attention.window": 3, "seed": 4}, {"preset": "luong2015_local_p"})
    assert (first.model.attention.cross.window, first.seed) == (3, 4)
    last = experiment_from({"preset": "luong2015_dot"}, {"preset": "luong2015_general"})
    assert last.model.attention.cross.score == "bilinear"


def test_a_preset_is_a_flag_a_field_of_json_and_part_of_an_arm(monkeypatch):
    given = []
    monkeypatch.setattr(train, "_run", lambda experiment, folder: given.append(experiment) or 0)
    train.main(["--preset", "luong2015_general", "--model.width", "32"])
    train.main(["--overrides-json", json.dumps({"preset": "luong2015_general", "model.width": 32})])
    train.main(["--overrides-json", json.dumps({"arm": "preset=luong2015_general model.width=32"})])
    assert given == [experiment_from({"preset": "luong2015_general", "model.width": 32})] * 3


def test_a_sweep_over_presets_reports_families_apart(tmp_path):
    path = tmp_path / "s.yaml"
    arms = "[preset=luong2015_dot model.width=32, preset=vaswani2017, model.family=transformer, model.init=zero]"
    path.write_text(f"{GRID}{{arm: {{values: {arms}}}}}\n")
    spec = load(path)
    assert spec.arms == {
        "family=recurrent": ("preset=luong2015_dot width=32", "init=zero"),
        "family=transformer": ("preset=vaswani2017", "base"),
    }
    for cell in spec.cells:
        assert cell.experiment == experiment_from(expand(json.loads(cell.overrides_json)))
        assert cell.experiment == experiment_from(expand(dict(cell.given)))
    path.write_text(f"{GRID}{{preset: {{values: [luong2015_dot, luong2015_general]}}}}\n")
    assert load(path).arms == {"": ("preset=luong2015_dot", "preset=luong2015_general")}
    path.write_text(f"{GRID}{{preset: {{values: [luong2015_dot, luong]}}}}\n")
    with pytest.raises(InputError, match=r"preset: expected .*'lin2017', got 'luong'"):
        load(path)
