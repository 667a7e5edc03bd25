"""Initial values: arms share what they share, bit by bit; variances are the stated ones; matched logits have sd 1."""

from itertools import product

import legal_models
import model_cases as cases
import pytest
import torch

from study.config import experiment_from
from study.models import build, match_logits
from study.models.translator import PAD
from study.training.diagnostics import taps


def values(fields, seed=5):
    model = build(experiment_from({"model.width": 26, "model.attention.heads": 1}, cases.at(fields)).model, 23, seed)
    return dict(model.named_parameters())


def test_another_seed_differs_in_every_matrix():
    for fields in ({}, {"family": "transformer"}):
        first, second, again = values(fields), values(fields, 6), values(fields)
        for name in first:
            assert torch.equal(first[name], again[name])
            assert torch.equal(first[name], second[name]) == (first[name].ndim < 2), name


def test_variances_are_one_over_fan_in():
    wide = {"width": 192, "attention.heads": 3, "attention.score": "additive", "attention.additive_width": 160}
    transformer = values({"family": "transformer", **wide, "attention.key_width": 64, "attention.value_width": 128})
    recurrent = values({"encoder_width": 128, "attention.score": "bilinear", "width": 192})
    fan_in = {
        "source_embedding.weight": (transformer, 192),
        "unembedding.weight": (transformer, 192),
        "encoder.0.attention.map_query.weight": (transformer, 192),
        "encoder.1.feedforward.1.down.weight": (transformer, 768),
        "decoder.1.cross_attention.score.weight": (transformer, 64 + 64),
        "decoder.1.cross_attention.score.vector": (transformer, 160),
        "decoder.0.self_attention.combine.weight": (transformer, 3 * 128),
        "encoder.leftward.0.weight_hh_l0": (recurrent, 64),
        "bridges.0.weight": (recurrent, 128),
        "readout.weight": (recurrent, 128 + 192),
        "attention.score.weight": (recurrent, (192 + 128) / 2),
    }
    for name, (parameters, fan) in fan_in.items():
        sample = parameters[name].detach()
        assert sample.var() * fan == pytest.approx(1, abs=6 * (2 / sample.numel()) ** 0.5), name
        assert abs(sample.mean()) * fan**0.5 < 5 / sample.numel() ** 0.5, name
    for parameters in (transformer, recurrent):
        assert all(p.abs().max() == 0 for name, p in parameters.items() if ".bias" in name or name.endswith("bias"))
    assert transformer["encoder_norm.weight"].unique().tolist() == [1.0]


@pytest.mark.parametrize("family", ["recurrent", "transformer"])
def test_tied_embeddings_are_one_parameter(family):
    found = {}
    for tying, count in (("separate", 3), ("target", 2), ("shared", 1)):
        model = cases.model({"model.family": family, "model.width": 28, "model.embeddings": tying})
        weights = [model.source_embedding.weight, model.target_embedding.weight, model.unembedding.weight]
        assert len({id(weight) for weight in weights}) == count
        assert sum(p.shape == (cases.VOCABULARY, 28) for p in model.parameters()) == count
        found[tying] = model.target_embedding.weight
    assert found["shared"].equal(found["target"])


def logit_sds(model, source, target):
    """Standard deviation of the visible logits of three heads, by site and layer."""
    with torch.no_grad(), taps(model) as calls:
        model.decode(model.encode(source, source != PAD), target)
    return {
        site: torch.stack([torch.cat([_head(call, h) for call in seen]).std() for h in range(3)])
        for site, seen in calls.items()
    }


def _head(call, h):
    return call.logits[:, h][call.mask.expand_as(call.logits)[:, h]]


MATCHED = [
    {"score": "dot", "scale": "none", "key_width": 16},
    {"score": "dot", "scale": "none", "key_width": 1024},
    {"score": "dot", "scale": "learned", "key_width": 1024},
    {"score": "bilinear", "key_width": 31},
    {"score": "additive", "key_width": 16, "additive_width": 37},
    {"score": "cosine", "key_width": 16},
    {"score": "low_rank", "key_width": 16},
    {"score": "dot", "maps": "tied_signed", "key_width": 16},
]


LUONG = {"model.decoder": "luong", "model.input_feeding": True}


@pytest.mark.parametrize(
    ("family", "fields"),
    [*((cases.FAMILIES["transformer"], fields) for fields in MATCHED), *((LUONG, fields) for fields in MATCHED[1:5:3])],
    ids=str,
)
def test_matched_logits_have_standard_deviation_one_in_every_head(family, fields):
    model = cases.model(
        family,
        {"model.width": 26, "model.dropout": 0.3},
        cases.MULTI_HEAD,
        cases.at({"logit_init": "matched", **fields}, "model.attention."),
    )
    model.train()
    source, target = cases.batch()
    match_logits(model, source, source != PAD, target)
    assert model.training
    for site, sd in logit_sds(model.eval(), source, target).items():
        torch.testing.assert_close(sd, torch.ones(3).double(), rtol=2e-4, atol=0, msg=str(site))


@pytest.mark.parametrize("fields", [{}, {"model.memory": "final", "model.attention.weights": "sigmoid"}])
def test_matching_where_there_is_nothing_to_match_leaves_finite_values(fields):
    """One logit alone, of a query that is zero."""
    model = cases.model(
        {"model.init": "zero", "model.width": 26, "model.decoder": "bahdanau", **fields},
        {"model.attention.score": "bilinear", "model.attention.logit_init": "matched"},
    )
    source, target = cases.batch()
    match_logits(model, source[:1, :1], source[:1, :1] != PAD, target[:1, :1])
    assert all(parameter.isfinite().all() for parameter in model.parameters())


OTHERWISE = {  # the axes whose very point is another initial value of one parameter
    "embeddings": "unembedding.weight",
    "equal_start": "map_key.weight",
    "bilinear_init": "score.weight",
    "logit_init": ("map_query.weight", "map_key.weight"),
}


def arms(family):
    """Every value of every field, and two legal arms that differ in it alone, at one site where all sites refuse it."""
    axes = legal_models.axes(family)
    small = {"model.family": family, "model.width": 12, "model.attention.heads": 2}
    bases = [
        base for base in (small | companion for companion in legal_models.COMPANIONS) if legal_models.is_legal(base)
    ]
    for dotted, some in axes.items():
        axis = dotted.rpartition(".")[2]
        if dotted.count(".") == 3:
            continue
        at_a_site = [name for name in axes if name.count(".") == 3 and name.endswith(f".{axis}")]
        for value in some:
            pairs = ((base, base | {name: value}) for name, base in product([dotted, *at_a_site], bases))
            yield axis, value, next((pair for pair in pairs if legal_models.is_legal(pair[1])), ())


@pytest.mark.parametrize("family", cases.FAMILIES)
def test_two_arms_that_differ_in_one_field_start_bit_equal_in_all_that_they_share(family):
    """For every field and every value of it that the configuration knows."""
    cache = {}

    def start(fields):
        if str(fields) not in cache:
            cache[str(fields)] = dict(cases.model(fields).named_parameters())
        return cache[str(fields)]

    nowhere = set()
    for axis, value, pair in arms(family):
        if not pair:
            nowhere.add((axis, value))
            continue
        one, other = map(start, pair)
        same = {name for name in one.keys() & other.keys() if one[name].shape == other[name].shape}
        differing = {name for name in same if not torch.equal(one[name], other[name])}
        assert all(name.endswith(OTHERWISE.get(axis, "none")) for name in differing), (pair, differing)
        assert axis == "width" or len(same) > 7, pair
    hard = {("reach", "hard"), ("entropy_bonus", 0.0), ("entropy_bonus", 0.1)}  # of cross-attention alone
    assert nowhere == {"recurrent": {("exclude_self", True)}, "decoder_only": hard}.get(family, set())
