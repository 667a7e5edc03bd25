"""`study translate` on small models of known vocabulary."""

from pathlib import Path

import matplotlib.image
import pytest
import torch

from study.__main__ import main
from study.analysis.figures.run import draw_translations, entropy, title
from study.attention import Lengths
from study.config import experiment_from
from study.models import build
from study.training.checkpoint import save_model
from study.training.translation import load, translate, unknown
from study.training.vocabulary import Subwords, Vocabulary, Words

TEXTS = ["Der Mann sieht den Ärger über die Haustür.", "The man sees the trouble over the front door."]
SENTENCE = "Der Mann sieht die Haustür."


def saved(folder: Path, vocabulary: Vocabulary, **fields: object) -> Path:
    """The checkpoint of an untrained model."""
    tokens = "words" if isinstance(vocabulary, Words) else "subwords"
    given = {"model.width": 20, "data.tokens": tokens, "decoding.beam": 2, "training.steps": 7}
    experiment = experiment_from(given, {f"model.{name}": value for name, value in fields.items()})
    lengths = Lengths(20, 10)
    model = build(experiment.model, len(vocabulary), 1, lengths)
    save_model(folder / "model.pt", experiment, vocabulary, lengths, model)
    return folder


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    return saved(tmp_path / "run", Words.learn(TEXTS), family="transformer", layers=2)


def test_a_sentence_its_translation_and_a_heat_map(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", str(run), SENTENCE]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    text, path = said.out.splitlines()
    assert path == "alignment  alignment.png"
    assert matplotlib.image.imread("alignment.png").shape[2] == 4
    assert not list(Path().glob(".alignment*"))
    assert main(["translate", str(run / "model.pt"), f"  {SENTENCE}\n", "--png", "to/see.png", "--layer", "1"]) == 0
    assert capsys.readouterr().out.splitlines() == [text, "alignment  to/see.png"]
    assert Path("to/see.png").is_file()


def test_the_title_of_a_map_names_the_model_and_both_sentences_and_its_entropy() -> None:
    even, sure = [0.25] * 4, [1.0, 0.0, 0.0, 0.0]
    attention = {"source": list("abcd"), "weights": [even, sure], "text": {"source": "a b", "target": "c d"}}
    assert title(attention, "copy-run-s1") == "copy-run-s1: entropy 0.50\na b\nc d"


def test_the_map_is_of_the_translation_that_was_found(run: Path) -> None:
    trained = load(run)
    found = translate(trained, SENTENCE, beam=3, layer=0)
    text, attention = found.text, found.attention
    assert attention is not None
    assert attention["source"] == ["Der", "Mann", "sieht", "die", "Haustür", ".", "</s>"]
    (ids,) = trained.vocabulary.encode([text])
    assert attention["target"][-1] == "</s>"
    assert attention["target"][:-1] == trained.vocabulary.tokens(ids)
    weights = torch.tensor(attention["weights"])
    torch.testing.assert_close(weights.sum(1), torch.ones(len(weights)), rtol=0, atol=1e-6)
    assert attention["layer"] == 0
    other = translate(trained, SENTENCE, beam=3).attention
    assert other["layer"] == 1
    assert attention["weights"] != other["weights"]
    assert (found.source, found.target) == (attention["source"], attention["target"])


def test_unknown_words_are_named_once(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", str(run), "Der Xaver sieht die Yacht, Xaver."]) == 0
    assert capsys.readouterr().err == "study: not in the vocabulary of this model: Xaver, Yacht, ,\n"
    assert translate(load(run), "Der Xaver").source == ["Der", "Xaver?", "</s>"]
    assert main(["translate", str(run), "Der 火"]) == 0
    assert capsys.readouterr().out.endswith("alignment.png   (the font lacks 火; boxes are drawn instead)\n")


def test_subwords_know_every_word(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vocabulary = Subwords.learn(TEXTS, 300)
    saved(run, vocabulary, decoder="bahdanau")
    assert unknown(vocabulary, "Xaver, 火") == {}
    assert main(["translate", str(run), "Xaver sieht 火 über ¿", "--beam", "4"]) == 0
    assert capsys.readouterr().err == ""
    assert Path("alignment.png").is_file()


@pytest.mark.parametrize("memory", ["final", "mean", "empty"])
def test_without_source_tokens_in_memory_there_is_no_map(
    run: Path, memory: str, capsys: pytest.CaptureFixture[str]
) -> None:
    saved(run, Words.learn(TEXTS), memory=memory)
    assert main(["translate", str(run), SENTENCE]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"alignment  none: memory {memory} has no source")
    assert not Path("alignment.png").exists()


def test_wrong_input_is_one_line_and_status_2(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("text.pt").write_text("no checkpoint")
    torch.save({"something": "else"}, "else.pt")
    torch.save(load, "code.pt")
    whole = torch.load(run / "model.pt", weights_only=True)
    torch.save(whole | {"config": whole["config"] | {"protocol": 99}}, "future.pt")
    torch.save(whole | {"state": {}}, "empty.pt")
    Path("cut.pt").write_bytes((run / "model.pt").read_bytes()[:-100])
    broken = ("text.pt", "else.pt", "code.pt", "empty.pt", "cut.pt")
    for checkpoint, wanted in [
        ("absent", "absent: no such run"),
        (".", "model.pt: no such model"),
        *((name, "expected a model of this program") for name in broken),
        ("future.pt", "expected a model of this version, got another (protocol"),
    ]:
        assert main(["translate", checkpoint, SENTENCE]) == 2
        said = capsys.readouterr().err
        assert wanted in said
        assert said.count("\n") == 1
    for options, wanted in [
        ([" \n"], "sentence: expected words, got an empty text"),
        ([], "SENTENCE"),
        ([SENTENCE, "--beam", "0"], "expected a whole number from 1"),
        ([SENTENCE, "--layer", "2"], "layer: expected one of 0, 1, got 2."),
        ([SENTENCE, "--png", "text.pt/x.png"], "text.pt/x.png: cannot be written"),
        ([SENTENCE, "--png", "."], "cannot be written"),
        ([SENTENCE, "--nonsense"], "--nonsense"),
    ]:
        assert main(["translate", str(run), *options]) == 2
        said = capsys.readouterr().err
        assert wanted in said
        assert said.count("\n") == 1
    assert not list(Path().glob("*.png"))


def test_models_are_compared_as_each_translates_alone(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("other").mkdir()
    saved(Path("other"), Words.learn(TEXTS), family="transformer", layers=2, memory="mean")
    alone = [translate(load(path), SENTENCE) for path in (run, Path("other"))]
    assert main(["compare", str(run), "other", str(run), SENTENCE, "--png", "both.png"]) == 0
    head, *lines, drawn = capsys.readouterr().out.splitlines()
    assert head.split() == ["entropy", "translation"]
    entropies = [line.split()[1] for line in lines]
    assert entropies == [f"{entropy(alone[0].attention):.2f}", "–", entropies[0]]
    assert [line.split(maxsplit=2)[2:] for line in lines] == [[one.text] * bool(one.text) for one in (*alone, alone[0])]
    assert drawn == "maps  both.png"
    one = main(["translate", str(run), SENTENCE]), matplotlib.image.imread("alignment.png").shape
    assert matplotlib.image.imread("both.png").shape[1] == pytest.approx(2 * one[1][1], abs=4)
    long = alone[0].attention | {"text": {"source": SENTENCE, "target": "gesehen " * 20}}
    figure = draw_translations([(long, "grammar-recurrent-distance-50bd7463-s1")] * 2)
    figure.draw_without_rendering()
    assert all(axes.get_tightbbox().x1 <= figure.bbox.x1 for axes in figure.axes)  # no title is cut off
    for words, problem in (
        (["compare", SENTENCE], "SENTENCE: expected a value"),
        (["compare", "absent", SENTENCE], "absent: no such run"),
        (["compare", "other", SENTENCE, "--png", "x.png"], "--png: expected attention over source tokens"),
        (["compare", *[str(run)] * 13, SENTENCE], "RUN: expected at most 12 runs"),
    ):
        assert main(words) == 2
        assert problem in capsys.readouterr().err
