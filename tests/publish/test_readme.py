"""What the documents say is so: files, flags, targets and versions."""

import re
import shlex

import pytest

from study.commands import train
from study.errors import InputError
from study.publish.readme import ROOT, filled

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
