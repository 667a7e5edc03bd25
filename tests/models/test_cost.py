"""Parameters and operations against counts by hand."""

import pytest
from model_cases import VOCABULARY as N

from study.attention import Lengths
from study.config import TEXTBOOK, experiment_from
from study.models import build
from study.models.cost import Sizes, cost

S, L = 5, 7
SIZES = Sizes(N, Lengths(13, 11), S, L)


def test_a_recurrent_model_by_hand():
    """Bahdanau with a GRU, D 6, A 11: products of every step, two operations a multiply-add."""
    D, A, C = 6, 11, 3  # C: one direction of the encoder
    model = experiment_from({"preset": "bahdanau2015", "model.width": D, "model.attention.additive_width": A}).model
    parts = cost(model, SIZES).parts
    gru = 3 * C * (D + C) + 6 * C
    assert {name: part.parameters for name, part in parts.items()} == {
        "encoder": N * D + 2 * gru + D * D + D,
        "cross": A * 2 * D + A,
        "decoder": N * D + (3 * D * 2 * D + 6 * D) + 3 * D * D + (2 * D * D + D),
        "output layer": N * D + N,
    }
    assert {name: part.flops for name, part in parts.items()} == {
        "encoder": S * 2 * 2 * 3 * C * (D + C) + 2 * D * D,
        "cross": S * 2 * D * A + L * (2 * D * A + S * 2 * A + S * 2 * D),
        "decoder": L * (3 * 2 * 3 * D * D + 2 * 2 * D * D),
        "output layer": L * 2 * D * N,
    }
    assert cost(model, SIZES).flops_per_token == round(sum(part.flops for part in parts.values()) / L)


def test_a_transformer_by_hand():
    D, F, H, K, V, layers = 10, 17, 3, 4, 2, 2
    fields = {"width": D, "feedforward": F, "attention.heads": H, "attention.key_width": K, "attention.value_width": V}
    overrides = {f"model.{name}": value for name, value in fields.items()}
    found = cost(experiment_from({"model.family": "transformer"}, overrides).model, SIZES)
    feed, norm, site = 2 * D * F + F + D, 2 * D, 2 * D * H * (K + V)
    assert {name: part.parameters for name, part in found.parts.items()} == {
        "encoder": N * D + layers * (feed + 2 * norm) + norm,
        **dict.fromkeys(("encoder_self", "decoder_self", "cross"), layers * site),
        "decoder": N * D + layers * (feed + 3 * norm) + norm,
        "output layer": N * D + N,
    }

    def attention(queries, slots):
        mapped = queries * 2 * D * H * K + slots * 2 * D * H * (K + V) + queries * 2 * H * V * D
        return layers * (mapped + queries * slots * 2 * H * (K + V))

    assert {name: part.flops for name, part in found.parts.items()} == {
        "encoder": layers * S * 2 * 2 * D * F,
        "encoder_self": attention(S, S),
        "decoder_self": attention(L, L),
        "cross": attention(L, S),
        "decoder": layers * L * 2 * 2 * D * F,
        "output layer": L * 2 * D * N,
    }
    assert found.parameters_attention == 3 * layers * site


@pytest.mark.parametrize(("score", "window"), [("dot", 0), ("dot", 1), ("additive", 3)])
def test_a_gathered_window_costs_what_its_slots_cost(score, window):
    """Score and mix of 2w + 1 slots a query. Sentences of 100 tokens are long enough to gather every window."""
    D, H, K, A, V, length, width = 10, 2, 5, 3, 4, 100, 2 * window + 1
    fields = {"heads": H, "key_width": K, "value_width": V, "score": score, "reach": "local_m", "window": window}
    fields |= {"additive_width": A} if score == "additive" else {}
    overrides = {f"model.attention.{name}": value for name, value in fields.items()}
    sizes = Sizes(N, Lengths(length, length), length, length)
    found = cost(
        experiment_from({"model.family": "transformer", "model.width": D, "model.layers": 1}, overrides).model, sizes
    )
    mapped = length * 2 * D * H * (2 * K + V) + length * 2 * H * V * D
    per_pair = {"dot": 2 * K, "additive": 2 * A}[score]
    halves = length * 2 * 2 * K * A * H if score == "additive" else 0
    expected = mapped + halves + length * width * H * (per_pair + 2 * V)
    assert {name: found.parts[name].flops for name in found.sites} == dict.fromkeys(found.sites, expected)


@pytest.mark.parametrize(
    "overrides",
    [
        *({"preset": name} for name in TEXTBOOK),
        {"model.attention.reach": "hard"},
        {"model.attention.weights": "entmax15", "model.layers": 2, "model.embeddings": "target"},
        {"model.family": "transformer", "model.mixing": "convolution", "model.positions": "learned"},
        {"model.family": "transformer", "model.attention.score": "fixed_random", "model.memory": "structured"},
    ],
    ids=lambda overrides: "-".join(map(str, overrides.values())),
)
def test_every_parameter_is_counted_once(overrides):
    model = experiment_from(overrides, {"model.width": 16}).model
    found = cost(model, SIZES._replace(source=3, target=2))
    real = build(model, N, 1, SIZES.lengths)
    assert found.parameters == sum(p.numel() for p in real.parameters())
    sites = [p.numel() for _, _, attention in real.sites() for p in attention.parameters()]
    assert found.parameters_attention == sum(sites)
    assert all(found.parts[site].flops > 0 for site in found.sites)
    assert set(real.origins()) >= set(found.sites)
