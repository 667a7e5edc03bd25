"""Small sites in float64 with sizes that are told apart: what the tests of mechanisms and of identities share."""

import torch

from study.attention import Lengths, MultiHeadAttention, View
from study.config import AttentionConfig as Config
from study.models import initialise

B, H, L, S, K, V, A, R = 2, 3, 5, 7, 17, 19, 23, 29
DQ, DK = 33, 39  # 3 · 11 and 3 · 13, so that raw states slice evenly and unequally
LENGTHS = Lengths(longest=31, typical=37)


def site(query=DQ, memory=DK, lengths=LENGTHS, layer=1, positions=None, **fields):
    """An initialised site in float64 whose biases are not 0."""
    config = Config(**{"heads": H, **fields}).resolved(query, memory)
    attention = MultiHeadAttention(config, query, memory, lengths, layer, positions)
    initialise(attention, 1)
    with torch.no_grad():
        for name, parameter in attention.named_parameters():
            if name.endswith("bias"):
                parameter.copy_(torch.linspace(-1, 1, parameter.numel()).view_as(parameter))
    return attention.double()


def inputs(query=DQ, memory=DK, queries=L, slots=S):
    """Queries, states and a mask with padding."""
    generator = torch.Generator().manual_seed(0)
    mask = torch.ones(B, slots, dtype=torch.bool)
    mask[1, slots // 2 :] = False
    asked = torch.randn(B, queries, query, generator=generator, dtype=torch.float64)
    return asked, torch.randn(B, slots, memory, generator=generator, dtype=torch.float64), mask


def view(mask, queries=L, start=0):
    """Every slot that is not padding, for queries from position `start` on."""
    return View(mask[:, None, None], torch.arange(start, start + queries))


def seen(attention, query, states, mask, sight=None):
    """Return one call as a tap receives it, under a view of its own or that of the mask."""
    calls = []
    attention.tap = calls.append
    attention(query, attention.remember(states, mask), sight or view(mask, query.shape[1]))
    attention.tap = None
    return calls[0]


def context(attention, query, states, mask):
    return attention(query, attention.remember(states, mask), view(mask, query.shape[1]))[0]


def close(one, other):
    torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)
