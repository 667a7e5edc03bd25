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

# By hand, from the papers: every field, of the model and of its attention.
RAW = {"maps": "raw", "values": "raw", "output": "raw", "heads": 1, "weights": "softmax", "scale": "none"}
PROJECTED = {"maps": "separate", "values": "projected", "output": "projected", "combine": "concat", "heads": 8}
RECURRENT = {"family": "recurrent", "bidirectional": True}
BAHDANAU = {**RECURRENT, "decoder": "bahdanau", "cell": "gru", "memory": "states", "init": "final", "readout": "tanh"}
LUONG = {"decoder": "luong", "input_feeding": True, "cell": "lstm", "memory": "states", "init": "direct"}
LUONG |= {"family": "recurrent", "bidirectional": False, "readout": "tanh"}
VASWANI = {"family": "transformer", "positions": "sinusoidal", "mixing": "attention", "embeddings": "shared"}
LIN = {**RECURRENT, "cell": "lstm", "memory": "structured", "annotations": 30, "penalty": 1.0, "init": "zero"}
LOCAL = {**RAW, "score": "bilinear", "window": 10}
FACTS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "bahdanau2015": (BAHDANAU, {**RAW, "score": "additive"}, "Bahdanau et al. 2015"),
    "luong2015_dot": (LUONG, {**RAW, "score": "dot"}, "Luong et al. 2015, global"),
    "luong2015_general": (LUONG, {**RAW, "score": "bilinear"}, "Luong et al. 2015, global"),
    "luong2015_concat": (LUONG, {**RAW, "score": "concat_luong"}, "Luong et al. 2015, global"),
    "luong2015_location": (LUONG, {**RAW, "score": "location"}, "Luong et al. 2015, global"),
    "luong2015_local_m": (LUONG, {**LOCAL, "reach": "local_m"}, "Luong et al. 2015, local"),
    "luong2015_local_p": (LUONG, {**LOCAL, "reach": "local_p"}, "Luong et al. 2015, local"),
    "vaswani2017": (
        VASWANI,
        {**PROJECTED, "weights": "softmax", "score": "dot", "scale": "rsqrt"},
        "Vaswani et al. 2017",
    ),
    "lin2017": (LIN, {**RAW, "score": "dot"}, "Lin et al. 2017"),
}
GRID = "method: grid\nmetric: {name: test/exact, goal: maximize}\nparameters: "


@pytest.mark.parametrize("name", TEXTBOOK)
def test_an_arm_is_what_the_paper_describes_and_runs(name: str) -> None:
    experiment = experiment_from({"preset": name, "model.width": 16})
    model = experiment.model
    of_model, of_attention, source_told = FACTS[name]  # of all sites: one site would lie over what a user says of all
    spelled = {f"model.{field}": value for field, value in of_model.items()}
    spelled |= {f"model.attention.{field}": value for field, value in of_attention.items()}
    assert TEXTBOOK[name].overrides == spelled
    assert TEXTBOOK[name].source.startswith(source_told)
    assert {field: getattr(model, field) for field in of_model} == of_model
    for site in type(model.attention).model_fields:
        assert {field: getattr(getattr(model.attention, site), field) for field in of_attention} == of_attention
    source, target = torch.randint(4, 23, (3, 7)), torch.randint(4, 23, (3, 5))
    translator = build(model, 23, 1, Lengths(11, 9)).eval()
    logits = translator.decode(translator.encode(source, torch.ones_like(source).bool()), target).logits
    assert logits.shape == (3, 5, 23)
    assert logits.isfinite().all()


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
    with pytest.raises(InputError, match=r"preset: expected .*'lin2017', got 'luong'"):
        load(path)
