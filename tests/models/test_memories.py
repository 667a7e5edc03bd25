"""Memories of the decoder: each by hand, and the structured one against its definition."""

import model_cases as cases
import pytest
import torch

from study.config import Recurrent
from study.models.bridge import SourceMemory, Structured, redundancy
from study.models.translator import PAD

B, S, D, U, R = 3, 7, 13, 11, 5
SOURCE, TARGET = cases.batch()


def states():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(B, S, D, generator=generator, dtype=torch.float64), SOURCE != PAD


def model(family, **fields):
    return cases.model(cases.FAMILIES[family], cases.at(fields))


def test_dropout_takes_from_the_memory_that_attention_reads(monkeypatch):
    """Half of the components of the encoder states that keys and values are made of; the weights lose nothing."""
    translator = model("recurrent", dropout=0.5, layers=1).train()
    ((_, _, attention),) = translator.sites()
    read = []
    inner = attention.remember
    monkeypatch.setattr(attention, "remember", lambda x, mask: read.append(x) or inner(x, mask))
    torch.manual_seed(1)
    shown = []
    attention.tap = shown.append
    translator.decode(translator.encode(SOURCE, SOURCE != PAD), TARGET)
    assert (read[0] == 0).double().mean() == pytest.approx(0.5, abs=0.1)
    torch.testing.assert_close(shown[0].weights.sum(-1), torch.ones(B, 1, TARGET.shape[1], dtype=torch.float64))


def test_max_by_hand():
    x = torch.tensor([[[1.0, -5.0], [-2.0, -3.0], [9.0, 9.0]], [[-1.0, -2.0], [9.0, 9.0], [9.0, 9.0]]])
    mask = torch.tensor([[True, True, False], [True, False, False]])
    slots = SourceMemory.chosen(Recurrent(memory="max"), 2)(x, x[:, 0], mask)
    assert slots.states.tolist() == [[[1.0, -3.0]], [[-1.0, -2.0]]]
    assert slots.mask.tolist() == [[True], [True]]


def test_structured_is_the_definition():
    h, mask = states()
    memory = Structured(D, annotations=R, annotation_width=U, penalty=0.5).double()
    slots = memory(h, h[:, 0], mask)
    first, second = memory.inner.weight.detach(), memory.outer.weight.detach()
    assert (first.shape, second.shape) == ((U, D), (R, U))
    for b, length in enumerate(mask.sum(1).tolist()):
        real = h[b, :length]
        a = torch.softmax(second @ torch.tanh(first @ real.T), -1)
        torch.testing.assert_close(slots.origin[b, :, :length], a)
        assert slots.origin[b, :, length:].abs().sum() == 0
        torch.testing.assert_close(slots.states[b], a @ real)
    assert slots.mask.shape == (B, R)
    assert slots.mask.all()


def test_penalty_by_hand():
    a = torch.tensor([[[1.0, 0.0], [0.5, 0.5]], [[1.0, 0.0], [0.0, 1.0]]])
    # A Aᵀ − I of the first is [[0, .5], [.5, −.5]], whose squares sum to .75; of the second it is 0.
    assert redundancy(a).item() == pytest.approx(0.75 / 2)
    h, mask = states()
    on, off = (Structured(D, annotations=R, annotation_width=U, penalty=penalty).double() for penalty in (0.5, 0.0))
    slots = on(h, h[:, 0], mask)
    assert slots.terms.penalty.item() == pytest.approx(0.5 * redundancy(slots.origin).item())
    assert off(h, h[:, 0], mask).terms.penalty is None
