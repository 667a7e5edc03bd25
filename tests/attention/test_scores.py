"""Scores, scale, maps and combination against an independent float64 reference and by hand."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from study.attention import Attention, Seen, View
from study.attention.scores import Additive
from study.attention.weighting import softmax
from study.config import Attention as Config
from study.models import initialise

B, H, L, S, D, K, V, A = 2, 3, 5, 7, 33, 11, 13, 17  # 33 = 3 · 11, so that raw maps slice evenly


def site(**fields: object) -> Attention:
    """A small initialised site in float64."""
    config = Config(**{"heads": H, **fields}).resolved(D, D)  # type: ignore[arg-type]
    attention = Attention(config, D, D)
    initialise(attention, 1)
    return attention.double()


def inputs(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, states and a mask with padding."""
    generator = torch.Generator().manual_seed(seed)
    query, states = (torch.randn(B, n, D, generator=generator, dtype=torch.float64) for n in (L, S))
    mask = torch.ones(B, S, dtype=torch.bool)
    mask[1, 4:] = False
    return query, states, mask


def seen(attention: Attention, query: Tensor, states: Tensor, mask: Tensor) -> Seen:
    """What a tap sees of one call."""
    calls: list[Seen] = []
    attention.tap = calls.append
    attention(query, attention.remember(states, mask), view(mask))
    attention.tap = None
    return calls[0]


def view(mask: Tensor) -> View:
    return View(mask[:, None, None], torch.arange(L))


def reference_logits(attention: Attention, query: Tensor, states: Tensor) -> Tensor:
    """The definition, written out in float64."""
    config = attention.config
    weights = {name: p.detach() for name, p in attention.named_parameters()}
    if config.maps == "separate":
        q = torch.einsum("bld,hkd->bhlk", query, weights["map_query.weight"])
        k = torch.einsum("bsd,hkd->bhsk", states, weights["map_key.weight"])
    else:
        q, k = (x.reshape(B, -1, H, D // H).permute(0, 2, 1, 3) for x in (query, states))
    if config.score == "dot":
        return torch.einsum("bhlk,bhsk->bhls", q, k)
    if config.score == "bilinear":
        return torch.einsum("bhlk,hkj,bhsj->bhls", q, weights["score.weight"], k)
    both = torch.cat([q[:, :, :, None].expand(-1, -1, -1, S, -1), k[:, :, None].expand(-1, -1, L, -1, -1)], -1)
    return torch.einsum(
        "bhlsa,ha->bhls",
        torch.tanh(torch.einsum("bhlsj,haj->bhlsa", both, weights["score.weight"])),
        weights["score.vector"],
    )


FAN = {
    ("dot", "separate"): K,
    ("dot", "raw"): 11,
    ("bilinear", "separate"): K,
    ("bilinear", "raw"): 11,
    ("additive", "separate"): A,
    ("additive", "raw"): A,
}


@pytest.mark.parametrize("maps", ["separate", "raw"])
@pytest.mark.parametrize("score", ["dot", "bilinear", "additive"])
@pytest.mark.parametrize("scale", ["none", "rsqrt", "inverse", "learned"])
def test_logits_are_the_definition(score: str, maps: str, scale: str) -> None:
    sizes = ({"key_width": K} if maps == "separate" else {}) | ({"additive_width": A} if score == "additive" else {})
    attention = site(score=score, maps=maps, scale=scale, **sizes)
    query, states, mask = inputs()
    d = FAN[score, maps]
    factor = {"none": 1.0, "rsqrt": d**-0.5, "inverse": 1 / d, "learned": d**-0.5}[scale]
    wanted = reference_logits(attention, query, states) * factor
    torch.testing.assert_close(
        seen(attention, query, states, mask).logits,
        wanted,
        rtol=1e-6 if scale == "learned" else 1e-10,
        atol=1e-7 if scale == "learned" else 1e-12,
    )  # learned starts from a float32 log


def test_additive_by_hand() -> None:
    score = Additive(1, 1, 1, 2)
    with torch.no_grad():
        score.weight.copy_(torch.tensor([[[1.0, 0.0], [0.5, -1.0]]]))
        score.vector.copy_(torch.tensor([[2.0, -1.0]]))
    seen_by_all = View(torch.ones(1, 1, 1, 1, dtype=torch.bool), torch.zeros(1, dtype=torch.long))
    logit = score(torch.tensor([[[[0.4]]]]), score.prepare(torch.tensor([[[[0.3]]]])), seen_by_all)
    assert logit.item() == pytest.approx(2 * math.tanh(0.4) - math.tanh(0.2 - 0.3), abs=1e-6)


@pytest.mark.parametrize("score", ["dot", "bilinear"])
@pytest.mark.parametrize("scale", ["none", "rsqrt", "learned"])
def test_fused_equals_explicit(score: str, scale: str) -> None:
    attention = site(score=score, scale=scale, key_width=K, value_width=V)
    query, states, mask = inputs()
    mask[0] = False  # a sentence with nothing to attend to
    memory = attention.remember(states, mask)
    fused, _ = attention(query, memory, view(mask))
    attention.tap = lambda call: None
    explicit, _ = attention(query, memory, view(mask))
    torch.testing.assert_close(fused, explicit, rtol=1e-10, atol=1e-12)
    assert fused[0].abs().max() == 0
    for out in (fused, explicit):
        grads = torch.autograd.grad(out.square().sum(), list(attention.parameters()), retain_graph=True)
        assert all(g.isfinite().all() for g in grads)


def test_equals_torch_multihead_attention() -> None:
    heads, size = 3, 11
    attention = site(heads=heads)
    torch_attention = nn.MultiheadAttention(D, heads, bias=False, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        maps = [attention.get_parameter(f"map_{x}.weight").flatten(0, 1) for x in ("query", "key", "value")]
        torch_attention.in_proj_weight.copy_(torch.cat(maps))
        torch_attention.out_proj.weight.copy_(attention.get_parameter("combine.weight").flatten(0, 1).T)
    query, states, mask = inputs()
    wanted, weights = torch_attention(query, states, states, key_padding_mask=~mask, average_attn_weights=False)
    out, _ = attention(query, attention.remember(states, mask), view(mask))
    torch.testing.assert_close(out, wanted, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(seen(attention, query, states, mask).weights, weights, rtol=1e-10, atol=1e-12)
    # Causal self-attention, the other mask that matters.
    causal = torch.tril(torch.ones(S, S, dtype=torch.bool))
    wanted, _ = torch_attention(states, states, states, attn_mask=~causal)
    out, _ = attention(
        states,
        attention.remember(states, torch.ones(B, S, dtype=torch.bool)),
        View(causal[None, None], torch.arange(S)),
    )
    torch.testing.assert_close(out, wanted, rtol=1e-10, atol=1e-12)
    assert attention.config.key_width == size


def test_unscaled_dot_of_the_scaled_query_is_scaled_dot() -> None:
    scaled, unscaled = site(scale="rsqrt", key_width=K), site(scale="none", key_width=K)
    with torch.no_grad():
        unscaled.get_parameter("map_query.weight").mul_(K**-0.5)
    query, states, mask = inputs()
    torch.testing.assert_close(
        scaled(query, scaled.remember(states, mask), view(mask))[0],
        unscaled(query, unscaled.remember(states, mask), view(mask))[0],
        rtol=1e-10,
        atol=1e-12,
    )


def test_bilinear_with_the_identity_is_dot() -> None:
    dot, bilinear = site(key_width=K), site(score="bilinear", key_width=K)
    with torch.no_grad():
        bilinear.get_parameter("score.weight").copy_(torch.eye(K).expand(H, K, K))
    query, states, mask = inputs()
    torch.testing.assert_close(seen(dot, query, states, mask).logits, seen(bilinear, query, states, mask).logits)


def test_softmax_of_a_masked_row_is_zero_with_finite_gradient() -> None:
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        logits = torch.full((1, 1, 2, 3), 200.0, dtype=dtype, requires_grad=True)
        mask = torch.tensor([[[[True, True, False], [False, False, False]]]])
        weights = softmax(logits, mask)
        assert weights.dtype == torch.float32
        assert weights.tolist() == [[[[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]]]
        (gradient,) = torch.autograd.grad(weights.square().sum(), logits)
        assert gradient.isfinite().all()


def test_large_logits_do_not_pass_the_mask() -> None:
    weights = softmax(torch.tensor([[[[-30000.0, 40000.0]]]]), torch.tensor([[[[True, False]]]]))
    assert weights.tolist() == [[[[1.0, 0.0]]]]


def test_nothing_to_attend_to_gives_a_zero_context() -> None:
    attention = site().float()
    out, _ = attention(
        torch.randn(B, L, D),
        attention.remember(torch.randn(B, 0, D), torch.ones(B, 0).bool()),
        View(torch.ones(B, 1, 1, 0, dtype=torch.bool), torch.arange(L)),
    )
    assert out.shape == (B, L, D)
    assert out.abs().max() == 0


def test_extend_equals_remember() -> None:
    attention = site(score="additive").float()
    states = torch.randn(B, S, D)
    whole = attention.remember(states, torch.ones(B, S, dtype=torch.bool))
    grown = attention.remember(states[:, :2], torch.ones(B, 2, dtype=torch.bool))
    for t in range(2, S):
        grown = attention.extend(grown, states[:, t : t + 1])
    torch.testing.assert_close(grown.keys, whole.keys)
    torch.testing.assert_close(grown.values, whole.values)
    assert F.pad(grown.mask, (0, 0)).equal(whole.mask)


@pytest.mark.parametrize(("score", "maps"), [("dot", "separate"), ("bilinear", "raw"), ("additive", "separate")])
def test_rescale_multiplies_each_heads_logits(score: str, maps: str) -> None:
    attention = site(score=score, maps=maps)
    query, states, mask = inputs()
    before = seen(attention, query, states, mask).logits
    factor = torch.tensor([0.5, 2.0, 3.0], dtype=torch.float64)
    attention.rescale(factor)
    torch.testing.assert_close(
        seen(attention, query, states, mask).logits, before * factor[:, None, None], rtol=1e-10, atol=1e-12
    )
