"""What the documents say is so: files, flags, targets, versions, and the diff of CONTRIBUTING.md."""

import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from study.commands import train
from study.errors import InputError
from study.report.readme import ROOT, filled

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_a_block_is_replaced_and_the_rest_kept():
    text = "a\n<!-- table: x -->\nold\n<!-- end -->\nb\n<!-- table: y -->\n<!-- end -->\n"
    new = filled(text, "table: x", r"| \| |")
    assert new == "a\n<!-- table: x -->\n\n| \\| |\n\n<!-- end -->\nb\n<!-- table: y -->\n<!-- end -->\n"
    assert filled(new, "table: x", r"| \| |") == new
    with pytest.raises(InputError, match="no block"):
        filled(text, "table: z", "")


def test_the_readme_lists_every_file():
    listed = re.findall(r"^ *([\w.]+\.\w+)  ", README.split("<!-- files -->")[1], flags=re.MULTILINE)
    folders = (ROOT / name for name in ("study", "sweeps"))
    there = [
        p.name for f in folders for p in f.rglob("*.*") if p.suffix in (".py", ".toml", ".json", ".yaml", ".sbatch")
    ]
    assert sorted(listed) == sorted(name for name in there if name != "__init__.py")


def test_the_experiments_of_the_readme_are_experiments(monkeypatch):
    given = []
    monkeypatch.setattr(train, "_run", lambda experiment, folder: given.append(experiment) or 0)
    commands = re.findall(r"^study train .*", README.replace("\\\n", ""), flags=re.MULTILINE)
    for command in commands:
        assert train.main(shlex.split(command)[2:]) == 0
    assert len({str(experiment) for experiment in given}) == len(commands) >= 4


def test_the_targets_of_the_documents_are_targets():
    targets = set(re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    told = README + (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert set(re.findall(r"(?:^|`|\" )make ([a-z]+)", told, flags=re.MULTILINE)) <= targets


def test_the_lock_holds_versions_and_nothing_else():
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pinned = [line for line in lines if not line.startswith("#")]
    assert "torch==2.13.0" in pinned
    assert [line for line in pinned if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_diff_of_contributing_applies_and_its_tests_pass(tmp_path):
    (diff,) = re.findall(r"```diff\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL)
    for part in ("study", "sweeps", "tests/attention"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(["git", "apply", "-"], input=diff, text=True, check=True, cwd=tmp_path)
    chosen = ["tests/attention/test_definitions.py", "-k", "distance or compared"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "13 passed" in ran.stdout, ran.stdout + ran.stderr
