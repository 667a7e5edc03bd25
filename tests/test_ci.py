"""The workflow and the Containerfile: their commands exist and come in a working order. Nothing is installed."""

import json
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from study.store.manifest import Results

ROOT = Path(__file__).parents[1]
COREUTILS = ("sh", "bash", "cat", "mkdir", "cp", "chmod", "ln", "rm", "touch", "basename", "dirname", "env")
"""Programs that a slim image of Debian has, as far as they are used here."""
APT = """#!/bin/sh
# Puts a program on the path for each package.
echo "apt-get $*" >> {log}
for package in "$@"; do case $package in
  make) ln -s {make} {bin}/make;;
  python3) cp {python} {bin}/python3;;
  python3-venv) touch {bin}/venv;;
esac; done
"""
PYTHON = """#!/bin/sh
# Makes environments, if its part for them is installed, and says what it is asked for.
test -e {bin}/venv || exit 1
case "$*" in "-c "*) exit 0;; esac
echo "$0 $*" >> {log}
case "$*" in "-m venv .venv") mkdir -p .venv/bin; cp {python} .venv/bin/python;; esac
"""


def instructions():
    text = (ROOT / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    return [tuple(line.split(" ", 1)) for line in text.splitlines() if line and not line.startswith("#")]


def test_the_commands_of_the_containerfile_run_in_order_in_an_empty_folder(tmp_path):
    """Programs stand in for apt-get and Python, so packages, files, targets and order are tried, no installation."""
    programs, work, log = tmp_path / "bin", tmp_path / "study", tmp_path / "log"
    programs.mkdir()
    work.mkdir()
    for name in COREUTILS:
        (programs / name).symlink_to(str(shutil.which(name)))
    places = {"bin": programs, "log": log, "python": tmp_path / "python", "make": shutil.which("make")}
    for path, script in ((programs / "apt-get", APT), (tmp_path / "python", PYTHON)):
        path.write_text(script.format(**places), encoding="utf-8")
        path.chmod(0o755)
    lines = instructions()
    assert [word for word, _ in lines] == ["FROM", "RUN", "WORKDIR", "COPY", "RUN", "CMD"]
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    for word, given in lines:
        if word == "COPY":
            assert given == ". ."
            for path in (path for path in ROOT.iterdir() if path.name not in ignored):
                (work / path.name).symlink_to(path)
        if word in ("RUN", "CMD"):
            command = given if word == "RUN" else shlex.join(json.loads(given))
            ran = subprocess.run(
                [programs / "sh", "-c", command],
                env={"PATH": str(programs)}, cwd=work, capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert ran.returncode == 0, ran.stdout + ran.stderr
    told = log.read_text(encoding="utf-8").splitlines()
    wanted = [
        "apt-get update",
        "apt-get install .*ca-certificates",
        "python3 -m venv .venv",
        r"python \.ci/hashes\.py dev",
        r"python -m pip .* --require-hashes --no-deps -r \.venv/part\.txt",
        r"python -m pip .* -c requirements\.lock torch",
        r"python -m pip .* -e \.",
        "python -m pytest",
    ]
    assert len(told) == len(wanted)
    assert all(re.search(part, line) for part, line in zip(wanted, told, strict=True)), told


def test_the_workflow_runs_the_checks_on_every_python():
    jobs = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8"))["jobs"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = [one.rpartition(" ")[2] for one in project["classifiers"] if "Python :: 3." in one]
    assert jobs["tests"]["strategy"]["matrix"]["python"] == versions
    low, high = re.search(r"\(3, (\d+)\) <= sys.version_info < \(3, (\d+)\)", (ROOT / "Makefile").read_text()).groups()
    assert versions == [f"3.{minor}" for minor in range(int(low), int(high))]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert ".ci/run" in commands
    assert all((ROOT / name).is_file() for name in (".ci/run", "Containerfile"))
    assert jobs["tests"]["env"] == {"PYTHON": "python"}


def record(**changes):
    scores = {"nll": 1.0, "bleu": 90.0} | changes.pop("scores", {})
    tree = {"config_hash": "ab", "seed": 1, "data": {"files": {"test": "ab"}}, "protocol": 2}
    tree |= {"diagnostics": {"cross": [{"entropy": [0.5]}], "gradients": {"start": {"norm": 0.1563}}}}
    tree |= {"provenance": {"device": "AMD EPYC"}, "model": {"parameters": 10}}
    rows = [{"split": "test", "metric": name, "subset": None, "value": value} for name, value in scores.items()]
    return tree | {"scores": rows} | changes


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, []),
        ({"scores": {"nll": 1.19, "bleu": 87.1}}, []),  # within the floors
        ({"scores": {"nll": 1.41}}, ["test/nll: expected 1.0 ± 0.4, got 1.41"]),
        ({"scores": {"bleu": 86.9}}, ["test/bleu: expected 90.0 ± 3, got 86.9"]),
        ({"diagnostics": {"gradients": {"start": {"norm": 0.157}}}}, ["gradient before the first update"]),
        ({"data": {"files": {"test": "cd"}}}, ["data: expected"]),
        ({"config_hash": "cd"}, ["config_hash: expected ab, got cd"]),
        ({"model": {"parameters": 11}}, ["parameters: expected 10, got 11"]),
    ],
)
def test_a_rerun_may_differ_by_the_processor_after_the_first_update_alone(changes, said):
    audit = runpy.run_path(str(ROOT / ".ci" / "audit.py"))
    found = list(audit["differing"](record(), record(**changes), {("test", "nll"): 0.1, ("test", "bleu"): 0.5}))
    assert len(found) == len(said)
    assert all(line.startswith(start) for line, start in zip(found, said, strict=True))


def test_a_rerun_on_the_same_instructions_has_to_be_equal():
    audit, intel = runpy.run_path(str(ROOT / ".ci" / "audit.py")), {"device": "Intel", "instructions": "AVX512"}
    assert "bit for bit" in next(audit["differing"](record(provenance=intel), record(provenance=intel), {}))
    for other in (intel | {"instructions": "AVX2"}, intel | {"device": "AMD"}):
        assert list(audit["differing"](record(provenance=intel), record(provenance=other), {})) == []


@pytest.mark.parametrize(("tag", "said"), [("v9.9.9", "expected the tag v"), ("", "expected the tag v")])
def test_a_release_of_another_version_is_refused(tag, said):
    done = subprocess.run([sys.executable, ROOT / ".ci/release.py", tag], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"release: {said}")
    assert done.stderr.count("\n") == 1


def test_the_notes_of_a_release_are_its_changes_and_the_root_hash(tmp_path):
    for name in ("study/__init__.py", "results/manifest.json", ".ci/release.py", "README.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    code = (tmp_path / "study" / "__init__.py").read_text("utf-8")
    (tmp_path / "study" / "__init__.py").write_text(
        re.sub(r'__version__ = ".*"', '__version__ = "1.2.3"', code), "utf-8"
    )
    command = [sys.executable, tmp_path / ".ci/release.py", "v1.2.3"]
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changes\n\n## 1.2.4\n\nnew\n\n## 1.2.3 (today)\n\n- one\n\n## 1.2.2\n\n- old\n"
    )
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert told.startswith("- one\n\nRoot hash of the published results (")
    assert Results(ROOT / "results").root_hash in told
    (tmp_path / "CHANGELOG.md").write_text("# Changes\n")
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "expected a section 1.2.3" in done.stderr
