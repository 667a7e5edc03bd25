"""Runs of several people in one folder: the lines of docs/lab/class.md, and two records of one run."""

import json
import re
import shutil
import subprocess
import sys

import pytest

from study.folders import CHECKOUT

PAGE = (CHECKOUT / "docs" / "lab" / "class.md").read_text(encoding="utf-8")
POOL = re.search(r"## Pool the runs.*?```sh\n(.*?)study report", PAGE, re.DOTALL)[1]


def study(folder, *words):
    command = [sys.executable, "-P", "-m", "study", *map(str, words)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def exact_of(path):
    (value,) = (score["value"] for score in json.loads(path.read_text())["scores"] if score["metric"] == "exact")
    return value


@pytest.fixture
def students(tiny, tmp_path):
    """Three students: the first and the last have trained the same seed, with other numbers."""
    tiny.complete()
    for name, seed in {"seed1": 1, "seed2": 2, "seed3": 1}.items():
        for cell in tiny.spec.cells:
            if cell.experiment.seed == seed:
                shutil.copytree(tiny.runs / cell.id, tmp_path / "class" / name / cell.id)
    for path in (tmp_path / "class" / "seed3").glob("*/record.json"):
        path.write_text(path.read_text().replace('"value": 80.0', '"value": 81.0'))
    return tmp_path / "class"


def test_the_lines_of_the_page_replace_no_run_and_lose_none(tiny, students):
    codes = []
    for name in ("seed1", "seed2", "seed3"):
        lines = POOL.replace("seed7", name)
        codes.append(subprocess.run(["bash", "-ec", lines], cwd=students, capture_output=True, check=False).returncode)
    assert codes[:2] == [0, 0]
    assert codes[2] != 0, "the runs of this seed are there"
    first, (baseline, *_) = tiny.cells["score=dot", 1].id, tiny.spec.cells
    assert first == baseline.id
    assert exact_of(students / "all" / first / "record.json") == 80.0
    assert exact_of(students / "seed3" / first / "record.json") == 81.0
    table = study(students, "report", tiny.spec.path, "--runs", "all").stdout
    assert "82.0 ± 2.8" in table, "the mean of 80 and 84"


def test_two_records_of_one_run_are_refused_and_two_equal_ones_are_one(tiny, students):
    run = tiny.cells["score=dot", 1].id
    pooled, copy = students / "all", f"{run} (2)"
    shutil.copytree(tiny.runs, pooled)
    shutil.copytree(tiny.runs / run, pooled / copy)
    equal = study(students, "report", tiny.spec.path, "--runs", "all")
    assert equal.returncode == 0
    assert "82.0 ± 2.8" in equal.stdout
    shutil.copy(students / "seed3" / run / "record.json", pooled / copy)
    for words in (("report", tiny.spec.path), ("ls", "runs")):
        ran = study(students, *words, "--runs", "all")
        assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
        assert f"all/{copy}/record.json: expected the record in all/{run}/record.json" in ran.stderr
    (pooled / copy).rename(students / "elsewhere")
    assert study(students, "report", tiny.spec.path, "--runs", "all").stdout == equal.stdout


def test_a_second_folder_of_runs_is_refused(tiny, students):
    ran = study(students, "report", tiny.spec.path, "--runs", "seed1", "--runs", "seed2")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "study: --runs: expected once, got seed1 and seed2; give one. See `study report --help`.\n"
