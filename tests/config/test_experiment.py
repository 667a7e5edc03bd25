"""How an experiment is laid out from what is given, and what is refused: each mistake is one line naming its field."""

import pytest
from pydantic import ValidationError

from study.config import Attention, Experiment, Recurrent, Transformer, experiment_from
from study.config.overrides import nested
from study.config.sites import TransformerSites
from study.errors import InputError


def test_the_base_arms() -> None:
    recurrent, transformer = (experiment_from({"model.family": f}).model for f in ("recurrent", "transformer"))
    assert isinstance(recurrent, Recurrent)
    assert isinstance(transformer, Transformer)
    assert recurrent.attention.cross == Attention(maps="raw", values="raw", output="raw", scale="rsqrt")
    assert transformer.attention.cross == Attention(heads=4, key_width=16, value_width=16, scale="rsqrt")
    assert transformer.attention.encoder_self == transformer.attention.decoder_self == transformer.attention.cross


def test_a_site_beats_what_is_shared() -> None:
    model = experiment_from(
        {
            "model.family": "transformer",
            "model.attention.cross.score": "additive",
            "model.attention.score": "bilinear",
            "model.attention.heads": 2,
            "model.attention.decoder_self.heads": 8,
        }
    ).model
    assert isinstance(model, Transformer)
    sites = model.attention
    scores = (sites.encoder_self.score, sites.decoder_self.score, sites.cross.score)
    assert scores == ("bilinear", "bilinear", "additive")
    assert (sites.encoder_self.heads, sites.decoder_self.heads, sites.cross.heads) == (2, 8, 2)
    assert (sites.encoder_self.key_width, sites.decoder_self.key_width) == (32, 8)
    assert (sites.encoder_self.scale, sites.cross.scale) == ("rsqrt", "none")
    assert (sites.encoder_self.additive_width, sites.cross.additive_width) == (None, 32)


def test_derived_sizes_follow_the_mechanism() -> None:
    fields = {"model.attention.score": "additive", "model.encoder_width": 96, "model.attention.key_width": 24}
    cross = experiment_from(fields, {"model.attention.maps": "separate"}).model.attention.cross
    assert (cross.key_width, cross.additive_width) == (24, 24)
    raw = experiment_from({"model.attention.score": "additive", "model.encoder_width": 96}).model.attention.cross
    assert (raw.key_width, raw.additive_width) == (None, 96)


def test_later_layers_win_whatever_their_form() -> None:
    experiment = experiment_from(
        {"model": {"width": 32, "layers": 2}, "seed": 1}, {"model.width": 48}, {"model": {"dropout": 0.5}}
    )
    assert (experiment.model.width, experiment.model.layers, experiment.model.dropout) == (48, 2, 0.5)
    assert nested({"a.b": 1, "a": {"c.d": 2}}) == {"a": {"b": 1, "c": {"d": 2}}}
    with pytest.raises(InputError, match=r"model\.width: model has a value"):
        nested({"model": "big", "model.width": 3})


def test_texts_become_values() -> None:
    experiment = experiment_from({"model.bidirectional": "false", "training.learning_rate": "1e-4", "seed": "3"})
    assert isinstance(experiment.model, Recurrent)
    assert (experiment.model.bidirectional, experiment.training.learning_rate, experiment.seed) == (False, 1e-4, 3)


def test_an_experiment_is_frozen() -> None:
    with pytest.raises(ValidationError):
        Experiment().seed = 2  # type: ignore[misc]


TRANSFORMER = {"model.family": "transformer"}
ONE = {"model.memory": "structured", "model.annotations": 1}
UNIFORM = {"model.attention.score": "uniform"}
REFUSED = [
    # a name
    ({"depth": 3}, "depth: there is no such field"),
    ({"model.depth": 3}, "model.depth: there is no such field"),
    ({"model.attention.depth": 3}, "model.attention: unknown site or field 'depth'"),
    ({"model.attention.cross.depth": 3}, "model.attention.cross.depth: there is no such field"),
    ({"model.attention.encoder_self.heads": 2}, "model.attention: unknown site or field 'encoder_self'"),
    ({"model.positions": "none"}, "model.positions: there is no such field"),
    # a value
    ({"model.family": "lstm"}, "model.family: expected one of 'recurrent', 'transformer', not 'lstm'"),
    ({"data.name": "wmt"}, "data.name: expected one of 'grammar', 'multi30k', "),
    ({"model.attention.score": "dots"}, "model.attention.cross.score: "),
    ({"model.attention.scale": "sqrt"}, "model.attention.cross.scale: "),
    ({"model.attention.heads": 0}, "model.attention.cross.heads: "),
    ({"model.attention.cross": 5}, "model.attention: cross takes fields"),
    ({"model.width": "wide"}, "model.width: "),
    ({"model.bidirectional": "maybe"}, "model.bidirectional: "),
    ({"model": "big"}, "model: "),
    ({"training.steps": 0}, "training.steps: "),
    ({"training.learning_rate": float("nan")}, "training.learning_rate: "),
    ({"training.precision": "float16"}, "training.precision: "),
    ({"seed": -1}, "seed: "),
    ({"protocol": 2}, "protocol: "),
    # sizes that do not fit
    ({"model.attention.heads": 3}, "model: attention.cross: 3 heads do not divide the width 64"),
    ({**TRANSFORMER, "model.attention.heads": 3}, "model: attention.encoder_self: 3 heads do not divide"),
    ({**TRANSFORMER, "model.attention.cross.heads": 5}, "model: attention.cross: 5 heads do not divide"),
    ({"model.encoder_width": 32}, "model: attention.cross: dot needs queries and keys of one size"),
    ({"model.width": 33}, "model: a bidirectional encoder halves its width"),
    ({**TRANSFORMER, "model.width": 33, "model.attention.heads": 1}, "model: sinusoidal positions need an even width"),
    (
        {"model.init": "direct", "model.encoder_width": 32, "model.attention.score": "additive"},
        "model: init direct needs encoder_width = width",
    ),
    # what the mechanism does not use
    ({"model.attention.key_width": 8}, "model.attention.cross: raw maps take the states as they are, so key_width"),
    ({"model.attention.value_width": 8}, "model.attention.cross: raw values take the states as they are"),
    ({"model.attention.additive_width": 8}, "model.attention.cross: additive_width belongs to score additive"),
    ({"model.attention.logit_init": "matched"}, "model.attention.cross: logit_init matched sets a parameter"),
    ({"model.decoder": "bahdanau", "model.input_feeding": True}, "model: input_feeding belongs to decoder luong"),
    ({**TRANSFORMER, "model.memory": "empty"}, "model.memory: memory empty leaves a transformer's decoder"),
    ({"data.vocabulary": 100}, "data: vocabulary is the size of a subword model"),
    ({"data.folder": "there"}, "data.folder: there is no such field"),
    # a section, a number, a name
    ({"data": "grammar"}, "data: a section of fields is expected, such as data.name, not 'grammar'"),
    ({"model": None}, "model: a section of fields is expected, such as model.family, not None"),
    ({"seed": True}, "seed is no question of true or false"),
    ({"training.steps": True}, "training: steps is no question of true or false"),
    ({"data.version": True}, "data: version is no question of true or false"),
    ({"seed": 2**31}, "seed: "),
    ({"data.seed": 2**31}, "data.seed: "),
    ({"trainer.threads": 0}, "trainer.threads: "),
    ({"data.test_pairs": 3}, "data.test_pairs: "),
    ({"out": ""}, "out: expected the name of a folder without null bytes, got ''"),
    ({"out": "https://example.org/runs"}, "out: expected a folder on this machine"),
    ({"out": "~no-such-user/runs"}, "out: expected a folder, got ~no-such-user/runs, and there is no such user"),
    ({"model.memory": "structured", "model.penalty": float("inf")}, "model.penalty: Input should be a finite number"),
    ({"model.layers": 1000}, "model.layers: Input should be less than or equal to 100"),
    ({"out": "a\0b"}, "out: expected the name of a folder without null bytes"),
    # what changes nothing
    ({"decoding.beam": 1, "decoding.length_penalty": 0.6}, "decoding: length_penalty 0.6 changes nothing: beam 1"),
    ({"training.warmup": 51, "training.steps": 50}, "training: a warmup of 51 updates does not end within steps 50"),
    ({"training.validate_every": 51, "training.steps": 50}, "training: validate_every 51 comes after the last of 50"),
    ({"model.memory": "final", "model.attention.score": "additive"}, "model: attention.cross: score additive changes "),
    ({"model.memory": "mean", "model.attention.weights": "sparsemax"}, "model: attention.cross: weights sparsemax ch"),
    ({"model.memory": "max", "model.attention.heads": 2}, "model: attention.cross: heads 2 changes nothing"),
    ({"model.memory": "empty", "model.attention.weights": "sigmoid"}, "model: attention.cross: weights sigmoid ch"),
    ({"model.memory": "mean", "model.attention.weights": "identity_mean"}, "model: attention.cross: identity_mean d"),
    ({**TRANSFORMER, "model.memory": "mean", "model.attention.cross.score": "cosine"}, "model: attention.cross: score"),
    ({**ONE, "model.attention.score": "additive"}, "model: attention.cross: score additive changes nothing: memory st"),
    ({**ONE, **TRANSFORMER, "model.attention.cross.scale": "none"}, "model: attention.cross: scale none changes not"),
    ({**ONE, "model.attention.reach": "hard"}, "model: attention.cross: reach hard chooses among slots"),
    ({"model.memory": "empty", "model.attention.values": "projected"}, "model: attention.cross: values projected ch"),
    (
        {
            "model.memory": "empty",
            "model.attention.output": "projected",
            "model.attention.heads": 2,
            "model.attention.combine": "sum_own",
        },
        "model: attention.cross: combine sum_own changes nothing",
    ),
    ({**UNIFORM, "model.attention.weights": "sparsemax"}, "model.attention.cross: score uniform gives every slot 1/S"),
    ({**UNIFORM, "model.attention.weights": "entmax15"}, "model.attention.cross: score uniform gives every slot 1/S"),
    ({**UNIFORM, "model.attention.weights": "identity_mean"}, "model.attention.cross: score uniform is 0"),
    ({**UNIFORM, "model.attention.maps": "separate"}, "model.attention.cross: score uniform reads neither"),
    (
        {**TRANSFORMER, "model.attention.score": "fixed_random", "model.attention.maps": "separate"},
        "model.attention.encoder_self: score fixed_random reads neither",
    ),
    (
        {**TRANSFORMER, "model.attention.cross.score": "uniform", "model.attention.cross.maps": "separate"},
        "model.attention.cross: score uniform reads neither",
    ),
    (
        {**TRANSFORMER, "model.attention.heads": 1, "model.attention.combine": "mean_shared"},
        "model.attention.encoder_self: combine mean_shared of one head is concat",
    ),
    (
        {**TRANSFORMER, "model.attention.heads": 1, "model.attention.combine": "sum_own"},
        "model.attention.encoder_self: combine sum_own of one head is concat; use combine concat, or more heads",
    ),
    (
        {"model.attention.combine": "sum_wide", "model.attention.values": "projected"},
        "model.attention.cross: combine sum_wide of one head is concat with output raw and value_width = D; use",
    ),
    # a choice that is no text
    ({"model.attention.score": ["dot"]}, "model.attention."),
    ({"model.memory": ["final"]}, "model.memory: "),
]


@pytest.mark.parametrize(("given", "says"), REFUSED, ids=[str(given) for given, _ in REFUSED])
def test_a_mistake_is_one_line_that_names_its_field(given: dict[str, object], says: str) -> None:
    with pytest.raises(InputError) as caught:
        experiment_from(given)
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


def test_a_short_run_needs_no_other_recipe() -> None:
    recipe = experiment_from({"training.steps": 5}).training
    assert experiment_from({"training": recipe.model_dump()}).training == recipe
    assert experiment_from({"training.steps": 5, "training.validate_every": 5}).training.validate_every == 5


def test_over_one_slot_what_decides_scores_goes_to_the_other_sites() -> None:
    given = {**TRANSFORMER, "model.memory": "final", "model.attention.score": "additive", "model.attention.heads": 2}
    sites = experiment_from(given).model.attention
    assert isinstance(sites, TransformerSites)
    assert (sites.encoder_self.score, sites.decoder_self.score, sites.cross.score) == ("additive", "additive", "dot")
    assert {sites.encoder_self.heads, sites.decoder_self.heads, sites.cross.heads} == {2}
    single = {"model.memory": "structured", "model.annotations": "1"}
    assert experiment_from(given, single).model.attention == sites
    own = experiment_from(given, {"model.attention.decoder_self.score": "cosine"}).model.attention
    assert (own.encoder_self.score, own.decoder_self.score) == ("additive", "cosine")  # type: ignore[union-attr]
    assert experiment_from(given, {"model.mixing": "convolution"}).model.attention.encoder_self is None  # type: ignore[union-attr]


def test_maps_of_all_sites_pass_by_a_site_that_reads_none() -> None:
    given = {**TRANSFORMER, "model.attention.cross.score": "uniform", "model.attention.maps": "tied"}
    with pytest.raises(InputError, match="reads neither query nor key, so maps tied"):
        experiment_from(given, {"model.attention.cross.maps": "tied"})
    sites = experiment_from(given).model.attention
    assert (sites.decoder_self.maps, sites.cross.maps) == ("tied", "raw")  # type: ignore[union-attr]
    assert experiment_from(given, {"model.attention.maps": "separate"}).model.attention.cross.maps == "raw"


def test_over_one_slot_scores_stay_where_weights_are_not_normalised() -> None:
    given = {"model.memory": "final", "model.attention.weights": "sigmoid", "model.attention.score": "additive"}
    assert experiment_from(given).model.attention.cross.score == "additive"
    assert experiment_from(given, TRANSFORMER).model.attention.cross.score == "additive"
    narrow = {"model.memory": "mean", "model.encoder_width": 96, "model.attention.maps": "separate"}
    assert experiment_from(narrow).model.attention.cross.maps == "separate", "raw dot products need states of one width"
