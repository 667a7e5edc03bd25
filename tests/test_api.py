"""The Python API: the page that describes it is run, and what it gives is compared with the command line and torch."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from processes import output_of
from test_doors import LIGHT

import study
from study.attention.part import Part
from study.config import experiment_from, experiment_id

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
PAGE = BLOCK.findall((ROOT / "docs" / "python.md").read_text(encoding="utf-8"))
(SCORE,) = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
SENTENCE = "Der Onkel schläft."


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The names that the page has given when all its blocks have run, in a folder of the user's own."""
    names = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("notebook"))
        names["runs"] = Path("runs").absolute()
        threads = torch.get_num_threads()
        torch.set_num_threads(2)
        try:
            for block in PAGE:
                exec(block.replace("train_pairs=500", "train_pairs=200"), names)  # a corpus that other tests have made
            assert torch.get_num_threads() == 2  # as the caller had it, whatever the model takes
        finally:
            torch.set_num_threads(threads)
    return names


def test_a_run_is_that_of_the_command_line(page, capsys, printed):
    run, small = page["run"], page["small"]
    fields = {"data.train_pairs": 200, "data.test_pairs": 20, "model.width": 16, "training.steps": 40}
    fields |= {"preset": "luong2015_general", "model.attention.scale": "none", "seed": 3, "training.validate_every": 20}
    assert run.id == experiment_id(experiment_from(fields))
    flags = [f"--{name}={value}" for name, value in fields.items()]
    assert "nothing is trained" in printed("train", *flags, "--runs", page["runs"])
    record = (page["runs"] / run.id / "record.json").read_bytes()
    again = study.train("luong2015_general", scale="none", seed=3, runs=page["runs"], watch=None, **small)
    assert (again.id, again.folder) == (run.id, page["runs"] / run.id)
    assert study.train(**run.record.config, runs=page["runs"]).id == run.id
    assert (page["runs"] / run.id / "record.json").read_bytes() == record
    assert capsys.readouterr().out == ""
    exact = run.scores.query("split == 'test' and metric == 'exact' and subset.isna()")
    assert exact["value"].tolist() == [run.record.score("test", "exact")]
    assert run.history["step"].tolist() == [20, 40]
    assert run.plot()._repr_png_().startswith(b"\x89PNG")


def test_a_run_is_found_by_folder_id_and_beginning_and_published_runs_after_own_ones(page):
    run, runs = page["run"], page["runs"]
    assert study.load(run.id[:-5], runs=runs).record == run.record
    published = study.load("grammar-recurrent-dot-c61874e4-s1", runs=runs)
    assert published.folder is None
    assert experiment_id(experiment_from(published.record.config)) == published.id
    with pytest.raises(study.InputError, match="nothing: no such run in "):
        study.load("nothing", runs=runs)
    assert published.translate(SENTENCE).text == "The uncle sleeps."  # its model is published, too
    with pytest.raises(study.InputError, match=r"Train it again: `study rerun "):
        study.load("c61874e4-s2", runs=runs).translate(SENTENCE)


def test_a_translation_is_that_of_the_command_line(page, tmp_path, printed):
    t = page["run"].translate(SENTENCE)
    options = ["--runs", str(page["runs"]), "--plot", str(tmp_path / "a")]
    first = printed("translate", page["run"].id, SENTENCE, *options).splitlines()[0]
    assert first == t.text == str(t) == page["t"].text
    assert t.source[-1] == "</s>"
    assert t.weights.shape == (len(t.target), len(t.source))
    np.testing.assert_allclose(t.weights.sum(1), 1, atol=1e-6)
    assert t.plot()._repr_png_() == page["t"].plot()._repr_png_()
    assert page["both"]["text"].tolist() == [t.text] * 2
    assert t.plot(page["t"])._repr_png_()
    with pytest.raises(study.InputError, match=r"^models: expected"):
        study.compare([], SENTENCE)
    for wanted, given in {"sentence": {"sentence": " "}, "layer": {"layer": 7}}.items():
        with pytest.raises(study.InputError, match=f"^{wanted}: expected"):
            page["run"].translate(**{"sentence": SENTENCE} | given)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"score": "dot", "arm": "score=dot"}, "model.attention.score: expected once"),
        ({"out": "x"}, "out: expected no folder among the fields"),
    ],
)
def test_fields_that_no_experiment_takes_are_refused(fields, problem, tmp_path):
    with pytest.raises(study.InputError, match=problem):
        study.train(runs=tmp_path / "runs", **fields)
    assert not (tmp_path / "runs").exists()


def test_what_reads_results_needs_no_torch_and_verdicts_are_the_published_ones():
    """One process imports every module that is no part of training, calls the interface, and then verbs."""
    script = """
import importlib, json, sys
import study
heavy = {"torch", "wandb", "pandas", "numpy", "matplotlib", "pytorch_lightning"}
assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()
s = study.results("quickstart")
assert len(s.frame) == 16 and set(s.frame["state"]) == {"finished"}
assert s.plot()._repr_png_() and "| --:" in s._repr_markdown_()
run = study.load(s.frame["id"][0])
assert run.plot() and len(run.scores) and "finished" in repr(run)
try:
    study.results("nothing")
except study.InputError as problem:
    assert "nothing.yaml: no such sweep file" in str(problem)
found = [s.table().csv(), study.verdicts(4)["verdict"].tolist()]
for name in sys.argv[1:]:
    importlib.import_module(name)
from study.__main__ import main
for words in ("ls runs", "show quickstart/1", "compare quickstart/1 quickstart/2", "claims 1"):
    assert main(words.split()) == 0, words
heavy = {"torch", "wandb", "pytorch_lightning", "sentencepiece", "ray", "submitit"} & sys.modules.keys()
assert not heavy, heavy
print(json.dumps(found))
"""
    printed = output_of(sys.executable, "-c", script, *LIGHT, cwd=ROOT)
    table, verdicts = json.loads(printed.splitlines()[-1])
    assert table == (ROOT / "results" / "tables" / "quickstart.csv").read_text(encoding="utf-8")
    claims = pd.read_csv(ROOT / "results" / "tables" / "contrasts.csv", dtype=str)
    claims = claims[claims["decides"] == "True"]
    assert verdicts == claims[claims["id"].isin(["4a", "4b"])]["verdict"].tolist() != []


def test_own_results_are_read_from_a_folder_of_runs(three):
    for seed in three.spec.seeds:
        three.write("dot", seed, 80.0 + seed)
        three.write("bilinear", seed, 70.0 + 2 * seed)
    s = study.results(three.spec.path, runs=three.runs)
    assert s.table().frame["difference"].dropna().tolist() == [-8.0]
    assert isinstance(s.frame, pd.DataFrame)
    assert sorted(s.frame["test/exact"]) == [72, 74, 76, 81, 82, 83]
    with pytest.raises(study.InputError, match="expected a published sweep"):
        study.results(three.spec.path)


def test_a_layer_is_torchs_multi_head_attention_on_the_same_weights():
    layer = study.Attention(24, heads=3).double()
    theirs = torch.nn.MultiheadAttention(24, 3, bias=False, batch_first=True).double()
    site = layer.site
    with torch.no_grad():
        maps = [part.weight.flatten(0, 1) for part in (site.map_query, site.map_key, site.map_value)]
        theirs.in_proj_weight.copy_(torch.cat(maps))
        theirs.out_proj.weight.copy_(site.combine.weight.flatten(0, 1).T)
    query, memory, mask = states()
    wanted, theirs_weights = theirs(query, memory, memory, key_padding_mask=~mask, average_attn_weights=False)
    contexts, weights = layer(query, memory, mask, weights=True)
    for found in (contexts, layer(query, memory, mask), layer(query, memory, mask[:, None].expand(-1, 5, -1))):
        torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(weights, theirs_weights)
    later, padded = torch.ones(5, 5, dtype=torch.bool).triu(1), torch.arange(5).expand(2, -1) > 2
    for hidden in (torch.zeros_like(padded), padded):  # causal self-attention, without padding and with it
        wanted = theirs(query, query, query, attn_mask=later, key_padding_mask=hidden)[0]
        torch.testing.assert_close(layer(query, mask=~hidden, causal=True), wanted)


def test_a_layer_takes_a_score_of_ones_own_and_refuses_what_is_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(Part, "_values", dict(Part._values))
    Path("my_scores.py").write_text(SCORE, encoding="utf-8")
    query, memory, mask = states()
    layer = study.Attention(24, score="my_scores.py:Distance", heads=2).double()
    weights = layer(query, memory, mask, weights=True)[1]
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 5).double())
    assert "Distance@" in repr(layer)
    for given, problem in (
        ({"haeds": 2}, "haeds: no such field"),
        ({"score": "fixed_random"}, "longest: expected the largest number of slots"),
        ({"scale": "none", "map_rate": "rsqrt"}, "map_rate: expected common"),
    ):
        with pytest.raises(study.InputError, match=problem):
            study.Attention(24, **given)
    with pytest.raises(study.InputError, match=r"mask: expected torch\.bool of shape"):
        layer(query, memory, mask.T)
    assert study.Attention(24, score="fixed_random", longest=9)(query.float()).shape == query.shape
    same, other = study.Attention(24, score="additive"), study.Attention(24, score="additive", seed=2)
    assert torch.equal(study.Attention(24, score="additive")(query.float()), same(query.float()))
    assert not torch.allclose(other(query.float()), same(query.float()))


def states(width=24):
    """Queries [2, 5, 24], a memory [2, 7, width] and a mask that hides three slots of the second sentence."""
    generator = torch.Generator().manual_seed(0)
    query, memory = (torch.randn(2, n, d, generator=generator).double() for n, d in ((5, 24), (7, width)))
    mask = torch.ones(2, 7, dtype=torch.bool)
    mask[1, 4:] = False
    return query, memory, mask
