"""Bad input of every kind ends in one line with status 2; `tests/bad_input.py` runs thousands of such cases."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from bad_cases import Case, before, documents, files, options, overrides, words

from study import run_names
from study.__main__ import main
from study.commands import train

ONE_LINE = {
    "a key of JSON twice": (
        ["train", "--overrides-json", '{"seed": 1, "seed": 2}'],
        "expected JSON, got other text ('seed' is given",
    ),
    "a flag twice": (["train", "--seed", "1", "--seed=2"], "--seed: expected once, got it twice"),
    "an option twice under two names": (
        ["train", "--out", "a", "--runs", "b"],
        "--runs: expected once, got --out too, which is the same option",
    ),
    "an option twice": (
        ["sweep", "sweep.yaml", "--slots", "1", "--slots", "2"],
        "--slots: expected once, got it",
    ),
    "a section as value": (["train", "--model", "{}"], "--model: expected a field of this section, such as --model."),
    "an unknown section": (["train", "--overrides-json", '{"modle": {}}'], "modle: "),
    "digits of another script": (["sweep", "sweep.yaml", "--slots", "٣"], "--slots: expected a whole number from 1"),
    "a billion slots": (["sweep", "sweep.yaml", "--slots", "99999999", "--dry-run"], "--slots: "),
    "an instant": (["sweep", "sweep.yaml", "--time-limit", "0.0000001s"], "--time-limit: expected a time"),
    "an empty folder": (["publish", "sweep.yaml", "--results", ""], "--results: expected the name of a file or folder"),
    "an empty folder of runs": (["show", "x", "--runs="], "expected a"),
    "an address": (["show", "x", "--runs", "https://example.org"], "--runs: expected a file or folder on this machine"),
    "no such user": (["report", "sweep.yaml", "--to", "~nosuchuser/x"], "and there is no such user"),
    "a negative number with an exponent": (["train", "--training.learning_rate", "-1e-3"], "expected a number above 0"),
    "a project that W&B refuses": (["train", "--tracking.project", "a/b"], "tracking.project: expected a name of 1 to"),
    "a long tag": (["train", "--overrides-json", f'{{"tracking": {{"tags": ["{"t" * 65}"]}}}}'], "expected a tag of 1"),
    "a preset that is a list": (
        ["train", "--overrides-json", '{"preset": ["a"]}'],
        "preset: expected a published model, got ['a']",
    ),
    "half a character": (["train", "--overrides-json", '{"out": "a\\ud800"}'], "out: "),
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files of odd kinds and no published runs; what would be trained is not."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        run_names, "CHECKOUT", tmp_path
    )  # not a function, which verbs imported during this test would keep
    monkeypatch.setattr(train, "_run", lambda *_: 0)
    files(tmp_path)
    before(tmp_path)
    return tmp_path


@pytest.mark.parametrize("mistake", ONE_LINE)
def test_what_means_nothing_is_refused(mistake: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv, says = ONE_LINE[mistake]
    assert main(argv) == 2
    told = capsys.readouterr().err
    assert says in told
    assert told.count("\n") == 1


def small() -> Iterator[Case]:
    """A sample of the cases that need no trained run and little time."""
    verbs = {"sweep", "claims", "show", "report", "publish", "ls"}
    cheap = [case for case in (*documents(), *words("absent"), *options("absent")) if case.argv[0] in verbs]
    yield from random.Random(1).sample(cheap, 400)
    yield from (case for case in overrides() if case.argv[0] == "train")


def test_hundreds_of_cases_end_in_one_line(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No traceback, no hang, nothing accepted that has to be refused, nothing left behind."""
    wrong, count = [], 0
    for count, case in enumerate(small(), start=1):  # noqa: B007
        if case.change is not before:
            case.change(place)
        there = {path for path in place.rglob("*") if "runs" not in path.parts}
        code, told = main(list(case.argv)), capsys.readouterr().err
        one_line = code in (0, 1) or (code == 2 and told.startswith("study: ") and told.count("\n") == 1)
        left = {path for path in place.rglob("*") if "runs" not in path.parts} - there
        if not one_line or (case.refused and code != 2) or (code == 2 and left):
            wrong.append((case.name, code, told[-200:], left))
    assert not wrong
    assert count > 400
