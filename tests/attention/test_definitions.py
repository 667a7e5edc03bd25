"""Every score on all its maps at all its scales, against its definition, written out with einsum in float64."""

import itertools
from collections.abc import Iterator
from typing import Any, get_args

import pytest
import torch
from attention_sites import DK, DQ, A, B, H, K, L, R, S, inputs, seen, site
from torch import Tensor

from study.attention import Attention
from study.config import Attention as Config
from study.models.build import generator

SCORES, MAPS = (get_args(Config.model_fields[name].annotation) for name in ("score", "maps"))
SCALES = ("none", "rsqrt", "inverse", "learned")
WITHOUT_KEYS = ("location", "uniform", "fixed_random")


def name(fields: Any) -> str:
    return "-".join(map(str, fields.values())) if isinstance(fields, dict) else str(fields)


def legal_sites() -> Iterator[tuple[dict[str, Any], int]]:
    """Those that the configuration accepts, over memory of a width of its own, or else of the query's."""
    sized = {"low_rank": {"rank": R}, "additive": {"additive_width": A}, "concat": {"additive_width": A}}
    for score, maps, scale in itertools.product(SCORES, MAPS, SCALES):
        fields = {"score": score, "maps": maps, "scale": scale, **sized.get(score, {})}
        if maps != "raw" and score not in WITHOUT_KEYS:
            fields["key_width"] = K
        for memory in (DK, DQ):
            try:
                Config(heads=H, **fields).resolved(DQ, memory)
            except ValueError:
                continue
            yield fields, memory
            break


def pair_of(maps: str, p: dict[str, Tensor], query: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
    """q [B, H, L, Kq] and k [B, H, S, Kk]."""
    if maps == "raw":
        q, k = (x.reshape(B, x.shape[1], H, -1).permute(0, 2, 1, 3) for x in (query, states))
        return q, k
    q = torch.einsum("bld,hkd->bhlk", query, p["map_query.weight"])
    k = torch.einsum("bsd,hkd->bhsk", states, p["map_key.weight" if maps == "separate" else "map_query.weight"])
    return q, k * (-1) ** torch.arange(K) if maps == "tied_signed" else k


def definition(attention: Attention, query: Tensor, states: Tensor) -> tuple[Tensor, int]:
    """Unscaled scores [B, H, L, S], cosine with its τ, and the d of their scale."""
    p = {name: parameter.detach() for name, parameter in attention.named_parameters()}
    config = attention.config
    match config.score:
        case "uniform":
            return torch.zeros(B, H, L, S, dtype=torch.float64), 1
        case "fixed_random":
            table = torch.randn(H, 31, 31, generator=generator(1, "score.table")).double()
            return table[:, :L, :S].expand(B, -1, -1, -1), 1
        case "location":
            q, _ = pair_of(config.maps, p | {"map_key.weight": torch.zeros(H, 1, DK).double()}, query, states)
            return torch.einsum("bhlk,hsk->bhls", q, p["score.weight"][:, :S]), q.shape[-1]
    q, k = pair_of(config.maps, p, query, states)
    both = torch.cat([q[:, :, :, None].expand(-1, -1, -1, S, -1), k[:, :, None].expand(-1, -1, L, -1, -1)], -1)
    match config.score:
        case "dot":
            return torch.einsum("bhlk,bhsk->bhls", q, k), k.shape[-1]
        case "cosine":
            norms = torch.einsum("bhl,bhs->bhls", q.square().sum(-1).sqrt(), k.square().sum(-1).sqrt())
            tau = p["score.temperature.log"].exp() if "score.temperature.log" in p else torch.ones(H).double()
            return torch.einsum("bhlk,bhsk,h->bhls", q, k, tau) / norms, 1
        case "bilinear":
            return torch.einsum("bhlk,hkj,bhsj->bhls", q, p["score.weight"], k), k.shape[-1]
        case "low_rank":
            return torch.einsum("bhlk,hrk,hrj,bhsj->bhls", q, p["score.query"], p["score.key"], k), R
        case "concat_luong":
            weight = torch.cat([p["score.weight"], torch.eye(k.shape[-1]).double().expand(H, -1, -1)], -1)
        case _:
            weight = p["score.weight"]
    bias = p.get("score.bias", torch.zeros(H, weight.shape[1], dtype=torch.float64))[:, None, None]
    hidden = torch.tanh(torch.einsum("bhlsj,haj->bhlsa", both, weight) + bias)
    return torch.einsum("bhlsa,ha->bhls", hidden, p["score.vector"]), weight.shape[1]


@pytest.mark.parametrize(
    ("fields", "memory"), legal_sites(), ids=lambda x: "-".join(map(str, x.values())) if isinstance(x, dict) else str(x)
)
def test_logits_are_the_definition(fields: dict[str, Any], memory: int) -> None:
    attention = site(DQ, memory, **fields)
    query, states, mask = inputs(DQ, memory)
    wanted, d = definition(attention, query, states)
    factor = {"none": 1.0, "rsqrt": d**-0.5, "inverse": 1 / d, "learned": d**-0.5}[fields["scale"]]
    if fields["score"] == "cosine":
        factor = 1.0
    # A learned scale starts from the logarithm in float32.
    torch.testing.assert_close(seen(attention, query, states, mask).logits, wanted * factor, rtol=2e-7, atol=1e-10)


def test_every_score_has_been_compared() -> None:
    count = {score: sum(fields["score"] == score for fields, _ in legal_sites()) for score in SCORES}
    assert count == {
        "dot": 16,
        "bilinear": 12,
        "additive": 12,
        "cosine": 8,
        "low_rank": 12,
        "concat": 12,
        "concat_luong": 12,
        "location": 8,
        "uniform": 1,
        "fixed_random": 1,
    }
