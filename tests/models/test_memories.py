"""Memories of the decoder: each by hand, and the structured one against its definition."""

from typing import Any

import model_cases as cases
import pytest
import torch
from torch import Tensor

from study.attention import AttentionCall
from study.config import Recurrent, Transformer, experiment_from
from study.errors import InputError
from study.models import Translator
from study.models.bridge import Slots, SourceMemory, Structured, redundancy
from study.models.translator import PAD
from study.training.batches import Batch
from study.training.diagnostics import observe

B, S, D, U, R = 3, 7, 13, 11, 5
SOURCE, TARGET = cases.batch()
BATCH = Batch(SOURCE, SOURCE != PAD, TARGET, TARGET.roll(-1, 1))


def states() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(B, S, D, generator=generator, dtype=torch.float64), SOURCE != PAD


def model(family: str, **fields: Any) -> Translator:
    return cases.model(cases.FAMILIES[family], cases.at(fields))


def test_dropout_takes_from_the_memory_that_attention_reads_as_its_help_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the components of the encoder states that keys and values are made of; the weights lose nothing."""
    translator = model("recurrent", dropout=0.5, layers=1).train()
    ((_, _, attention),) = translator.sites()
    read: list[Tensor] = []
    inner = attention.remember
    monkeypatch.setattr(attention, "remember", lambda x, mask: read.append(x) or inner(x, mask))
    torch.manual_seed(1)
    shown: list[AttentionCall] = []
    attention.tap = shown.append
    translator.decode(translator.encode(SOURCE, SOURCE != PAD), TARGET)
    assert (read[0] == 0).double().mean() == pytest.approx(0.5, abs=0.1)
    torch.testing.assert_close(shown[0].weights.sum(-1), torch.ones(B, 1, TARGET.shape[1], dtype=torch.float64))
    assert "on the memory" in str(Recurrent.model_fields["dropout"].description)


def test_max_by_hand() -> None:
    x = torch.tensor([[[1.0, -5.0], [-2.0, -3.0], [9.0, 9.0]], [[-1.0, -2.0], [9.0, 9.0], [9.0, 9.0]]])
    mask = torch.tensor([[True, True, False], [True, False, False]])
    slots: Slots = SourceMemory.chosen(Recurrent(memory="max"), 2)(x, x[:, 0], mask)
    assert slots.states.tolist() == [[[1.0, -3.0]], [[-1.0, -2.0]]]
    assert slots.mask.tolist() == [[True], [True]]


def test_structured_is_the_definition() -> None:
    h, mask = states()
    memory = Structured(D, annotations=R, annotation_width=U, penalty=0.5).double()
    slots: Slots = memory(h, h[:, 0], mask)
    first, second = memory.inner.weight.detach(), memory.outer.weight.detach()
    assert (first.shape, second.shape) == ((U, D), (R, U))
    for b, length in enumerate(mask.sum(1).tolist()):
        real = h[b, :length]
        a = torch.softmax(second @ torch.tanh(first @ real.T), -1)
        assert slots.origin is not None
        torch.testing.assert_close(slots.origin[b, :, :length], a)
        assert slots.origin[b, :, length:].abs().sum() == 0
        torch.testing.assert_close(slots.states[b], a @ real)
    assert slots.mask.shape == (B, R)
    assert slots.mask.all()


def test_penalty_by_hand() -> None:
    a = torch.tensor([[[1.0, 0.0], [0.5, 0.5]], [[1.0, 0.0], [0.0, 1.0]]])
    # A Aᵀ − I of the first is [[0, .5], [.5, −.5]], whose squares sum to .75; of the second it is 0.
    assert redundancy(a).item() == pytest.approx(0.75 / 2)
    h, mask = states()
    on, off = (Structured(D, annotations=R, annotation_width=U, penalty=penalty).double() for penalty in (0.5, 0.0))
    slots = on(h, h[:, 0], mask)
    assert slots.terms.penalty.item() == pytest.approx(0.5 * redundancy(slots.origin).item())
    assert off(h, h[:, 0], mask).terms.penalty is None


def test_more_annotations_than_tokens_cannot_reach_zero() -> None:
    a = torch.eye(2)[None, [0, 1, 1]]  # three annotations of two tokens
    assert redundancy(a).item() == pytest.approx(2.0)


@pytest.mark.parametrize("family", ["recurrent", "transformer"])
def test_structured_with_the_identity_is_states(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = SOURCE[:1]

    def identity(self: Structured, states: Tensor, mask: Tensor) -> Tensor:
        return torch.eye(S, dtype=states.dtype).expand(len(states), S, S)

    monkeypatch.setattr(Structured, "annotate", identity)
    logits = []
    for fields in ({}, {"memory": "structured", "annotations": S}):
        logits.append(cases.forced(model(family, **fields), source, TARGET[:1]))
    torch.testing.assert_close(*logits, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("family", ["recurrent", "transformer"])
def test_one_annotation_gives_the_score_no_gradient(family: str) -> None:
    fields = {"attention": {"score": "bilinear"}} if family == "recurrent" else {}
    cross = "attention.score.weight" if family == "recurrent" else "decoder.0.cross_attention.map_query.weight"
    for annotations, source in ((1, SOURCE), (R, SOURCE[:1, :1])):  # one annotation; R that are all the one token
        if annotations == 1 and family == "recurrent":
            continue  # the configuration refuses a score there
        translator = model(family, memory="structured", annotations=annotations, **fields)
        cases.forced(translator, source, TARGET[: len(source)]).square().sum().backward()
        gradient = {name: p.grad.abs().max().item() for name, p in translator.named_parameters() if p.grad is not None}
        assert gradient[cross] < 1e-14
        assert annotations > 1 or gradient["memory.inner.weight"] > 1e-6


@pytest.mark.parametrize("family", ["recurrent", "transformer"])
def test_alignment_goes_through_the_annotations(family: str) -> None:
    """As many annotations as tokens: the slots are told from tokens all the same."""
    translator = model(family, memory="structured", annotations=S)
    seen: AttentionCall = observe(translator, BATCH)["cross", 0]
    assert seen.origin is not None
    weights = seen.over_tokens(S)
    assert weights is not None
    torch.testing.assert_close(weights, torch.einsum("bhlr,brs->bhls", seen.weights, seen.origin))
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    assert weights[1, ..., 3:].abs().max() == 0
    translator = model(family, memory="max")
    seen = observe(translator, BATCH)["cross", 0]
    assert seen.over_tokens(S) is None


def test_the_penalty_joins_the_loss() -> None:
    translator = model("transformer", memory="structured", penalty=0.3)
    terms = translator.encode(SOURCE, SOURCE != PAD).terms
    (penalty,) = (term.penalty for term in terms if term.penalty is not None)
    assert penalty > 0


def test_fields_are_derived_and_refused() -> None:
    narrow = Recurrent(encoder_width=32, memory="structured", attention={"score": "bilinear"})
    assert narrow.annotation_width == 32
    assert Recurrent(memory="structured").annotations == 8
    assert Transformer(memory="structured").penalty == 0
    assert Transformer().annotations is None
    with pytest.raises(InputError, match="annotations: expected memory structured"):
        experiment_from({"model.annotations": 5})
    with pytest.raises(InputError, match="penalty: expected memory structured"):
        experiment_from({"model.family": "transformer", "model.penalty": 0.0})
    with pytest.raises(InputError, match=r"model\.memory: expected states, final"):
        experiment_from({"model.family": "transformer", "model.memory": "empty"})
