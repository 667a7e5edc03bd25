"""Folders of a stranger: links, pipes, deep JSON, damaged tables and odd names end verbs that read them in one line."""

import os
import signal
from itertools import product
from pathlib import Path

import pytest

from study.__main__ import main

PRIVATE = Path("/etc/passwd")
SECRET = PRIVATE.read_text(encoding="utf-8").splitlines()[0]
DEEP = "[" * 100_000


@pytest.fixture
def lab(published, tmp_path):
    return published.copy(tmp_path / "lab")


@pytest.fixture(autouse=True)
def no_hang():
    """A verb that waits for somebody who writes into a pipe is interrupted."""
    signal.alarm(120)
    yield
    signal.alarm(0)


def replaced(path, kind):
    """Put something else at the place of a file."""
    content = path.read_bytes() if path.is_file() else b""
    path.unlink(missing_ok=True)
    if kind == "link":
        path.symlink_to(PRIVATE)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "zeros":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    elif kind == "cut":
        path.write_bytes(content[:-20])
    else:
        path.write_bytes({"deep": DEEP.encode(), "bytes": b"\xff\x00" * 50}[kind])


def ended(argv, capsys, monkeypatch, folder):
    """Run a verb; its status is documented, and if it refuses, it says so in one line. Return all that it said."""
    monkeypatch.chdir(folder)
    capsys.readouterr()
    status, told = main([str(word) for word in argv]), capsys.readouterr()
    assert status in (0, 1, 2), told.err
    assert status != 2 or told.err.count("\n") == 1
    assert SECRET not in told.out + told.err
    return told.out + told.err


BESIDE = ["test.hyp.txt", "history.jsonl", "training.jsonl", "attention.json", "maps.jsonl", "record.json"]
TABLES = ["runs", "scores", "curves", "maps", "sentences/grammar"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *product(BESIDE, ["link", "pipe"]),
        *zip(BESIDE, ["bytes", "zeros", "deep", "deep", "deep", "folder"], strict=True),
    ],
)
def test_a_run_with_an_odd_file_is_told_in_one_line(name, kind, lab, capsys, monkeypatch, tmp_path):
    run = lab.runs / lab.ids[0]
    replaced(run / name, kind)
    for verb in (["show", lab.ids[0], "--runs", lab.runs], ["show", lab.ids[0], "--sentences", "--runs", lab.runs]):
        ended(verb, capsys, monkeypatch, lab.top)
    ended(["site", "--runs", lab.runs, "--out", tmp_path / "site"], capsys, monkeypatch, lab.top)
    texts = (path.read_text(encoding="utf-8") for path in (tmp_path / "site").rglob("*") if path.is_file())
    assert not any(SECRET in text for text in texts)


@pytest.mark.parametrize(
    ("name", "kind"),
    [*product(TABLES, ["link", "cut"]), *zip(TABLES[:4], ["folder", "bytes", "zeros", "pipe"], strict=True)],
)
def test_published_tables_that_are_none_are_told_in_one_line(name, kind, lab, capsys, monkeypatch, tmp_path):
    root = lab.results.root
    replaced(root / f"{name}.parquet", kind)
    told = ended(["verify", "--results", root], capsys, monkeypatch, lab.top)
    assert f"{name}.parquet" in told
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
