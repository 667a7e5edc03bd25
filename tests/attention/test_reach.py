"""Reach: windows against brute force, hard attention's gradient against all draws."""

import itertools
import math
from functools import partial

import attention_sites
import pytest
import torch
from attention_sites import B, H, L, S, seen, view

from study.attention import Lengths, MultiHeadAttention, View, multihead
from study.attention.reach import Hard
from study.config import AttentionConfig as Config
from study.config import Recurrent, Transformer
from study.config.mechanisms import SCORE
from study.models import build, initialise
from study.training import step
from study.training.decode import token_nll

D, K = attention_sites.DQ, attention_sites.DQ // H
LENGTHS = (S, S // 2)
site, inputs = partial(attention_sites.site, D, D), partial(attention_sites.inputs, D, D)


def brute_softmax(logits, allowed):
    """Row by row, over the allowed slots alone."""
    out = torch.zeros_like(logits)
    for index in itertools.product(*(range(n) for n in logits.shape[:3])):
        chosen = allowed.expand_as(logits)[index].nonzero()[:, 0]
        if len(chosen):
            out[index][chosen] = logits[index][chosen].softmax(0)
    return out


@pytest.mark.parametrize(
    ("at", "window"), [("cross", 0), ("cross", 2), ("cross", S), ("self", 1), ("self", 5), ("causal", 0), ("causal", 2)]
)
def test_local_m_is_a_brute_force_window(at, window):
    query, states, mask = inputs()
    attention = site(reach="local_m", window=window, score="additive")
    allowed = torch.zeros(B, 1, L if at == "cross" else S, S, dtype=torch.bool)
    for b, t, s in itertools.product(range(B), range(allowed.shape[2]), range(S)):
        centre = min(t, LENGTHS[b] - 1) if at == "cross" else t
        allowed[b, 0, t, s] = s < LENGTHS[b] and abs(s - centre) <= window and (at != "causal" or s <= t)
    if at == "cross":
        call = seen(attention, query, states, mask)
    else:
        causal = torch.ones(S, S, dtype=torch.bool).tril() if at == "causal" else torch.ones(S, S, dtype=torch.bool)
        call = seen(attention, states, states, mask, View(mask[:, None, None] & causal, torch.arange(S)))
    real = torch.arange(allowed.shape[2]) < (L if at == "cross" else LENGTHS[1])  # queries at padding mean nothing
    wanted = brute_softmax(call.logits, allowed)
    torch.testing.assert_close(call.weights[:, :, real], wanted[:, :, real], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("window", [1, 2])
def test_local_p_is_the_definition(window):
    query, states, mask = inputs()
    attention = site(reach="local_p", window=window)
    call = seen(attention, query, states, mask)
    weight, vector = (attention.get_parameter(f"reach.{name}").detach() for name in ("weight", "vector"))
    assert weight.shape == (H, K, K)
    length = torch.tensor(LENGTHS, dtype=torch.float64)[:, None, None]
    p = (length - 1) * torch.sigmoid(
        torch.einsum("hk,bhlk->bhl", vector, torch.tanh(torch.einsum("hkj,bhlj->bhlk", weight, call.query)))
    )
    distance = torch.arange(S, dtype=torch.float64) - p[..., None]
    allowed = (distance.abs() <= window) & mask[:, None, None]
    wanted = brute_softmax(call.logits, allowed) * torch.exp(-(distance**2) / (2 * (window / 2) ** 2))
    torch.testing.assert_close(call.weights, wanted, rtol=1e-10, atol=1e-12)
    assert call.mask.equal(allowed)
    torch.testing.assert_close(call.normalised, brute_softmax(call.logits, allowed), rtol=1e-10, atol=1e-12)
    assert call.sums_to_one
    out, _ = attention(query, attention.remember(states, mask), view(mask))
    gradients = torch.autograd.grad(out.square().sum(), list(attention.parameters()))
    assert all(g.isfinite().all() and g.abs().max() > 0 for g in gradients)


@pytest.mark.parametrize("score", ["dot", "additive"])  # the fused path and the explicit one
def test_exclude_self_hides_the_diagonal(score):
    _, states, _ = inputs()
    attention = site(score=score, exclude_self=True)
    mask = torch.ones(B, S, dtype=torch.bool)
    causal = View(torch.ones(S, S, dtype=torch.bool).tril()[None, None], torch.arange(S))
    call = seen(attention, states, states, mask, causal)
    wanted = brute_softmax(call.logits, torch.ones(S, S, dtype=torch.bool).tril(-1)[None, None])
    torch.testing.assert_close(call.weights, wanted, rtol=1e-12, atol=1e-14)
    out, _ = attention(states, attention.remember(states, mask), causal)
    assert out[:, 0].abs().max() == 0  # the first sees nothing
    assert out[:, 1:].abs().amin(-1).min() > 0


def test_hard_draws_by_the_weights_and_never_what_is_hidden():
    reach = Hard(H, D, entropy_bonus=0.5)
    weights = torch.tensor([0.2, 0.0, 0.7, 0.1, 0.0]).expand(1, 2, 5000, 5).clone()
    mask = (weights[:, :1] > 0) & (torch.arange(5000) != 17)[:, None]
    weights[:, :, 17] = 0.0  # a query that sees nothing
    out, terms = reach.reweight(weights, torch.zeros(()), View(mask, torch.arange(5000)))
    assert out.sum(-1).eq(1).sum() == 2 * 4999
    assert out[:, :, 17].abs().max() == 0
    torch.testing.assert_close(out.mean((0, 1, 2)), torch.tensor([0.2, 0, 0.7, 0.1, 0]), rtol=0, atol=0.015)
    assert terms.log_prob[0, 17] == 0
    expected = weights[0, :, 3].gather(-1, out[0, :, 3].argmax(-1, keepdim=True)).log().sum()
    assert terms.log_prob[0, 3].item() == pytest.approx(expected.item())
    entropy = -sum(p * math.log(p) for p in (0.2, 0.7, 0.1))
    assert terms.bonus[0, 3].item() == pytest.approx(0.5 * 2 * entropy, rel=1e-5)
    reach.eval()
    out, terms = reach.reweight(weights, torch.zeros(()), View(mask, torch.arange(5000)))
    assert out[..., 2].sum() == 2 * 4999
    assert terms.log_prob is None


HARD = {"reach": "hard", "entropy_bonus": 0.0}
ARMS = {
    "input feeding": (Recurrent(width=10, dropout=0.0, input_feeding=True, attention=HARD), [5, 6, 8, 9, 3]),
    "nothing fed back": (Recurrent(width=10, dropout=0.0, attention=HARD), [5, 6, 8, 9, 3]),
    "transformer of two heads": (
        Transformer(width=10, layers=1, feedforward=7, dropout=0.0, attention={"heads": 2, "cross": HARD}),
        [6, 3],
    ),
}


@pytest.mark.parametrize("arm", ARMS)
def test_expected_gradient_of_hard_is_the_gradient_of_the_expected_loss(arm, monkeypatch):
    """Over all draws of all heads at two real target tokens; a third token is padding."""
    config, tokens = ARMS[arm]
    model, heads = build(config, 13, 1).double(), config.attention.cross.heads
    source, given = torch.tensor([tokens]), torch.tensor([[2, 7, 8]])
    wanted = torch.tensor([[7, 3, 0]])
    real = wanted != 0
    parameters = [p for p in model.parameters() if p.requires_grad]
    exact = [torch.zeros_like(p) for p in parameters]
    reinforced = [torch.zeros_like(p) for p in parameters]
    draws, at = torch.zeros(1, heads, 3, 1, dtype=torch.long), 0

    def draw(self, weights):
        nonlocal at
        at += weights.shape[2]
        return draws[:, :, at - weights.shape[2] : at]

    monkeypatch.setattr(Hard, "draw", draw)
    total = 0.0
    for slots in itertools.product(range(len(tokens)), repeat=2 * heads):
        draws[0, :, :2, 0], at = torch.tensor(slots).view(heads, 2), 0
        output = model.decode(model.encode(source, source != 0), given)
        log_p = -token_nll(output.logits, wanted)
        loss = -log_p.sum() / real.sum()
        (log_prob,) = (t.log_prob for t in output.terms if t.log_prob is not None)
        probability = (log_prob * real).sum().exp()
        total += probability.item()
        estimator = probability.detach() * (loss + step.surrogate_loss(output.terms, log_p, real, -2.5, model.carries))
        for into, value in ((exact, probability * loss), (reinforced, estimator)):
            gradients = torch.autograd.grad(value, parameters, retain_graph=True, allow_unused=True)
            for total_gradient, gradient in zip(into, gradients, strict=True):
                if gradient is not None:
                    total_gradient += gradient
    assert total == pytest.approx(1)
    for one, other in zip(reinforced, exact, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-11)
    score = dict(zip((n for n, p in model.named_parameters()), exact, strict=True))
    assert max(g.abs().max().item() for n, g in score.items() if "embedding" not in n) > 1e-4


def test_surrogate_by_hand():
    from study.attention import Terms

    log_p = torch.tensor([[-1.0, -2.0, -3.0], [-4.0, -5.0, -99.0]])
    real = torch.tensor([[True, True, True], [True, True, False]])
    terms = Terms(log_prob=torch.tensor([[-0.1, -0.2, -0.3], [-0.4, -0.5, -9.0]]), bonus=torch.full((2, 3), 0.25))
    got = step.surrogate_loss([Terms(), terms], log_p, real, torch.tensor(-2.0))
    returns = [(-6, -0.1, 3), (-5, -0.2, 2), (-3, -0.3, 1), (-9, -0.4, 2), (-5, -0.5, 1)]
    wanted = -sum((r + 2.0 * left) * a for r, a, left in returns) / 5 - 0.25
    assert float(got) == pytest.approx(wanted)
    alone = [(-1, -0.1), (-2, -0.2), (-3, -0.3), (-4, -0.4), (-5, -0.5)]
    wanted = -sum((r + 2.0) * a for r, a in alone) / 5 - 0.25
    assert float(step.surrogate_loss([Terms(), terms], log_p, real, -2.0, onwards=False)) == pytest.approx(wanted)
    assert float(step.running_mean(torch.tensor(-1.0), log_p, real)) == pytest.approx(0.9 * -1 + 0.1 * -3)


def test_hard_leaves_the_dropout_of_the_rest_alone():
    source, given = torch.tensor([[5, 6, 7, 3]]), torch.tensor([[2, 7, 8]])
    states = {}
    for reach in ("global", "hard"):
        model = build(Recurrent(width=10, dropout=0.3, attention={"reach": reach}), 13, 1)
        torch.manual_seed(11)
        for _, _, attention in model.sites():
            attention.reach.reseed(5)
        encoded = model.encode(source, source != 0)
        output = model.decode(encoded, given)
        states[reach] = (torch.get_rng_state(), encoded.memories[0].keys, output.logits)
    assert states["global"][0].equal(states["hard"][0])
    assert states["global"][1].equal(states["hard"][1])
    assert not states["global"][2].equal(states["hard"][2])


def test_hard_starts_again_from_its_seed():
    reach, weights = Hard(H, D, entropy_bonus=0.0), torch.full((3, 2, 5, 7), 1 / 7)
    reach.reseed(5)
    first, second = reach.draw(weights), reach.draw(weights)
    torch.manual_seed(99)
    reach.reseed(5)
    assert reach.draw(weights).equal(first)
    assert not second.equal(first)
    padded = torch.cat([weights, torch.zeros(3, 2, 5, 4)], -1)
    reach.reseed(5)
    assert reach.draw(padded).equal(first)


@pytest.mark.parametrize(
    ("reach", "at", "score"),
    [
        *(("local_m", "self", score) for score in SCORE.those(lambda row: "key" in row.reads)),
        *(("local_m", at, "additive") for at in ("cross", "causal", "one step")),
        *(("local_p", at, "dot") for at in ("cross", "self", "causal", "one step")),
    ],
)
def test_looking_up_a_window_is_hiding_the_rest(reach, at, score):
    """Output and every gradient; windows over both ends, padding, and a sentence that is all padding."""
    scale = {"cosine": "none", "bilinear": "learned"}.get(score)
    attention = site(reach=reach, window=1, score=score, scale=scale, exclude_self=at == "self")
    query, states, mask = inputs()
    mask = torch.cat([mask, torch.zeros(1, S, dtype=torch.bool)])
    query, states = (torch.cat([x, x[:1]]).requires_grad_() for x in (query, states))
    causal = torch.ones(S, S, dtype=torch.bool).tril()
    asked, view = {
        "cross": (query, attention_sites.view(mask)),
        "self": (states, View(mask[:, None, None], torch.arange(S))),
        "causal": (states, View(causal[None, None], torch.arange(S))),
        "one step": (query[:, :1], View(causal[None, None, 4:5], torch.tensor([4]))),
    }[at]
    results = []
    for worth in (math.inf, 1.0):
        attention.gather_from = worth
        out, _ = attention(asked, attention.remember(states, mask), view)
        weighted = (out * torch.linspace(-1, 2, out.numel()).view_as(out)).sum()
        leaves = [query, states, *attention.parameters()]
        results.append([out, *torch.autograd.grad(weighted, leaves, allow_unused=True, materialize_grads=True)])
    for hidden, looked_up in zip(*results, strict=True):
        torch.testing.assert_close(looked_up, hidden, rtol=1e-10, atol=1e-12)


def test_a_window_is_looked_up_where_that_is_cheaper_and_nobody_taps(monkeypatch):
    slots = []
    inner = multihead.gather
    monkeypatch.setattr(multihead, "gather", lambda x, at: slots.append(at.shape[-1]) or inner(x, at))
    query, states, mask = inputs()
    for score, window, looked_up in [("additive", 0, [1, 1]), ("additive", 1, []), ("dot", 0, []), ("location", 0, [])]:
        config = Config(heads=H, reach="local_m", window=window, score=score).resolved(D, D)
        attention = MultiHeadAttention(config, D, D, Lengths(S, S))
        initialise(attention, 1)
        attention.double()
        attention(query, attention.remember(states, mask), attention_sites.view(mask))
        assert slots == looked_up
        slots.clear()
        seen(attention, query, states, mask, attention_sites.view(mask))
        assert not slots
