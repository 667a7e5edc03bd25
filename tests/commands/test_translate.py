"""`study translate` on small models of known vocabulary."""

from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
import torch

import study
from study import api, files
from study.__main__ import main
from study.analysis.figures.run import draw_translations
from study.attention import Lengths
from study.attention_map import entropy
from study.config import experiment_from, recorded
from study.config.words import arm_words, differing
from study.corpora import load as load_corpus
from study.errors import InputError
from study.models import build
from study.models.translator import BOS, EOS
from study.pruning.surgery import Head, remove
from study.store import records
from study.store.records import Record
from study.training.checkpoint import save_model
from study.training.translation import align, translate, unknown
from study.training.vocabulary import Subwords, Words, vocabulary_for

TEXTS = ["Der Mann sieht den Ärger über die Haustür.", "The man sees the trouble over the front door."]
SENTENCE = "Der Mann sieht die Haustür."


def saved(folder, vocabulary, **fields):
    """Write the record and the checkpoint of an untrained model; return the folder."""
    tokens = "words" if isinstance(vocabulary, Words) else "subwords"
    given = {"model.width": 20, "data.tokens": tokens, "decoding.beam": 2, "training.steps": 7}
    untrained(folder, vocabulary, given, {f"model.{name}": value for name, value in fields.items()})
    return folder


def load(run):
    return api.load(run).trained


def untrained(folder, vocabulary, *fields):
    experiment, lengths = experiment_from(*fields), Lengths(20, 10)
    vocabulary = vocabulary or vocabulary_for(experiment.data, load_corpus(experiment.data))
    model = build(experiment.model, len(vocabulary), 1, lengths)
    record = Record(protocol=1, id=folder.name, status="finished", config=recorded(experiment), config_hash="", seed=1)
    files.write(folder / "record.json", records.dumps(record))
    save_model(folder / "model.pt", experiment, vocabulary, lengths, model)
    return experiment


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return saved(tmp_path / "run", Words.learn(TEXTS), family="transformer", layers=2)


def test_a_sentence_its_translation_and_a_heat_map(run, capsys):
    assert main(["translate", str(run), SENTENCE]) == 0
    said = capsys.readouterr()
    (text,) = said.out.splitlines()
    assert said.err == "picture  alignment.png\n"
    assert matplotlib.image.imread("alignment.png").shape[2] == 4
    assert main(["translate", str(run / "model.pt"), f"  {SENTENCE}\n", "--plot", "to/see.svg", "--layer", "1"]) == 0
    assert capsys.readouterr() == (f"{text}\n", "picture  to/see.svg\n")


def test_the_map_is_of_the_translation_that_was_found(run):
    trained = load(run)
    found = translate(trained, SENTENCE, beam=3, layer=0)
    text, attention = found.text, found.attention
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


def test_unknown_words_are_named_once(run, capsys):
    assert main(["translate", str(run), "Der Xaver sieht die Yacht, Xaver."]) == 0
    assert capsys.readouterr().err.startswith("study: not in the vocabulary of run: Xaver, Yacht, ,\n")
    assert translate(load(run), "Der Xaver").source == ["Der", "Xaver?", "</s>"]
    vocabulary = Subwords.learn(TEXTS, 300)
    assert unknown(vocabulary, "Xaver, 火") == {}


def test_without_source_tokens_in_memory_there_is_no_map(run, printed):
    saved(run, Words.learn(TEXTS), memory="mean")
    assert printed("translate", run, SENTENCE).splitlines()[-1].startswith("alignment  none: ")
    assert not Path("alignment.png").exists()


def test_wrong_input_is_one_line_and_status_2(run, refused):
    model, whole = run / "model.pt", torch.load(run / "model.pt", weights_only=True)
    broken = {
        "text": lambda: model.write_text("no checkpoint"),
        "code": lambda: torch.save(load, model),
        "empty": lambda: torch.save(whole | {"state": {}}, model),
        "cut": lambda: model.write_bytes(content[:-100]),
    }
    content = model.read_bytes()
    cases = [
        ([" \n"], "sentence: expected words, got an empty text"),
        ([SENTENCE, "--layer", "2"], "study: layer: expected one of 0, 1, got 2."),
        ([SENTENCE, "--plot", "run/model.pt/x.png"], "run/model.pt/x.png: "),
        ([SENTENCE, "--plot", "map.pdf"], "--plot: expected a name that ends in .png or .svg, got 'map.pdf'."),
        *(([name], "expected a model of this program") for name in broken),
        (["future"], "run: protocol: expected 1 or 2, got 99"),
    ]
    for options, wanted in cases:
        broken.get("".join(options), lambda: model.write_bytes(content))()
        if options == ["future"]:
            torch.save(whole | {"config": whole["config"] | {"protocol": 99}}, model)
        assert wanted in refused("translate", run, *options)
    assert not list(Path().glob("*.png"))


def test_models_are_compared_as_each_translates_alone(run, monkeypatch, capsys, refused):
    monkeypatch.setenv("COLUMNS", "120")
    saved(Path("other"), Words.learn(TEXTS), family="transformer", layers=2, memory="mean")
    alone = [translate(load(path), SENTENCE) for path in (run, Path("other"))]
    first, other = study.compare([str(run), "other"], SENTENCE).to_dict("records")
    assert (first["entropy"], other["weights"]) == (pytest.approx(entropy(alone[0].attention)), None)
    assert (first["differs"], other["differs"]) == ("all states", "mean state")
    assert [one["text"] for one in (first, other)] == [one.text for one in alone]
    np.testing.assert_allclose(first["weights"], alone[0].attention["weights"], atol=1e-9)
    assert main(["compare", str(run), "other", str(run), SENTENCE, "--plot", "three.svg"]) == 0
    said = capsys.readouterr()
    assert said.err == "picture  three.svg\n"
    head, _, *lines = said.out.splitlines()
    assert head == f"{SENTENCE}   (cross, layer 1, mean over heads)"
    assert lines[0].split() == ["all", "states", "mean", "state", "all", "states"]
    assert any("no map: no slot is a token" in line for line in lines)
    assert main(["compare", "other", "Der Xaver sieht."]) == 0
    assert capsys.readouterr().err.endswith(": Xaver\n")
    long = alone[0].attention | {"text": {"source": SENTENCE, "target": "gesehen " * 20}}
    figure = draw_translations([(long, "grammar-recurrent-distance-50bd7463-s1")] * 2)
    figure.draw_without_rendering()
    assert all(axes.get_tightbbox().x1 <= figure.bbox.x1 for axes in figure.axes)  # no title is cut off
    for words, problem in (
        ([SENTENCE], "RUN: expected 1 to 12 runs, got 0"),
        (["other", SENTENCE, "--plot", "x.png"], "--plot: expected attention over tokens"),
    ):
        assert problem in refused("compare", *words)


@pytest.mark.parametrize("site", ["encoder_self", "decoder_self", "cross"])
def test_every_site_layer_and_head_can_be_read(run, site):
    trained = load(run)
    maps = [translate(trained, SENTENCE, layer=0, site=site, head=head).attention for head in (0, 1, 2, 3, None)]
    attention, found = maps[-1], translate(trained, SENTENCE)
    assert (attention["site"], attention["layer"], maps[1]["head"]) == (site, 0, 1)
    np.testing.assert_allclose(np.mean([one["weights"] for one in maps[:-1]], axis=0), attention["weights"], atol=1e-6)
    before = ["<s>", *found.target[:-1]]
    sides = {"cross": (found.source, found.target), "encoder_self": (found.source,) * 2}
    assert (attention["source"], attention["target"]) == sides.get(site, (before, found.target))
    seen = range(1, len(before) + 1) if site == "decoder_self" else [len(found.source)] * len(attention["target"])
    assert attention["visible"] == list(seen)
    calls = []
    module = next(module for name, layer, module in trained.model.sites() if (name, layer) == (site, 0))
    module.tap = calls.append
    source, target = (trained.vocabulary.encode([text])[0] for text in (SENTENCE, found.text))
    trained.model.decode(
        trained.model.encode(torch.tensor([[*source, EOS]]), torch.ones(1, len(source) + 1, dtype=torch.bool)),
        torch.tensor([[BOS, *target]]),
    )
    torch.testing.assert_close(calls[0].weights[0, 2], torch.tensor(maps[2]["weights"]))


def test_an_entropy_is_of_the_slots_that_are_seen():
    rows = {"source": list("abcd"), "weights": [[1.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0], [0.25] * 4]}
    assert entropy(rows) == pytest.approx(0.5)
    assert entropy(rows | {"visible": [1, 2, 4]}) == 1.0  # the first row has no choice
    assert entropy(rows | {"weights": [[-0.5, 1.5, 0.0, 0.0]]}) is None


def test_models_are_told_apart_in_words():
    fields = [{"model.attention.scale": "none"}, {"model.family": "transformer"}, {"seed": 2}]
    trees = [experiment_from(given).model_dump(mode="json") for given in fields]
    assert differing(trees[:2]) == ["recurrent, unscaled", "transformer, 1/√d"]
    assert differing([trees[0], trees[2]]) == ["unscaled", "1/√d"]
    assert differing([trees[2], trees[2] | {"seed": 3}]) == ["seed 2", "seed 3"]
    own = experiment_from(fields[1], {"model.attention.encoder_self.score": "uniform"}).model_dump(mode="json")
    assert "uniform in encoder self-attention" in differing([trees[1], own])[1]
    assert arm_words("memory=structured annotations=4 window=2") == "4 annotations, window of half-width 2"
    assert arm_words("name=graph structure=cycle3 dose=0.5") == "graph, rings of three, share in rings 0.5"


COPY = {"data.name": "copy", "data.train_pairs": 30, "data.test_pairs": 6, "model.width": 12}
DIAGONAL = {"model.attention.cross.reach": "local_m", "model.attention.cross.window": 0}
TWO_HEADS = {"model.family": "transformer", "model.attention.heads": 2}


def diagonal(count):
    return " ".join(f"{i}-{i}" for i in range(count))


def test_links_of_a_model_that_looks_at_its_own_place_are_the_diagonal(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    experiment = untrained(Path("runs/copy-run-s1"), None, COPY, DIAGONAL, TWO_HEADS)
    assert main(["translate", "copy-r", "--align"]) == 0
    said = capsys.readouterr()
    test = load_corpus(experiment.data).splits["test"]
    assert said.out.splitlines() == [diagonal(len(pair.source.split())) for pair in test]
    assert said.err == "6 pairs, layer 0, mean over heads\n"
    assert main(["translate", "copy-r", "--align", "valid", "--head", "1", "--layer", "1"]) == 0
    assert "layer 1, head 1" in capsys.readouterr().err


def test_heads_of_a_pruned_model_keep_their_numbers(tmp_path):
    """Layer 0 keeps both heads, layer 1 its second one, which aligns as before under its old number."""
    untrained(tmp_path / "run", None, COPY, TWO_HEADS)
    trained = load(tmp_path / "run")
    before = [align(trained, layer=layer, head=1) for layer in (0, 1)]
    remove(trained.model, [Head("cross", 1, 0)])
    assert align(trained, layer=1, head=1)[1] == align(trained, layer=1)[1]  # the only one
    assert align(trained, layer=0, head=1) == before[0]
    with pytest.raises(InputError, match="head: expected one of 1, got 0"):
        align(trained, layer=1, head=0)


def test_sentences_of_ones_own_are_aligned_without_the_corpus(tmp_path, monkeypatch, refused):
    """Marks are words, an empty side has no link, and no corpus is read where the layer is given."""
    monkeypatch.chdir(tmp_path)
    elsewhere = {"data": {"name": "multi30k", "tokens": "words", "folder": "nowhere"}}
    untrained(Path("run"), Words.learn(["Der Hund, ja."]), DIAGONAL, {"model.width": 12}, elsewhere)
    pairs = [("Der Hund, ja.", "Der ja, ja."), ("", "ja"), ("Der Hund", "der"), ("Der", "")]
    assert study.load("run").align(pairs, layer=0) == [{(i, i) for i in range(5)}, set(), {(0, 0)}, set()]
    untrained(Path("mean"), None, COPY, {"model.memory": "mean"})
    untrained(Path("two"), None, COPY, TWO_HEADS)
    for words, wanted in [
        (["run"], "nowhere"),
        (["mean"], "cross-attention over source tokens, got 6 pairs and memory mean."),
        (["two", "test_2016"], "split: expected train, valid, test, got test_2016."),
        (["two", "test", "--head", "2"], "head: expected one of 0, 1, got 2."),
    ]:
        assert wanted in refused("translate", words[0], "--align", *words[1:])
