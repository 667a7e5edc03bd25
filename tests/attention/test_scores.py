"""The whole of attention against torch's own, its two paths, and the rows and memories at the edge."""

import math
from functools import partial

import attention_sites
import pytest
import torch
from attention_sites import B, K, L, S, close, context, seen, view
from torch import nn

from study.attention import View
from study.attention.scores import Additive

D = attention_sites.DQ
site, inputs = partial(attention_sites.site, D, D), partial(attention_sites.inputs, D, D)


def test_additive_by_hand() -> None:
    score = Additive(1, 1, 1, additive_width=2)
    with torch.no_grad():
        score.weight.copy_(torch.tensor([[[1.0, 0.0], [0.5, -1.0]]]))
        score.vector.copy_(torch.tensor([[2.0, -1.0]]))
    seen_by_all = View(torch.ones(1, 1, 1, 1, dtype=torch.bool), torch.zeros(1, dtype=torch.long))
    query, key = torch.tensor([[[[0.4]]]]), torch.tensor([[[[0.3]]]])
    logit = score(score.prepare_query(query), score.prepare(key), seen_by_all)
    assert logit.item() == pytest.approx(2 * math.tanh(0.4) - math.tanh(0.2 - 0.3), abs=1e-6)


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
    causal = torch.tril(torch.ones(S, S, dtype=torch.bool))
    for real in (torch.ones_like(mask), mask):  # causal self-attention, without padding and with it
        wanted, _ = torch_attention(states, states, states, attn_mask=~causal, key_padding_mask=~real)
        sight = View(causal & real[:, None, None], torch.arange(S))
        out, _ = attention(states, attention.remember(states, real), sight)
        torch.testing.assert_close(out, wanted, rtol=1e-10, atol=1e-12)
    assert attention.config.key_width == size


def test_unscaled_dot_of_the_scaled_query_is_scaled_dot() -> None:
    scaled, unscaled = site(scale="rsqrt", key_width=K), site(scale="none", key_width=K)
    with torch.no_grad():
        unscaled.get_parameter("map_query.weight").mul_(K**-0.5)
    close(context(scaled, *inputs()), context(unscaled, *inputs()))


def test_nothing_to_attend_to_gives_a_zero_context() -> None:
    attention = site().float()
    out, _ = attention(
        torch.randn(B, L, D),
        attention.remember(torch.randn(B, 0, D), torch.ones(B, 0).bool()),
        View(torch.ones(B, 1, 1, 0, dtype=torch.bool), torch.arange(L)),
    )
    assert out.shape == (B, L, D)
    assert out.abs().max() == 0
