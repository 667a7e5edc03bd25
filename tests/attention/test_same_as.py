"""Mechanisms against published code, with its weights copied: the rows of "The same as published code", one test each.

A test also changes back each convention that its row names, and then the difference is large. Libraries that are not
installed skip; `make parity` installs them.
"""

import contextlib
import importlib.util
import math
import re
from pathlib import Path

import pytest
import torch
from attention_sites import LENGTHS, seen, site
from torch import nn
from torch.nn import functional as F

from study.attention import View
from study.attention.positions import Positions
from study.attention.weighting import Weighting
from study.config.mechanisms import AXES

ROOT = Path(__file__).parents[2]
B, H, G, S, K = 2, 4, 2, 9, 6
D = H * K
ROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0}}
MODULES = {
    "torch": "torch",
    "transformers": "transformers",
    "x-transformers": "x_transformers",
    "rotary-embedding-torch": "rotary_embedding_torch",
    "entmax": "entmax",
}
"""Library, as its row names it, and its module."""
COMPARED = []


def same_as(library, code):
    """Mark the test of the row that has this library and this code. It skips without the library."""
    COMPARED.append((library, code))
    missing = importlib.util.find_spec(MODULES[library]) is None
    return pytest.mark.skipif(missing, reason=f"{library} is not installed: make parity")


@contextlib.contextmanager
def in_float64():
    """Let the code of a library stay in float64 where it casts to float32: there softmax, norms and tables do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "float32", torch.float64)
        patch.setattr(torch, "float", torch.float64)
        patch.setattr(torch.Tensor, "float", torch.Tensor.double)
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            yield
        finally:
            torch.set_default_dtype(before)


def sentences(causal=False, slots=S):
    """States of two sentences of unequal length, and which slots a query sees: [B, 1, L, S]."""
    states = torch.randn(B, slots, D, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    real = torch.arange(slots) < torch.tensor([[slots], [slots // 2]])
    mask = real[:, None, None].expand(B, 1, slots, slots)
    return states, mask & torch.ones(slots, slots, dtype=torch.bool).tril() if causal else mask


def drawn(module, scale=1.0):
    """The module in float64, with random numbers for all parameters."""
    generator = torch.Generator().manual_seed(5)
    for parameter in module.double().parameters():
        parameter.data = scale * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        if parameter.ndim == 2:
            parameter.data /= math.sqrt(parameter.shape[1])
    return module.eval()


def heads_of(weight, heads=H):
    """Rows of a matrix [H·K, D], head by head: [H, K, D]."""
    return weight.detach().unflatten(0, (heads, -1))


def paired(weight):
    """The components (i, i + K/2) of each head beside each other, as (2i, 2i + 1): […, K, …] on axis 1."""
    return weight.unflatten(1, (2, -1)).transpose(1, 2).flatten(1, 2)


def built(query, key, value, output, more=(), positions=None, layer=1, **fields):
    """A site with these matrices: [H, K, D] of queries, keys and values, and [D, H·V] of the output."""
    heads, value_width = fields.get("heads", H), value.shape[1]
    fields = {"heads": heads, "key_width": query.shape[1], "value_width": value_width, **fields}
    attention = site(D, D, positions=positions, layer=layer, **fields)
    matrices = {"map_query": query, "map_key": key, "map_value": value}
    matrices["combine"] = output.detach().T.unflatten(0, (heads, -1))
    for name, weight in (*((f"{part}.weight", w) for part, w in matrices.items()), *dict(more).items()):
        parameter = attention.get_parameter(name)
        assert parameter.shape == weight.shape, name
        parameter.data = weight.detach().clone()
    return attention


def positions(name, causal=True, heads=H):
    return Positions.named(name)(D, heads, causal, LENGTHS).double()


def alibi(heads, like_theirs=False):
    """ALiBi here, or with the slopes there: those of the power of two below H, then every second of twice as many."""
    mine = positions("alibi", heads=heads)
    if like_theirs:
        power = 2 ** int(math.log2(heads))
        sequences = [2 ** (-8 * i / power) for i in range(1, power + 1)]
        sequences += [2 ** (-4 * i / power) for i in range(1, 2 * power, 2)]
        mine.slope = torch.tensor(sequences[:heads], dtype=torch.float64)
    return mine


def largest(one, other):
    """The largest difference."""
    assert one.shape == other.shape
    return (one - other).abs().max().item()


def contexts(attention, states, mask, query=None):
    """Contexts of the site without a tap, by the fused kernel if it applies, and the call that a tap receives."""
    query = states if query is None else query
    view = View(mask, torch.arange(query.shape[1]))
    real = torch.ones(states.shape[:2], dtype=torch.bool)
    call = seen(attention, query, states, real, view)
    fused, _ = attention(query, attention.remember(states, real), view)
    assert largest(attention.combine(call.heads), fused) < 1e-12
    return fused, call


def equal(attention, states, mask, out, weights=None, tolerance=1e-12, query=None):
    """Outputs are the same, and so are weights if the library returns them."""
    mine, call = contexts(attention, states, mask, query)
    assert mine.abs().mean() > 0.05, "outputs near 0 would be equal to anything"
    assert largest(mine, out) < tolerance
    if weights is not None:
        assert largest(call.normalised, weights.expand_as(call.normalised)) < tolerance


def unequal(attention, states, mask, out):
    assert largest(contexts(attention, states, mask)[0], out) > 0.01


# torch


def their_multihead(**options):
    theirs = drawn(nn.MultiheadAttention(D, H, bias=False, batch_first=True, **options))
    query, key, value = (heads_of(weight) for weight in theirs.in_proj_weight.chunk(3))
    return theirs, (query, key, value, theirs.out_proj.weight)


@same_as("torch", "nn.MultiheadAttention")
@pytest.mark.parametrize("causal", [False, True])
def test_multihead(causal):
    theirs, matrices = their_multihead()
    states, mask = sentences(causal)
    attention = built(*matrices)
    given = states.clone().requires_grad_()
    rule = {"key_padding_mask": ~mask[:, 0, -1], "average_attn_weights": False}
    if causal:
        rule |= {"attn_mask": ~mask[0, 0]}
    out, weights = theirs(given, given, given, **rule)
    equal(attention, states, mask, out, weights)
    again = states.clone().requires_grad_()
    real = torch.ones(B, S, dtype=torch.bool)
    mine, _ = attention(again, attention.remember(again, real), View(mask, torch.arange(S)))
    gradients = [torch.autograd.grad(x.sin().sum(), y)[0] for x, y in ((out, given), (mine, again))]
    assert largest(*gradients) < 1e-12


@same_as("torch", "nn.MultiheadAttention with add_zero_attn=True")
def test_a_slot_of_zeros_is_softmax_one():
    theirs, matrices = their_multihead(add_zero_attn=True)
    states, mask = sentences()
    out, weights = theirs(states, states, states, key_padding_mask=~mask[:, 0, 0], average_attn_weights=False)
    equal(built(*matrices, weights="softmax_one"), states, mask, out, weights[..., :-1])
    unequal(built(*matrices), states, mask, out)


@same_as("torch", "F.scaled_dot_product_attention")
@pytest.mark.parametrize(("scale", "factor"), [("none", 1.0), ("inverse", 1 / K), ("rsqrt", None)])
@pytest.mark.parametrize("groups", [None, G])
def test_scaled_dot_product(scale, factor, groups):
    _, (query, key, value, output) = their_multihead()
    key, value = key[: groups or H], value[: groups or H]
    states, mask = sentences()
    asked = states[:, :5].flip(0)
    q, k, v = (torch.einsum("btd,hkd->bhtk", x, w) for x, w in ((asked, query), (states, key), (states, value)))
    mixed = F.scaled_dot_product_attention(q, k, v, mask[:, :, :5], scale=factor, enable_gqa=groups is not None)
    out = F.linear(mixed.transpose(1, 2).flatten(2), output)
    equal(built(query, key, value, output, scale=scale, groups=groups), states, mask[:, :, :5], out, query=asked)


# transformers


def their_attention(family, prefix, layer=0, scale=1.0, **options):
    """An attention of transformers, and what it returns for two sentences, causal with padding; all in float64."""
    theirs = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
    settings = {"num_key_value_heads": G, "num_attention_heads": H, "head_dim": K, "attention_bias": False} | options
    config = getattr(importlib.import_module(f"transformers.models.{family}"), f"{prefix}Config")(
        hidden_size=D, attn_implementation="eager", **ROPE, **settings
    )
    states, mask = sentences(causal=True)
    added = torch.zeros(mask.shape, dtype=torch.float64).masked_fill(~mask, -math.inf)
    with in_float64():
        module = drawn(getattr(theirs, f"{prefix}Attention")(config, layer), scale)
        tables = getattr(theirs, f"{prefix}RotaryEmbedding")(config)(states, torch.arange(S)[None])
        out, weights = module(states, position_embeddings=tables, attention_mask=added)
    assert out.dtype == weights.dtype == torch.float64
    return module, out.detach(), weights.detach(), states, mask


def projections(module, heads=H, groups=G, order=paired):
    """Its matrices, with pairs of components in the order of this project."""
    query, key = (order(heads_of(w.weight, n)) for w, n in ((module.q_proj, heads), (module.k_proj, groups)))
    return query, key, heads_of(module.v_proj.weight, groups), module.o_proj.weight


@same_as("transformers", "LlamaAttention")
@pytest.mark.parametrize("groups", [1, G, H])
def test_llama(groups):
    module, out, weights, states, mask = their_attention("llama", "Llama", num_key_value_heads=groups)
    fields = {"positions": positions("rope"), "groups": groups}
    equal(built(*projections(module, groups=groups), **fields), states, mask, out, weights)
    unequal(built(*projections(module, groups=groups, order=lambda w: w), **fields), states, mask, out)


@same_as("transformers", "Gemma2Attention")
def test_gemma2():
    module, out, weights, states, mask = their_attention(
        "gemma2", "Gemma2", scale=2.0, attn_logit_softcapping=2.0, query_pre_attn_scalar=K
    )
    fields = {"positions": positions("rope"), "groups": G}
    equal(built(*projections(module), logits="cap", cap=2.0, **fields), states, mask, out, weights)
    unequal(built(*projections(module), **fields), states, mask, out)


@same_as("transformers", "GptOssAttention")
def test_gpt_oss():
    module, out, weights, states, mask = their_attention("gpt_oss", "GptOss")
    fields = {"positions": positions("rope"), "groups": G}
    sinks = {"weights.logit": module.sinks}
    equal(built(*projections(module), sinks, weights="sink", **fields), states, mask, out, weights)
    unequal(built(*projections(module), **fields), states, mask, out)


def gains(module, heads=H, order=paired):
    """One gain for each head from the one of all heads, in the order of this project's pairs."""
    norms = {"norm.of_query": module.q_norm, "norm.of_key": module.k_norm}
    return {name: order(norm.weight.detach().expand(heads, -1)) for name, norm in norms.items()}


@same_as("transformers", "Qwen3Attention")
def test_qwen3():
    module, out, weights, states, mask = their_attention("qwen3", "Qwen3", rms_norm_eps=1e-6)
    fields = {"positions": positions("rope"), "groups": G, "norm": "rms"}
    equal(built(*projections(module), gains(module), **fields), states, mask, out, weights)
    unequal(built(*projections(module), gains(module, order=lambda w: w), **fields), states, mask, out)


@same_as("transformers", "Olmo2Attention")
@pytest.mark.parametrize("heads", [1, H])
def test_olmo2(heads):
    options = {"num_attention_heads": heads, "num_key_value_heads": heads, "head_dim": D // heads}
    module, out, weights, states, mask = their_attention("olmo2", "Olmo2", rms_norm_eps=1e-6, **options)
    given = (
        gains(module, 1)
        if heads == 1
        else {
            f"norm.of_{name}": paired(heads_of(norm.weight))
            for name, norm in (("query", module.q_norm), ("key", module.k_norm))
        }
    )
    fields = {"positions": positions("rope", heads=heads), "heads": heads, "norm": "rms"}
    attention = built(*projections(module, heads, heads), given, **fields)
    if heads == 1:
        equal(attention, states, mask, out, weights)
    else:
        unequal(attention, states, mask, out)


@same_as("transformers", "DiffLlamaAttention")
@pytest.mark.parametrize("layer", [0, 3])
def test_differential_llama(layer):
    module, out, _, states, mask = their_attention(
        "diffllama", "DiffLlama", layer, 0.7, num_key_value_heads=H, rms_norm_eps=1e-5
    )
    query, key, value, output = projections(module, groups=H)
    value = torch.cat(value.chunk(2), 1)  # the halves of a value are two of their heads
    share = torch.stack([module.lambda_q1, module.lambda_k1, module.lambda_q2, module.lambda_k2])
    more = {"combine.share.weight": share, "combine.norm.weight": torch.ones(2 * K).double()}
    fields = {"heads": H // 2, "combine": "differential", "positions": positions("rope")}
    equal(built(query, key, value, output, more, layer=layer + 1, **fields), states, mask, out)
    unequal(built(query, key, value, output, more, layer=layer + 2, **fields), states, mask, out)


@same_as("transformers", "T5Attention")
@pytest.mark.parametrize("causal", [False, True])
def test_t5(causal):
    from transformers.models.t5 import T5Config, modeling_t5

    config = T5Config(d_model=D, d_kv=K, num_heads=H, is_decoder=causal, attn_implementation="eager")
    theirs = drawn(modeling_t5.T5Attention(config, has_relative_attention_bias=True, layer_idx=0))
    states, mask = sentences(causal, 300)  # beyond the farthest bucket
    added = torch.zeros(mask.shape, dtype=torch.float64).masked_fill(~mask, -math.inf)
    out, _, weights = theirs(states, mask=added)
    table = positions("t5", causal)
    table.get_parameter("bias_of").data = theirs.relative_attention_bias.weight.detach().T
    matrices = (*(heads_of(x.weight) for x in (theirs.q, theirs.k, theirs.v)), theirs.o.weight)
    equal(built(*matrices, positions=table, scale="none"), states, mask, out, weights)
    unequal(built(*matrices, positions=table), states, mask, out)


@same_as("transformers", "MptAttention")
@pytest.mark.parametrize("heads", [1, 2, 4, 8, 6, 12])
def test_mpt(heads):
    from transformers.models.mpt import MptConfig, modeling_mpt

    states, mask = sentences(causal=True)
    with in_float64():
        theirs = drawn(modeling_mpt.MptAttention(MptConfig(d_model=D, n_heads=heads)))
        bias = modeling_mpt.build_mpt_alibi_tensor(heads, S)
        out, weights = theirs(states, bias, attention_mask=~mask)
    query, key, value = (heads_of(weight, heads) for weight in theirs.Wqkv.weight.chunk(3))
    matrices = (query, key, value, theirs.out_proj.weight)
    attention = built(*matrices, heads=heads, positions=alibi(heads, like_theirs=True))
    equal(attention, states, mask, out, weights)
    attention = built(*matrices, heads=heads, positions=alibi(heads))
    (unequal if heads in (6, 12) else equal)(attention, states, mask, out)


@same_as("transformers", "BloomAttention")
@pytest.mark.parametrize("heads", [1, 2, 4, 8, 6, 12])
def test_bloom(heads):
    from transformers.models.bloom import BloomConfig, modeling_bloom

    states, mask = sentences(causal=True)
    config = BloomConfig(
        hidden_size=D, n_head=heads, hidden_dropout=0, attention_dropout=0, attn_implementation="eager"
    )
    added = torch.zeros(mask.shape, dtype=torch.float64).masked_fill(~mask, -math.inf)
    with in_float64():
        theirs = drawn(modeling_bloom.BloomAttention(config, 0))
        theirs.query_key_value.bias.data.zero_()
        theirs.dense.bias.data.zero_()
        bias = modeling_bloom.build_alibi_tensor(mask[:, 0, -1].long(), heads, torch.float64)
        out = theirs(states, torch.zeros_like(states), bias, added)[0]
    query, key, value = theirs.query_key_value.weight.detach().unflatten(0, (heads, 3, -1)).unbind(1)
    matrices = (query, key, value, theirs.dense.weight)
    attention = built(*matrices, heads=heads, positions=alibi(heads, like_theirs=True))
    equal(attention, states, mask, out)
    attention = built(*matrices, heads=heads, positions=alibi(heads))
    (unequal if heads in (6, 12) else equal)(attention, states, mask, out)


# x-transformers


def their_x(causal=False, scale=1.0, bias=None, groups=H, **options):
    """An attention of x-transformers and what it returns for two sentences, with its matrices."""
    import x_transformers

    states, mask = sentences(causal)
    with in_float64():
        theirs = drawn(x_transformers.Attention(D, dim_head=K, heads=H, **options), scale)
        rule = {} if bias is None else {"rel_pos": bias}
        out, between = theirs(states, attn_mask=mask, return_intermediates=True, **rule)
    matrices = (
        *(heads_of(x.weight, n) for x, n in ((theirs.to_q, H), (theirs.to_k, groups), (theirs.to_v, groups))),
        (theirs.to_out.weight),
    )
    return theirs, matrices, out.detach(), between.post_softmax_attn.detach(), states, mask


@same_as("x-transformers", "Attention with pre_talking_heads and post_talking_heads")
def test_talking_heads():
    theirs, matrices, out, weights, states, mask = their_x(pre_talking_heads=True, post_talking_heads=True)
    logits, mixing = (
        getattr(theirs.attend, f"{when}_softmax_talking_heads").weight.detach()[:, :, 0, 0].T
        for when in ("pre", "post")
    )
    more = {"combine.of_logits": logits + torch.eye(H).double(), "combine.of_weights": mixing}
    equal(built(*matrices, more, combine="talking"), states, mask, out, weights)
    unequal(built(*matrices, more | {"combine.of_logits": logits}, combine="talking"), states, mask, out)


@same_as("x-transformers", "Attention with gate_values")
def test_gate():
    theirs, matrices, out, weights, states, mask = their_x(gate_values=True)
    more = {"combine.gate.weight": heads_of(theirs.to_v_gate.weight)}
    equal(built(*matrices, more, combine="gate"), states, mask, out, weights)
    unequal(built(*matrices), states, mask, out)


@same_as("x-transformers", "Attention with softclamp_logits")
def test_softclamp():
    import x_transformers.x_transformers as library

    options = {"scale": 2.0, "softclamp_logits": True, "logit_softclamp_value": 2.0}
    cap = {"logits": "cap", "cap": 2.0}
    _, matrices, out, weights, states, mask = their_x(**options)
    equal(built(*matrices, **cap), states, mask, out, weights)
    unequal(built(*matrices), states, mask, out)
    _, matrices, out, *_ = their_x(**options, bias=library.AlibiPositionalBias(H).double())
    unequal(built(*matrices, **cap, positions=alibi(H)), states, mask, out)


@same_as("x-transformers", "Attention with kv_heads")
@pytest.mark.parametrize("groups", [1, G])
def test_key_and_value_heads(groups):
    options = {"one_kv_head": True} if groups == 1 else {"kv_heads": groups}
    _, (query, key, value, output), out, weights, states, mask = their_x(groups=groups, **options)
    order = [head for group in range(groups) for head in range(group, H, groups)]
    sorted_output = output.unflatten(1, (H, -1))[:, order].flatten(1)
    equal(built(query[order], key, value, sorted_output, groups=groups), states, mask, out, weights[:, order])
    if groups > 1:
        unequal(built(query, key, value, output, groups=groups), states, mask, out)


@same_as("x-transformers", "Attention with add_zero_kv")
def test_zero_key_and_value():
    _, matrices, out, weights, states, mask = their_x(add_zero_kv=True)
    equal(built(*matrices, weights="softmax_one"), states, mask, out, weights[..., 1:])
    unequal(built(*matrices), states, mask, out)


@same_as("x-transformers", "Attention with head_learned_sink")
def test_learned_sink():
    theirs, matrices, out, weights, states, mask = their_x(head_learned_sink=True)
    more = {"weights.logit": theirs.attend.head_attn_sink}
    equal(built(*matrices, more, weights="sink"), states, mask, out, weights[..., 1:])
    unequal(built(*matrices), states, mask, out)


@same_as("x-transformers", "Attention with qk_norm and qk_norm_scale=1")
def test_cosine():
    _, matrices, out, weights, states, mask = their_x(qk_norm=True, qk_norm_scale=1)
    equal(built(*matrices, score="cosine", scale="none"), states, mask, out, weights)
    unequal(built(*matrices), states, mask, out)


@same_as("x-transformers", "Attention with qk_rmsnorm")
def test_norm_of_each_head():
    theirs, matrices, out, weights, states, mask = their_x(qk_rmsnorm=True)
    gain = {"norm.of_query": theirs.q_rmsnorm, "norm.of_key": theirs.k_rmsnorm}
    raw = {name: norm.gamma.detach()[:, 0] for name, norm in gain.items()}
    # Their root has no 1e-6 under it.
    attention = built(*matrices, {name: gamma + 1 for name, gamma in raw.items()}, norm="rms")
    equal(attention, states, mask, out, weights, tolerance=1e-5)
    unequal(built(*matrices, raw, norm="rms"), states, mask, out)


@same_as("x-transformers", "Attention with sigmoid")
@pytest.mark.parametrize("causal", [False, True])
def test_sigmoid(causal):
    slots = sentences(causal)[1].sum(-1, keepdim=True).double()
    _, matrices, out, weights, states, mask = their_x(causal, sigmoid=True, bias=lambda i, j: -slots.log())
    attention = built(*matrices, weights="sigmoid")
    equal(attention, states, mask, out, weights)
    unequal(attention, states, mask, their_x(causal, sigmoid=True)[2])


@same_as("x-transformers", "Attention with max_attend_past")
def test_a_window():
    _, matrices, out, weights, states, mask = their_x(causal=True, max_attend_past=2)
    for one, count in ((slice(1), S), (slice(1, 2), S // 2)):  # here, padding has another window; nothing reads it
        parts = [x[one, ..., :count, :] for x in (mask, out, weights, states)]
        equal(built(*matrices, reach="local_m", window=2), states[one], *parts[:3], query=parts[3])
    with pytest.raises(AssertionError):
        equal(built(*matrices, reach="local_m", window=3), states[one], *parts[:3], query=parts[3])


@same_as("x-transformers", "AlibiPositionalBias")
@pytest.mark.parametrize("heads", [1, 2, 4, 8, 6, 12])
def test_biases_of_distance(heads):
    import x_transformers.x_transformers as library

    view = View(torch.ones(1, 1, S, S, dtype=torch.bool), torch.arange(S))
    with in_float64():
        theirs = library.AlibiPositionalBias(heads)(S, S)
    assert largest(theirs, alibi(heads, like_theirs=True).bias(view, range(heads))) < 1e-12
    assert (largest(theirs, alibi(heads).bias(view, range(heads))) > 0.05) == (heads in (6, 12))


@same_as("x-transformers", "RelativePositionBias")
@pytest.mark.parametrize("causal", [False, True])
def test_biases_of_buckets(causal):
    import x_transformers.x_transformers as library

    theirs = drawn(library.RelativePositionBias(1.0, causal=causal, heads=H))
    mine = positions("t5", causal)
    mine.get_parameter("bias_of").data = theirs.relative_attention_bias.weight.detach().T
    view = View(torch.ones(1, 1, 300, 300, dtype=torch.bool), torch.arange(300))
    assert largest(theirs(300, 300), mine.bias(view, range(H))) == 0


@same_as("x-transformers", "ScaledSinusoidalEmbedding")
def test_sinusoids():
    import x_transformers.x_transformers as library

    theirs = library.ScaledSinusoidalEmbedding(D)
    theirs.scale.data.fill_(1.0)
    table, nothing = theirs(torch.zeros(1, S, D)), torch.zeros(1, S, D)
    mine = Positions.named("sinusoidal")(D)(0, nothing)[0]
    assert largest(paired(table[..., None])[..., 0], mine) < 1e-6  # float32
    assert largest(table, mine) > 0.01


# rotary-embedding-torch and entmax


@same_as("rotary-embedding-torch", "RotaryEmbedding")
def test_rotary_embedding():
    import rotary_embedding_torch

    vectors = torch.randn(B, H, S, K, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    with in_float64():
        turned = rotary_embedding_torch.RotaryEmbedding(K).rotate_queries_or_keys(vectors)
    rope = positions("rope")
    assert largest(rope.rotate(vectors, torch.arange(S)), turned) < 1e-12
    halves = rope.rotate(paired(vectors.movedim(-1, 1)).movedim(1, -1), torch.arange(S))
    assert largest(halves, turned) > 0.01


@same_as("entmax", "entmax_bisect")
@pytest.mark.parametrize(("name", "alpha"), [("sparsemax", 2.0), ("entmax15", 1.5)])
def test_bisection(name, alpha):
    import entmax

    logits = 3 * torch.randn(B, H, S, 40, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    mask = (torch.arange(40) < torch.tensor([[40], [11]]))[:, None, None]
    theirs = entmax.entmax_bisect(logits.masked_fill(~mask, -math.inf), alpha=alpha)
    mine = Weighting.named(name)()(logits, mask)
    assert largest(mine, theirs) < 1e-12
    assert (mine == 0).float().mean() > 0.5
    assert largest(mine, entmax.entmax_bisect(logits.masked_fill(~mask, -math.inf), alpha=3.5 - alpha)) > 0.01


# the page


PAGE = (ROOT / "docs/mechanisms.md").read_text(encoding="utf-8")
(SECTION,) = re.findall(r"^## The same as published code\n(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)
ROWS = [line.strip("| ").split(" | ") for line in SECTION.splitlines() if line.startswith("| `")]


def test_every_row_of_a_library_is_compared_here_and_every_other_row_says_when():
    rows = [(library, code.replace("`", "")) for _, library, code, _ in ROWS if library in MODULES]
    assert sorted(rows) == sorted(COMPARED)
    others = [row for row in ROWS if row[1] not in MODULES]
    assert others
    assert all(row[3].startswith("Once, ") for row in others)
    assert not any(row[3].startswith("Once, ") for row in ROWS if row[1] in MODULES)


@pytest.mark.parametrize(
    "axis", ["score", "scale", "logits", "weights", "reach", "maps", "norm", "values", "combine", "output", "positions"]
)
def test_every_mechanism_has_a_row_or_is_named_as_compared_with_nothing(axis):
    named = set(re.findall(rf"\b{axis}=(\w+)", SECTION))
    assert named == set(AXES[axis])
    alone = SECTION.partition("Compared with no published code")[2]
    rows = {value for row in ROWS for value in re.findall(rf"\b{axis}=(\w+)", row[0])}
    assert not rows & set(re.findall(rf"\b{axis}=(\w+)", alone))
