"""Mechanisms since 2017 against references of their own in float64, and identities that join them to the others.

The references are written from the papers with loops, complex numbers and einsum, and use nothing of the package.
"""

import math

import pytest
import torch
from attention_sites import LENGTHS, B, H, S, close, context, inputs, seen, site
from torch.nn import functional as F

from study.attention import View
from study.attention.positions import Positions
from study.config import AttentionConfig as Config
from study.config import experiment_from
from study.models import build
from study.models.cost import Sizes, cost

K = 16
D = H * K
RELATIVE = ("rope", "alibi", "t5")


def positions(name, causal=False, heads=H):
    """Positions in float64, with numbers in the table of T5."""
    built = Positions.named(name)(D, heads, causal, LENGTHS).double()
    for table in built.parameters():
        table.data.copy_(torch.randn(table.shape, generator=torch.Generator().manual_seed(8)))
    return built


def at(causal, count=S):
    """Self-attention's view of two sentences, the second one of half the length."""
    mask = inputs(D, D, slots=count)[2][:, None, None]
    return View(mask & torch.ones(count, count, dtype=torch.bool).tril() if causal else mask, torch.arange(count))


def call(attention, causal=False):
    _, states, mask = inputs(D, D)
    return seen(attention, states, states, mask, at(causal))


def softmax(logits, mask):
    weights = logits.exp() * mask
    return weights / weights.sum(-1, keepdim=True)


def heads_of(attention, states):
    """Queries, keys and values as the stored matrices give them."""
    p = dict(attention.named_parameters())
    return tuple(torch.einsum("btd,hkd->bhtk", states, p[f"map_{x}.weight"]) for x in ("query", "key", "value"))


def t5_bucket(offset, causal):
    """Bucket of slot − query, after the code of the paper."""
    count, bucket = (32, 0) if causal else (16, 16 if offset > 0 else 0)
    distance = max(-offset, 0) if causal else abs(offset)
    if distance < count // 2:
        return bucket + distance
    far = math.log(distance / (count // 2)) / math.log(128 / (count // 2)) * (count - count // 2)
    return bucket + min(count // 2 + int(far), count - 1)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", RELATIVE)
def test_relative_positions_are_their_definition(name, causal):
    count = 150  # past the farthest bucket
    given = positions(name, causal)
    attention = site(D, D, positions=given, key_width=K)
    states, mask = inputs(D, D, count, count)[1], torch.ones(B, count, dtype=torch.bool)
    found = seen(attention, states, states, mask, View(at(causal, count).mask | True, torch.arange(count)))
    q, k, _ = heads_of(attention, states)
    if name == "rope":
        angle = torch.arange(count).double()[:, None] * 10000.0 ** (-2 * torch.arange(K // 2).double() / K)
        q, k = (torch.view_as_complex(x.unflatten(-1, (-1, 2))) * torch.polar(angle * 0 + 1, angle) for x in (q, k))
        wanted = torch.einsum("bhtk,bhsk->bhts", q, k.conj()).real / math.sqrt(K)
    else:
        offset = torch.arange(count) - torch.arange(count)[:, None]
        bias = torch.stack([-(2 ** (-8 * (h + 1) / H)) * offset.abs() for h in range(H)]).double()
        if name == "t5":
            bucket = torch.tensor([t5_bucket(distance, causal) for distance in range(1 - count, count)])
            bias = given.get_parameter("bias_of")[:, bucket[offset + count - 1]]
        wanted = torch.einsum("bhtk,bhsk->bhts", q, k) / math.sqrt(K) + bias
    torch.testing.assert_close(found.logits, wanted, rtol=1e-6, atol=1e-6 if name == "alibi" else 1e-9)


def test_t5_starts_at_0_and_is_one_table_for_all_layers():
    model = build(experiment_from({"model.family": "transformer", "model.positions": "t5"}).model, 13, 1, LENGTHS)
    tables = {name: p for name, p in model.named_parameters() if "positions" in name}
    assert {name: tuple(p.shape) for name, p in tables.items()} == {
        "source_positions.bias_of": (4, 32),
        "target_positions.bias_of": (4, 32),
    }
    assert all(not p.any() for p in tables.values())
    assert len({id(a.positions) for name, _, a in model.sites() if name == "encoder_self"}) == 1
    assert all(a.positions is None for name, _, a in model.sites() if name == "cross")


def test_rms_norm_is_its_definition_and_with_gains_of_1_the_cosine():
    attention = site(D, D, norm="rms", key_width=K)
    gains = [attention.get_parameter(f"norm.of_{x}") for x in ("query", "key")]
    assert all(torch.equal(gain, torch.ones(H, K).double()) for gain in gains)
    cosine = site(D, D, score="cosine", scale="none", key_width=K)
    torch.testing.assert_close(call(attention).logits, call(cosine).logits * math.sqrt(K), rtol=1e-4, atol=1e-5)
    for gain in gains:
        gain.data.uniform_(0.5, 2, generator=torch.Generator().manual_seed(3))
    q, k, _ = heads_of(attention, inputs(D, D)[1])
    q, k = (
        g.detach()[:, None] * x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()
        for g, x in zip(gains, (q, k), strict=True)
    )
    close(call(attention).logits, torch.einsum("bhtk,bhsk->bhts", q, k) / math.sqrt(K))


@pytest.mark.parametrize("maps", ["tied", "tied_signed"])
def test_tied_maps_have_one_gain_and_stay_symmetric(maps):
    attention = site(D, D, norm="rms", maps=maps)
    attention.get_parameter("norm.of_query").data.uniform_(0.5, 2)
    logits = call(attention).logits
    close(logits, logits.transpose(-1, -2))
    assert [name for name, _ in attention.norm.named_parameters()] == ["of_query"]


def test_scale_by_the_logarithm_of_visible_slots():
    attention = site(D, D, scale="log_length", key_width=K)
    factor = attention.get_parameter("scale.factor")
    mean = sum(math.log(n) for n in range(1, LENGTHS.typical + 1)) / LENGTHS.typical
    assert factor.tolist() == pytest.approx([1 / mean] * H)
    factor.data.copy_(torch.tensor([0.3, 0.7, 1.1]))
    q, k, _ = heads_of(attention, inputs(D, D)[1])
    for causal in (False, True):
        visible = at(causal).mask.sum(-1, keepdim=True).clamp(min=1).double()
        wanted = torch.einsum("bhtk,bhsk,h->bhts", q, k, factor.detach()) * visible.log() / math.sqrt(K)
        close(call(attention, causal).logits, wanted)


def test_a_cap_is_c_tanh_and_a_large_one_nothing():
    plain, capped, wide = (site(D, D, **fields) for fields in ({}, {"logits": "cap", "cap": 0.5}, CAP))
    close(call(capped).logits, 0.5 * torch.tanh(call(plain).logits / 0.5))
    torch.testing.assert_close(call(wide).logits, call(plain).logits, rtol=1e-9, atol=1e-9)
    assert Config(logits="cap").resolved(D, D).cap == 50


CAP = {"logits": "cap", "cap": 1e6}


@pytest.mark.parametrize("weights", ["softmax_one", "sink"])
def test_weights_with_a_rest_are_softmax_with_one_more_slot(weights):
    attention = site(D, D, weights=weights)
    rest = torch.zeros(H, dtype=torch.float64)
    if weights == "sink":
        assert not attention.get_parameter("weights.logit").any()
        rest = torch.tensor([-1.0, 0.5, 2.0]).double()
        attention.get_parameter("weights.logit").data.copy_(rest)
    found = call(attention)
    mask = at(False).mask
    exp = found.logits.exp() * mask
    close(found.weights, exp / (rest.exp()[:, None, None] + exp.sum(-1, keepdim=True)))
    extra = torch.cat([found.logits, rest[:, None, None].expand(B, -1, S, 1)], -1)
    close(found.weights, softmax(extra, F.pad(mask, (0, 1), value=True))[..., :-1])


def test_the_normalised_kernel_is_linear_attention():
    attention = site(D, D, score="elu_kernel", weights="normalised", key_width=K)
    q, k, v = heads_of(attention, inputs(D, D)[1])
    q, k = (torch.where(x > 0, x + 1, x.exp()) for x in (q, k))
    wanted = torch.zeros(B, H, S, v.shape[-1], dtype=torch.float64)
    for b in range(B):  # linear attention: Σ φ(k) vᵀ and Σ φ(k) are sums of the past
        state, total = torch.zeros(H, K, v.shape[-1]).double(), torch.zeros(H, K).double()
        for s in range(S):
            if inputs(D, D)[2][b, s]:
                state = state + torch.einsum("hk,hv->hkv", k[b, :, s], v[b, :, s])
                total = total + k[b, :, s]
            wanted[b, :, s] = torch.einsum("hk,hkv->hv", q[b, :, s], state) / (q[b, :, s] * total).sum(-1)[:, None]
    close(call(attention, causal=True).heads, wanted)


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_groups_are_heads_that_share_keys_and_values(groups):
    fields = {"heads": 4, "key_width": 5, "value_width": 7}
    grouped, plain = site(D, D, groups=groups, **fields), site(D, D, **fields)
    assert (grouped.config.groups is None) == (groups == 4)
    for name in ("map_key.weight", "map_value.weight"):
        few, many = grouped.get_parameter(name), plain.get_parameter(name)
        assert len(few) == groups
        assert torch.equal(few, many[:groups])
        many.data.copy_(few.detach().repeat_interleave(4 // groups, 0))
    data = inputs(D, D)
    close(context(grouped, *data), context(plain, *data))
    smaller = grouped.reduced([3, 1])
    assert len(smaller.get_parameter("map_key.weight")) == min(groups, 2)
    close(context(smaller, *data), context(plain.reduced([3, 1]), *data))


def test_values_that_are_keys():
    shared, plain = site(D, D, values="keys", key_width=K, norm="rms"), site(D, D, value_width=K, norm="rms")
    plain.get_parameter("map_value.weight").data.copy_(plain.get_parameter("map_key.weight"))
    data = inputs(D, D)
    close(context(shared, *data), context(plain, *data))
    count = sum(p.numel() for p in shared.parameters())
    assert sum(p.numel() for p in plain.parameters()) - count == H * K * D


def test_a_gate_reads_the_state_of_the_query():
    gated, plain = site(D, D, combine="gate"), site(D, D)
    query, states, mask = inputs(D, D)
    weight = gated.get_parameter("combine.gate.weight")
    assert weight.shape == (H, K, D)
    opened = torch.einsum("bld,hvd->bhlv", query, weight.detach()).sigmoid()
    close(seen(gated, query, states, mask).heads, seen(plain, query, states, mask).heads * opened)
    weight.data.zero_()
    close(context(gated, query, states, mask), context(plain, query, states, mask) / 2)


def test_talking_heads():
    talking, plain = site(D, D, combine="talking"), site(D, D)
    data = inputs(D, D)
    close(context(talking, *data), context(plain, *data))
    logits, weights = (torch.randn(H, H, generator=torch.Generator().manual_seed(s)).double() for s in (1, 2))
    talking.get_parameter("combine.of_logits").data.copy_(logits)
    talking.get_parameter("combine.of_weights").data.copy_(weights)
    mixed = torch.einsum("bnls,nm->bmls", seen(plain, *data).logits, logits)
    wanted = torch.einsum("bnls,nm->bmls", softmax(mixed, data[2][:, None, None]), weights)
    close(seen(talking, *data).weights, wanted)
    with pytest.raises(ValueError, match="no head can be removed"):
        talking.reduced([0])


@pytest.mark.parametrize("layer", [1, 3])
def test_differential_heads(layer):
    attention = site(D, D, combine="differential", layer=layer, key_width=5, value_width=7)
    p = {name: parameter.detach() for name, parameter in attention.named_parameters()}
    assert p["map_query.weight"].shape == p["map_key.weight"].shape == (2 * H, 5, D)
    p["combine.norm.weight"].uniform_(0.5, 2)
    query, states, mask = inputs(D, D)
    q, k = (torch.einsum("btd,hkd->bhtk", x, p[f"map_{n}.weight"]) for x, n in ((query, "query"), (states, "key")))
    a = softmax(torch.einsum("bhtk,bhsk->bhts", q, k) / math.sqrt(5), mask[:, None, None])
    x, y, other_x, other_y = p["combine.share.weight"]
    start = 0.8 - 0.6 * math.exp(-0.3 * (layer - 1))
    share = math.exp(x @ y) - math.exp(other_x @ other_y) + start
    assert p["combine.share.weight"].std() == pytest.approx(0.1, rel=0.5)
    weights = a[:, :H] - share * a[:, H:]
    o = weights @ torch.einsum("bsd,hvd->bhsv", states, p["map_value.weight"])
    o = (1 - start) * o / (o.square().mean(-1, keepdim=True) + 1e-5).sqrt() * p["combine.norm.weight"]
    found = seen(attention, query, states, mask)
    close(found.weights, weights)
    close(found.heads, o)
    close(context(attention, query, states, mask), torch.einsum("bhlv,hvd->bld", o, p["combine.weight"]))


ARMS = {
    "groups": {"heads": 4, "groups": 2},
    "log_length": {"scale": "log_length"},
    "gate": {"combine": "gate"},
    "t5 differential": {"positions": "t5", "combine": "differential", "heads": 4, "groups": 2, "weights": "sink"},
    "rope norm keys": {"positions": "rope", "norm": "rms", "values": "keys", "scale": "log_length"},
    "alibi talking cap": {"positions": "alibi", "combine": "talking", "logits": "cap", "cap": 2.0},
}
"""Groups, which no axis has, and mechanisms together. `tests/models/test_conformance.py` has each by itself."""


def built(arm, causal, **more):
    """The arm's site; parameters that start alike for all heads get numbers of their own."""
    fields = {"heads": H, **arm, **more}
    name = fields.pop("positions", None)
    attention = site(D, D, positions=positions(name, causal, fields["heads"]) if name else None, **fields)
    for parameter in attention.parameters():
        if parameter.ndim == 1 or parameter.shape[0] == parameter.shape[-1]:
            parameter.data += torch.linspace(-0.5, 0.5, parameter.numel()).view_as(parameter)
    return attention


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("arm", ARMS)
def test_fused_gathered_and_explicit_agree(arm, causal):
    """Whole sentences by the kernel if it applies, and a window by masks and by gathered slots, with all gradients."""
    _, states, mask = inputs(D, D)
    for reach in ({}, {"reach": "local_m", "window": 1}):
        attention = built(ARMS[arm], causal, **reach)
        given = states.clone().requires_grad_()
        results = []
        for tap, gather in ((None, math.inf), (lambda call: None, math.inf), (None, 1.0)):
            attention.tap, attention.gather_from = tap, gather
            out, _ = attention(given, attention.remember(given, mask), at(causal))
            weighted = (out * torch.linspace(-1, 2, out.numel()).view_as(out)).sum()
            leaves = [given, *attention.parameters(), *(attention.positions or torch.nn.Module()).parameters()]
            results.append([out, *torch.autograd.grad(weighted, leaves, allow_unused=True, materialize_grads=True)])
        for one, two, three in zip(*results, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-10)
            torch.testing.assert_close(three, two, rtol=1e-9, atol=1e-10)


COSTS = {  # fields; parameters beside those of a plain site; fused or not
    "rope": ({"positions": "rope"}, 0, True),
    "alibi": ({"positions": "alibi"}, 0, True),
    "t5": ({"positions": "t5"}, 0, True),
    "norm": ({"norm": "rms"}, 2 * H * K, True),
    "log_length": ({"scale": "log_length"}, H, True),
    "cap": ({"logits": "cap"}, 0, False),
    "softmax_one": ({"weights": "softmax_one"}, 0, False),
    "sink": ({"weights": "sink"}, H, False),
    "relu": ({"weights": "relu"}, 0, False),
    "kernel": ({"score": "elu_kernel", "weights": "normalised"}, 0, False),
    "groups": ({"groups": 1}, -2 * (H - 1) * K * D, True),
    "keys": ({"values": "keys"}, -H * K * D, True),
    "gate": ({"combine": "gate"}, H * K * D, True),
    "talking": ({"combine": "talking"}, 2 * H * H, False),
    "differential": ({"combine": "differential", "key_width": K // 2}, 4 * (K // 2) + K, True),
}
"""The fifteen. A differential head has two score maps of half the width."""


@pytest.mark.parametrize("arm", COSTS)
def test_parameters_and_operations_are_those_that_exist(arm):
    """Each matrix of parameters counts two operations a token; the rest is that of a plain site."""
    fields, more, fused = COSTS[arm]
    fields = {"heads": H, **fields}
    name = fields.pop("positions", None)
    attention = site(D, D, positions=positions(name) if name else None, **fields)
    assert attention.fusable == fused
    plain = sum(p.numel() for p in site(D, D).parameters())
    assert sum(p.numel() for p in attention.parameters()) == plain + more
    given = {f"model.attention.{key}": value for key, value in fields.items()} | {"model.family": "transformer"}
    given |= {"model.width": D, "model.layers": 1} | ({"model.positions": name} if name else {})
    found = cost(experiment_from(given).model, Sizes(13, LENGTHS, S, S)).parts["encoder_self"]
    assert found.parameters == plain + more
    matrices = 0 if arm in ("norm", "log_length", "sink", "talking", "differential") else more
    mixing = {"talking": 2 * 2 * S * S * H * H, "differential": S * S * H * 2 * K}.get(arm, 0)
    assert found.flops == S * 2 * (4 * H * K * D + matrices) + S * S * H * 2 * (K + K) + mixing
