"""The classes of the table of mechanisms: one for each value, and facts that hold of what the class computes."""

from typing import Any

import pytest
import torch
from attention_sites import DQ, A, H, K, R, inputs, seen, site, view
from torch import Tensor

from study.attention import Attention
from study.attention.combine import Combine
from study.attention.mixing import Mixing
from study.attention.part import Part
from study.attention.positions import Positions
from study.attention.reach import Reach
from study.attention.scores import Scale, Score
from study.attention.weighting import Weighting
from study.config.mechanisms import AXES, MAPS, SCORE
from study.models.bridge import SourceMemory

BASES: dict[str, type[Part]] = {
    base.axis: base for base in (Score, Scale, Weighting, Reach, Combine, Mixing, Positions, SourceMemory)
}
SIZED = {"rank": R, "additive_width": A}


def scored(score: str, **fields: Any) -> Attention:
    sizes = {option: SIZED[option] for option in SCORE[score].options if option in SIZED}
    return site(DQ, DQ, score=score, **sizes, **fields)


@pytest.mark.parametrize(("axis", "value"), [(axis, value) for axis in BASES for value in AXES[axis]])
def test_every_value_has_one_class_that_cites_its_sources(axis: str, value: str) -> None:
    if getattr(AXES[axis][value], "attends", False):
        return  # self-attention is no part of itself
    found = BASES[axis].named(value)
    assert (found.axis, found.name, found.facts) == (axis, value, AXES[axis][value])
    documented = " ".join((found.__doc__ or "").split())
    for source in filter(None, found.facts.source.split("; ")):
        assert source.partition(", ")[0] in documented


def logits(attention: Attention, query: Tensor, states: Tensor) -> Tensor:
    return seen(attention, query, states, inputs(DQ, DQ)[2]).logits


@pytest.mark.parametrize("score", SCORE)
def test_a_score_reads_what_its_row_says(score: str) -> None:
    """Query and key by the logits' change; position and slot by that of slots which hold the same."""
    attention, (query, states, _) = scored(score), inputs(DQ, DQ)
    reads = SCORE[score].reads
    whole = logits(attention, query, states)
    assert torch.equal(logits(attention, query + 1, states), whole) == ("query" not in reads)
    assert torch.equal(logits(attention, query, states + 1), whole) == ("key" not in reads)
    alike = logits(attention, query, states[:, :1].expand_as(states))
    assert torch.allclose(alike, alike[..., :1].expand_as(alike)) == ("slot" not in reads)
    same = logits(attention, query[:, :1].expand_as(query), states)
    assert torch.allclose(same, same[:, :, :1].expand_as(same)) == ("position" not in reads)


@pytest.mark.parametrize("score", SCORE)
def test_a_score_is_rescaled_through_the_parameter_that_its_row_names(score: str) -> None:
    """Its own matrix or factor, else the maps; a score with neither has nothing to rescale."""
    facts, data = SCORE[score], inputs(DQ, DQ)
    factor = torch.tensor([0.5, 2.0, 3.0], dtype=torch.float64)
    for maps in ("separate", "raw"):
        if facts.content_free and MAPS[maps].weights:
            continue
        attention = scored(score, maps=maps)
        before, maps_before = seen(attention, *data).logits, [p.clone() for p in attention.map_query.parameters()]
        if facts.positive:
            continue
        if not (facts.matrix or facts.own_scale or maps_before):
            with pytest.raises(ValueError, match="no parameter to rescale"):
                attention.rescale(factor)
            continue
        attention.rescale(factor)
        torch.testing.assert_close(seen(attention, *data).logits, before * factor[:, None, None], rtol=1e-6, atol=1e-9)
        kept = all(map(torch.equal, attention.map_query.parameters(), maps_before))
        assert kept == (facts.matrix or facts.own_scale or not maps_before)


def test_a_part_without_declarations_keeps_heads_by_its_first_axis() -> None:
    attention = site(DQ, DQ, score="bilinear", key_width=K)
    before = {name: p.clone() for name, p in attention.named_parameters()}
    attention.keep([2, 0])
    after = dict(attention.named_parameters())
    assert attention.kept == (2, 0)
    assert all(torch.equal(after[name], p[[2, 0]]) for name, p in before.items())
    states, mask = inputs(DQ, DQ)[1:]
    out, _ = attention(states, attention.remember(states, mask), view(mask, states.shape[1]))
    assert out.shape == states.shape
    assert H == 3
