"""Own parallel text: real Czech and English messages in every form, and what a user can get wrong."""

import gzip
import json
from pathlib import Path

import pytest

from study.__main__ import main
from study.config import Experiment, config_hash, experiment_from, experiment_id, recorded
from study.corpora import Link
from study.corpora.corpus import checksum
from study.corpora.parallel import Files, links, read
from study.errors import InputError
from study.scores import metrics

REAL = Path(__file__).parent / "catalogue_cs_en"
LANGUAGES = {"data.name": "files", "data.source": "cs", "data.target": "en"}
TEXT = {
    "train": [("ano", "yes", "0-0"), ("ne , díky", "no , thanks", "0-0 1-1 2?2")],
    "valid": [("díky", "thanks", "0-0")],
    "news": [("ano ano", "yes", "0-0 1-0")],
    "talk": [("ne", "no", "")],
}


def put(folder, form, aligned=True, text=TEXT):
    """The text in one form: files side by side, with tabs, or with tabs in gzip."""
    folder.mkdir()
    for name, rows in text.items():
        rows = [row if aligned else row[:2] for row in rows]
        if form == "sides":
            for end, column in zip(("cs", "en", "align"), zip(*rows, strict=True), strict=False):
                (folder / f"{name}.{end}").write_text("\r\n".join(column) + "\r\n", encoding="utf-8-sig")
        else:
            content = "".join("\t".join(row) + "\n" for row in rows).encode()
            packed = form == "tsv.gz"
            (folder / f"{name}.{form}").write_bytes(gzip.compress(content) if packed else content)
    return folder


def experiment(folder, **fields):
    return experiment_from(LANGUAGES, {"data.folder": str(folder)}, {f"data.{k}": v for k, v in fields.items()})


def test_text_decides_the_identity_and_neither_form_nor_place_does(tmp_path):
    forms = [experiment(put(tmp_path / form, form)) for form in ("sides", "tsv", "tsv.gz")]
    assert len({experiment_id(one) for one in forms}) == 1
    assert len({repr(one.data.read()) for one in forms}) == 1
    assert forms[0].data.scored == ("valid", "news", "talk")
    corpus = forms[0].data.read()
    assert corpus.languages == ("cs", "en")
    assert corpus.splits["train"][1].alignment == (Link(0, 0), Link(1, 1), Link(2, 2, False))
    assert corpus.splits["talk"][0].alignment == ()
    plain = experiment(put(tmp_path / "plain", "tsv", aligned=False))
    others = [plain, experiment(tmp_path / "tsv", tests="talk news"), experiment(tmp_path / "tsv", tests="news")]
    other = {**TEXT, "valid": [("díky", "thank", "0-0")]}
    others.append(experiment(put(tmp_path / "other", "tsv", text=other)))
    assert len({config_hash(one) for one in (forms[0], *others)}) == 5
    assert others[1].data.scored == ("valid", "talk", "news")
    assert {"news/aer", "valid/aer", "talk/gold_mass"} <= set(metrics.names(forms[0].data))
    assert not {name for name in metrics.names(plain.data) if "aer" in name or "gold" in name}


def test_a_record_states_the_text_without_its_place(tmp_path, monkeypatch):
    """A record's configuration is valid where the files are not, with the same identity; other text is refused."""
    given = experiment(put(tmp_path / "here", "sides"))
    config = recorded(given)
    assert str(tmp_path) not in json.dumps(config)
    monkeypatch.delenv("STUDY_FILES", raising=False)
    again = Experiment.model_validate(config)
    assert experiment_id(again) == experiment_id(given)
    assert not again.data.at_hand()
    with pytest.raises(InputError, match="or set STUDY_FILES"):
        again.data.read()
    monkeypatch.setenv("STUDY_FILES", str(tmp_path / "here"))
    assert again.data.at_hand()
    assert again.data.read() == given.data.read()
    (tmp_path / "here" / "news.en").write_text("no\n")
    assert not again.data.at_hand(), "checks of published runs go on without references"
    with pytest.raises(InputError, match=r"data\.content: expected text with SHA-256 .* The files were changed"):
        again.data.read()
    with pytest.raises(InputError, match=r"data\.content: expected '\w+', as in the files"):
        experiment(tmp_path / "here", content=config["data"]["content"])


def test_pharaoh_counts_tokens_between_blanks():
    """`don't` is three words, so its link becomes three."""
    assert links("1-0 0?1", "ne nevím", "don't know") == (Link(0, 3, False), Link(1, 0), Link(1, 1), Link(1, 2))
    assert links("", "a", "b") == ()
    for text, says in (("0", "got '0'"), ("0-1", "tokens of the target from 0 to 0, got 1"), ("1?0", "of the source")):
        with pytest.raises(ValueError, match=says):
            links(text, "a", "b")


def test_sentences_are_kept_as_they_are(tmp_path):
    (tmp_path / "de.gz").write_bytes(gzip.compress("\ufeffEin Hund \r\n\u2028Zwei,  Hünde.\n".encode()))
    (tmp_path / "en").write_text("A dog \n\u2028Two,  dogs.\n")
    pairs = [(pair.source, pair.target) for pair in read((tmp_path / "de.gz", tmp_path / "en"))]
    assert pairs == [("Ein Hund ", "A dog "), ("\u2028Zwei,  Hünde.", "\u2028Two,  dogs.")]


BROKEN = {
    "no test": ({"news.tsv": None, "talk.tsv": None}, "expected train, valid and a test split, got train, valid"),
    "one side": ({"more.cs": b"a\n"}, r"expected NAME.cs and NAME.en, .* got more.cs"),
    "two forms": ({"news.cs": b"a\n", "news.en": b"b\n"}, "got news.cs, news.en, news.tsv"),
    "columns": ({"news.tsv": b"a\tb\na\n"}, "news.tsv:2: expected 2 or 3 columns .* got 1"),
    "empty line": ({"news.tsv": b"a\tb\n \tb\n"}, "news.tsv:2: the source is empty"),
    "some links": ({"news.tsv": b"a\tb\t0-0\na\tb\n"}, "of every pair or of none, got 1 of 2"),
    "lengths": ({"more.cs": b"a\nb\n", "more.en": b"a\n"}, "more.en: expected 2 lines, as in .*more.cs, got 1"),
    "no gzip": ({"more.tsv": b"\x1f\x8bxx"}, "more.tsv: expected UTF-8, plain or gzip"),
    "null": ({"more.tsv": b"a\tb\na\0\tb\n"}, r"more.tsv:2: expected one sentence per line, got '\\x00'"),
}


@pytest.mark.parametrize(("files", "says"), BROKEN.values(), ids=BROKEN)
def test_text_that_cannot_be_used_is_one_line(files, says, tmp_path):
    folder = put(tmp_path / "text", "tsv")
    for name, content in files.items():
        (folder / name).write_bytes(content or b"")
        if content is None:
            (folder / name).unlink()
    with pytest.raises(InputError, match=says) as caught:
        experiment(folder)
    assert "\n" not in str(caught.value)


def test_fields_that_are_missing_or_wrong_are_one_line(tmp_path, monkeypatch):
    folder = str(put(tmp_path / "text", "tsv"))
    monkeypatch.delenv("STUDY_FILES", raising=False)
    given = {"name": "files", "source": "cs", "target": "en", "folder": folder}
    for fields, says in (
        ({"source": None}, "data.source: expected a valid string, got None"),
        ({"target": "cs"}, "expected another ending"),
        ({"folder": None}, "or set STUDY_FILES"),
        ({"folder": f"{folder}x"}, "data.folder: .*no such folder"),
        ({"tests": "old"}, "expected train, valid, old and a test split"),
        ({"gold": "news"}, r"data\.gold: expected 'train valid news talk', as in the files, got 'news'"),
    ):
        with pytest.raises(InputError, match=says):
            experiment_from({"data": given | fields})


def test_a_check_lists_all_that_is_wrong(tmp_path, capsys, printed):
    told = printed("check", REAL, "--source", "cs", "--target", "en")
    rows = {line.split()[0]: line.split()[1:] for line in told.splitlines()}
    assert rows["train"] == ["578", "5.671", "5.901", "0", "15", "no"]
    assert rows["admin"] == ["75", "8.573", "9.027", "0", "0", "7", "no"]  # seven in another case
    assert Files(folder=str(REAL), source="cs", target="en").content in told
    folder = put(tmp_path / "text", "tsv", aligned=False)
    (folder / "news.tsv").write_text("ano\tyes\nano\tyes\nano\tano\n\ty\nx\t\nx\n")
    (folder / "more.tsv").write_text("a\0\tb\n")
    (folder / "talk.tsv").unlink()
    assert main(["check", str(folder), "--source", "cs", "--target", "en"]) == 2
    said = capsys.readouterr()
    assert [line.split()[0] for line in said.out.splitlines() if line.startswith(("news", "train", "valid"))] == [
        "train",
        "valid",
    ]
    for problem in ("news.tsv:4: the source", "remove it. Other such lines: 5, 6.", "more.tsv:1: expected"):
        assert problem in said.out
    assert "2 problems; training refuses this text" in said.err


SWEEP = """name: own
method: grid
metric: {{name: admin/bleu}}
parameters:
  data: {{parameters: {{name: {{value: files}}, folder: {{value: {folder}}}, source: {{value: cs}},
    target: {{value: en}}, tests: {{value: admin test}}, tokens: {{value: words}}}}}}
  training: {{parameters: {{batch_tokens: {{value: 300}}, steps: {{value: 1}}}}}}
  model.attention.scale: {{values: [rsqrt, none]}}
  model.width: {{value: 8}}
  decoding.beam: {{value: 1}}
  trainer.device: {{value: cpu}}
  seed: {{values: [1]}}
"""
CLAIM = """claims:
- {id: own, slug: own, statement: The scale changes nothing after one update., type: superiority, questions: [
    {sweep: own.yaml, asked: [files/recurrent], metric: admin/nll, margin: 5.0, contrasts: [
      {arm: {model.attention.scale: none}, baseline: {model.attention.scale: rsqrt}, expect: different}]}]}
"""


def test_gold_links_of_own_text_are_scored(tmp_path):
    """On a test split alone, whose name has all kinds of characters: then the last layer aligns."""
    from study.training.run import run

    small = {"model.width": 8, "training.steps": 1, "decoding.beam": 1, "data.tokens": "words", "trainer.device": "cpu"}
    known = {"News-A_1" if name == "news" else name: rows for name, rows in TEXT.items()}
    folder = put(tmp_path / "text", "sides", text=known | {"valid": [row[:2] for row in TEXT["valid"]]})
    record = run(experiment_from(LANGUAGES, {"data.folder": str(folder)}, small), tmp_path / "run", lambda line: None)
    (aer,) = (score for score in record.scores if (score.split, score.metric) == ("News-A_1", "aer"))
    assert (aer.value is not None, aer.signature) == (True, "layer:0|heads:mean")
    assert not [score for score in record.scores if (score.split, score.metric) == ("valid", "aer")]
    assert record.data.files == {name: checksum(pairs) for name, pairs in experiment(folder).data.read().splits.items()}


def test_sweep_report_claim_translation_and_alignment_work_on_own_text(tmp_path, monkeypatch, printed):
    """Two arms, one update each, in this process; then every reader of runs."""
    from study.sweep.spec import load
    from study.training.run import run

    monkeypatch.chdir(tmp_path)
    Path("own.yaml").write_text(SWEEP.format(folder=REAL))
    Path("claims.yaml").write_text(CLAIM)
    spec = load(Path("own.yaml"))
    for cell in spec.runnable:
        record = run(cell.experiment, Path("runs") / cell.id, lambda line: None)
    assert (record.data.source, record.data.target) == ("cs", "en")
    assert record.data.files.keys() == {"train", "valid", "admin", "test"}
    assert {score.split for score in record.scores} == {"valid", "admin", "test"}
    assert any(score.subset == "length 4-7" for score in record.scores)
    assert str(REAL) not in (tmp_path / "runs" / record.id / "record.json").read_text()
    assert main(["report", "own.yaml", "--runs", "runs"]) == 0
    assert "| BLEU |" in Path("runs/report/own/table.md").read_text(), "a corpus of sentences has a column of BLEU"
    assert "files, recurrent" in printed("claims", "--claims", "claims.yaml", "--runs", "runs", "own")
    folder = f"runs/{record.id}"
    assert main(["translate", folder, "Datum a čas"]) == 0
    assert len(printed("translate", folder, "--align", "test", "--layer", "0").splitlines()) == 63
    assert "admin" in printed("show", folder)
