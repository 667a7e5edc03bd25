"""The textbook arms say what the papers say, lie below everything else, and leave no name behind."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from study.attention import Lengths
from study.commands import train
from study.config import TEXTBOOK, Experiment, config_hash, experiment_from
from study.errors import InputError
from study.models import build
from study.sweep.spec import expand, load

FACTS: dict[str, dict[str, Any]] = {  # by hand, from the papers
    "bahdanau2015": {"decoder": "bahdanau", "cell": "gru", "bidirectional": True, "score": "additive", "scale": "none"},
    "luong2015_dot": {"score": "dot", "scale": "none", "reach": "global"},
    "luong2015_general": {"score": "bilinear", "scale": "none", "reach": "global"},
    "luong2015_concat": {"score": "concat_luong", "scale": "none", "reach": "global"},
    "luong2015_location": {"score": "location", "scale": "none", "reach": "global"},
    "luong2015_local_m": {"score": "bilinear", "reach": "local_m", "window": 10},
    "luong2015_local_p": {"score": "bilinear", "reach": "local_p", "window": 10},
    "vaswani2017": {"score": "dot", "scale": "rsqrt", "heads": 8, "maps": "separate", "positions": "sinusoidal"},
    "lin2017": {"memory": "structured", "annotations": 30, "init": "zero", "cell": "lstm", "bidirectional": True},
}
LUONG = {"decoder": "luong", "input_feeding": True, "cell": "lstm", "bidirectional": False, "readout": "tanh"}
GRID = "method: grid\nmetric: {name: test/exact, goal: maximize}\nparameters: "


@pytest.mark.parametrize("name", TEXTBOOK)
def test_an_arm_is_what_the_paper_describes_and_runs(name: str) -> None:
    experiment = experiment_from({"preset": name, "model.width": 16})
    model, site = experiment.model, experiment.model.attention.cross
    for field, value in (FACTS[name] | (LUONG if name.startswith("luong") else {})).items():
        assert getattr(site if field in type(site).model_fields else model, field) == value, field
    if name != "vaswani2017":
        assert (site.maps, site.values, site.output, site.heads) == ("raw", "raw", "raw", 1)
    source, target = torch.randint(4, 23, (3, 7)), torch.randint(4, 23, (3, 5))
    translator = build(model, 23, 1, Lengths(11, 9)).eval()
    logits = translator.decode(translator.encode(source, torch.ones_like(source).bool()), target).logits
    assert logits.shape == (3, 5, 23)
    assert logits.isfinite().all()


def test_every_arm_has_a_source_and_names_no_site() -> None:
    """A field of one site would lie over what a user says of all sites."""
    assert FACTS.keys() == TEXTBOOK.keys()
    for name, arm in TEXTBOOK.items():
        assert arm.source[:3].lower() == name[:3]
        assert "model.family" in arm.overrides
        assert all(field.count(".") == 1 or field.startswith("model.attention.") for field in arm.overrides)
        assert all(field.count(".") <= 2 for field in arm.overrides)


def test_the_name_is_no_part_of_the_identity() -> None:
    spelled = {"model.decoder": "bahdanau", "model.attention.score": "additive", "model.attention.scale": "none"}
    assert experiment_from({"preset": "bahdanau2015"}) == experiment_from(spelled)
    assert config_hash(experiment_from({"preset": "bahdanau2015"})) == config_hash(experiment_from(spelled))
    assert "preset" not in experiment_from({"preset": "bahdanau2015"}).model_dump_json()


def test_everything_given_lies_over_a_preset_wherever_it_stands() -> None:
    first = experiment_from({"model.attention.window": 3, "seed": 4}, {"preset": "luong2015_local_p"})
    assert (first.model.attention.cross.window, first.seed) == (3, 4)
    last = experiment_from({"preset": "luong2015_dot"}, {"preset": "luong2015_general"})
    assert last.model.attention.cross.score == "bilinear"


def test_a_preset_is_a_flag_a_field_of_json_and_part_of_an_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Experiment] = []
    monkeypatch.setattr(train, "_run", lambda experiment, folder: given.append(experiment) or 0)
    train.main(["--preset", "luong2015_general", "--model.width", "32"])
    train.main(["--overrides-json", json.dumps({"preset": "luong2015_general", "model.width": 32})])
    train.main(["--overrides-json", json.dumps({"arm": "preset=luong2015_general model.width=32"})])
    assert given == [experiment_from({"preset": "luong2015_general", "model.width": 32})] * 3


def test_a_sweep_over_presets_reports_families_apart(tmp_path: Path) -> None:
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
    with pytest.raises(InputError, match=r"parameters\.preset: .*'lin2017'.*not 'luong'"):
        load(path)


BAD = {
    "typo": ({"preset": "luong2015_dott"}, "did you mean luong2015_dot?"),
    "nothing like it": ({"preset": 7}, "they are bahdanau2015, "),
    "another family": ({"preset": "vaswani2017", "model.family": "recurrent"}, "is of family transformer"),
    "left over": (
        {"preset": "luong2015_local_m", "model.attention.reach": "global"},
        "those of preset luong2015_local",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line(case: str) -> None:
    overrides, says = BAD[case]
    with pytest.raises(InputError) as caught:
        experiment_from(overrides)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
