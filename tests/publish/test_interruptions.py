"""Commands that are killed at each of their writes, and repeated."""

import os
import re
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from published_lab import part_of_results

from study.files import SUFFIX
from study.folders import CHECKOUT

pytestmark = pytest.mark.slow

SUPPORT = Path(__file__).parents[1] / "support"


@pytest.mark.parametrize("verb", ["site", "report", "publish"])
def test_a_verb_that_is_killed_at_any_write_is_completed_by_the_same_command(verb, finished, tmp_path):
    """Half of a file is never there, and no folder is refused. Temporary files stay in a report alone."""
    lab = finished.copy(tmp_path / "lab")
    out = tmp_path / "lab" / "results" if verb == "publish" else tmp_path / "out"
    words = {
        "site": ["site", "--runs", "runs", "--out", out],
        "report": ["report", "sweeps/tiny.yaml", "--runs", "runs", "--out", out],
        "publish": ["publish", "sweeps/tiny.yaml", "--runs", "runs"],
    }[verb]
    assert writes(out, words, lab.top) >= {"site": 10, "report": 4, "publish": 6}[verb]


@pytest.mark.parametrize(("step", "sweep", "least"), [("tables", "", 8), ("figures", "bottleneck", 4)])
def test_a_reproduction_that_is_killed_at_a_write_is_completed_by_the_same_command(
    step, sweep, least, published, tmp_path
):
    """The files that were there are those of yesterday. `bottleneck` has the fewest runs of a figure."""
    top = tmp_path / "top"
    top.mkdir()
    if sweep:
        root = part_of_results(top, sweep)
    else:
        for name in ("results", "sweeps"):
            shutil.copytree(published.top / name, top / name)
        shutil.copy(CHECKOUT / "README.md", top)
        root = top / "results"
    for path in root.glob(f"{step}/*"):
        path.write_text("of yesterday")
    assert writes(top, ["reproduce", step, "--results", root], tmp_path) >= least


@pytest.mark.skipif(os.environ.get("STUDY_MATRIX") != "all", reason="STUDY_MATRIX=all copies the checkout for it")
@pytest.mark.parametrize(("step", "least"), [("readme", 6), ("paper", 2)])
def test_documents_that_are_killed_at_a_write_are_completed_by_the_same_command(step, least, tmp_path):
    """In a checkout of its own, whose paper and whose numbers are of yesterday."""
    copy = tmp_path / "copy"
    copy.mkdir()
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=CHECKOUT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", copy], input=archive, check=True)
    (copy / "paper" / "main.pdf").write_text("of yesterday")
    readme = (copy / "README.md").read_text("utf-8")
    (copy / "README.md").write_text(re.sub(r"(<!--[a-z: _]+-->[^<0-9]*)[0-9]", r"\g<1>7", readme), "utf-8")
    words = ["reproduce", step, "--results", copy / "results"]
    assert writes(copy, words, tmp_path, copy) >= least


def writes(out, words, folder, code=CHECKOUT):
    """Kill a verb at each of its writes to `out`; return how many there are."""
    command = [sys.executable, "-P", code / "tests" / "support" / "killing.py", out, *words]
    environment = os.environ | {"PYTHONPATH": str(code)}
    done = subprocess.run(list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-2])


@pytest.mark.parametrize(("name", "status"), [("SIGTERM", 143), ("SIGHUP", 129), ("SIGINT", 130)])
@pytest.mark.parametrize(
    "words", [("publish", "sweeps/tiny.yaml"), ("reproduce", "tables"), ("report", "sweeps/tiny.yaml")]
)
def test_a_verb_that_is_asked_to_stop_leaves_no_temporary_file(words, name, status, published, finished, tmp_path):
    lab = (published if words[0] == "reproduce" else finished).copy(tmp_path / "lab")
    faults = {"SITUATION_KILL": "2", "SITUATION_SIGNAL": name, "SITUATION_COUNTER": str(tmp_path / "counter")}
    environment = os.environ | faults | {"PYTHONPATH": str(SUPPORT / "situation")}
    command = [sys.executable, "-P", "-m", "study", *words]
    # A suite that `nohup` started ignores SIGHUP, and its children would inherit that.
    usual = partial(signal.signal, signal.Signals[name], signal.SIG_DFL)
    done = subprocess.run(command, cwd=lab.top, env=environment, capture_output=True, text=True, preexec_fn=usual)
    assert (done.returncode, done.stderr) == (status, "")
    assert [path for path in lab.top.rglob("*") if path.name.endswith(SUFFIX)] == []
