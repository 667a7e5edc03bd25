"""Every measure against values by hand, and that measuring leaves training as it is."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from study import records
from study.attention import AttentionCall, Lengths
from study.config import experiment_from
from study.corpora import Link, Pair, load
from study.models import build
from study.models.translator import EOS, PAD
from study.records import Record, Score
from study.training import alignment, diagnostics
from study.training import task as training_task
from study.training.alignment import Words as Reading
from study.training.alignment import alignment_error, alignments, gold_mass, of_words, sides
from study.training.batches import Batch, Example, collate, examples
from study.training.diagnostics import diagnose, gradients, look, measures, truth
from study.training.diagnostics.diagnose import POSITIONS, place, states
from study.training.diagnostics.gradients import _at_source, profile
from study.training.evaluate import _beyond
from study.training.run import run
from study.training.vocabulary import Words


def rows_of(weights: torch.Tensor, mask: torch.Tensor | None = None, asked: torch.Tensor | None = None) -> Any:
    """Rows of weights [B, H, L, S] under a mask; every query asked unless some are said to be."""
    visible = torch.ones(1, 1, 1, weights.shape[-1], dtype=torch.bool) if mask is None else mask
    real = torch.ones(len(weights), weights.shape[2], dtype=torch.bool) if asked is None else asked
    return measures.Rows.of(AttentionCall(weights, weights, weights, weights, weights, weights, visible), real)


def test_shares_of_weight_by_hand() -> None:
    """Tokens: three words and end-of-sentence. The second head's weights have signs, the third row is padding."""
    first = [[0.1, 0.2, 0.3, 0.4], [0.5, 0.25, 0.25, 0.0], [0.0, 0.0, 1.0, 0.0]]
    second = [[1.0, -2.0, 3.0, -4.0], [0.0, 0.0, 0.0, 0.0], [9.0, 9.0, 9.0, 9.0]]
    weights = torch.tensor([[first, second]])
    rows = rows_of(weights, asked=torch.tensor([[True, True, False]]))
    right = torch.tensor([[[0.0, 0.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0], [1.0] * 4]])
    found = measures.masses(weights, rows, torch.ones(1, 4, dtype=torch.bool), right)
    torch.testing.assert_close(found["diagonal_mass"], torch.tensor([(0.1 + 0.25) / 2, 0.1 / 2]))
    torch.testing.assert_close(found["last_two_mass"], torch.tensor([(0.5 + 0.5) / 2, 0.5 / 2]))
    torch.testing.assert_close(found["end_mass"], torch.tensor([(0.4 + 0.0) / 2, 0.4 / 2]))
    torch.testing.assert_close(found["gold_mass"], torch.tensor([(0.3 + 0.75) / 2, 0.3 / 2]))
    torch.testing.assert_close(found["argmax_on_gold"], torch.tensor([1 / 2, 0.0]))
    even = torch.full((1, 1, 1, 4), 0.25)
    tied = measures.masses(even, rows_of(even), torch.ones(1, 4, dtype=torch.bool), right[:, :1])
    assert tied["argmax_on_gold"].item() == 0.25
    # a target of three queries over a source of one word: only the first two have a token of their own number
    short = torch.tensor([[[[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]]])
    alone = measures.masses(short, rows_of(short), torch.ones(1, 2, dtype=torch.bool), None)
    assert alone["diagonal_mass"].item() == pytest.approx((1 + 0.5) / 2)
    assert alone["last_two_mass"].item() == pytest.approx((1 + 0.5 + 0) / 3)
    assert alone["gold_mass"].isnan().all()


def test_symmetry_index_by_hand() -> None:
    scores = torch.randn(2, 3, 5, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    scores[:, 0] = scores[:, 0] + scores[:, 0].mT
    scores[:, 1] = scores[:, 1] - scores[:, 1].mT
    scores += 100 * torch.eye(5)
    mask = torch.ones(2, 1, 1, 5, dtype=torch.bool)
    mask[1, ..., 3:] = False
    scores[1, :, :, 3:] += 50  # hidden
    found = measures.symmetry(scores, rows_of(scores, mask, mask[:, 0, 0]))
    entries = [(b, t, s) for b, n in ((0, 5), (1, 3)) for t in range(n) for s in range(n) if t != s]
    centre = np.mean([scores[b, 2, t, s] for b, t, s in entries])
    above = sum((scores[b, 2, t, s] - centre) * (scores[b, 2, s, t] - centre) for b, t, s in entries)
    below = sum((scores[b, 2, t, s] - centre) ** 2 for b, t, s in entries)
    torch.testing.assert_close(found, torch.stack([found.new_tensor(1), found.new_tensor(-1), above / below]))
    assert measures.symmetry(torch.ones(1, 1, 3, 3), rows_of(torch.ones(1, 1, 3, 3))).isnan().all()


def test_norms_and_cosine_by_hand() -> None:
    query = torch.tensor([[[[3.0, 4.0], [0.0, 2.0]]]])
    keys = torch.tensor([[[[4.0, 3.0], [0.0, 5.0], [9.0, 9.0]]]])
    weights = torch.full((1, 1, 2, 3), 1 / 3)
    rows = rows_of(weights, torch.tensor([True, True, False])[None, None, None])
    found = measures.norms(query, keys, rows)
    assert found["query_norm"].item() == pytest.approx((5 + 2) / 2)
    assert found["key_norm"].item() == pytest.approx((5 + 5) / 2)
    assert found["cosine"].item() == pytest.approx((24 / 25 + 4 / 5 + 3 / 5 + 1) / 4)
    other = measures.norms(query, torch.ones(1, 1, 3, 7), rows)
    assert other["key_norm"].item() == pytest.approx(math.sqrt(7))
    assert other["cosine"].isnan().all()
    absent = measures.norms(query[..., :0], keys[..., :0], rows)
    assert all(value.isnan().all() for value in absent.values())


def test_context_norm_and_its_slope_by_hand() -> None:
    """Rows that see 1, 4 and 9 slots, contexts of norm 6, 3 and 2: the size of a mean, 6 · n^−½."""
    seen = torch.arange(9) < torch.tensor([1, 4, 9])[:, None]
    heads = torch.tensor([[6.0, 0.0], [0.0, 3.0], [2.0, 0.0]]).expand(1, 1, 3, 2)
    rows = rows_of(torch.zeros(1, 1, 3, 9), seen[None, None])
    found = measures.contexts(heads, rows)
    assert found["context_norm"].item() == pytest.approx(11 / 3)
    assert found["context_slope"].item() == pytest.approx(-0.5, abs=1e-6)
    same = measures.contexts(heads, rows_of(torch.zeros(1, 1, 3, 9)))
    assert same["context_slope"].isnan().all()


def test_the_gradient_that_passes_is_the_trace_of_the_softmaxs_jacobian() -> None:
    logits = torch.randn(4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda s: s.softmax(0), logits)
    weights = logits.softmax(0)[None, None, None]
    found = measures.entropies(weights, rows_of(weights), True)
    assert found["softmax_gradient"].item() == pytest.approx(jacobian.trace().item())
    other = measures.entropies(weights, rows_of(weights), True, softmax=False)
    assert other["softmax_gradient"].isnan().all()
    assert other["entropy"] == found["entropy"]
    raw = measures.entropies(weights, rows_of(weights), False)
    assert raw["max_weight"].item() == weights.max()
    assert raw["softmax_gradient"].isnan().all()


def test_states_by_hand() -> None:
    assert place(torch.tensor([0, 1, 3, 4, 15, 16, 99])).tolist() == [0, 1, 1, 2, 3, 4, 4]
    memory = torch.tensor([[[1.0, 3.0], [0.0, 0.0], [4.0, 4.0], [7.0, 7.0]]])
    visible = torch.tensor([True, True, True, False])[None, None, None]
    found = states(memory, rows_of(torch.zeros(1, 1, 1, 4), visible))
    assert found["state_mean"] == pytest.approx(2)
    assert found["state_variance"] == pytest.approx((1 + 1 + 4 + 4 + 4 + 4) / 6)
    assert found["state_mean_by_position"] == [2, 2, None, None, None]
    assert found["state_variance_by_position"] == [1, 4, None, None, None]


class Halves(Words):
    """Two tokens for every word."""

    def words(self, text: str) -> list[int]:
        return [i for i in range(len(text.split())) for _ in range(2)]


def test_gold_of_words_is_gold_of_their_tokens() -> None:
    pair = Pair("a b", "x y", (Link(1, 0), Link(0, 1, sure=False)), (Link(1, 0),))
    example = Example([4, 5, 6, 7], [8, 9, 10, 11], pair)
    batch = collate([example])
    found = truth([example], Halves(b"[]"), batch)
    right = torch.zeros(1, 5, 5)
    right[0, :2, 2:4] = 0.5
    assert torch.equal(found["encoder_self"], right)
    right[0, 2:4, :2] = 0.5
    assert torch.equal(found["cross"], right)
    bare = Example(example.source, example.target, Pair("a b", "x y"))
    assert truth([example, bare], Halves(b"[]"), batch) == {}


class Unequal(Words):
    """As many tokens for a word as it has letters."""

    def words(self, text: str) -> list[int]:
        return [i for i, word in enumerate(text.split()) for _ in word]


def test_the_diagnosed_mass_on_gold_is_the_scored_one() -> None:
    """Three tokens of one word, with and without gold, and signs."""
    pair = Pair("aa b", "xxx y zz", (Link(0, 0), Link(1, 0, sure=False), Link(0, 1)))
    example, vocabulary = Example([4] * 3, [5] * 6, pair), Unequal(b"[]")
    batch = collate([example])
    weights = torch.randn(1, 2, 7, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    right = truth([example], vocabulary, batch)["cross"]
    found = measures.masses(weights, rows_of(weights), batch.mask, right)["gold_mass"]
    call = AttentionCall(*[weights] * 6, torch.ones(1, 1, 1, 4, dtype=torch.bool))
    read = of_words(call, 4, [sides(example, vocabulary, "cross")])
    assert read is not None
    scored = [gold_mass(read, [pair.alignment or ()], head) for head in (0, 1)]
    assert found.tolist() == pytest.approx(scored)


def test_profile_of_the_gradient_by_hand() -> None:
    """Eight queries over four tokens, gold at the first; norms 8, 4, 2, 2 of mean 4."""
    size = torch.tensor([[8.0, 4.0, 2.0, 2.0, 0.0]] * 8, dtype=torch.float64)
    real = torch.arange(5).expand(8, -1) < 4
    position = torch.zeros(8, dtype=torch.long)
    first = (torch.arange(5) == 0).expand(8, -1)
    for right in (first, None):  # without gold, the token of the query's own number: 0 too
        found = profile(size, real, position, right)
        assert found["by_distance"] == [2.0, pytest.approx((1 + 0.5 + 0.5) / 3), None, None, None]
        assert found["far_near_distance"] == pytest.approx(1 / 3)
        assert found["by_way"] == [None, 2.0, None, None, None]
        assert found["far_near_way"] is None
        assert found["norm"] == pytest.approx(math.sqrt(88))
        assert found["length_slope"] is None
    nowhere = profile(torch.zeros_like(size), real, position, None)
    assert nowhere == dict.fromkeys(found) | {"by_distance": [None] * 5, "by_way": [None] * 5}
    assert len(found["by_way"]) == len(POSITIONS)


@pytest.mark.parametrize("family", [{"model.cell": "lstm"}, {"model.family": "transformer"}])
def test_gradients_are_autograds_and_touch_nothing(family: dict[str, Any]) -> None:
    model = build(experiment_from({"model.width": 20, "model.attention.heads": 2}, family).model, 23, 1).train()
    source = torch.tensor([[7, 8, 9, EOS], [9, 5, EOS, PAD]])
    target = torch.tensor([[2, 5, 6, 7], [2, 6, 7, PAD]])
    batch = Batch(source, source != PAD, target, torch.tensor([[5, 6, 7, EOS], [6, 7, EOS, PAD]]))
    random, before = torch.random.get_rng_state(), {name: p.clone() for name, p in model.named_parameters()}
    found = _at_source(model, batch, torch.tensor([2, 0]))
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
    assert embedded.grad is not None
    torch.testing.assert_close(found[1], F.pad(embedded.grad[0].norm(dim=-1), (0, 1)), rtol=1e-4, atol=1e-6)


GRAPH = load(experiment_from({"data.name": "graph", "data.train_pairs": 40, "data.test_pairs": 30}).data)
VOCABULARY = Words.learn([side for pair in GRAPH.splits["train"] for side in (pair.source, pair.target)])
MODEL = {"model.family": "transformer", "model.layers": 2, "model.attention.heads": 4, "model.width": 24}


def test_attention_scored_on_who_attends_to_whom() -> None:
    model = build(experiment_from(MODEL).model, len(VOCABULARY), 1).eval()
    data = {split: examples(GRAPH.splits[split][:20], VOCABULARY) for split in ("valid", "test")}
    scores = {(s.split, s.metric): s for s in alignment.attends(model, data, data["valid"], VOCABULARY)}
    assert {metric for _, metric in scores} == {"attends_mass", "attends_argmax", "attends_head"}
    masses: dict[int, float] = {}
    for (site, layer), observation in look(model, collate(data["valid"])).items():
        if site == "encoder_self":
            together = observation.call.weights.mean(1)
            links = [
                (b, link.target, link.source) for b, e in enumerate(data["valid"]) for link in e.pair.attends or ()
            ]
            # a mean over words with gold, which here have one each
            masses[layer] = float(sum(together[at] for at in links) / len(links))
    best = max(masses, key=lambda layer: masses[layer])
    assert scores["valid", "attends_mass"].value == pytest.approx(100 * masses[best], rel=1e-4)
    assert scores["test", "attends_mass"].signature == f"layer:{best}|heads:mean|version:1"
    recurrent = build(experiment_from({"model.width": 24}).model, len(VOCABULARY), 1).eval()
    assert alignment.attends(recurrent, data, data["valid"], VOCABULARY) == []


def test_rows_on_gold_by_hand() -> None:
    heads = np.array([[[0.2, 0.8], [0.6, 0.4]], [[0.7, 0.3], [0.6, 0.4]]])
    found = alignment._of_layer([Reading(heads, heads, heads > 0)], [(Link(1, 0), Link(0, 1), Link(1, 1))])
    # word 0: mean row [.45, .55], gold 1; word 1: [.6, .4], gold both
    assert found.mass == pytest.approx((0.55 + 1.0) / 2)
    assert (found.argmax, found.head, found.n) == (1.0, [1.0, 0.5], 2)
    even = np.full((1, 1, 4), 0.25)
    tied = alignment._of_layer([Reading(even, even, even > 0)], [(Link(2, 0),)])
    assert (tied.argmax, tied.head) == (0.25, [0.25])


def test_validations_error_rate_is_that_of_alignment_and_onset_its_first_below_one_half() -> None:
    model = build(experiment_from(MODEL).model, len(VOCABULARY), 1).eval()
    data = examples(GRAPH.splits["valid"][:20], VOCABULARY)
    batch = collate(data)
    rate = alignment.validation_error(look(model, batch), batch, data, VOCABULARY)
    links = [example.pair.alignment or () for example in data]
    assert rate == min(alignment_error(found, links) for found in alignments(model, data, VOCABULARY).values())
    history: list[dict[str, Any]] = [{"step": 10 * i, "valid_aer": aer} for i, aer in enumerate((0.7, 0.5, 0.4, 0.6))]
    (score,) = alignment.onset(history, 20)
    assert (score.metric, score.value, score.n) == ("onset", 20, 20)
    assert alignment.onset(history[:2], 20)[0].value is None
    assert alignment.onset([{"step": 1, "valid_aer": None}], 20) == []


@pytest.mark.parametrize("family", [{}, {"model.family": "transformer", "model.layers": 1}])
def test_slots_that_a_location_cannot_address_are_counted(family: dict[str, Any]) -> None:
    config = experiment_from({"model.width": 20, "model.attention.cross.score": "location"}, family).model
    model = build(config, len(VOCABULARY), 1, Lengths(5, 5)).eval()
    data = examples([Pair("a0 b0 c0 d0 e0 f0", "0"), Pair("a0", "0 0 0 0 0 0 0")], VOCABULARY)
    (score,) = _beyond(model, data, "long")
    assert score.value == pytest.approx(100 * 2 / (7 + 2))
    assert _beyond(build(experiment_from(family).model, len(VOCABULARY), 1), data, "long") == []


def test_a_record_of_two_layers_and_four_heads_is_small() -> None:
    """With ten validations and as many scores as the largest corpus has."""
    model = build(experiment_from(MODEL).model, len(VOCABULARY), 1)
    data = examples(GRAPH.splits["valid"], VOCABULARY)
    batch = collate(data)
    right = truth(data, VOCABULARY, batch)
    found = diagnose(look(model, batch), batch, right)
    slopes = {moment: {"step": 1000, **gradients(model, batch, right)} for moment in ("start", "middle", "end")}
    point = dict.fromkeys(("step", "tokens", "train_loss", "valid_loss", "valid_bleu", "valid_exact", "lr"), 1.23456)
    point |= {"valid_aer": 0.123456, **diagnostics.in_history(found)}
    plain: dict[str, Any] = {"split": "test", "metric": "bleu", "value": 12.3456, "n": 1000}
    scored = {"signature": "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.5.1", "subset": "length 11-13"}
    score = Score(**plain, **scored, hypotheses="test.hyp.txt", hypotheses_sha256="0" * 64)
    experiment = experiment_from(MODEL)
    record = Record(
        protocol=1,
        id="grammar-transformer-dot-01234567-s1",
        status="finished",
        config=experiment.model_dump(mode="json"),
        config_hash="0" * 64,
        seed=1,
        scores=[score, score.model_copy(update={"subset": None})] * 30 + [Score(**plain)] * 15,
        diagnostics=diagnostics.for_record(found, found, slopes),
        history=records.rounded([diagnostics.short(point)] * 10),
    )
    text = records.dumps(record)
    assert len(text.encode()) + 1500 < 40_000, "what is left out here takes about 1,500 bytes"
    lone = record.diagnostics["encoder_self"][1]
    assert len(lone["argmax_on_gold"]) == len(lone["symmetry"]) == 4
    assert record.diagnostics["cross"][0]["symmetry"] is record.diagnostics["decoder_self"][0]["gold_mass"] is None
    assert f'"entropy": {lone["entropy"]},' in text, "the values of the heads stand on one line"


TINY = {
    "data.name": "graph",
    "data.train_pairs": 100,
    "data.test_pairs": 10,
    "model.width": 20,
    "training.steps": 4,
    "training.validate_every": 2,
    "training.batch_tokens": 300,
    "decoding.beam": 1,
    "trainer.threads": 1,
    "trainer.device": "cpu",
}


@pytest.mark.parametrize(
    "family", [{"model.attention.reach": "hard"}, {"model.family": "transformer", "model.layers": 1}]
)
def test_training_is_the_same_without_diagnostics(
    family: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = experiment_from(TINY, {"model.dropout": 0.2}, family)
    looked = run(experiment, tmp_path / "with", lambda line: None)
    assert looked.diagnostics["gradients"]["end"]["norm"] > 0
    for name in ("look", "diagnose", "gradients"):
        monkeypatch.setattr(training_task, name, lambda *_: {})
    blind = run(experiment, tmp_path / "without", lambda line: None)
    assert blind.diagnostics == {}
    losses = [[(p["train_loss"], p["valid_loss"]) for p in record.history] for record in (looked, blind)]
    assert losses[0] == losses[1]
    states = [torch.load(tmp_path / name / "model.pt", weights_only=False) for name in ("with", "without")]
    tensors = [dict(_tensors(tree)) for tree in states]
    assert tensors[0].keys() == tensors[1].keys()
    assert all(torch.equal(tensor, tensors[1][name]) for name, tensor in tensors[0].items())
    assert len(tensors[0]) > 10


def _tensors(tree: Any, path: str = "") -> Any:
    if isinstance(tree, torch.Tensor):
        yield path, tree
    elif isinstance(tree, dict):
        for name, branch in tree.items():
            yield from _tensors(branch, f"{path}.{name}")
