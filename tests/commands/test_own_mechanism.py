"""A score in a file of a user's own, from the flag to the table, and what is said of files that cannot be used."""

import json
import pickle
import re
import sys
from pathlib import Path

import pytest
import torch
from processes import output_of
from tiny_sweep import GRAPH

from study.__main__ import main
from study.attention.part import Part
from study.config import config_hash, experiment_from, plugins, scientific
from study.config.mechanisms import SCORE
from study.engine.local import job_of
from study.sweep.spec import load

PAGE = (Path(__file__).parents[2] / "docs" / "own-data.md").read_text(encoding="utf-8")
DISTANCE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
"""The file that the documentation shows."""
SWEEP = """
name: mine
method: grid
metric: {name: test/exact, goal: maximize}
command: ["${env}", "${interpreter}", "-m", "study", "train", "--overrides-json", "${args_json}"]
parameters:
  seed: {value: 1}
  model.attention.score: {values: [dot, "distance.py:Distance"]}
"""
SMALL = GRAPH | {"model.attention.maps": "separate"}
FIELD = "model.attention.score"
EXPLAIN = ["explain", *(f"--{name}={SMALL[name]}" for name in SMALL if name.startswith("data.") or "maps" in name)]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder of the user's own, with nothing known of earlier files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(plugins.ALLOWED, "")
    (tmp_path / "distance.py").write_text(DISTANCE, encoding="utf-8")
    forget(monkeypatch)
    yield tmp_path
    forget(monkeypatch)


def forget(monkeypatch):
    """Forget what this process has read and run, as a new one would."""
    for name in [name for name in sys.modules if name.startswith("study_mechanism_")]:
        del sys.modules[name]
    plugins._known.clear()
    monkeypatch.setenv(plugins.ALLOWED, "")
    for key in [key for key in Part._values if "@" in key[1]]:
        del Part._values[key]


def test_content_is_the_identity_and_the_path_is_not(here):
    first = experiment_from({FIELD: "distance.py"})
    (here / "elsewhere").mkdir()
    (here / "elsewhere" / "other_name.py").write_text(DISTANCE, encoding="utf-8")
    moved = experiment_from({FIELD: "elsewhere/other_name.py:Distance"})
    assert first.model.attention.cross.score == moved.model.attention.cross.score
    assert config_hash(first) == config_hash(moved)
    assert first.model.attention.cross.scale == "rsqrt"  # by its facts
    assert first.model.attention.cross.score.partition("@")[0] == "Distance"
    (here / "distance.py").write_text(DISTANCE.replace("0.5", "0.25"), encoding="utf-8")
    assert config_hash(experiment_from({FIELD: "distance.py"})) != config_hash(first)
    assert "Distance" not in " ".join(SCORE)  # lists of values are those of the package


@pytest.mark.slow
def test_from_a_sweep_to_a_table_and_back_when_the_file_is_gone(here, refused, printed, monkeypatch):
    body = "".join(f"  {name}: {{value: {value}}}\n" for name, value in SMALL.items())
    (here / "mine.yaml").write_text(SWEEP + body, encoding="utf-8")
    assert "Distance: code of SHA-256" in refused("sweep", "mine.yaml")
    forget(monkeypatch)
    assert not list((here / "runs").glob("graph-*")), "a sweep file names code, and does not allow it"
    sweep = [sys.executable, "-m", "study", "sweep", "mine.yaml", "--allow-code"]
    assert "score=distance.py:Distance" in output_of(*sweep)
    (run,) = (here / "runs").glob("graph-transformer-distance-*")
    score = json.loads((run / "record.json").read_bytes())["config"]["model"]["attention"]["cross"]["score"]
    (copy,) = (run / "mechanisms").iterdir()
    assert copy.name == f"{score}.py"
    assert copy.read_text(encoding="utf-8") == DISTANCE
    spec = load(here / "mine.yaml")
    job = pickle.dumps(job_of(spec, spec.cells, here / "runs"))
    (here / "distance.py").unlink()
    forget(monkeypatch)
    sent = pickle.loads(job)  # by SLURM or Ray, to a process that has not read the file
    plugins.remember(sent.mechanisms)
    plugins.keep(here / "there", [value for task in sent.tasks for value in scientific(task.experiment).values()])
    assert (here / "there" / "mechanisms" / copy.name).read_text(encoding="utf-8") == DISTANCE
    forget(monkeypatch)
    translate = ["translate", run, "der Onkel schläft"]
    assert "came with a sweep, a run or a model, and does not run unasked" in refused(*translate)
    printed(*translate, "--allow-code")
    forget(monkeypatch)
    assert score in printed("show", run)
    assert "distance.py: no such file" in refused("report", "mine.yaml")
    assert "e = (−½‖q − k‖²) · 1/√d" in printed(*EXPLAIN, f"--{FIELD}", copy)


def test_a_file_that_a_record_or_a_model_names_is_not_run(here, capsys, refused):
    """Only a user names files. A run of somebody else may lie beside the code that its files name."""
    assert main(["train", *(f"--{name}={value}" for name, value in SMALL.items())]) == 0
    (run,) = (here / "runs").glob("graph-*")
    log = (run / "log.txt").read_text(encoding="utf-8")
    assert log.startswith("training: ")
    assert log in capsys.readouterr().out
    theirs = here / "theirs.py"
    theirs.write_text("raise SystemExit('was run')\n" + DISTANCE, encoding="utf-8")
    model = torch.load(run / "model.pt", weights_only=True)
    record = json.loads((run / "record.json").read_bytes())
    for config in (model["config"], record["config"]):
        config["model"]["attention"]["cross"]["score"] = f"{theirs}:Distance"
    torch.save(model, run / "model.pt")
    assert "does not run unasked" in refused("translate", run, "der Onkel schläft")
    (run / "record.json").write_text(json.dumps(record), encoding="utf-8")
    for verb in ("show", "prune"):
        assert "expected a mechanism and its SHA-256, got" in refused(verb, run)


@pytest.mark.parametrize(
    ("text", "value", "said"),
    [
        (None, "none.py", ".score: none.py: no such file"),
        (None, ".py", ".py: no such file"),
        (None, "distance.py:Cosine", ".score: distance.py: expected a class with facts = dict(formula=…) (Distance)"),
        (None, "Distance@" + 64 * "0", "no file is known for Distance@000"),
        ("class Distance(\n", "distance.py", "no valid Python"),
        (DISTANCE.replace("facts", "fact"), "distance.py:Distance", "expected a class with facts = dict(formula=…)"),
        (DISTANCE.replace('"K"', "K"), "distance.py", "expected plain values"),
        (DISTANCE.replace("equal_sizes", "equal_size"), "distance.py", "facts.equal_size: Unexpected keyword argument"),
        (DISTANCE.replace("equal_sizes=True", "equal_sizes='yes'"), "distance.py", "facts.equal_sizes"),
        (DISTANCE.replace('"−½‖q − k‖²", s', "'', s"), "distance.py", "facts.formula: expected the equation"),
        (DISTANCE.replace("(Score)", "(torch.nn.Module)"), "distance.py", "expected a subclass of study.attention."),
        (DISTANCE.replace("import torch", "import torhc"), "distance.py", "cannot be run (ModuleNotFoundError"),
        ("raise SystemExit(3)\n" + DISTANCE, "distance.py", "cannot be run (SystemExit"),
    ],
)
def test_a_file_that_cannot_be_used_gets_one_line(here, capsys, text, value, said):
    if text is not None:
        (here / "distance.py").write_text(text, encoding="utf-8")
    assert main([*EXPLAIN, f"--{FIELD}", value]) == 2
    out, err = capsys.readouterr()
    assert said in err
    assert err.count("\n") == 1
    assert out == "" or "cannot be run" in said or "subclass" in said


def test_the_facts_are_read_without_running_the_file(here):
    (here / "distance.py").write_text("raise SystemExit('was run')\n" + DISTANCE, encoding="utf-8")
    assert experiment_from({FIELD: "distance.py"}).model.attention.cross.scale == "rsqrt"
