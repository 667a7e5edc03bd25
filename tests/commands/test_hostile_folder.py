"""Folders of a stranger: links, deep JSON, damaged tables and odd names end verbs that read them in one line."""

import os
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from study.__main__ import main
from study.claims import schema

PRIVATE = Path("/etc/passwd")
SECRET = PRIVATE.read_text(encoding="utf-8").splitlines()[0]
DEEP = "[" * 100_000


@pytest.fixture
def lab(published, tmp_path, monkeypatch):
    monkeypatch.setattr(schema, "read_all", cache(schema.read_all))  # the claims are those of the study
    return published.copy(tmp_path / "lab")


@contextmanager
def replaced(path, kind):
    """Context in which something else is at the place of a file."""
    content = path.read_bytes() if path.is_file() else None
    path.unlink(missing_ok=True)
    if kind == "link":
        path.symlink_to(PRIVATE)
    elif kind == "zeros":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes({"deep": DEEP.encode(), "bytes": b"\xff\x00" * 50, "cut": (content or b"")[:-20]}[kind])
    yield
    path.rmdir() if kind == "folder" else path.unlink()
    if content is not None:
        path.write_bytes(content)


def ended(argv, capsys, monkeypatch, folder):
    """Run a verb; its status is documented, and if it refuses, it says so in one line. Return all that it said."""
    monkeypatch.chdir(folder)
    capsys.readouterr()
    status, told = main([str(word) for word in argv]), capsys.readouterr()
    assert status in (0, 1, 2), told.err
    assert status != 2 or told.err.count("\n") == 1
    assert SECRET not in told.out + told.err
    return told.out + told.err


BESIDE = ["test.hyp.txt", "training.jsonl", "attention.json", "maps.jsonl", "record.json"]
IN_A_RUN = [
    *((name, "link") for name in BESIDE),
    *zip(BESIDE, ["bytes", "deep", "deep", "deep", "folder"], strict=True),
]
"""Files of a run that these verbs read, and what is at their place. All but the record are opened at one place."""
IN_RESULTS = [
    ("runs", "link"),
    ("sentences/grammar", "link"),
    *((name, "cut") for name in ("scores", "curves", "maps")),
    *zip(["runs", "scores", "curves"], ["folder", "bytes", "zeros"], strict=True),
]
"""The same of the tables of published runs, which are opened at one place."""


def test_a_run_with_an_odd_file_is_told_in_one_line(lab, capsys, monkeypatch, tmp_path):
    show, site = ["show", lab.ids[0], "--runs", lab.runs], tmp_path / "site"
    for name, kind in IN_A_RUN:
        with replaced(lab.runs / lab.ids[0] / name, kind):
            for verb in (show, [*show, "--sentences"], ["site", "--runs", lab.runs, "--out", site]):
                ended(verb, capsys, monkeypatch, lab.top)
        texts = (path.read_text(encoding="utf-8") for path in site.rglob("*") if path.is_file())
        assert not any(SECRET in text for text in texts), (name, kind)


def test_published_tables_that_are_none_are_told_in_one_line(lab, capsys, monkeypatch, tmp_path):
    root = lab.results.root
    for name, kind in IN_RESULTS:
        with replaced(root / name / "0001.parquet", kind):
            assert f"{name}/0001.parquet" in ended(["verify", "--results", root], capsys, monkeypatch, lab.top), kind
            ended(["show", lab.ids[0], "--sentences", "--runs", root], capsys, monkeypatch, lab.top)
            ended(["site", "--runs", root, "--out", tmp_path / "site"], capsys, monkeypatch, lab.top)


def test_names_that_are_no_text(lab, capsys, monkeypatch, tmp_path):
    odd = os.fsdecode(b"run-\xff\xfe-s1")
    (lab.runs / odd).mkdir()
    (lab.runs / odd / "record.json").write_text("{}")
    (lab.results.root / odd).write_text("")
    assert "got a stray one" in ended(["verify", "--results", lab.results.root], capsys, monkeypatch, lab.top)
    for verb in (["show", odd], ["ls", "runs"], ["site", "--out", tmp_path / "site"]):
        ended([*verb, "--runs", lab.runs], capsys, monkeypatch, lab.top)
