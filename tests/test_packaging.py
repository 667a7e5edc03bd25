"""The package as it is installed: interpreter, extras, lock, wheel, other systems."""

import importlib
import json
import multiprocessing
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from processes import output_of
from wheel import installed

from study.__main__ import EXTRAS

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ({"3.14": 1, "3.13": 0, "3.11": 0}, "python3.13 -m venv .venv"),
        ({"3.14": 0, "3.12": 0}, "python3.14 -m venv .venv"),
        ({"3.11": 1}, "PYTHON: expected Python 3.11 to 3.14 with venv, got none. Install"),
    ],
)
def test_make_takes_the_newest_python_that_works(there, expected, tmp_path):
    for version, status in there.items():
        program = tmp_path / f"python{version}"
        program.write_text(f'#!/bin/sh\necho "${{0##*/}} $*" >&2\nexit {status}\n', encoding="ascii")
        program.chmod(0o755)
    shutil.copy(ROOT / "Makefile", tmp_path)
    ran = subprocess.run(
        [shutil.which("make"), ".venv/bin/python"],
        env={"PATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stderr.startswith(expected)
    assert ran.returncode == (0 if "venv .venv" in expected else 2)


def test_the_extras_that_verbs_name_are_those_of_the_project():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert set(EXTRAS.values()) <= set(extras)


def test_every_locked_version_has_hashes():
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    locked = [line for line in lines if not line.startswith("#")]
    assert [line for line in locked if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []
    assert "torch==2.13.0" in locked
    text = (ROOT / "requirements.hashes").read_text(encoding="utf-8")
    hashed = re.findall(r"^([\w.-]+==[\w.]+)(?: ; [^\\]+)? \\\n    --hash=sha256:[0-9a-f]{64}\b", text, re.MULTILINE)
    assert hashed == [line for line in locked if not line.startswith("torch==")], "make lock"
    assert len(hashed) > 100


def test_pip_is_given_the_hashes_of_all_that_an_extra_needs():
    """The part for an extra has what its packages require, torch's too, and no more."""
    chosen = runpy.run_path(str(ROOT / ".ci" / "hashes.py"))
    project = {
        "name": "own",
        "dependencies": ["NumPy>=2"],
        "optional-dependencies": {"a": ["torch"], "b": ["own[a]", "ray"]},
    }
    entry = "{0}==1 \\\n    --hash=sha256:ab\n"
    text = (
        "# made\n"
        + entry.format("numpy")
        + "    # via own (pyproject.toml)\n"
        + entry.format("deep")
        + "    # via sympy\n"
    )
    text += entry.format("sympy") + "    # via\n    #   torch\n    #   other\n" + entry.format("ray")
    for extras, names in (
        (["a"], {"numpy", "sympy", "deep"}),
        (["b"], {"numpy", "sympy", "deep", "ray"}),
        ([], {"numpy"}),
    ):
        part = chosen["part"](text, chosen["needed"](extras, project))
        assert set(re.findall(r"^(\w+)==1 \\\n    --hash", part, re.MULTILINE)) == names


def test_pip_refuses_a_file_of_another_hash_before_it_runs_it(tmp_path):
    """With the options of the Makefile: the package would write a file when it is installed."""
    source = tmp_path / "evil"
    source.mkdir()
    (source / "setup.py").write_text(
        f"open({str(tmp_path / 'ran')!r}, 'w')\nfrom setuptools import setup\nsetup(name='evil', version='1')"
    )
    archive = shutil.make_archive(str(tmp_path / "evil-1"), "gztar", tmp_path, "evil")
    options = re.search(r"\$\(PIP\) (--require-hashes .*?) -r", (ROOT / "Makefile").read_text("utf-8"))[1].split()
    command = [sys.executable, "-m", "pip", "install", "--no-index", "--target", tmp_path / "site", *options, "-r"]
    part = tmp_path / "part.txt"
    part.write_text(f"evil @ {Path(archive).as_uri()} --hash=sha256:{'a' * 64}\n")
    done = subprocess.run([*command, part], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "DO NOT MATCH THE HASHES" in done.stderr
    assert not (tmp_path / "ran").exists()


SWEEP = """
name: mine
method: grid
metric: {name: test/exact, goal: maximize}
parameters:
  model.attention.score: {values: [dot, additive]}
  data.name: {value: graph}
  data.train_pairs: {value: 60}
  data.test_pairs: {value: 4}
  model.width: {value: 8}
  training.steps: {value: 1}
  decoding.beam: {value: 1}
  trainer.device: {value: cpu}
"""
CLAIMS = """
claims:
  - id: own
    slug: additive-beats-dot
    statement: Additive attention beats the dot product
    type: superiority
    questions:
      - sweep: mine.yaml
        asked: [graph/recurrent]
        metric: test/exact
        margin: 2.5
        contrasts: [{arm: {model.attention.score: additive}, baseline: {model.attention.score: dot}}]
"""
VERBS = """
import contextlib, io, sys
import study
from study.__main__ import main

def told(words, status=0):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        assert main(words.split()) == status, (words, out.getvalue(), err.getvalue())
    return err.getvalue() if status else out.getvalue()

print(study.__file__)
assert told("report mine.yaml")
assert "not decided" in told("claims --runs runs --claims mine.claims.yaml")
assert "not yet run" in told("claims 1 --runs runs")
assert told("ls runs").count("graph-recurrent") == 2
for words in ("sweep quickstart --dry-run", "sweep sweeps/quickstart.yaml --dry-run", "sweep quickstart --status"):
    assert "quickstart" in told(words)
assert "got grammar-recurrent-dot-c61874e4-s1, which has none" in told("show quickstart/1", 2)
for words, option in (("claims", "runs"), ("site", "runs"), ("report --figures", "runs"), ("verify", "results")):
    assert f"`study fetch results` brings them; or name a folder of them with --{option}" in told(words, 2), words
try:
    study.results("scaling")
except study.InputError as problem:
    assert "in Python with runs" in str(problem)
sys.modules["torch"] = None
for words in ("train --seed 3", "explain", "translate mine hallo"):
    assert "pip install 'FILE.whl[train]'" in told(words, 2) or words.startswith("tr"), words
"""


def test_a_wheel_works_in_an_empty_folder(tmp_path):
    """Also beside a study.py, and without the sweeps, results and git of a checkout."""
    site, empty = installed(tmp_path), tmp_path / "empty"
    assert (site / "study" / "py.typed").is_file()
    assert len([*(site / "study" / "sweeps").glob("*.yaml")]) > 40
    empty.mkdir()
    (empty / "study.py").write_text("raise SystemExit('not the package')", encoding="ascii")
    (empty / "mine.yaml").write_text(SWEEP, encoding="utf-8")
    (empty / "mine.claims.yaml").write_text(CLAIMS, encoding="utf-8")

    there = {"cwd": empty, "PYTHONPATH": str(site)}
    assert "2 of 2 runs done" in output_of(sys.executable, site / "bin" / "study", "sweep", "mine.yaml", **there)
    told = output_of(sys.executable, "-P", "-c", VERBS, **there)
    assert told.startswith(str(site))
    assert {path.name for path in empty.iterdir()} == {"study.py", "mine.yaml", "mine.claims.yaml", "runs"}
    assert len(list((empty / "runs").glob("*/record.json"))) == 2
    assert (empty / "runs" / "report" / "mine" / "table.csv").is_file()


def elsewhere(names):
    """Import modules, then again without what other systems lack; other packages guard their own imports."""
    for name in names:
        importlib.import_module(name)
    for name in [name for name in sys.modules if name.split(".")[0] == "study"]:
        del sys.modules[name]
    sys.modules |= dict.fromkeys(("fcntl", "resource"))
    if hasattr(os, "sched_getaffinity"):
        del os.sched_getaffinity
    for name in names:
        importlib.import_module(name)
    assert importlib.import_module("study.engine.resources").here().cores >= 1


def test_modules_import_where_linux_has_more():
    """In a fork, which has imported other packages already."""
    files = [path for path in (ROOT / "study").rglob("*.py") if path.name != "__main__.py"]
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in files]
    ours = [name for name in names if name != "study.engine.wandb_agents"]
    child = multiprocessing.get_context("fork").Process(target=elsewhere, args=(ours,))
    child.start()
    child.join()
    assert child.exitcode == 0


def test_a_clone_of_one_commit_is_small(tmp_path):
    """README says how many MB it is. All history is several times as large."""
    if not (ROOT / ".git").exists():
        pytest.skip("no git checkout")
    subprocess.run(["git", "clone", "-q", "--depth", "1", "--no-checkout", ROOT.as_uri(), tmp_path / "x"], check=True)
    size = sum(path.stat().st_size for path in (tmp_path / "x" / ".git").rglob("*") if path.is_file())
    readme = (ROOT / "README.md").read_text("utf-8")
    limit = re.search(r"git clone --depth 1` takes less than (\d+) MB", readme)
    assert size < int(limit[1]) * 10**6


def test_the_notebook_without_torch_runs(tmp_path, monkeypatch):
    """In this process, cell after cell: it has no commands of Jupyter. tests/test_lab.py runs those of the lab."""
    path = ROOT / "docs" / "rebuild-a-table.ipynb"
    assert path.stat().st_size < 300_000
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    shown = [output for cell in cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in shown), "stored with its pictures"
    for part in ("results", "sweeps"):
        (tmp_path / part).symlink_to(ROOT / part, target_is_directory=True)
    monkeypatch.chdir(tmp_path)
    names = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)


def test_the_oldest_set_is_that_of_the_bounds():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    oldest = (ROOT / "requirements.oldest").read_text(encoding="utf-8").splitlines()
    pins = [line for line in oldest if not line.startswith("#")]
    assert pins == [bound.replace(">=", "==") for bound in project["dependencies"]]
