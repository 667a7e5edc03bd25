"""Every verb that prints, for published results, in a terminal of 80 columns: nothing is cut, nothing is wider."""

import re
from pathlib import Path

import pytest
from terminal import study_in

from study.commands import VERBS

ROOT = Path(__file__).parents[2]
COLUMNS = 80
SENTENCES = ("show",)
"""Verbs whose lines are sentences of a corpus, which the terminal breaks."""


@pytest.mark.parametrize(
    "words",
    [
        ("claims",),
        ("claims", "4"),
        ("claims", "8", "14"),
        ("ls", "runs"),
        ("ls", "runs", "--query", "scale == 'none' and steps == 800"),
        ("ls", "sweeps"),
        ("ls", "fields"),
        ("show", "quickstart/1"),
        ("show", "quickstart/1", "--sentences"),
        ("show", "grammar"),
        ("compare", "quickstart/1", "quickstart/3"),
        ("report", "quickstart", "--runs", "results"),
        ("plan", "scores", "--margin", "2.5"),
        ("--help",),
        *((verb, "--help") for verb in VERBS),
    ],
    ids=" ".join,
)
def test_nothing_is_cut_or_too_wide(words, tmp_path):
    (tmp_path / "results").symlink_to(ROOT / "results")
    status, text = study_in(COLUMNS, *words, cwd=tmp_path)
    assert status == 0, text
    assert not re.search(r"\w…", text)
    long = [line for line in text.splitlines() if len(line) > COLUMNS]
    assert words[0] in SENTENCES or not long


def test_every_claim_has_its_statement_and_its_answer(tmp_path):
    """The words of a table in a terminal of 80 columns are those of the table in a file, though on more lines."""
    (tmp_path / "results").symlink_to(ROOT / "results")
    narrow, wide = (study_in(columns, "claims", cwd=tmp_path)[1].split() for columns in (COLUMNS, 300))
    assert sorted(narrow) == sorted(wide)
    assert len([word for word in narrow if word in ("holds", "fails", "open", "depends")]) >= 28


def test_a_text_of_which_nothing_can_be_used_is_refused_with_its_lines(tmp_path):
    """Three columns, of which the last is no alignment: no split is left, so the table of sizes has no rows."""
    (tmp_path / "text").mkdir()
    for split in ("train", "valid", "test"):
        (tmp_path / "text" / f"{split}.tsv").write_text("ein Hund\ta dog\t0.93\n")
    status, text = study_in(COLUMNS, "check", "text", "--source", "de", "--target", "en", cwd=tmp_path)
    assert status == 2
    assert "train.tsv:1" in text
    assert "report it" not in text
