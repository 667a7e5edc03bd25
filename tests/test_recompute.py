"""The published tables say what the records say, by a script that shares no code with the package."""

import ast
import csv
import shutil
from pathlib import Path

import pytest
import recompute


@pytest.fixture(scope="module")
def records():
    return recompute.Study(recompute.ROOT, recompute.TABLES)


@pytest.mark.slow
def test_every_published_number_follows_from_the_records_or_is_counted(records):
    study = recompute.recompute(records.reset(recompute.TABLES))
    assert study.problems == []
    assert study.share > 0.9
    assert study.unread == set()
    assert study.left.keys() == {
        "columns beside the scores",
        "by resampling, within .05",
        "questions without a row or without runs",
        "BLEU of sentences without counts",
        "rows of multiverse",
    }


def test_the_script_imports_nothing_of_the_package():
    nodes = list(ast.walk(ast.parse(Path(recompute.__file__).read_text(encoding="utf-8"))))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    assert not [name for name in names if name.split(".")[0] in ("study", "tests")]


LEARNED = "scale learned − scale rsqrt, band of good learning_rates"
FIRST = {"difference": "1.2422", "low": "0.2933", "high": "2.1911", "holm": "0.0436"}
"""Numbers of claim 5 in the first publication: the number of another contrast."""


WRONG = [
    ("contrasts", {"id": "5", "contrast": LEARNED}, FIRST),
    ("bottleneck", {"arm": "memory=mean"}, {"test/exact mean": "40.8", "holm": "0.05", "method": "paired"}),
    ("normaliser", {"arm": "weights=softmax"}, {"arm": "weights=sigmoid"}),
    ("contrasts", {"id": "17"}, {"difference": "-0.82"}),
    ("contrasts", {"id": "12", "n": "5"}, {"low": ""}),
    ("contrasts", {"id": "8", "method": "exact"}, {"p": "0.00397"}),
    ("contrasts", {"id": "9", "corpus": "grammar"}, {"both_right": "0.5", "turns": "9.9"}),
    ("contrasts", {"id": "18", "corpus": "multi30k"}, {"second_low": "-0.1"}),
    ("contrasts", {"id": "16"}, {"needed": "12"}),
    ("sentences", {"metric": "test/nll/without pronouns"}, {"variance": "0.5"}),
    ("correlation-transfer", {"family": "all"}, {"low": "0.7"}),
    ("summary", {"id": "7"}, {"difference": "0.9"}),
]
"""Table, first row with these values, and numbers that are put there."""


@pytest.mark.slow
def test_every_wrong_number_is_found(records, tmp_path):
    left = shutil.ignore_patterns("*.md", "agreement-[!t]*", "agreement-today*")  # no number is changed in these
    shutil.copytree(recompute.TABLES, tmp_path, dirs_exist_ok=True, ignore=left)
    for stem, chosen, changes in WRONG:
        path = tmp_path / f"{stem}.csv"
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        row = next(row for row in rows if chosen.items() <= row.items())
        assert all(row[name] != changed for name, changed in changes.items())
        row |= changes
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    problems = recompute.recompute(records.reset(tmp_path)).problems
    said = [f"{name}: {value or 'nothing'} is printed" for *_, put in WRONG for name, value in put.items()]
    assert [one for one in said if not any(f": {one}" in problem for problem in problems)] == []
    assert len(problems) == len(said)
