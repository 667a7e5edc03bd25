import json
import re

import pytest
from tiny_sweep import MAP

from study.analysis.run_text import configuration
from study.attention_map import SHADES, cells
from study.commands.report import main as report
from study.commands.show import main
from study.corpora.catalogue import KINDS
from study.errors import InputError
from study.scores.score import RecordedScore
from study.store.folder import Store
from study.store.records import ModelFacts


def test_a_run_as_text_and_picture(tiny, printed):
    sizes = ModelFacts(parameters=12345, parameters_attention=678, flops_per_token=90123)
    cell = tiny.cells["score=bilinear", 1]
    record = tiny.record(cell, 70.0)
    part = RecordedScore(split="test", metric="exact", subset="length 4-7", value=80.0, n=20)
    rest = [
        RecordedScore(split="valid", metric="nll", value=1.5, n=30),
        RecordedScore(split="test", metric="aer", value=0.25, n=40),
    ]
    scores = [*record.scores, part, *rest]
    took = record.resources.model_copy(update={"train_seconds": 0.0, "wall_seconds": 75.6})
    path = tiny.write("bilinear", 1, 70.0, model=sizes, scores=scores, resources=took)
    (path.parent / "attention.json").write_text(json.dumps(MAP))
    png = path.parent / "pictures" / "run.png"
    said = printed("show", path.parent.name, "--runs", tiny.runs, "--plot", png)
    assert "model.attention.cross.score  bilinear   (default dot)" in said
    assert "null" not in said
    assert "12,345 parameters, 678 of them attention's; 90,123 FLOPs per target token" in said
    assert f"  took 76 s without training on {record.provenance.device}\n" in said
    assert f"  step {record.selection.step} was tested: the step with the best BLEU on validation\n" in said
    table = [line.split() for line in said.split("Scores\n")[1].split("\n\nAttention")[0].splitlines()]
    assert table == [
        ["test", "valid"],
        ["sentences", "50", "30"],
        ["BLEU", "80.0"],
        ["exact", "match,", "%", "70.0"],
        ["NLL", "per", "sentence,", "nats", "1.500"],
        ["alignment", "error", "rate,", "0–1", "0.250"],
        [],
        ["sentences", "exact", "match,", "%"],
        ["test,", "length", "4-7", "20", "80.0"],
    ]
    assert "    a  █•" in said
    assert "  dog    ▒•▒▒" in said
    assert png.read_bytes().startswith(b"\x89PNG")


def test_a_published_run_has_its_map_beside_it(tiny, printed):
    tiny.write("dot", 1, 80.0, published=True, files={"attention.json": json.dumps(MAP).encode()})
    identity = tiny.cells["score=dot", 1].id
    for name in (identity, identity.removesuffix("-s1")):
        assert "  dog    ▒•▒▒" in printed("show", name, "--runs", tiny.runs)
    for verb in (main, report):
        argv = ["--runs", str(tiny.runs / "elsewhere")]
        given = {main: [identity], report: [str(tiny.spec.path)]}.get(verb, [])
        with pytest.raises(InputError, match=r"no such folder|no such run"):
            verb([*given, *argv])


def test_fields_that_differ_from_the_defaults_of_today_are_shown(tiny):
    record = Store(tiny.runs).record(tiny.write("dot", 1, 80.0).parent.name)
    own = KINDS["files"].example().model_dump(mode="json") | {"source": "xx", "tokens": "words"}
    said = "\n".join(configuration(record.model_copy(update={"config": record.config | {"data": own}})))
    assert re.search(r"data.tokens +words +\(default subwords\)", said)
    assert re.search(r"data.source +xx$", said, re.MULTILINE)  # a language has no default
    assert "model.cell" not in said
    gone = record.model_copy(update={"config": {"data": {"name": ["x"]}, "model": 5}})
    assert [line.split()[0] for line in configuration(gone)] == ["data.name", "model", "seed"]


def test_weights_of_any_sign_are_shaded_by_their_size():
    shown = list(cells({"source": ["a", "b"], "target": ["x"], "weights": [[-2.0, -0.25]]}))
    assert shown[-2].split() == ["x", 2 * SHADES[-1] + 2 * SHADES[1]]


def test_a_broken_attention_map_is_refused(tiny):
    path = tiny.write("dot", 1, 80.0)
    for broken in ({"weights": [[1.0]]}, {"weights": "x"}, {"gold": [[1]]}, {"gold": [["a", "b"]]}, {"text": [1]}):
        (path.parent / "attention.json").write_text(json.dumps(MAP | broken))
        with pytest.raises(InputError, match=r"attention\.json: expected source, target, weights of their sizes"):
            main([str(path.parent)])
