"""Paths of computation: what is computed once, what is never built, and what stays in float32."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from study.attention import Lengths, MultiHeadAttention, View, scores
from study.config import AttentionConfig as Config
from study.config import experiment_from
from study.config.mechanisms import AXES, REACH, SCORE
from study.models import build, initialise
from study.models.search import beam_search
from study.models.translator import BOS, EOS, PAD
from study.training.diagnostics import taps

FAMILIES = {
    "bahdanau": {"model.decoder": "bahdanau"},
    "bahdanau-lstm-zero": {"model.decoder": "bahdanau", "model.cell": "lstm", "model.init": "zero", "model.layers": 2},
    "luong": {"model.decoder": "luong", "model.cell": "lstm"},
    "fed": {"model.decoder": "luong", "model.input_feeding": True},
    "transformer": {"model.family": "transformer"},
}
LIMIT = 5


def model(family, **fields):
    overrides = {f"model.attention.{name}": value for name, value in fields.items()}
    config = experiment_from({"model.width": 28}, FAMILIES[family], overrides).model
    return build(config, 31, 1, Lengths(9, 7)).eval()


def batch():
    source = torch.tensor([[7, 8, 9, 11, EOS], [10, EOS, PAD, PAD, PAD]])
    return source, torch.tensor([[BOS, 5, 6], [BOS, 9, PAD]])


@pytest.fixture
def fused_calls(monkeypatch):
    """The shape of the queries of every call of torch's kernel."""
    calls = []
    original = F.scaled_dot_product_attention

    def counting(query, *args, **options):
        calls.append(query.shape)
        return original(query, *args, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", counting)
    return calls


@pytest.mark.parametrize(
    ("family", "score"),
    [("bahdanau", "dot"), ("luong", "bilinear"), ("transformer", "dot"), ("transformer", "additive")],
)
def test_the_fused_kernel_is_taken_when_nobody_taps(family, score, fused_calls):
    translator = model(family, score=score)
    source, target = batch()
    output = translator.decode(translator.encode(source, source != PAD), target).logits
    number = 0 if score == "additive" else {"bahdanau": target.shape[1], "luong": 1, "transformer": 6}[family]
    assert len(fused_calls) == number
    with taps(translator):
        tapped = translator.decode(translator.encode(source, source != PAD), target).logits
    assert len(fused_calls) == number
    torch.testing.assert_close(tapped, output, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_cross_keys_are_prepared_once_per_sentence(family, monkeypatch):
    translator = model(family, score="additive")
    slots = {attention.score: [] for _, _, attention in translator.sites()}
    for module in slots:

        def prepare(keys, module=module, inner=module.prepare):
            slots[module].append(keys.shape[2])
            return inner(keys)

        monkeypatch.setattr(module, "prepare", prepare)
    source, _ = batch()
    beam_search(translator, source, source != PAD, beam=3, length_penalty=1.0, limit=LIMIT)
    for site, _, attention in translator.sites():
        if site == "decoder_self":  # one new slot a step, not the whole prefix again
            assert set(slots[attention.score]) == {1}
            assert len(slots[attention.score]) <= LIMIT
        else:
            assert slots[attention.score] == [source.shape[1]]


class Largest(TorchDispatchMode):
    """The largest number of elements that any operation returns."""

    size = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **kwargs or {})
        for tensor in out if isinstance(out, tuple | list) else [out]:
            if isinstance(tensor, Tensor):
                self.size = max(self.size, tensor.numel())
        return out


def test_additive_attention_never_builds_the_concatenation():
    length, slots, width = 29, 31, 12  # L·S is far above every weight and input
    attention = MultiHeadAttention(Config(score="additive", heads=1).resolved(width, width), width, width)
    initialise(attention, 1)
    query, states = torch.randn(1, length, width), torch.randn(1, slots, width)
    mask = torch.ones(1, slots, dtype=torch.bool)
    with Largest() as largest:
        out, _ = attention(query, attention.remember(states, mask), View(mask[:, None, None], torch.arange(length)))
        out.square().sum().backward()
    assert length * slots * width <= largest.size < length * slots * 2 * width


@pytest.mark.parametrize("block", [1, 60, 700, 10**6])  # some queries of a sentence, some sentences, everything
def test_additive_in_blocks_is_additive_at_once(block, monkeypatch):
    shapes = ((3, 2, 5, 7), (3, 2, 4, 7), (2, 7))
    query, keys, vector = (torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes)
    whole = scores.additive(query, keys, vector)
    wanted = torch.einsum("bhlsa,ha->bhls", torch.tanh(query[:, :, :, None] + keys[:, :, None]), vector)
    torch.testing.assert_close(whole, wanted, rtol=1e-12, atol=1e-14)
    monkeypatch.setattr(scores, "KEPT", 0)
    monkeypatch.setitem(scores.BLOCK, "cpu", block)
    torch.testing.assert_close(scores.additive(query, keys, vector), wanted, rtol=1e-12, atol=1e-14)
    assert torch.autograd.gradcheck(scores.additive, (query, keys, vector), fast_mode=True)


LOW = [{axis: value} for axis in ("score", "weights") for value in AXES[axis]]
for fields in LOW:
    if AXES["weights"].get(fields.get("weights", "softmax")).positive:
        fields["score"] = "elu_kernel"
LOW += [{"reach": reach, "window": 2} for reach in REACH.taking("window")]


@pytest.mark.parametrize(
    ("family", "fields"),
    [
        *(("transformer", fields) for fields in LOW),
        *((family, {"score": "additive"}) for family in FAMILIES if family != "transformer"),
    ],
    ids=lambda x: "-".join(map(str, x.values())) if isinstance(x, dict) else x,
)
def test_attention_stays_in_float32_under_bfloat16(family, fields):
    translator = model(family, heads=2, **fields).train()
    source, target = batch()
    with torch.autocast("cpu", dtype=torch.bfloat16), taps(translator) as calls:
        logits = translator.decode(translator.encode(source, source != PAD), target).logits
    seen = [call for site in calls.values() for call in site]
    assert seen
    for call in seen:
        parts = (call.query, call.keys, call.logits, call.weights)
        assert {part.dtype for part in parts} == {torch.float32}
        assert all(part.isfinite().all() for part in parts)
    for site in (
        calls.values() if SCORE[fields.get("score", "dot")].reads else ()
    ):  # float32 in value too, not only in name
        values = torch.cat([call.logits.flatten() for call in site])
        assert not torch.equal(values.bfloat16().float(), values)
    assert logits.dtype == torch.float32
    F.cross_entropy(logits.flatten(0, 1), target.roll(-1, 1).flatten()).backward()
    for name, parameter in translator.named_parameters():
        unused = "cross_norm" in name and SCORE[fields.get("score", "dot")].content_free
        assert (parameter.grad is None) == unused, name
        assert unused or parameter.grad.isfinite().all(), name
