"""`study align` on an untrained model that can look nowhere but at the slot of its own number."""

import json
from pathlib import Path
from typing import Any

import pytest

from study.__main__ import main
from study.attention import Lengths
from study.config import experiment_from
from study.corpora import load
from study.models import build
from study.training.checkpoint import save_model
from study.training.vocabulary import Vocabulary, Words, vocabulary_for

COPY = {"data.name": "copy", "data.train_pairs": 30, "data.test_pairs": 6, "model.width": 12}
DIAGONAL = {"model.attention.cross.reach": "local_m", "model.attention.cross.window": 0}
TWO_HEADS = {"model.family": "transformer", "model.attention.heads": 2}


def saved(folder: Path, *overrides: dict[str, Any], base: Any = COPY, vocabulary: Vocabulary | None = None) -> None:
    """The checkpoint of an untrained model."""
    experiment, lengths = experiment_from(base, *overrides), Lengths(20, 10)
    vocabulary = vocabulary or vocabulary_for(experiment.data, load(experiment.data))
    model = build(experiment.model, len(vocabulary), 1, lengths)
    folder.mkdir(parents=True)
    save_model(folder / "model.pt", experiment, vocabulary, lengths, model)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def diagonal(count: int) -> str:
    return " ".join(f"{i}-{i}" for i in range(count))


def test_only_the_lines_go_to_stdout_and_the_table_says_how_right_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    saved(Path("run"), DIAGONAL, TWO_HEADS)
    assert main(["align", "run"]) == 0
    said = capsys.readouterr()
    test = load(experiment_from(COPY).data).splits["test"]
    assert said.out.splitlines() == [diagonal(len(pair.source.split())) for pair in test]
    first, head, *rows, floor = said.err.splitlines()
    assert first == "test: 6 pairs, layer 0, mean over heads (the best layer on validation)"
    assert head.split() == ["layer", "head", "AER", "mass", "on", "gold"]
    places = [[str(layer), head] for layer in (0, 1) for head in ("mean", "0", "1")]
    assert [row.split()[:4] for row in rows] == [[*place, "0.000", "1.000"] for place in places]
    assert [row.endswith("←") for row in rows] == [True] + [False] * 5
    assert floor.split()[-1] == "0.000"
    for head, where in (("best", "layer 0, head 0 (the best head on validation)"), ("1", "layer 0, head 1 (the best")):
        assert main(["align", "run/model.pt", "--split", "valid", "--head", head, "--out", "to/a.txt"]) == 0
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith("valid: ")
        assert where in said.err
        links = Path("to/a.txt").read_text().splitlines()
        assert links
        assert all(line.startswith("0-0 1-1 ") for line in links)


def test_sentences_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    """Marks are words, an empty side has no link, and no corpus is read where the layer is given."""
    elsewhere = {"data": {"name": "multi30k", "tokens": "words", "folder": "nowhere"}}
    saved(Path("run"), DIAGONAL, {"model.width": 12}, elsewhere, base={}, vocabulary=Words.learn(["Der Hund, ja."]))
    Path("s").write_text("Der Hund, ja.\n\nDer Hund\r\nDer\n", encoding="utf-8")
    Path("t").write_text("Der ja, ja.\nja\nder\n\n", encoding="utf-8")
    files = ["align", "run", "--source", "s", "--target", "t"]
    assert main([*files, "--layer", "0"]) == 0
    said = capsys.readouterr()
    assert said.out == f"{diagonal(5)}\n\n0-0\n\n"
    assert said.err == "s – t: 4 pairs, layer 0, mean over heads (as given)\n"
    assert main(files) == 2
    assert capsys.readouterr().err.endswith(" Or give --layer, which needs no validation pairs.\n")


def test_a_name_is_enough_and_wrong_input_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    saved(Path("runs/copy-run-s1"), DIAGONAL, TWO_HEADS)
    Path("runs/copy-run-s1/record.json").touch()
    assert main(["align", "copy-r"]) == 0
    said = capsys.readouterr()
    assert main(["align", "copy-r", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["links"] == said.out.splitlines()
    assert f"layer {facts['layer']}" in said.err
    assert all(f"{row['aer']:.3f}" in said.err for row in facts["scores"])
    saved(Path("mean"), {"model.memory": "mean"})
    Path("two").write_text("a\nb\n")
    Path("one").write_text("a\n")
    for run, options, wanted in [
        ("absent", [], "no such run"),
        ("mean", [], "expected a memory of source tokens, got mean."),
        ("copy-run", ["--split", "test_2016"], "--split: expected train, valid or test, got test_2016."),
        ("copy-run", ["--layer", "2"], "--layer: expected 0 or 1, got 2."),
        ("copy-run", ["--head", "2"], "--head: expected 0 or 1, got 2."),
        ("copy-run", ["--head", "first"], "expected mean, best or a number"),
        ("copy-run", ["--head", "best", "--layer", "1"], "Remove --layer."),
        ("copy-run", ["--out", "one/x"], "one/x: cannot be written"),
        ("copy-run", ["--source", "one"], "expected both, got one"),
        ("copy-run", ["--source", "one", "--target", "two"], "one: expected 2 lines, as in two, got 1"),
        ("copy-run", ["--source", "one", "--target", "one", "--split", "test"], "Remove one of them."),
    ]:
        assert main(["align", run, *options]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert wanted in said.err
        assert said.err.count("\n") == 1
