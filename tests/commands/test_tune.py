"""`study tune`: equal settings for every arm, a table of validation alone, the real engine, and runs that were lost."""

import json
import re
import shutil

import pytest
import search_trial
import yaml

from study.engine import local
from study.folders import CHECKOUT as ROOT
from study.sweep.search import load

RATE = "training.learning_rate"
FILE = {
    "name": "mine",
    "method": "random",
    "run_cap": 9,
    "metric": {"name": "valid/nll", "goal": "minimize"},
    "command": ["${env}", "${interpreter}", "-P", "-m", "study", "train", "--overrides-json", "${args_json}"],
    "parameters": {
        "arm": {"values": ["score=dot", "score=additive"]},
        RATE: {"distribution": "log_uniform_values", "min": 0.001, "max": 0.01},
        "model": {"parameters": {"dropout": {"values": [0.1, 0.2, 0.3]}, "width": {"value": 16}}},
        "training.batch_tokens": {"distribution": "int_uniform", "min": 300, "max": 400},
    },
}
GRID = {RATE: {"values": [0.001, 0.002, 0.004]}}


@pytest.fixture
def file(tmp_path):
    """Function that writes a search file with other fields or other parameters (None: without it)."""

    def write(parameters=None, **fields):
        tree = {name: value for name, value in (FILE | fields).items() if value is not None}
        inside = FILE["parameters"] | (parameters or {})
        tree["parameters"] = {name: value for name, value in inside.items() if value is not None}
        path = tmp_path / "mine.yaml"
        path.write_text(yaml.safe_dump(tree, sort_keys=False))
        return path

    return write


def settings(search):
    """Arm ↦ its settings, in their order."""
    return {
        arm: [{name: cell.given[name] for name in search.searched} for cell in cells]
        for arm, cells in search.arms.items()
    }


def test_every_arm_gets_the_same_settings_within_the_cap(file):
    found = settings(load(file()))
    dot, additive = found.values()
    assert list(found) == ["score=dot", "score=additive"]
    assert dot == additive
    assert len({json.dumps(one) for one in dot}) == len(dot) == 4, "9 runs are 4 for each of 2 arms"
    assert all(0.001 <= one[RATE] <= 0.01 and 300 <= one["training.batch_tokens"] <= 400 for one in dot)
    assert settings(load(file())) == found, "draws are a function of the file"

    three = {"arm": {"values": ["score=bilinear", "score=additive", "score=dot"]}}
    more = settings(load(file(three, run_cap=18)))
    assert more["score=dot"] == more["score=bilinear"]
    assert more["score=dot"][:4] == dot, "a larger budget and another arm keep the runs that are there"

    assert len(load(file({"arm": None})).spec.cells) == 9, "without arms, the whole budget is for one"
    few = {RATE: None, "training.batch_tokens": None}
    assert {len(one) for one in settings(load(file(few))).values()} == {3}, "there are three settings, each run once"
    grid = settings(load(file(GRID | {"training.batch_tokens": None}, method="grid", run_cap=None)))
    assert {len(one) for one in grid.values()} == {9}
    assert len(load(file(GRID | {"training.batch_tokens": None}, method="grid", run_cap=7)).spec.cells) == 6


REFUSED = {
    "test": ({}, {"metric": {"name": "test/bleu"}}, "expected a score of valid, got test/bleu. Write valid/bleu"),
    "endless": ({}, {"run_cap": 10**30}, "run_cap: expected less than or equal to 100000"),
    "no cap": ({}, {"run_cap": None}, "run_cap: expected at least 2, a run for each arm, got none"),
    "a range in a grid": ({}, {"method": "grid"}, "expected values with method grid, got a range"),
    "seeds": ({"seed": {"values": [1, 2]}}, {}, "parameters.seed: expected one value"),
    "open range": ({RATE: {"min": 0.1, "distribution": "uniform"}}, {}, "or distribution with min and max"),
    "zero on a log scale": ({RATE: FILE["parameters"][RATE] | {"min": 0}}, {}, "above 0 with log_uniform_values"),
    "an arm without values": ({"arm": FILE["parameters"][RATE]}, {}, "arm: expected a text, got None"),
    "unequal": ({"arm": {"values": ["heads=1", "heads=3"]}}, {}, "Every arm must take every setting"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_equal_search_on_validation_is_refused(case, file, refused, tmp_path):
    parameters, fields, expected = REFUSED[case]
    path = file(parameters, **fields)
    told = refused("tune", path, "--runs", tmp_path / "runs")
    assert told.startswith(f"study: {path}: ")
    assert expected in told
    assert not (tmp_path / "runs").exists()


def test_the_table_is_of_validation_with_the_budget_of_every_arm(file, printed, tmp_path):
    """Lower is better. A run that diverged counts as the worst of the budget."""
    path, out = file(GRID | {"model": None, "training.batch_tokens": None}, method="grid", run_cap=None), tmp_path
    dot, additive = load(path).arms.values()
    for cells, values in ((dot, (40, 20, 30)), (additive, (10, None, None))):
        for cell, value in zip(cells, values, strict=True):
            search_trial.write(cell.experiment, out / cell.id, value, "finished" if value else "diverged")
    told = printed("tune", path, "--runs", out)
    head, first, second, end = told.splitlines()[-4:]
    assert head.split() == ["arm", "done", "diverged", "valid/nll", "median", "best", "setting", "remark"]
    assert first.split() == ["score=dot", "3", "of", "3", "0", "20.000", "30.000", "lr=0.002"]
    assert second.split()[:8] == ["score=additive", "3", "of", "3", "2", "10.000", "diverged", "lr=0.001"]
    assert second.endswith("lr at the lower edge: extend its range")
    assert end == "validation only; test scores are not read"

    (out / dot[0].id / "record.json").unlink()
    assert "1 of 6 declared would run" in printed("tune", path, "--runs", out, "--dry-run")


def test_a_range_has_edges_on_its_own_scale(file):
    search = load(file())
    edges = {value: search.edge(RATE, value) for value in (0.00101, 0.0012, 0.0013, 0.007, 0.009)}
    assert edges == {0.00101: "lower", 0.0012: "lower", 0.0013: "", 0.007: "", 0.009: "upper"}
    two = load(file({RATE: {"values": [0.001, 0.002]}}))
    assert two.edge(RATE, 0.001) == "", "two values are both ends, which says nothing"


def test_the_way_of_the_page_leads_from_a_text_to_a_claim(printed, tmp_path, monkeypatch):
    """With its presets, its search, its arms and its claim, on a small Czech text."""
    monkeypatch.setenv("STUDY_FILES", str(ROOT / "tests/corpora/catalogue_cs_en"))
    monkeypatch.chdir(tmp_path)
    presets = {path.stem: path.read_text() for path in (ROOT / "sweeps/own_text").glob("*.yaml")}
    assert presets.keys() == {"5k", "30k", "200k", "tune"}
    arms, claims = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/real-text.md").read_text(), re.DOTALL)
    presets["mine"] = re.sub(r"  arm:\n.*?(?=  data.name)", arms, presets["5k"], flags=re.DOTALL)
    (tmp_path / "claims.yaml").write_text(claims)
    for name, content in presets.items():
        path = tmp_path / f"{name}.yaml"
        path.write_text(content.replace("value: es", "value: cs").replace(f"own_text_{name}", name))
        runs = 16 if name == "tune" else 6
        verb = "tune" if name == "tune" else "sweep"
        assert f": {runs} of {runs} declared would run" in printed(verb, path, "--dry-run")
    (tmp_path / "runs").mkdir()
    told = printed("claims", "mine", "--claims", "claims.yaml", "--runs", "runs")
    assert "Attention to all states is better than the last state alone" in told
    assert "not yet run" in told


def test_a_search_that_lost_a_run_makes_it_alone_and_ends_in_the_same_table(file, printed, tmp_path, monkeypatch):
    path, job_of = file({"model": None}, run_cap=2), local.job_of
    monkeypatch.setattr(local, "job_of", lambda *given, **more: job_of(*given, **more, trial=search_trial.scored))

    def table():
        return printed("tune", path, "--runs", tmp_path / "out", "--slots", "1").splitlines()[-4:]

    whole = table()
    made = {one: one.stat().st_mtime_ns for one in (tmp_path / "out").glob("*/record.json")}
    assert {one.parent.name for one in made} == {cell.id for cell in load(path).spec.cells}
    lost, *others = made
    shutil.rmtree(lost.parent)
    assert table() == whole
    assert lost.exists()
    assert all(one.stat().st_mtime_ns == made[one] for one in others), "what was done is not done again"
