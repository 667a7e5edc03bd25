"""The class of every value, normalisers by hand and on hard rows, slots beyond a table, nothing to see, refusals."""

import math

import pytest
import torch
from attention_sites import DQ, B, H, L, close, context, inputs, seen, site

from study.attention import Lengths
from study.attention.weighting import Weighting
from study.config import experiment_from
from study.config.mechanisms import SCORE, WEIGHTS
from study.errors import InputError
from study.sweep.fields import expand


def test_cosine_starts_at_the_temperature_of_the_training_lengths():
    attention = site(score="cosine")
    assert attention.get_parameter("score.temperature.log").exp().tolist() == pytest.approx([math.log2(37**2 - 37)] * H)
    assert not list(site(DQ, DQ, score="cosine", scale="none", values="raw", output="raw", maps="raw").parameters())
    zero = torch.zeros(B, L, DQ, dtype=torch.float64, requires_grad=True)
    _, states, mask = inputs()
    (gradient,) = torch.autograd.grad(context(attention, zero, states, mask).sum(), zero)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("score", SCORE.those(lambda row: "slot" in row.reads))
def test_slots_beyond_the_training_lengths_are_masked(score):
    attention = site(score=score, lengths=Lengths(4, 3))
    query, states, mask = inputs()
    weights = seen(attention, query, states, mask).weights
    assert weights[..., 4:].abs().max() == 0
    close(weights.sum(-1), torch.ones(B, H, L, dtype=torch.float64))


def normaliser(name):
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
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_normalisers_by_hand(name, row, dtype):
    logits = LOGITS.to(dtype).requires_grad_()
    weights = normaliser(name)(logits, MASK)
    assert weights.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert weights[0, 0, 0].tolist() == pytest.approx([*row, 0.0], abs=1e-3 if dtype.itemsize == 2 else 1e-6)
    assert weights[0, 0, 1].abs().max() == 0
    (gradient,) = torch.autograd.grad(weights.square().sum(), logits)
    assert gradient.isfinite().all()
    assert gradient[~MASK].abs().max() == 0


@pytest.mark.parametrize("name", WEIGHTS)
def test_normalisers_on_hard_rows(name):
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
    ("arm", "reason"),
    [
        ("score=cosine scale=rsqrt", "which has no d, got rsqrt"),
        ("score=uniform scale=learned", "expected none with score uniform, which has no query or key"),
        ("score=location maps=tied", "no projection of keys"),
        ("score=additive maps=tied_signed", "absorbs the signs"),
        ("maps=tied equal_start=true", "equal_start: expected maps separate"),
        ("score=bilinear scale=none logit_init=rsqrt", "of score dot, got score bilinear"),
        ("maps=raw scale=none map_rate=rsqrt", "map_rate: rsqrt divides W_Q and W_K .* and maps raw"),
        ("map_rate=rsqrt", "map_rate: rsqrt stands in for the scale, but scale is rsqrt. Use scale none"),
        ("weights=identity scale=none", "scale: expected rsqrt with weights identity"),
        ("combine=sum_own output=raw", "which has W_O, got raw"),
        ("combine=sum_wide values=raw", "values: expected projected with combine sum_wide"),
        ("combine=sum_wide value_width=5", "value_width: expected 64 with combine sum_wide"),
        ("output=raw value_width=5", "residual stream has width 64"),
        ("family=recurrent reach=local_p window=0", "expected 1 or more with reach local_p"),
        ("family=recurrent exclude_self=true", "expected a self-attention site, got cross"),
        ("family=recurrent reach=local_m memory=final", "got memory final. Use memory states"),
        ("reach=hard", "is self-attention"),
        ("heads=4 groups=3", "groups: expected a divisor of heads 4, got 3"),
        ("groups=2 score=location", "and a score with keys"),
        ("groups=2 values=raw", "groups: expected values projected or keys, got raw"),
        ("values=keys maps=raw", "values: keys expected keys with a projection"),
        ("values=keys combine=differential", "whose heads have two keys"),
        ("values=keys memory=final", "values: keys expected several slots"),
        ("logits=cap score=uniform", "logits: cap has no effect on score uniform"),
        ("norm=rms score=cosine", "norm: rms adds no function to score cosine"),
        ("norm=rms scale=none map_rate=rsqrt", "undoes the size of"),
        ("weights=normalised", "scale: expected none with weights normalised, got rsqrt"),
        ("weights=relu score=uniform", "relu of score uniform are 0"),
        ("combine=talking reach=local_p", "but combine talking mixes weights"),
        ("combine=differential cross.reach=hard", "combine differential mixes weights"),
        ("positions=rope score=additive", "score: expected dot or cosine with positions rope"),
        ("positions=rope key_width=5", "key_width: expected an even width"),
        ("positions=alibi logit_init=matched", "expected standard with positions alibi"),
        ("factors=split layers=1 values=keys", "as factors split gives values other states"),
    ],
)
def test_what_means_nothing_is_refused(arm, reason):
    with pytest.raises(InputError, match=reason):
        experiment_from({"model.family": "transformer"}, expand({"arm": arm}))
