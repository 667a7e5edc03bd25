"""Dropout: its mask, its expectation, and the protocols."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from study.attention import Lengths
from study.config import experiment_from
from study.models import build
from study.models.dropout import Dropout, dropout, follow_protocol


@pytest.mark.parametrize(("rate", "kept"), [(0.1, 58982), (0.5, 32768), (1e-6, 65536), (1 - 1e-9, 1)])
def test_what_stays_is_divided_by_the_probability_that_was_drawn(rate, kept):
    torch.manual_seed(1)
    n = 2_000_001  # no multiple of four
    x = torch.ones(n, dtype=torch.float64, requires_grad=True)
    y = dropout(x, rate)
    y.sum().backward()
    p = kept / 65536
    assert ((y == 0) | (y == 1 / p)).all()
    assert y.mean().item() == pytest.approx(1, abs=5 * ((1 - p) / p / n) ** 0.5)
    assert torch.equal(x.grad, y.detach()), "the gradient goes where the value went"
    if rate == 0.5:
        bits = (y != 0).view(-1).double() - 0.5
        lagged = [float((bits[:-k] * bits[k:]).mean()) * 4 for k in (1, 2, 3, 4)]
        assert max(map(abs, lagged)) < 5 * n**-0.5, "the four parts of a draw are independent"


@pytest.mark.parametrize("fields", [{}, {"model.input_feeding": True}, {"model.family": "transformer"}], ids=str)
def test_protocol_1_draws_as_torch_does_and_protocol_2_not(fields, monkeypatch):
    config = experiment_from({"model.layers": 2, "model.width": 16, **fields}).model
    source, target = torch.randint(4, 13, (3, 6)), torch.randint(4, 13, (3, 5))

    def logits(protocol):
        model = build(config, 13, 1, Lengths(9, 9))
        follow_protocol(model, protocol)
        torch.manual_seed(7)
        return model.decode(model.encode(source, source > 0), target).logits

    first, second = logits(1), logits(2)
    monkeypatch.setattr(Dropout, "forward", lambda self, x: F.dropout(x, self.rate, self.training))
    assert torch.equal(first, logits(2)), "torch's own at every place"
    assert not torch.equal(first, second)
    monkeypatch.undo()
    assert not any(isinstance(module, nn.Dropout) for module in build(config, 13, 1, Lengths(9, 9)).modules())
