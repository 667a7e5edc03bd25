"""Diagnostics by hand, against autograd and against the scores, and that measuring leaves training as it is."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tiny_sweep import GRAPH
from torch.nn import functional as F

from study.attention import AttentionCall
from study.config import experiment_from
from study.corpora import Link, Pair
from study.models import build
from study.models.translator import EOS, PAD, Encoded, Output, Translator
from study.training import diagnostics
from study.training.alignment import gold_mass, of_words, sides
from study.training.batches import Batch, Example, collate
from study.training.diagnostics import diagnose, gradients, masses, observe, profile, taps, truth
from study.training.run import run
from study.training.vocabulary import Words


class Shown(Translator):
    """One cross-attention of given weights [H, L, S] (a batch of one sentence) and logits of the same values."""

    def __init__(self, weights, mask, steps=False):
        super().__init__()
        self.weights, self.visible, self.steps = weights[None], mask, steps
        self.attention = SimpleNamespace(tap=None)

    def sites(self):
        yield "cross", 0, self.attention

    def encode(self, source, mask):
        return Encoded((), (), ())

    def decode(self, encoded, target):
        length = self.weights.shape[2]
        for rows in [[t] for t in range(length)] if self.steps else [list(range(length))]:
            weights = self.weights[:, :, rows]
            query = torch.full((1, weights.shape[1], len(rows), 4), 1.5)
            mask = self.visible[None, None, None]
            self.attention.tap(AttentionCall(query, weights, weights, weights, weights, weights, mask))
        return Output(torch.zeros(1, length, 5), ())


def heads(weights, slots=None, wanted=None, steps=False):
    """Diagnostics of given weights, of which only `slots` columns and `wanted` rows are not padding."""
    shown = torch.tensor(weights, dtype=torch.float64)
    _, length, width = shown.shape
    mask = torch.arange(width) < (slots or width)
    source = torch.where(mask, 7, PAD)[None]
    target = torch.where(torch.arange(length) < (wanted or length), 7, PAD)[None]
    batch = Batch(source, mask[None], target, target)
    found = diagnose(observe(Shown(shown, mask, steps), batch), batch, {})
    (layer,) = found["cross"]
    return [{name: v[h] if isinstance(v, list) else v for name, v in layer.items()} for h in range(len(shown))]


@pytest.mark.parametrize("steps", [False, True])
def test_uniform_and_diagonal_attention(steps):
    n = 5
    uniform, diagonal = heads([[[1 / n] * n] * n, np.eye(n).tolist()], steps=steps)
    assert uniform["entropy"] == pytest.approx(1)
    assert uniform["information"] == pytest.approx(0, abs=1e-12)
    assert uniform["max_weight"] == pytest.approx(1 / n)
    assert uniform["logit_sd"] == pytest.approx(0, abs=1e-12)
    assert diagonal["entropy"] == pytest.approx(0, abs=1e-12)
    assert diagonal["information"] == pytest.approx(math.log(n))
    assert diagonal["max_weight"] == 1
    assert diagonal["logit_sd"] == pytest.approx(np.eye(n).std(ddof=1))


@pytest.mark.parametrize(("reach", "weights"), [("local_p", "softmax"), ("hard", "softmax"), ("global", "entmax15")])
def test_what_a_reach_does_to_the_weights_hides_no_entropy(reach, weights):
    fields = {"model.width": 20, "model.attention.cross.reach": reach, "model.attention.cross.weights": weights}
    model = build(experiment_from(fields).model, 23, 1)
    source, target = torch.tensor([[7, 8, 9, 10, EOS], [9, EOS, PAD, PAD, PAD]]), torch.tensor([[2, 5, 6], [2, 6, PAD]])
    batch = Batch(source, source != PAD, target, target)
    observation = observe(model, batch)["cross", 0]
    torch.testing.assert_close(observation.normalised.sum(-1), torch.ones(2, 1, 3))
    if reach == "hard":
        assert observation.weights.unique().tolist() == [0, 1]
    (layer,) = diagnose(observe(model, batch), batch, {})["cross"]
    assert 0 < layer["entropy"][0] <= 1
    assert layer["information"][0] >= -1e-6


def test_padding_is_ignored_on_both_sides():
    rows = [[0.5, 0.5, 0.0], [0.9, 0.1, 0.0]]
    padded = heads([[*rows, [0.0, 0.0, 9.0]]], slots=2, wanted=2)
    (plain,) = heads([[row[:2] for row in rows]])
    assert padded[0] == {name: value if value is None else pytest.approx(value) for name, value in plain.items()}
    entropy = [math.log(2), -0.9 * math.log(0.9) - 0.1 * math.log(0.1)]
    assert padded[0]["entropy"] == pytest.approx(sum(entropy) / 2 / math.log(2))
    pooled = -0.7 * math.log(0.7) - 0.3 * math.log(0.3)
    assert padded[0]["information"] == pytest.approx(pooled - sum(entropy) / 2)


def test_one_slot_has_no_entropy_and_none_has_nothing():
    (one,) = heads([[[1.0], [1.0]]])
    assert one["entropy"] is one["information"] is None
    assert one["max_weight"] == 1
    model = build(experiment_from({"model.memory": "empty"}).model, 23, 1)
    source = torch.tensor([[7, EOS]])
    batch = Batch(source, source != PAD, source, source)
    (found,) = diagnose(observe(model, batch), batch, {})["cross"]
    assert set(found.values()) == {None}


@pytest.mark.parametrize("family", [{}, {"model.decoder": "bahdanau"}, {"model.family": "transformer"}])
def test_every_site_is_observed_with_all_queries_and_nothing_changes(family):
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
    with pytest.raises(RuntimeError), taps(model):
        raise RuntimeError
    assert all(attention.tap is None for _, _, attention in model.sites())


def test_shares_of_weight_by_hand():
    """Tokens: three words and end-of-sentence. The second head's weights have signs, the third row is padding."""
    first = [[0.1, 0.2, 0.3, 0.4], [0.5, 0.25, 0.25, 0.0], [0.0, 0.0, 1.0, 0.0]]
    second = [[1.0, -2.0, 3.0, -4.0], [0.0, 0.0, 0.0, 0.0], [9.0, 9.0, 9.0, 9.0]]
    right = torch.tensor([[[0.0, 0.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0], [1.0] * 4]])
    some, tokens = torch.tensor([[[True, True, False]]]), torch.ones(1, 4, dtype=torch.bool)
    found = masses(torch.tensor([[first, second]]), some, tokens, right)
    torch.testing.assert_close(found["last_two_mass"], torch.tensor([(0.5 + 0.5) / 2, 0.5 / 2]))
    torch.testing.assert_close(found["end_mass"], torch.tensor([(0.4 + 0.0) / 2, 0.4 / 2]))
    torch.testing.assert_close(found["gold_mass"], torch.tensor([(0.3 + 0.75) / 2, 0.3 / 2]))
    short = torch.tensor([[[[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]]])  # a source of one word
    alone = masses(short, torch.ones(1, 1, 3, dtype=torch.bool), torch.ones(1, 2, dtype=torch.bool), None)
    assert alone["last_two_mass"].item() == pytest.approx((1 + 0.5 + 0) / 3)
    assert "gold_mass" not in alone


class Unequal(Words):
    """As many tokens for a word as it has letters."""

    def words(self, text):
        return [i for i, word in enumerate(text.split()) for _ in word]


def test_the_diagnosed_mass_on_gold_is_the_scored_one():
    """Three tokens of one word, with and without gold, and signs."""
    pair = Pair("aa b", "xxx y zz", (Link(0, 0), Link(1, 0, sure=False), Link(0, 1)))
    example, vocabulary = Example([4] * 3, [5] * 6, pair), Unequal(b"[]")
    batch = collate([example])
    weights = torch.randn(1, 2, 7, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    right = truth([example], vocabulary, batch)["cross"]
    found = masses(weights, torch.ones(1, 1, 7, dtype=torch.bool), batch.mask, right)["gold_mass"]
    call = AttentionCall(*[weights] * 6, torch.ones(1, 1, 1, 4, dtype=torch.bool))
    read = of_words(call, 4, [sides(example, vocabulary, "target")])
    scored = [gold_mass(read, [pair.alignment or ()], head) for head in (0, 1)]
    assert found.tolist() == pytest.approx(scored)


def test_profile_of_the_gradient_by_hand():
    """Eight queries over four tokens, gold at the first; norms 8, 4, 2, 2 of mean 4."""
    size = torch.tensor([[8.0, 4.0, 2.0, 2.0, 0.0]] * 8, dtype=torch.float64)
    real = torch.arange(5).expand(8, -1) < 4
    position = torch.zeros(8, dtype=torch.long)
    first = (torch.arange(5) == 0).expand(8, -1)
    expected = {"norm": pytest.approx(math.sqrt(88)), "by_way": [None, 2.0, None, None, None], "far_near_way": None}
    for right in (first, None):  # without gold, the token of the query's own number: 0 too
        assert profile(size, real, position, right) == expected
    both = (torch.arange(5) % 3 == 0).expand(8, -1)  # ways 3 and 0: 2 at the far one, 1/2 at the near one
    assert profile(size, real, position, both)["far_near_way"] == pytest.approx(4)
    nowhere = profile(torch.zeros_like(size), real, position, None)
    assert nowhere == {"norm": None, "by_way": [None] * 5, "far_near_way": None}


@pytest.mark.parametrize("family", [{"model.cell": "lstm"}, {"model.family": "transformer"}])
def test_gradients_are_autograds_and_touch_nothing(family):
    model = build(experiment_from({"model.width": 20, "model.attention.heads": 2}, family).model, 23, 1).train()
    source = torch.tensor([[7, 8, 9, EOS], [9, 5, EOS, PAD]])
    target = torch.tensor([[2, 5, 6, 7], [2, 6, 7, PAD]])
    batch = Batch(source, source != PAD, target, torch.tensor([[5, 6, 7, EOS], [6, 7, EOS, PAD]]))
    random, before = torch.random.get_rng_state(), {name: p.clone() for name, p in model.named_parameters()}
    found = diagnostics.at_source(model, batch, torch.tensor([2, 0]))
    with torch.inference_mode():  # as validation may run
        assert gradients(model, batch, {})["norm"] > 0
    assert model.training
    assert torch.equal(torch.random.get_rng_state(), random)
    assert all(p.grad is None and torch.equal(p, before[name]) for name, p in model.named_parameters())
    embedded = model.source_embedding(source[1:, :3]).detach().requires_grad_()
    handle = model.source_embedding.register_forward_hook(lambda *_: embedded)
    model.eval()
    logits = model.decode(model.encode(source[1:, :3], source[1:, :3] != PAD), target[1:, :3]).logits
    handle.remove()
    F.cross_entropy(logits[0, :1], torch.tensor([6])).backward()
    torch.testing.assert_close(found[1], F.pad(embedded.grad[0].norm(dim=-1), (0, 1)), rtol=1e-4, atol=1e-6)


@pytest.mark.usefixtures("few_validated")
def test_training_is_the_same_without_diagnostics(tmp_path, monkeypatch):
    experiment = experiment_from(GRAPH, {"model.dropout": 0.2, "model.attention.cross.reach": "hard"})
    looked = run(experiment, tmp_path / "with", lambda line: None)
    assert looked.diagnostics["gradients"]["end"]["norm"] > 0
    (layer,) = looked.diagnostics["cross"]
    assert layer["entropy"] == [float(f"{value:.4g}") for value in layer["entropy"]]
    for name in ("observe", "diagnose", "gradients"):
        monkeypatch.setattr(diagnostics, name, lambda *_: {})
    blind = run(experiment, tmp_path / "without", lambda line: None)
    assert blind.diagnostics == {}
    losses = [[(p["train_loss"], p["valid_loss"]) for p in record.history] for record in (looked, blind)]
    assert losses[0] == losses[1]
    states = [torch.load(tmp_path / name / "model.pt", weights_only=False)["state"] for name in ("with", "without")]
    assert all(torch.equal(tensor, states[1][name]) for name, tensor in states[0].items())
