"""Identities of mechanisms: functions that are equal, and values that start equal."""

import pytest
import torch
from attention_sites import DQ, A, H, K, V, close, context, inputs, seen, site
from pydantic import ValidationError

from study.attention.combine import Combine
from study.config import AttentionConfig as Config
from study.config.mechanisms import COMBINE


def put(attention, **values):
    """Set parameters; a double underscore stands for the point in their names."""
    with torch.no_grad():
        for name, value in values.items():
            attention.get_parameter(name.replace("__", ".")).copy_(value)
    return attention


def weight(attention, name):
    return attention.get_parameter(name).detach()


def same_logits(one, other, equal_widths=False):
    data = inputs(DQ, DQ) if equal_widths else inputs()
    close(seen(one, *data).logits, seen(other, *data).logits)


def self_logits(attention):
    _, states, mask = inputs(DQ, DQ)
    return seen(attention, states, states, mask).logits


def test_bilinear_that_starts_as_the_identity_is_dot():
    same_logits(site(score="bilinear", bilinear_init="identity", key_width=K), site(key_width=K))


def test_concat_without_bias_is_additive_and_concat_luong_is_concat_with_the_identity():
    additive, concat = site(score="additive", additive_width=A), site(score="concat", additive_width=A)
    same_logits(additive, put(concat, score__bias=torch.zeros(H, A)))
    luong = site(score="concat_luong", key_width=K)
    whole = site(score="concat", key_width=K)
    close(weight(whole, "score.weight")[..., :K], weight(luong, "score.weight"))
    frozen = torch.cat([weight(luong, "score.weight"), torch.eye(K).double().expand(H, K, K)], -1)
    same_logits(luong, put(whole, score__weight=frozen))


@pytest.mark.parametrize(("scale", "ratio"), [("rsqrt", 2), ("inverse", 4)])
@pytest.mark.parametrize("maps", ["separate", "tied", "tied_signed"])
def test_unscaled_logits_that_start_as_with_the_scale_are_the_scaled_ones(maps, scale, ratio):
    fields = {"key_width": 16, "maps": maps}  # 16^¼ = 2 and √16 = 4: no rounding, also in float32
    data = inputs(DQ, DQ)
    one, other = site(DQ, DQ, scale="none", logit_init=scale, **fields), site(DQ, DQ, scale=scale, **fields)
    close(seen(one, *data).logits, seen(other, *data).logits)
    close(weight(one, "map_query.weight") * ratio, weight(other, "map_query.weight"))


def test_tied_and_raw_scores_are_symmetric_and_positive_and_signed_ones_only_symmetric():
    for fields in ({"maps": "tied"}, {"maps": "raw"}, {"maps": "tied_signed"}):
        logits = self_logits(site(DQ, DQ, **fields))
        close(logits, logits.transpose(-1, -2))
        lowest = torch.linalg.eigvalsh(logits)[..., 0].max()
        assert (lowest > -1e-10) == (fields["maps"] != "tied_signed")
    separate = self_logits(site(DQ, DQ))
    assert (separate - separate.transpose(-1, -2)).abs().max() > 0.1


def test_signed_with_positive_signs_is_tied():
    tied, signed = (site(DQ, DQ, maps=maps, key_width=K) for maps in ("tied", "tied_signed"))
    sign = signed.get_buffer("map_key.sign")
    assert sign.tolist() == [1.0, -1.0] * (K // 2) + [1.0]
    sign.fill_(1.0)
    same_logits(tied, signed, equal_widths=True)


def test_equal_start_is_tied_at_step_0_and_not_after():
    tied, equal = site(DQ, DQ, maps="tied"), site(DQ, DQ, equal_start=True)
    same_logits(tied, equal, equal_widths=True)
    assert sum(p.numel() for p in equal.parameters()) - sum(p.numel() for p in tied.parameters()) == DQ * DQ


def test_combinations():
    data = inputs()
    concat, own, shared, mean, wide = (
        site(value_width=None if combine == "sum_wide" else V, combine=combine)
        for combine in ("concat", "sum_own", "sum_shared", "mean_shared", "sum_wide")
    )
    out = weight(concat, "combine.weight")
    close(context(concat, *data), context(own, *data))
    close(out[0], weight(shared, "combine.weight"))
    assert shared.get_parameter("combine.weight").numel() == V * DQ
    close(context(shared, *data), context(mean, *data) * H)
    close(context(put(concat, combine__weight=out[0].expand_as(out)), *data), context(shared, *data))
    own_values = torch.einsum("hvk,hvd->hdk", weight(own, "map_value.weight"), weight(own, "combine.weight"))
    close(context(put(wide, map_value__weight=own_values), *data), context(own, *data))


@pytest.mark.parametrize("combine", [name for name, row in COMBINE.items() if row.alone])
def test_a_combination_of_one_head_is_what_its_refusal_names(combine):
    """The configuration refuses one function under two names."""
    data = inputs()
    raw = {"output": "raw", "value_width": DQ} if COMBINE[combine].wide else {}
    base, other = site(heads=1, **raw), site(heads=1, **raw)
    with pytest.raises(ValidationError, match=f"combine: {combine} of one head is {COMBINE[combine].alone}."):
        Config(combine=combine)
    other.combine = Combine.named(combine)(1, DQ, DQ).double()
    with torch.no_grad():
        other.combine.start()
    if not raw:
        out = weight(base, "combine.weight")
        put(other, combine__weight=out.view_as(other.get_parameter("combine.weight")))
    close(context(base, *data), context(other, *data))
