"""Every normaliser by hand, gradients, rows that see nothing, growth by the step, and refusals."""

import math
from typing import Any

import pytest
import torch
from attention_sites import DK, DQ, A, B, H, K, L, R, close, context, inputs, seen, site
from torch import Tensor, nn

from study.attention import Attention, Lengths
from study.attention.weighting import Weighting
from study.config import Attention as Config
from study.config import experiment_from, experiment_id
from study.config.mechanisms import SCORE, WEIGHTS
from study.errors import InputError
from study.models.build import generator

SIZED = {"rank": R, "additive_width": A}


def arm(score: str) -> dict[str, Any]:
    """Fields of a site with this score: raw maps if it has a matrix of its own, and every size that it takes."""
    facts = SCORE[score]
    maps = {} if facts.content_free else {"maps": "raw"} if facts.matrix else {"key_width": K}
    return maps | {option: SIZED[option] for option in facts.options if option in SIZED}


ARMS: dict[str, dict[str, Any]] = {score: arm(score) for score in SCORE}


def test_cosine_starts_at_the_temperature_of_the_training_lengths() -> None:
    attention = site(score="cosine")
    assert attention.get_parameter("score.temperature.log").exp().tolist() == pytest.approx([math.log2(37**2 - 37)] * H)
    assert not list(site(DQ, DQ, score="cosine", scale="none", values="raw", output="raw", maps="raw").parameters())
    zero = torch.zeros(B, L, DQ, dtype=torch.float64, requires_grad=True)
    _, states, mask = inputs()
    (gradient,) = torch.autograd.grad(context(attention, zero, states, mask).sum(), zero)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("score", SCORE.those(lambda row: "slot" in row.reads))
def test_slots_beyond_the_training_lengths_are_masked_and_counted(score: str) -> None:
    attention = site(score=score, lengths=Lengths(4, 3))
    query, states, mask = inputs()
    weights = seen(attention, query, states, mask).weights
    assert weights[..., 4:].abs().max() == 0
    close(weights.sum(-1), torch.ones(B, H, L, dtype=torch.float64))
    beyond = attention.score.get_buffer("beyond")
    assert beyond == mask[:, 4:].sum()
    assert "score.beyond" not in attention.state_dict()


class Call(nn.Module):
    """One call of an attention as a function of query, states and parameters."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, query: Tensor, states: Tensor) -> Tensor:
        return context(self.attention, query, states, torch.tensor([[True, True, False]]))


@pytest.mark.parametrize("score", ARMS)
def test_gradients_of_scores(score: str) -> None:
    raw = {"maps": "raw"} if ARMS[score].get("maps") == "raw" else {}
    call = Call(site(4, 4, Lengths(3, 3), score=score, heads=2, **raw))
    names = list(dict(call.named_parameters()))
    query, states = (torch.randn(1, n, 4, dtype=torch.float64, generator=generator(n, "x")) for n in (2, 3))

    def function(query: Tensor, states: Tensor, *parameters: Tensor) -> Tensor:
        named = dict(zip(names, parameters, strict=True))
        out: Tensor = torch.func.functional_call(call, named, (query, states))
        return out

    given = [x.clone().requires_grad_() for x in (query, states, *(p.detach() for p in call.parameters()))]
    assert torch.autograd.gradcheck(function, given, fast_mode=True)


def normaliser(name: str) -> Any:
    return Weighting.named(name)(1)


LOGITS = torch.tensor([[[[1.0, 0.4, -2.0, 9.0], [3.0, 4.0, 5.0, 6.0], [0.1, 0.3, 0.2, -0.1]]]])
MASK = torch.tensor([[[[True, True, True, False], [False] * 4, [True] * 4]]])


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("softmax", [math.exp(s) / (math.exp(1) + math.exp(0.4) + math.exp(-2)) for s in (1, 0.4, -2)]),
        ("sparsemax", [0.8, 0.2, 0.0]),  # τ = (1 + .4 − 1) / 2
        # (.5 − τ)² + (.2 − τ)² = 1 at τ = .35 − √(.5 − .0225)
        ("entmax15", [(s + math.sqrt(0.4775)) ** 2 for s in (0.15, -0.15)] + [0.0]),
        ("sigmoid", [1 / (1 + 3 * math.exp(-s)) for s in (1, 0.4, -2)]),
        ("identity", [1.0, 0.4, -2.0]),
        ("identity_mean", [1 / 3, 0.4 / 3, -2 / 3]),
        ("softmax_one", [math.exp(s) / (1 + math.exp(1) + math.exp(0.4) + math.exp(-2)) for s in (1, 0.4, -2)]),
        ("sink", [math.exp(s) / (1 + math.exp(1) + math.exp(0.4) + math.exp(-2)) for s in (1, 0.4, -2)]),
        ("relu", [1 / 3, 0.4 / 3, 0.0]),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_normalisers_by_hand(name: str, row: list[float], dtype: torch.dtype) -> None:
    logits = LOGITS.to(dtype).requires_grad_()
    weights = normaliser(name)(logits, MASK)
    assert weights.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert weights[0, 0, 0].tolist() == pytest.approx([*row, 0.0], abs=1e-3 if dtype.itemsize == 2 else 1e-6)
    assert weights[0, 0, 1].abs().max() == 0
    (gradient,) = torch.autograd.grad(weights.square().sum(), logits)
    assert gradient.isfinite().all()
    assert gradient[~MASK].abs().max() == 0


@pytest.mark.parametrize("name", WEIGHTS)
def test_normalisers_on_hard_rows(name: str) -> None:
    """Gradients; logits that half precision cannot tell apart from infinity; no slot; a diverged row."""
    double = LOGITS.double().requires_grad_()
    assert torch.autograd.gradcheck(lambda s: normaliser(name)(s, MASK), double)
    large = normaliser(name)(torch.tensor([[[[6e4, -6e4, 6e4]]]]).half(), torch.tensor([[[[True, True, False]]]]))
    assert large.isfinite().all()
    assert large[..., 2] == 0
    if WEIGHTS[name].sums_to_one and not WEIGHTS[name].positive:
        assert large.tolist() == [[[[1.0, 0.0, 0.0]]]]
    empty = torch.zeros(1, 1, 2, 0)
    assert normaliser(name)(empty, empty.bool()).shape == empty.shape
    diverged = normaliser(name)(LOGITS.masked_fill(LOGITS == 0.4, float("nan")), MASK)
    assert diverged[0, 0, 0].isnan().any()
    assert diverged[0, 0, 1:].isfinite().all()


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        ({"score": "dot", "rank": 3}, "rank: expected score low_rank, got score dot"),
        ({"score": "concat_luong", "additive_width": 5}, "expected score additive or concat, got score concat_luong"),
        ({"score": "dot", "bilinear_init": "identity"}, "bilinear_init: expected score bilinear"),
        ({"score": "cosine", "scale": "rsqrt"}, "which has no d, got rsqrt"),
        ({"score": "uniform", "scale": "learned"}, "expected none with score uniform, which has no query or key"),
        ({"score": "location", "maps": "tied"}, "no map of keys"),
        ({"score": "location", "key_width": 5}, "expected none with score location"),
        ({"score": "additive", "maps": "tied_signed"}, "absorbs the signs"),
        ({"maps": "tied", "equal_start": True}, "equal_start: expected separate maps"),
        (
            {"maps": "raw", "score": "cosine", "scale": "none", "logit_init": "matched"},
            "matched sets a parameter",
        ),
        (
            {"score": "bilinear", "scale": "none", "logit_init": "rsqrt"},
            "of score dot, got score bilinear",
        ),
        ({"maps": "raw", "scale": "none", "map_rate": "rsqrt"}, "map_rate: rsqrt divides W_Q and W_K .* and raw maps"),
        ({"map_rate": "rsqrt"}, "map_rate: rsqrt stands in for the scale, but scale is rsqrt. Use scale none"),
        ({"weights": "identity", "scale": "none"}, "scale: expected rsqrt with weights identity"),
        ({"combine": "sum_own", "output": "raw"}, "which has W_O, got raw"),
        ({"combine": "sum_wide", "values": "raw"}, "values: expected projected with combine sum_wide"),
        ({"combine": "sum_wide", "value_width": 5}, "value_width: expected 64 with combine sum_wide"),
        ({"output": "raw", "value_width": 5}, "residual stream has width 64"),
    ],
)
def test_what_means_nothing_is_refused(overrides: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        experiment_from({"model.family": "transformer", "model.attention": overrides})


def test_unequal_widths_are_refused_where_maps_are_one() -> None:
    for fields in ({"maps": "tied"}, {"maps": "tied_signed"}, {"equal_start": True}):
        with pytest.raises(ValueError, match="states of one width"):
            Config(**fields).resolved(DQ, DK)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="square W"):
        Config(score="bilinear", bilinear_init="identity", maps="raw").resolved(DQ, DK)


@pytest.mark.parametrize("score", ARMS)
def test_a_resolved_site_stands_by_itself(score: str) -> None:
    """Check that the fields of a record are accepted again, with the same meaning."""
    resolved = Config(score=score, heads=H, **ARMS[score]).resolved(DQ, DK)
    assert Config(**resolved.model_dump()).resolved(DQ, DK) == resolved


def test_mechanisms_leave_the_identity_of_earlier_arms_alone() -> None:
    for family, known in (("recurrent", "f8eb0603"), ("transformer", "58eb1d99")):
        assert experiment_id(experiment_from({"model.family": family})) == f"grammar-{family}-dot-{known}-s1"
