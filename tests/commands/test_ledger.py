"""`study runs`, `diff`, `sentences` and `corpus` on published runs, on runs of one's own and on text of one's own."""

import io
import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

import study
from study.__main__ import main
from study.commands import runs as command
from study.store import Store, arm_of
from study.sweep.spec import load

ROOT = Path(__file__).parents[2]
RUNS = "grammar-recurrent-dot-4d03d1a2-s1", "grammar-recurrent-dot-b599617a-s1"


@pytest.fixture
def said(capsys):
    """Function that runs a verb, whose status is 0, and returns its output."""

    def run(*words):
        capsys.readouterr()
        assert main(list(map(str, words))) == 0
        return capsys.readouterr().out

    return run


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A folder whose published runs are those of the quickstart."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("sweeps", "results/runs", "results/sweeps"):
        (folder / name).mkdir(parents=True)
    shutil.copy(ROOT / "sweeps" / "quickstart.yaml", folder / "sweeps")
    for arm in {arm_of(cell.id) for cell in load(folder / "sweeps" / "quickstart.yaml").cells}:
        shutil.copy(ROOT / "results" / "runs" / f"{arm}.json", folder / "results" / "runs")
    return folder


def test_the_ledger_is_the_published_table_after_own_runs(tiny, said, checkout, monkeypatch):
    path = tiny.write("dot", 1, 80.0)
    (path.parent / "model.pt").write_bytes(b"x")
    tiny.write("bilinear", 2, 70.0, status="diverged")
    (tiny.runs / "broken").mkdir()
    (tiny.runs / "broken" / "record.json").write_text("{")
    table = pd.read_csv(io.StringIO(said("runs", "--csv", "--runs", tiny.runs)), low_memory=False)
    published = pd.read_csv(ROOT / "results" / "runs.csv", low_memory=False).set_index("id")
    theirs = table[table["folder"].str.endswith("results/runs")].set_index("id").loc[published.index]
    shared = [name for name in published if name in theirs and name != "sweeps"]
    assert len(shared) > 100
    pd.testing.assert_frame_equal(theirs[shared], published[shared], check_dtype=False)
    assert dict(zip(table["status"], table["model"][:2], strict=False)) == {"finished": True, "diverged": False}
    monkeypatch.chdir(checkout)
    rows = json.loads(
        said("runs", "--runs", tiny.runs, "--where", "model=true", "--where", f"folder={tiny.runs}", "--json")
    )
    assert [row["id"] for row in rows] == [path.parent.name]
    own = study.ledger(tiny.runs)["id"].tolist()
    assert own[:2] == table["id"].tolist()[:2]
    assert {*own[2:]} < {*table["id"][2:]}
    text = said(
        "runs", "--where", "sweeps=quickstart", "--where", "scale!=rsqrt", "--where", "test/exact<=27", "--sort=exact"
    )
    lines = [line.split() for line in text.splitlines()]
    assert [line[0] for line in lines[1:]] == ["quickstart/8", "quickstart/16", "quickstart/12", "quickstart/4"]
    assert all(value in line for value, line in zip(("1.2", "2.8", "17.6", "27"), lines[1:], strict=True))
    for words in (("runs",), ("ls", "runs", "--sort", "sweeps"), ("ls", "--where", "id=nothing*", "runs")):
        assert said(*words, "--where", "id=nothing*") == "no runs\n"
    assert said("ls", "--sweeps", "sweeps", "runs") == said("runs")
    monkeypatch.setattr(command, "MOST", 3)
    assert said("runs").splitlines()[-1].startswith(f"and {len(own) - 5} more of {len(own) - 2};")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--where", "scale"], "--where: expected FIELD=VALUE"),
        (["--where", "test/exact>high"], "--where: expected a number after >, such as test/exact>80, got 'high'."),
        (["--where", "scael=none"], "scael: expected a column"),
        (["--sort", "nothing"], "nothing: expected a column"),
        (["--json", "--csv"], "expected alone"),
        (["--runs", "absent"], "absent: no such folder"),
    ],
)
def test_a_wrong_question_to_the_ledger_is_one_line(words, problem, checkout, monkeypatch, capsys):
    monkeypatch.chdir(checkout)
    assert main(["runs", *words]) == 2
    error = capsys.readouterr().err
    assert problem in error
    assert error.count("\n") == 1


def test_a_difference_of_runs_has_fields_sizes_and_scores(said):
    rows = json.loads(said("diff", "quickstart/3", "quickstart/1", "--json"))
    by_field = {row["field"]: row for row in rows}
    width = by_field["model.attention.cross.key_width"]
    assert (width["section"], width["first"], width["second"]) == ("configuration", 512, 16)
    first, second = (Store(ROOT / "results").record(f"grammar-recurrent-dot-{a}-s1") for a in ("b599617a", "c61874e4"))
    assert by_field["parameters"]["difference"] == first.model.parameters - second.model.parameters
    exact = by_field["test/exact"]
    assert exact["difference"] == pytest.approx(first.score("test", "exact") - second.score("test", "exact"))
    assert "seed" not in by_field
    assert "model.attention.cross.key_width" in said("diff", "quickstart/3", "quickstart/1")
    assert said("diff", "quickstart/3", "quickstart/3").endswith("no difference\n")
    frame = study.load("quickstart/3").diff(study.load("quickstart/1"))
    assert frame["field"].tolist() == [row["field"] for row in rows]


def test_the_worst_sentences_of_a_published_run_against_another(said):
    given = ["sentences", RUNS[0], "--vs", RUNS[1], "--worst", 3]
    rows = json.loads(said(*given, "--json"))
    assert len(rows) == 3
    assert [row["difference"] for row in rows] == sorted(row["difference"] for row in rows)
    store = Store(ROOT / "results")
    texts = [store.hypotheses(run, "test") for run in RUNS]
    for row in rows:
        assert [row["hypothesis"], row["hypothesis_vs"]] == [text[row["line"] - 1] for text in texts]
        assert row["difference"] == pytest.approx(row["score"] - row["score_vs"])
    assert rows[0]["score_vs"] == 100.0  # the same words as the reference
    assert rows[0]["hypothesis_vs"] == rows[0]["reference"]
    text = said(*given)
    assert text.startswith(f"test: chrf of each sentence − that of {RUNS[1]}\n")
    assert f"  {RUNS[1]}  {rows[0]['hypothesis_vs']}\n" in text
    assert "− 100.0 = −" in text
    frame = study.load(RUNS[0]).sentences(score="exact")
    exact = store.record(RUNS[0]).score("test", "exact")
    assert frame["score"].mean() == pytest.approx(exact)
    best = pd.read_csv(io.StringIO(said("sentences", RUNS[0], "--best", 2, "--csv", "--split", "valid")))
    assert best["score"].tolist() == [100.0, 100.0]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--split", "train"], "--split: expected valid, test, long, deep, pronoun, got train"),
        (["--score", "nll"], "--score: expected bleu, chrf"),
        (["--worst", "3", "--best", "3"], "--best: expected alone, got --worst too"),
        (["--vs", "graph-transformer-dot-620d9b48-s1"], "expected the corpus of"),
    ],
)
def test_sentences_that_are_not_there_are_one_line(words, problem, capsys):
    assert main(["sentences", RUNS[0], *words]) == 2
    assert problem in capsys.readouterr().err


def test_a_corpus_shows_pairs_gold_vocabulary_and_known_words(said, tmp_path):
    facts = json.loads(
        said("corpus", "grammar", "--sentence", "Der Xaver schläft.", "--pairs", 1, "--start", 2, "--json")
    )
    assert (facts["known"], facts["unknown"]) == (["Der", "schläft", "."], ["Xaver"])
    (pair,) = facts["pairs"]
    assert (pair["split"], pair["line"]) == ("test", 3)
    assert all(link.replace("?", "–").count("–") == 1 for link in pair["gold"])
    config = Store(ROOT / "results").record("grammar-recurrent-dot-c61874e4-s1").config["data"]
    of_run = json.loads(said("corpus", "quickstart/1", "--json"))
    assert {split["split"]: split["pairs"] for split in of_run["splits"]}["train"] == config["train_pairs"]
    for split, lines in {"train": "ein Hund\nein Haus.\n", "valid": "ein Hund\n", "test": "ein Tor\n"}.items():
        (tmp_path / f"{split}.xx").write_text(lines)
        (tmp_path / f"{split}.yy").write_text(lines.upper())
    (tmp_path / "test.align").write_text("0-0 1?1\n")
    own = json.loads(
        said(
            "corpus",
            tmp_path,
            "--source",
            "xx",
            "--target",
            "yy",
            "--sentence",
            "ein Tor",
            "--json",
        )
    )
    assert (own["languages"], own["pairs"][0]["gold"]) == (["xx", "yy"], ["ein–EIN", "Tor?TOR"])
    assert own["unknown"] == ["Tor"]
    assert own["vocabulary"]["tokens"] == 4 + len({"ein", "▁Hund", "▁Haus", ".", "EIN", "▁HUND", "▁HAUS"})
    assert "gold    ein–EIN Tor?TOR" in said(
        "corpus", tmp_path, "--source", "xx", "--target", "yy", "--tokens", "words"
    )


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["grammar", "--split", "none"], "--split: expected train, valid, test, long, deep, pronoun, got none"),
        (["."], "--source, --target: expected the languages"),
        (["nothing-at-all"], "`study ls corpora` lists the corpora."),
        (["nothing-at-all", "--source", "de"], "nothing-at-all: expected a folder with text of your own, got none"),
        (["files"], "files: expected a folder with text of your own, got none"),
        (["grammar", "--start", "1000"], "--start: expected less than 1000, the number of pairs of test, got 1000."),
    ],
)
def test_a_corpus_that_is_not_there_is_one_line(words, problem, capsys):
    assert main(["corpus", *words]) == 2
    assert problem in capsys.readouterr().err


def test_an_explanation_is_json_too(said):
    explained = json.loads(
        said("explain", "--model.family", "transformer", "--model.attention.score", "additive", "--json")
    )
    assert explained["parameters"] == sum(part["parameters"] for part in explained["parts"].values())
    assert explained["sites"].keys() == {"encoder_self", "decoder_self", "cross"}
    assert any("softmax" in line for line in explained["sites"]["cross"]["equations"])
    assert explained["matches"][0]["field"].startswith("model.")
    assert explained["parameters"] != explained["baseline_parameters"]
