"""Attention as an alignment: pooling, links, mass and floor by hand; models whose window is where they look."""

import numpy as np
import pytest

from study.attention import Lengths
from study.config import experiment_from
from study.corpora import Link, Pair, load
from study.models import build
from study.training.alignment import (
    Choice,
    Words,
    alignment_error,
    alignment_scores,
    attends,
    choose,
    error_floor,
    gold_argmax,
    gold_mass,
    links,
    pooled,
    readings,
    validation_error,
)
from study.training.batches import Example, collate, examples
from study.training.diagnostics import observe
from study.training.vocabulary import Words as WordTokens

TEXTS = ["a", "a b", "a b c d e", "b c d"]
PAIRS = [Pair(text, text, tuple(Link(i, i) for i in range(len(text.split())))) for text in TEXTS]
VOCABULARY = WordTokens.learn(TEXTS)


def model(**fields):
    experiment = experiment_from({"model.width": 12}, {f"model.{name}": value for name, value in fields.items()})
    return build(experiment.model, len(VOCABULARY), 1, Lengths(9, 7)).eval()


def whole(weights, visible=True):
    """A sentence of one head."""
    token = np.array([weights])
    return Words(token, np.abs(token), np.broadcast_to(np.asarray(visible), token.shape))


def test_tokens_are_pooled_by_hand():
    """Two source words of tokens 0 | 1 2, two target words of tokens 0 1 | 2; the last row and column are EOS."""
    weights = np.array([[[0.1, 0.2, 0.3, 0.4], [0.7, 0.0, 0.1, 0.2], [0.0, -0.6, 0.2, 0.0], [0.9, 0.1, 0.0, 0.0]]])
    visible = np.ones((1, 4, 4), dtype=bool)
    visible[:, 2, 0] = False
    words = pooled(weights, visible, [0, 1, 1], [0, 0, 1])
    np.testing.assert_allclose(words.weights, [[[0.4, 0.3], [0.0, -0.4]]])
    np.testing.assert_allclose(words.share, [[[0.4, 0.3], [0.0, 1.0]]])  # (.6 + .2) / .8 in the last
    assert words.visible.tolist() == [[[True, True], [False, True]]]
    assert links(words.of(0)) == {(0, 0), (1, 1)}
    assert pooled(weights, visible, [], []).weights.shape == (1, 0, 0)
    alone = pooled(weights, visible, [0, 1, 2], [0, 1, 2])
    assert np.array_equal(alone.weights, weights[:, :3, :3])
    np.testing.assert_allclose(alone.share[0, 2], [0.0, 0.75, 0.25])
    assert np.array_equal(alone.visible, visible[:, :3, :3])


def test_a_link_is_the_largest_visible_weight_of_whatever_sign():
    reading = whole(
        [[0.0, -0.2, -0.1], [-3.0, -1.0, 0.0], [0.0, 0.0, 0.0], [0.5, -0.5, 0.0]],
        [[False, True, True], [True, True, False], [False] * 3, [True, True, False]],
    )
    assert links(reading.of(0)) == {(2, 0), (1, 1), (0, 3)}, "the third sees nothing; the fourth sums to 0"
    assert links(Words(*(np.zeros((0, 4)) for _ in range(3)))) == set()


def test_mass_and_floor_by_hand():
    read = [whole([[0.7, 0.1], [0.2, 0.3], [0.5, 0.5]]), whole([[0.4]])]
    gold = [[Link(0, 0), Link(0, 1, sure=False), Link(1, 1)], [Link(0, 0)]]
    assert gold_mass(read, gold) == pytest.approx((0.7 + 0.5 + 0.4) / 3)  # the third word has no gold
    assert gold_mass(read, [[], []]) is None
    data = [Example([], [], Pair("x y", "u v w")), Example([], [], Pair("x", "u"))]
    # Four links; of the three sure ones all are found, each possible too, and the link of w is wrong.
    assert error_floor(data, gold) == pytest.approx(1 - (3 + 3) / (4 + 3))
    assert error_floor(data, [[Link(0, 0), Link(1, 0), Link(0, 1, sure=False), Link(1, 2)], [Link(0, 0)]]) == (
        pytest.approx(1 - (3 + 4) / (4 + 4))
    )


def test_heads_and_their_mean_are_told_apart():
    """Head 1 of layer 0 is right; of the means that of layer 1 is; nothing else is."""
    right, wrong = np.eye(2), np.eye(2)[::-1]
    layers = {0: [2.0 * wrong, right], 1: [0.5 * wrong, 0.4 * wrong + 0.1, right + 0.1]}
    layers[0].append(wrong)
    found = {
        at: [Words(np.stack(heads), np.stack(heads) / 2, np.ones((3, 2, 2), bool))] for at, heads in layers.items()
    }
    found[1][0].weights[1] = 0.0
    data = [Example([4, 5], [4, 5], PAIRS[1])]
    gold = [PAIRS[1].alignment or ()]
    assert alignment_error(found[0], gold) == 1
    assert alignment_error(found[0], gold, 1) == alignment_error(found[1], gold) == 0
    choice = choose(found, data)
    assert choice == Choice((1, None), (0, 1))
    scores = {s.metric: s for s in alignment_scores(found, data, "test", choice)}
    assert scores["aer"].signature == scores["gold_mass"].signature == "layer:1|heads:mean"
    assert scores["aer_best_head"].signature == "layer:0|head:1"
    assert [scores[m].value for m in ("aer", "aer_best_head", "aer_floor")] == [0, 0, 0]


DIAGONAL = {"attention.cross.reach": "local_m", "attention.cross.window": 0}


@pytest.mark.parametrize(
    "fields",
    [
        {"family": "recurrent", "decoder": "bahdanau", "attention.weights": "identity"},
        {"family": "transformer", "attention.heads": 3, "attention.cross.weights": "identity"},
    ],
    ids=lambda fields: "-".join(map(str, fields.values())),
)
def test_a_window_of_one_slot_aligns_the_diagonal_whatever_it_has_learned(fields):
    """Untrained, so that signed weights are of both signs, in one batch with padding."""
    translator = model(**fields, **DIAGONAL)
    data = examples(PAIRS, VOCABULARY)
    found = readings(translator, data, VOCABULARY)
    for layer, read in found.items():
        for pair, reading in zip(PAIRS, read, strict=True):
            assert links(reading.of(None)) == {(i, i) for i in range(len(pair.source.split()))}, layer
    choice = choose(found, data)
    assert choice == Choice((0, None), (0, 0))
    scores = {s.metric: s.value for s in alignment_scores(found, data, "test", choice)}
    wanted = {"aer": 0, "gold_mass": 1, "aer_floor": 0, "aer_best_head": 0}
    if fields["family"] == "recurrent":
        del wanted["aer_best_head"]
    assert scores == pytest.approx(wanted)


@pytest.mark.parametrize("weights", ["softmax", "identity"])
def test_alignment_passes_through_annotations(weights):
    """Their slots are no tokens: what a slot is made of is linked, and padding is not."""
    translator = model(memory="structured", annotations=3, **{"attention.weights": weights})
    data = examples(PAIRS, VOCABULARY)
    together = readings(translator, data, VOCABULARY)[0]
    for i, example in enumerate(data):
        (alone,) = readings(translator, [example], VOCABULARY)[0]
        assert together[i].visible.all()
        assert together[i].weights.shape == (1, len(example.target), len(example.source))
        for one, other in zip(together[i], alone, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-4)
    totals = [reading.share.sum(-1) for reading in together]
    assert all((total < 1).all() and (total > 0).all() for total in totals), "the rest is on end-of-sentence"


def test_without_gold_or_tokens_there_is_nothing_to_choose():
    bare = examples([Pair(pair.source, pair.target) for pair in PAIRS], VOCABULARY)
    found = readings(model(), bare, VOCABULARY)
    assert choose(found, bare) == Choice((0, None), None), "the last layer"
    data = examples(PAIRS, VOCABULARY)
    assert choose(readings(model(memory="mean"), data, VOCABULARY), data) is None
    assert alignment_scores(found, bare, "test", Choice((0, None), (0, 0))) == []


GRAPH = load(experiment_from({"data.name": "graph", "data.train_pairs": 40, "data.test_pairs": 30}).data)
GRAPHS = WordTokens.learn([side for pair in GRAPH.splits["train"] for side in (pair.source, pair.target)])
MODEL = {"model.family": "transformer", "model.layers": 2, "model.attention.heads": 4, "model.width": 24}


def test_attention_scored_on_who_attends_to_whom():
    model = build(experiment_from(MODEL).model, len(GRAPHS), 1).eval()
    data = {split: examples(GRAPH.splits[split][:20], GRAPHS) for split in ("valid", "test")}
    scores = {s.split: s for s in attends(model, data, data["valid"], GRAPHS)}
    shares = {}
    for (site, layer), observation in observe(model, collate(data["valid"])).items():
        if site == "encoder_self":
            largest = observation.weights.mean(1).argmax(-1)
            links = [
                (b, link.target, link.source) for b, e in enumerate(data["valid"]) for link in e.pair.attends or ()
            ]  # a word with gold has one link
            shares[layer] = sum(int(largest[b, t]) == s for b, t, s in links) / len(links)
    best = max(shares, key=lambda layer: shares[layer])
    assert scores["valid"].value == pytest.approx(100 * shares[best])
    assert scores["test"].signature == f"layer:{best}|heads:mean|version:1"
    recurrent = build(experiment_from({"model.width": 24}).model, len(GRAPHS), 1).eval()
    assert attends(recurrent, data, data["valid"], GRAPHS) == []


def test_mass_and_argmax_on_gold_by_hand():
    heads = np.array([[[0.2, 0.8], [0.6, 0.4]], [[0.7, 0.3], [0.6, 0.4]]])
    found, gold = [Words(heads, heads, heads > 0)], [(Link(1, 0), Link(0, 1), Link(1, 1))]
    # word 0: mean row [.45, .55], gold 1; word 1: [.6, .4], gold both
    assert gold_mass(found, gold) == pytest.approx((0.55 + 1.0) / 2)
    assert gold_argmax(found, gold) == 1.0
    assert gold_argmax([Words(*(part[1:] for part in found[0]))], gold) == 0.5
    even = np.full((1, 1, 4), 0.25)
    assert gold_argmax([Words(even, even, even > 0)], [(Link(2, 0),)]) == 0.25, "equal weights share the word"


def test_validations_error_rate_is_that_of_alignment():
    model = build(experiment_from(MODEL).model, len(GRAPHS), 1).eval()
    data = examples(GRAPH.splits["valid"][:20], GRAPHS)
    batch = collate(data)
    rate = validation_error(observe(model, batch), batch, data, GRAPHS)
    links = [example.pair.alignment or () for example in data]
    assert rate == min(alignment_error(found, links) for found in readings(model, data, GRAPHS).values())
