"""Every score on all its maps at all its scales, against its definition, written out with einsum in float64."""

import itertools

import pytest
import torch
from attention_sites import DK, DQ, LENGTHS, A, B, H, K, L, R, S, inputs, seen, site

from study.config import AttentionConfig as Config
from study.config.mechanisms import MAPS, SCALE, SCORE
from study.models.build import generator

SIZED = {"rank": R, "additive_width": A}
DEFINITIONS = {}
"""Score ↦ its definition: q [B, H, L, Kq], k [B, H, S, Kk] and parameters → scores [B, H, L, S] and the d of 1/√d."""


def defines(score):
    """Enter the function below as the definition of a score."""

    def enter(definition):
        DEFINITIONS[score] = definition
        return definition

    return enter


@defines("dot")
def dot(q, k, p):
    return torch.einsum("bhlk,bhsk->bhls", q, k), k.shape[-1]


@defines("bilinear")
def bilinear(q, k, p):
    return torch.einsum("bhlk,hkj,bhsj->bhls", q, p["score.weight"], k), k.shape[-1]


@defines("cosine")
def cosine(q, k, p):
    norms = torch.einsum("bhl,bhs->bhls", q.square().sum(-1).sqrt(), k.square().sum(-1).sqrt())
    tau = p["score.temperature.log"].exp() if "score.temperature.log" in p else torch.ones(H).double()
    return torch.einsum("bhlk,bhsk,h->bhls", q, k, tau) / norms, 1


@defines("low_rank")
def low_rank(q, k, p):
    return torch.einsum("bhlk,hrk,hrj,bhsj->bhls", q, p["score.query"], p["score.key"], k), R


@defines("additive")
@defines("concat")
@defines("concat_luong")
def additive(q, k, p):
    """The concatenation is built here. Without a column for each component of k, the key's block is the identity."""
    both = torch.cat([q[:, :, :, None].expand(-1, -1, -1, S, -1), k[:, :, None].expand(-1, -1, L, -1, -1)], -1)
    weight = p["score.weight"]
    if weight.shape[-1] == q.shape[-1]:
        weight = torch.cat([weight, torch.eye(k.shape[-1]).double().expand(H, -1, -1)], -1)
    bias = p.get("score.bias", torch.zeros(H, weight.shape[1], dtype=torch.float64))[:, None, None]
    hidden = torch.tanh(torch.einsum("bhlsj,haj->bhlsa", both, weight) + bias)
    return torch.einsum("bhlsa,ha->bhls", hidden, p["score.vector"]), weight.shape[1]


@defines("location")
def location(q, k, p):
    return torch.einsum("bhlk,hsk->bhls", q, p["score.weight"][:, :S]), q.shape[-1]


@defines("elu_kernel")
def elu_kernel(q, k, p):
    positive = [torch.where(x > 0, x + 1, x.exp()) for x in (q, k)]
    return torch.einsum("bhlk,bhsk->bhls", *positive), 1


@defines("uniform")
def uniform(q, k, p):
    return torch.zeros(B, H, L, S, dtype=torch.float64), 1


@defines("fixed_random")
def fixed_random(q, k, p):
    table = torch.randn(H, 31, 31, generator=generator(1, "score.table")).double()
    return table[:, :L, :S].expand(B, -1, -1, -1), 1


def legal_sites():
    """Those that the configuration accepts, over memory of a width of its own, or else of the query's."""
    for score, maps, scale in itertools.product(SCORE, MAPS, SCALE):
        facts = SCORE[score]
        fields = {"score": score, "maps": maps, "scale": scale}
        fields |= {option: SIZED[option] for option in facts.options if option in SIZED}
        if MAPS[maps].weights and "key" in facts.reads:
            fields["key_width"] = K
        for memory in (DK, DQ):
            try:
                Config(heads=H, **fields).resolved(DQ, memory)
            except ValueError:
                continue
            yield fields, memory
            break


def mapped(config, p, query, states):
    """q [B, H, L, Kq] and k [B, H, S, Kk]; the states, sliced, where there is no map."""
    q, k = (x.reshape(B, x.shape[1], H, -1).permute(0, 2, 1, 3) for x in (query, states))
    if "map_query.weight" in p:
        q = torch.einsum("bld,hkd->bhlk", query, p["map_query.weight"])
        if "key" in SCORE[config.score].reads:
            k = torch.einsum("bsd,hkd->bhsk", states, p.get("map_key.weight", p["map_query.weight"]))
    return q, k * (-1) ** torch.arange(K) if config.maps == "tied_signed" else k


def definition(attention, query, states):
    """Unscaled scores [B, H, L, S], cosine with its τ, and the d of their scale."""
    p = {name: parameter.detach() for name, parameter in attention.named_parameters()}
    return DEFINITIONS[attention.config.score](*mapped(attention.config, p, query, states), p)


@pytest.mark.parametrize(
    ("fields", "memory"), legal_sites(), ids=lambda x: "-".join(map(str, x.values())) if isinstance(x, dict) else str(x)
)
def test_logits_are_the_definition(fields, memory):
    attention = site(DQ, memory, **fields)
    query, states, mask = inputs(DQ, memory)
    wanted, d = definition(attention, query, states)
    visible = mask.sum(-1)[:, None, None, None].double()
    growing = visible.log() / torch.arange(1, LENGTHS.typical + 1).log().mean() * d**-0.5
    factor = {"none": 1.0, "rsqrt": d**-0.5, "inverse": 1 / d, "learned": d**-0.5, "log_length": growing}[
        fields["scale"]
    ]
    if SCORE[fields["score"]].own_scale:
        factor = 1.0
    # A learned scale starts from the logarithm in float32.
    torch.testing.assert_close(seen(attention, query, states, mask).logits, wanted * factor, rtol=2e-7, atol=1e-10)
