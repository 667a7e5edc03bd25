"""The test of a model: scores by hand where they can be, and every part on a model that has learned its corpus."""

import math

import pytest
import torch
from torch.nn import functional as F

from study.attention import Lengths
from study.config import experiment_from
from study.corpora import Contrast, Corpus, Link, Pair
from study.models import Translator, build
from study.models.translator import EOS, PAD, Encoded, Output
from study.training import decode
from study.training.alignment import readings
from study.training.batches import collate, examples
from study.training.evaluate import _contrasts, evaluate
from study.training.vocabulary import Words

NOUNS = {"Hund": "dog", "Mann": "man", "Ball": "ball", "Haus": "house", "Kind": "child"}


def pair(*nouns):
    source, target = " und ".join(nouns) + ".", " and ".join(NOUNS[noun] for noun in nouns) + "."
    return Pair(source, target, tuple(Link(i, i) for i in range(2 * len(nouns))))


PAIRS = [pair(a, b) for a in NOUNS for b in NOUNS if a != b] + [pair(a) for a in NOUNS]
CONTRASTS = [
    Contrast("Hund.", "dog.", "man.", 0),
    Contrast("Mann.", "man.", "dog.", 0),
    Contrast("Ball.", "ball.", "house.", 1),
    Contrast("Haus.", "ball.", "house.", 1),  # the wrong one is declared right, so this half is lost
]
CORPUS = Corpus("grammar", 1, {"train": PAIRS, "valid": PAIRS[::2], "test": PAIRS[1::2]}, CONTRASTS)
VOCABULARY = Words.learn([side for p in PAIRS for side in (p.source, p.target)])
TRANSFORMER = {"model.family": "transformer", "model.layers": 2, "model.attention.heads": 1}


def trained():
    """A model that has learned the corpus by heart, in about a second."""
    experiment = experiment_from(TRANSFORMER, {"model.width": 32, "model.dropout": 0, "decoding.beam": 3})
    model = build(experiment.model, len(VOCABULARY), 1)
    batch = collate(examples(PAIRS, VOCABULARY))
    optimiser = torch.optim.Adam(model.parameters(), 5e-3)
    for _ in range(120):
        logits = model.decode(model.encode(batch.source, batch.mask), batch.given).logits
        optimiser.zero_grad()
        F.cross_entropy(logits.flatten(0, 1), batch.wanted.flatten(), ignore_index=PAD).backward()
        optimiser.step()
    return experiment, model.eval()


def test_a_model_that_has_learned_its_corpus():
    experiment, model = trained()
    valid = examples(CORPUS.splits["valid"], VOCABULARY)
    evaluation = evaluate(experiment, model, VOCABULARY, CORPUS, valid)
    value = {(s.split, s.metric): s.value for s in evaluation.scores if s.subset is None}
    assert value["test", "exact"] == pytest.approx(100)
    assert value["test", "bleu"] == pytest.approx(100)
    assert evaluation.hypotheses["test"] == [p.target for p in CORPUS.splits["test"]]
    assert value["pronoun", "contrast"] == 50, "one of two pairs has both halves right"
    tests = examples(CORPUS.splits["test"], VOCABULARY)
    nll = decode.forced_nll(model, tests)
    assert value["test", "nll"] == pytest.approx(float(nll.mean()), rel=1e-4)
    tokens = sum(len(e.target) + 1 for e in tests)
    assert value["test", "perplexity"] == pytest.approx(math.exp(float(nll.sum()) / tokens), rel=1e-4)
    assert 0 == value["test", "aer_floor"] <= value["test", "aer"] <= 1
    assert 0 < value["test", "gold_mass"] < 1
    weights = torch.tensor(evaluation.shown["weights"])
    assert weights.shape == (len(evaluation.shown["target"]), len(evaluation.shown["source"]))
    torch.testing.assert_close(weights.sum(1), torch.ones(len(weights)), rtol=0, atol=1e-3)
    assert evaluation.shown["gold"] == [[i, i] for i in range(len(weights) - 1)]
    assert sorted(readings(model, tests, VOCABULARY)) == [0, 1]


def test_forced_nll_by_hand_whatever_the_batch():
    _, model = build_untrained()
    data = examples(PAIRS, VOCABULARY)
    together = decode.forced_nll(model, data)
    for i in (0, 7, 24):
        alone = collate([data[i]])
        with torch.no_grad():
            log = model.decode(model.encode(alone.source, alone.mask), alone.given).logits[0].log_softmax(-1)
        by_hand = -sum(float(log[t, token]) for t, token in enumerate([*data[i].target, EOS]))
        assert float(together[i]) == pytest.approx(by_hand, rel=1e-5)
        (tempered,) = decode.tempered_nll(model, [data[i]], (0.5, 1.0))
        sharper = -sum(float((2 * log).log_softmax(-1)[t, token]) for t, token in enumerate([*data[i].target, EOS]))
        assert tempered.tolist() == pytest.approx([sharper, by_hand], rel=1e-5)


def build_untrained(**fields):
    experiment = experiment_from({"model.width": 32}, {f"model.{k}": v for k, v in fields.items()})
    return experiment, build(experiment.model, len(VOCABULARY), 1).eval()


@pytest.mark.parametrize("memory", ["mean", "empty"])
def test_a_memory_without_source_tokens_has_no_alignment(memory):
    experiment, model = build_untrained(memory=memory)
    valid = examples(CORPUS.splits["valid"], VOCABULARY)
    evaluation = evaluate(experiment, model, VOCABULARY, CORPUS, valid)
    assert evaluation.shown is None
    assert not any(score.metric == "aer" for score in evaluation.scores)
    assert readings(model, valid, VOCABULARY) == {}


def test_learned_positions_leave_longer_splits_without_a_likelihood():
    experiment = experiment_from({"model.family": "transformer", "model.positions": "learned", "model.width": 32})
    model = build(experiment.model, len(VOCABULARY), 1, Lengths(5, 4)).eval()
    corpus = Corpus("grammar", 1, CORPUS.splits | {"long": [pair(*NOUNS)]})
    found = evaluate(experiment, model, VOCABULARY, corpus, examples(CORPUS.splits["valid"], VOCABULARY))
    value = {(score.split, score.metric): score.value for score in found.scores if score.subset is None}
    assert value["test", "nll"] is not None
    assert value["long", "nll"] is None
    assert ("long", "aer") not in value
    assert value["long", "bleu"] is not None
    assert found.hypotheses["long"] == [""]


class Rated(Translator):
    """A model whose token probabilities are given by the target token alone."""

    def __init__(self, log_odds):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(len(VOCABULARY)))
        for word, value in log_odds.items():
            ((token,),) = VOCABULARY.encode([word])
            self.weight.data[token] = value

    def encode(self, source, mask):
        return Encoded((), (), ())

    def decode(self, encoded, target):
        return Output(self.weight.expand(*target.shape, -1), ())


@pytest.mark.parametrize("odds", [{"dog": 1.0}, {"man": 1.0}, {"dog": 1.0, "man": 1.0}, {}])
def test_a_model_that_ignores_the_source_wins_no_pair(odds):
    """It prefers one word in both halves, so it loses one of them; a tie is not a win."""
    (score,) = _contrasts(Rated(odds), CONTRASTS[:2], VOCABULARY)
    assert (score.value, score.n) == (0.0, 1)
