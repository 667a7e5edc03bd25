"""Diagnostics, pooled alignments and their error, computed by hand."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor

from study.attention import AttentionCall
from study.config import experiment_from
from study.models import build
from study.models.translator import EOS, PAD, Encoded, Output, Translator
from study.training.batches import Batch
from study.training.diagnostics import diagnose, look, measures, observe, taps


class Shown(Translator):
    """One cross-attention of given weights [H, L, S] (a batch of one sentence) and logits of the same values."""

    def __init__(self, weights: Tensor, mask: Tensor, steps: bool = False) -> None:
        super().__init__()
        self.weights, self.visible, self.steps = weights[None], mask, steps
        self.attention = SimpleNamespace(tap=None, map_key=torch.nn.Identity())

    def sites(self):
        yield "cross", 0, self.attention

    def encode(self, source: Tensor, mask: Tensor) -> Encoded:
        return Encoded((), (), ())

    def decode(self, encoded: Encoded, target: Tensor) -> Output:
        length = self.weights.shape[2]
        for rows in [[t] for t in range(length)] if self.steps else [list(range(length))]:
            weights = self.weights[:, :, rows]
            query = torch.full((1, weights.shape[1], len(rows), 4), 1.5)
            mask = self.visible[None, None, None]
            self.attention.tap(AttentionCall(query, weights, weights, weights, weights, weights, mask))
        return Output(torch.zeros(1, length, 5), ())


def heads(weights: list, slots: int | None = None, wanted: int | None = None, steps: bool = False) -> list[dict]:
    """Diagnostics of given weights, of which only `slots` columns and `wanted` rows are not padding."""
    shown = torch.tensor(weights, dtype=torch.float64)
    _, length, width = shown.shape
    mask = torch.arange(width) < (slots or width)
    source = torch.where(mask, 7, PAD)[None]
    target = torch.where(torch.arange(length) < (wanted or length), 7, PAD)[None]
    batch = Batch(source, mask[None], target, target)
    found = diagnose(look(Shown(shown, mask, steps), batch), batch, {})
    assert list(found) == ["cross"]
    assert len(found["cross"]) == 1
    return by_head(found["cross"][0], len(shown))


def by_head(layer: dict, count: int) -> list[dict]:
    """A layer's measures as one dictionary a head."""
    return [{name: v[h] if isinstance(v, list) else v for name, v in layer.items()} for h in range(count)]


@pytest.mark.parametrize("steps", [False, True])
def test_uniform_and_diagonal_attention(steps: bool) -> None:
    n = 5
    uniform, diagonal = heads([[[1 / n] * n] * n, np.eye(n).tolist()], steps=steps)
    assert uniform["entropy"] == pytest.approx(1)
    assert uniform["information"] == pytest.approx(0, abs=1e-12)
    assert uniform["spread"] == pytest.approx(1)
    assert uniform["max_weight"] == pytest.approx(1 / n)
    assert uniform["logit_sd"] == pytest.approx(0, abs=1e-12)
    assert uniform["query_norm"] == pytest.approx(3)
    assert diagonal["entropy"] == pytest.approx(0, abs=1e-12)
    assert diagonal["information"] == pytest.approx(math.log(n))
    assert diagonal["spread"] == pytest.approx(1)
    assert diagonal["max_weight"] == 1
    assert diagonal["logit_mean"] == pytest.approx(1 / n)
    assert diagonal["logit_max"] == 1
    assert diagonal["logit_sd"] == pytest.approx(np.eye(n).std(ddof=1))


def test_attention_that_always_looks_at_one_place_has_no_spread() -> None:
    (collapsed,) = heads([[[0.0, 1.0, 0.0]] * 4])
    assert collapsed["entropy"] == collapsed["information"] == collapsed["spread"] == 0
    assert collapsed["max_weight"] == 1


def test_what_narrow_windows_see_together_has_a_spread_of_at_most_one() -> None:
    """Rows over different slots, pooled: one slot each, three around the diagonal, all but the own."""
    n = 6
    apart = (torch.arange(n)[:, None] - torch.arange(n)).abs()
    found = {}
    for name, visible in {"w 0": apart == 0, "w 1": apart <= 1, "exclude_self": apart > 0}.items():
        weights = (visible / visible.sum(-1, keepdim=True))[None, None].double()
        call = AttentionCall(*[weights] * 6, visible[None, None])
        rows = measures.Rows.of(call, torch.ones(1, n, dtype=torch.bool))
        found[name] = {measure: float(v) for measure, v in measures.entropies(weights, rows, True).items()}
    assert math.isnan(found["w 0"]["entropy"])
    assert [found[name]["spread"] for name in ("w 0", "exclude_self")] == pytest.approx([1, 1])
    assert found["w 0"]["information"] == pytest.approx(math.log(n))
    assert found["exclude_self"]["information"] == pytest.approx(math.log(n) - math.log(n - 1))
    pooled = torch.tensor([5 / 6, 7 / 6, 1, 1, 7 / 6, 5 / 6]) / n  # a row is 1/3 thrice, 1/2 twice at both ends
    assert found["w 1"]["spread"] == pytest.approx(float(torch.special.entr(pooled).sum()) / math.log(n), rel=1e-5)
    assert 0.9 < found["w 1"]["spread"] < 1


@pytest.mark.parametrize(
    ("reach", "weights"),
    [
        ("local_m", "softmax"),
        ("local_p", "softmax"),
        ("hard", "softmax"),
        ("local_p", "sparsemax"),
        ("global", "entmax15"),
    ],
)
def test_what_a_reach_does_to_the_weights_hides_no_entropy(reach: str, weights: str) -> None:
    fields = {"model.width": 20, "model.attention.cross.reach": reach, "model.attention.cross.weights": weights}
    model = build(experiment_from(fields).model, 23, 1)
    source, target = torch.tensor([[7, 8, 9, 10, EOS], [9, EOS, PAD, PAD, PAD]]), torch.tensor([[2, 5, 6], [2, 6, PAD]])
    batch = Batch(source, source != PAD, target, target)
    observation = look(model, batch)["cross", 0].call
    torch.testing.assert_close(observation.normalised.sum(-1), torch.ones(2, 1, 3))
    if reach == "hard":
        assert observation.weights.unique().tolist() == [0, 1]
    (layer,) = diagnose(look(model, batch), batch, {})["cross"]
    assert 0 < layer["entropy"][0] <= 1
    assert 0 < layer["spread"][0] <= 1
    assert layer["information"][0] >= -1e-6
    assert (layer["softmax_gradient"] is not None) == (weights == "softmax")
    if weights == "softmax":
        assert 0 < layer["softmax_gradient"][0] < 1


def test_padding_is_ignored_on_both_sides() -> None:
    rows = [[0.5, 0.5, 0.0], [0.9, 0.1, 0.0]]
    padded = heads([[*rows, [0.0, 0.0, 9.0]]], slots=2, wanted=2)
    (plain,) = heads([[row[:2] for row in rows]])
    assert padded[0] == {name: value if value is None else pytest.approx(value) for name, value in plain.items()}
    entropy = [math.log(2), -0.9 * math.log(0.9) - 0.1 * math.log(0.1)]
    assert padded[0]["entropy"] == pytest.approx(sum(entropy) / 2 / math.log(2))
    pooled = -0.7 * math.log(0.7) - 0.3 * math.log(0.3)
    assert padded[0]["information"] == pytest.approx(pooled - sum(entropy) / 2)
    assert padded[0]["spread"] == pytest.approx(pooled / math.log(2))


def test_one_slot_has_no_entropy_and_none_has_nothing() -> None:
    (one,) = heads([[[1.0], [1.0]]])
    assert one["entropy"] is one["information"] is one["spread"] is None
    assert one["max_weight"] == 1
    model = build(experiment_from({"model.memory": "empty"}).model, 23, 1)
    source = torch.tensor([[7, EOS]])
    batch = Batch(source, source != PAD, source, source)
    (found,) = diagnose(look(model, batch), batch, {})["cross"]
    assert {value for name, value in found.items() if name != "query_norm"} == {None}


@pytest.mark.parametrize("family", [{}, {"model.decoder": "bahdanau"}, {"model.family": "transformer"}])
def test_every_site_is_observed_with_all_queries_and_nothing_changes(family: dict) -> None:
    model = build(experiment_from({"model.width": 20, "model.attention.heads": 2}, family).model, 23, 1).train()
    source, target = torch.tensor([[7, 8, EOS], [9, EOS, PAD]]), torch.tensor([[2, 5, 6, 7], [2, 6, PAD, PAD]])
    batch = Batch(source, source != PAD, target, target)
    seen = observe(model, batch)
    sizes = {"cross": (4, 3), "decoder_self": (4, 4), "encoder_self": (3, 3)}
    assert set(seen) == {(site, layer) for site, layer, _ in model.sites()}
    for (site, _), call in seen.items():
        assert call.weights.shape == call.logits.shape == (2, 2, *sizes[site])
        torch.testing.assert_close(call.weights.sum(-1), torch.ones(2, 2, sizes[site][0]))
    again = observe(model, batch)
    assert all(torch.equal(seen[key].weights, again[key].weights) for key in seen), "dropout was on"
    assert model.training
    for layers in diagnose(look(model, batch), batch, {}).values():
        assert all(0 <= entropy <= 1 for layer in layers for entropy in layer["entropy"])
    with pytest.raises(RuntimeError), taps(model):
        raise RuntimeError
    assert all(attention.tap is None for _, _, attention in model.sites())
