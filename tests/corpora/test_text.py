"""Words, blanks and remarks of text in any script, and a corpus of such text from the check to the site."""

import gzip
import os
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
import world_text
from processes import output_of

from study.corpora.catalogue import KINDS
from study.corpora.parallel import links, read
from study.corpora.text import alike, remarks, tokens_of, words
from study.scores import scoring
from study.sweep.fields import takes
from study.training.vocabulary import Words

PLAIN = re.compile(r"\w+|[^\w\s]")
"""Words as all published runs had them, whose texts have no combining marks."""


@pytest.mark.parametrize("pair", world_text.COUNTS)
def test_marks_and_joiners_belong_to_the_letter_before_them(pair):
    source = world_text.PAIRS[pair][0]
    assert len(words(source)) == world_text.COUNTS[pair]
    assert "".join(word for word, _, _ in words(source)) == "".join(source.split())
    assert all(source[start:end] == word for word, start, end in words(source))
    assert len(words(unicodedata.normalize("NFD", source))) == len(words(unicodedata.normalize("NFC", source)))


def test_what_counts_words_counts_them_whole():
    assert Words.learn(["में"]).types[4:] == ["▁में"]
    assert scoring.source_length("हिन्दी में लिखो") == 3
    assert len(links("0-0 1-1", "हिन्दी में", "in Hindi")) == 2
    assert [word for word, _, _ in words("\u0301a b\u0301.")] == ["\u0301", "a", "b\u0301", "."]


def same(texts):
    for text in texts:
        old = [(match.group(), match.start(), match.end()) for match in PLAIN.finditer(text)]
        assert words(text) == old
        assert len(tokens_of(text)) == len(old)


@pytest.mark.parametrize("name", sorted(KINDS.keys() - {"files", "multi30k"}))
def test_no_word_of_a_generated_corpus_moves(name):
    corpus = KINDS[name].example().read()
    same(text for pairs in corpus.splits.values() for pair in pairs for text in (pair.source, pair.target))
    same(text for half in corpus.contrasts for text in (half.source, half.right, half.wrong))


@pytest.mark.skipif("STUDY_MULTI30K" not in os.environ, reason="needs the text")
def test_no_word_of_multi30k_moves():
    for path in Path(os.environ["STUDY_MULTI30K"]).glob("*.gz"):
        same(gzip.decompress(path.read_bytes()).decode().split("\n"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("plain text.", []),
        (unicodedata.normalize("NFD", "für"), ["decomposed (not NFC): 1"]),
        ("soft\u00adhyphen", ["with zero-width marks: 1"]),
        ("a\ufeffb", ["with a byte order mark inside: 1"]),
        ("10\u00a0km", ["with blanks that tokens words turn into one blank: 1"]),
        ("a  b", ["with blanks that tokens words turn into one blank: 1"]),
        ("x" * 1001, ["the longest has 1,001 characters"]),
    ],
)
def test_what_is_not_seen_is_said(text, said):
    assert remarks([text, "plain"]) == said


def test_sentences_are_alike_whatever_their_form():
    forms = ["Über\u00a0Öl ", "u\u0308ber  o\u0308l", "ÜBER\u200b Öl", "Über Öl"]
    assert len({alike(form) for form in forms}) == 1
    assert alike("über Öl.") != alike("über Öl")


def test_an_empty_third_column_everywhere_is_no_set_of_links(tmp_path, printed):
    folder = world_text.write(tmp_path / "text")
    assert read([folder / "test.tsv"])[0].alignment == ()
    rows = [line.split() for line in printed("check", folder, "--source", "aa", "--target", "en").splitlines()]
    assert {row[0]: row[-1] for row in rows if row[0] in ("train", "valid", "test")} == dict.fromkeys(
        ("train", "valid", "test"), "no"
    )


def test_a_header_is_asked_about(tmp_path, printed):
    folder = world_text.write(tmp_path / "text")
    (folder / "train.tsv").write_text("Source\tTarget\t\n" + (folder / "train.tsv").read_text(encoding="utf-8"))
    told = printed("check", folder, "--source", "aa", "--target", "en")
    assert "train, line 1: Source, Target. If it is a header, remove it." in told


def test_text_of_an_arm_may_look_like_a_value_of_yaml(refused, tmp_path):
    assert takes("data.source", "no")
    assert not takes("data.source", False)
    (tmp_path / "own.yaml").write_text(
        "method: grid\nmetric: {name: test/bleu}\nparameters: {data.name: {value: files}, data.source: {value: no}}\n"
    )
    assert "data.source: expected a valid string, got False. YAML reads words such as no" in refused(
        "sweep", tmp_path / "own.yaml", "--dry-run"
    )


@pytest.mark.slow
def test_text_of_the_world_goes_from_the_check_to_the_site(tmp_path):
    """Each verb in a process of its own."""
    world_text.write(tmp_path / "text")

    def study(*arguments):
        command = [sys.executable, "-P", "-m", "study", *arguments]
        return output_of(*command, cwd=tmp_path, STUDY_FILES=str(tmp_path / "text"))

    told = study("check", "text", "--source", "aa", "--target", "en")
    for remark in (
        "decomposed (not NFC): 1",
        "zero-width marks: 3",
        "byte order mark inside: 1",
        "the longest has 1,499 characters",
    ):
        assert f"train, source: {remark}" in told.replace("with a ", "").replace("with ", "")
    size = ["--model.width", "8", "--training.steps", "2", "--training.validate_every", "2", "--decoding.beam", "1"]
    data = ["--data.name", "files", "--data.source", "aa", "--data.target", "en", "--data.tokens", "words"]
    study("train", *data, *size, "--trainer.device", "cpu")
    shown = study("show", "last", "--sentences")
    assert "हिन्दी में लिखो" in shown
    study("show", "last", "--plot", "run.png")
    study("translate", "last", "--runs", "runs", "हिन्दी में لिखो")
    study("site", "--runs", "runs")
    assert (tmp_path / "run.png").stat().st_size > 1000
    assert "<script>bold" not in "".join(path.read_text("utf-8") for path in (tmp_path / "_site").rglob("*.html"))


def test_options_may_stand_between_a_run_and_a_sentence(tmp_path):
    """The names that are not there are what is refused, not the order."""
    for verb in ("translate", "compare"):
        command = [sys.executable, "-P", "-m", "study", verb, "nothing", "--runs", str(tmp_path), "two words"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 2
        assert "unrecognized" not in done.stderr
        assert "nothing" in done.stderr
