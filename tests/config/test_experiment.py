"""Experiments from layers of fields, and refusals: each mistake is one line naming its field."""

import pytest

from study.config import experiment_from
from study.config.overrides import nested
from study.errors import InputError


def test_a_site_beats_what_is_shared():
    shared = {"model.family": "transformer", "model.attention.score": "bilinear", "model.attention.heads": 2}
    own = {"model.attention.cross.score": "additive", "model.attention.decoder_self.heads": 8}
    sites = experiment_from(own | shared).model.attention
    scores = (sites.encoder_self.score, sites.decoder_self.score, sites.cross.score)
    assert scores == ("bilinear", "bilinear", "additive")
    assert (sites.encoder_self.heads, sites.decoder_self.heads, sites.cross.heads) == (2, 8, 2)
    assert (sites.encoder_self.key_width, sites.decoder_self.key_width) == (32, 8)
    assert (sites.encoder_self.scale, sites.cross.scale) == ("rsqrt", "none")
    assert (sites.encoder_self.additive_width, sites.cross.additive_width) == (None, 32)


def test_derived_sizes_follow_the_mechanism():
    fields = {"model.attention.score": "additive", "model.encoder_width": 96, "model.attention.key_width": 24}
    cross = experiment_from(fields, {"model.attention.maps": "separate"}).model.attention.cross
    assert (cross.key_width, cross.additive_width) == (24, 24)
    raw = experiment_from({"model.attention.score": "additive", "model.encoder_width": 96}).model.attention.cross
    assert (raw.key_width, raw.additive_width) == (None, 96)


def test_later_layers_win_whatever_their_form():
    experiment = experiment_from(
        {"model": {"width": 32, "layers": 2}, "seed": 1}, {"model.width": 48}, {"model": {"dropout": 0.5}}
    )
    assert (experiment.model.width, experiment.model.layers, experiment.model.dropout) == (48, 2, 0.5)
    assert nested({"a.b": 1, "a": {"c.d": 2}}) == {"a": {"b": 1, "c": {"d": 2}}}
    with pytest.raises(InputError, match=r"model\.width: expected a section model, got a value"):
        nested({"model": "big", "model.width": 3})


TRANSFORMER = {"model.family": "transformer"}
ONE = {"model.memory": "structured", "model.annotations": 1}
UNIFORM = {"model.attention.score": "uniform"}
REFUSED = [
    ({"depth": 3}, "depth: no such field"),
    ({"model.depth": 3}, "model.depth: no such field."),
    ({"model.attention.encoder_self.heads": 2}, "model.attention.encoder_self: no such field"),
    (
        {"model.positions": "none"},
        "model.positions: expected with model.family transformer or decoder_only, got recurrent. Remove it",
    ),
    ({"data.folder": "there"}, "data.folder: expected with data.name multi30k or files, got grammar."),
    ({"model.family": "lstm"}, "model: Input tag 'lstm' found using 'family' does not match"),
    ({"model.attention.cross.scale": "sqrt"}, "model.attention.cross.scale: expected rsqrt, none, "),
    ({"model.width": "wide"}, "model.width: expected a valid integer"),
    ({"model.layers": 1000}, "model.layers: expected less than or equal to 100, got 1000."),
    ({"seed": True}, "seed: expected a value that is not true or false, got true."),
    ({"data": "grammar"}, "data: "),
    ({"out": ""}, "out: expected a file or folder on this machine, got ''"),
    ({"model.attention.score": ["dot"]}, "model.attention."),
    ({"model.attention.heads": 3}, "model.attention.heads: expected a divisor of the width 64 (1, 2, 4, "),
    ({"model.width": 33}, "model.encoder_width: expected an even width"),
    ({**TRANSFORMER, "model.width": 33, "model.attention.heads": 1}, "model.width: expected an even width"),
    ({"model.init": "direct", "model.encoder_width": 32, "model.attention.score": "additive"}, "model.encoder_width: "),
    ({"model.attention.key_width": 8}, "model.attention.key_width: expected none with score dot and maps raw, got 8."),
    ({"model.attention.logit_init": "matched"}, "model.attention.logit_init: matched sets a parameter"),
    ({"model.decoder": "bahdanau", "model.input_feeding": True}, "model.input_feeding: expected decoder luong, "),
    ({"data.vocabulary": 100}, "data.vocabulary: expected tokens subwords, got tokens words."),
    ({"decoding.beam": 1, "decoding.length_penalty": 0.6}, "decoding.length_penalty: expected none with beam 1"),
    ({"training.warmup": 51, "training.steps": 50}, "training.warmup: expected at most steps (50), got 51."),
    ({"model.memory": "final", "model.attention.score": "additive"}, "model.attention.score: additive has no effect"),
    ({"model.memory": "empty", "model.attention.weights": "sigmoid"}, "model.attention.weights: sigmoid has no effect"),
    ({**TRANSFORMER, "model.memory": "mean", "model.attention.score": "cosine"}, "model.attention.score: cosine has"),
    ({**TRANSFORMER, **ONE, "model.attention.cross.scale": "none"}, "model.attention.cross.scale: none has no effect"),
    ({**ONE, "model.attention.reach": "hard"}, "model.attention.reach: hard expected a memory of several"),
    ({"model.memory": "empty", "model.attention.values": "projected"}, "model.attention.values: projected has no"),
    ({**UNIFORM, "model.attention.weights": "sparsemax"}, "model.attention.weights: "),
    ({**UNIFORM, "model.attention.maps": "separate"}, "model.attention.maps: expected none with score uniform"),
    ({"preset": "luong2015_dott"}, "preset: expected bahdanau2015, "),
    ({"preset": "vaswani2017", "model.family": "recurrent"}, "model.positions: expected with model.family transformer"),
]


@pytest.mark.parametrize(("given", "says"), REFUSED, ids=[str(given) for given, _ in REFUSED])
def test_a_mistake_is_one_line_that_names_its_field(given, says):
    with pytest.raises(InputError) as caught:
        experiment_from(given)
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


def test_over_one_slot_scores_stay_where_weights_are_not_normalised():
    given = {"model.memory": "final", "model.attention.weights": "sigmoid", "model.attention.score": "additive"}
    assert experiment_from(given).model.attention.cross.score == "additive"
    assert experiment_from(given, TRANSFORMER).model.attention.cross.score == "additive"
    narrow = {"model.memory": "mean", "model.encoder_width": 96, "model.attention.maps": "separate"}
    assert experiment_from(narrow).model.attention.cross.maps == "separate", "raw dot products need states of one width"
