"""Encoders and the decoder's cell against torch's own."""

import model_cases as cases
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing import assert_close

import study
from study.config import experiment_from
from study.models.recurrent import Cell, Encoder
from study.models.translator import PAD
from study.training.task import initial_model

B, S, D, E = 3, 7, 11, 10
KINDS = [nn.GRU, nn.LSTM]
EXACT = {"rtol": 1e-10, "atol": 1e-12}


@pytest.mark.parametrize(
    ("kind", "layers", "bidirectional"), [(nn.GRU, 2, True), (nn.LSTM, 2, False), (nn.LSTM, 1, True)]
)
def test_the_encoder_is_torchs_on_packed_sequences(kind, layers, bidirectional):
    torch.manual_seed(0)
    encoder = Encoder(kind, D, E, layers, bidirectional, 0.0).double()
    size = E // 2 if bidirectional else E
    reference = kind(D, size, layers, batch_first=True, bidirectional=bidirectional).double()
    for layer in range(layers):
        for suffix, direction in (("", encoder.rightward), ("_reverse", encoder.leftward)):
            if len(direction):
                for name, parameter in direction[layer].named_parameters():
                    getattr(reference, name.replace("_l0", f"_l{layer}{suffix}")).data = parameter.data
    x, lengths = torch.randn(B, S, D, dtype=torch.float64, requires_grad=True), torch.tensor([5, 7, 1])
    mask = torch.arange(S) < lengths[:, None]
    states, final = encoder(x, mask)
    packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    wanted, hidden = reference(packed)
    wanted, _ = pad_packed_sequence(wanted, batch_first=True, total_length=S)
    hidden = hidden[0] if isinstance(hidden, tuple) else hidden
    directions = 2 if bidirectional else 1
    assert_close(states * mask[..., None], wanted, **EXACT)
    assert_close(final, torch.cat(list(hidden[-directions:]), -1), **EXACT)
    weight = torch.randn(B, S, E, dtype=torch.float64) * mask[..., None]
    gradients = [torch.autograd.grad((out * weight).sum(), x)[0] for out in (states, wanted)]
    assert_close(*gradients, **EXACT)
    assert (gradients[0] * ~mask[..., None]).abs().max() == 0


@pytest.mark.parametrize("kind", KINDS)
def test_what_enters_the_cell_is_a_wider_input(kind):
    """W_x x + W_e e is torch's cell on [x; e] with the two matrices side by side."""
    torch.manual_seed(0)
    entering = 5
    cell = Cell(kind, D, 1, 0.0, entering).double()
    wide = kind(D + entering, D, batch_first=True).double()
    wide.weight_ih_l0.data = torch.cat([cell.rnn.weight_ih_l0, cell.entering.weight], 1).data
    for name in ("weight_hh_l0", "bias_ih_l0", "bias_hh_l0"):
        getattr(wide, name).data = getattr(cell.rnn, name).data
    x, e = torch.randn(B, D, dtype=torch.float64), torch.randn(B, entering, dtype=torch.float64)
    parts = 1 if kind is nn.GRU else 2
    before = tuple(torch.randn(B, D, dtype=torch.float64) for _ in range(parts))
    (after,) = cell(cell.gates(x), (before,), e)
    given = before[0][None] if parts == 1 else tuple(part[None] for part in before)
    wanted, _ = wide(torch.cat([x, e], -1)[:, None], given)
    assert_close(after[0], wanted[:, 0], **EXACT)


@torch.no_grad()
@pytest.mark.parametrize("positions", ["none", "sinusoidal"])
def test_without_positions_the_transformer_encoder_is_permutation_equivariant(positions):
    translator = cases.model(cases.TRANSFORMER, {"model.positions": positions}, cases.MULTI_HEAD)
    source, _ = cases.batch()
    source = source[:1]
    order = torch.randperm(source.shape[1], generator=torch.Generator().manual_seed(0))
    (straight, *_), (permuted, *_) = (
        translator.encode(tokens, tokens != PAD).memories for tokens in (source, source[:, order])
    )
    same = torch.allclose(permuted.keys, straight.keys[:, :, order], rtol=1e-9, atol=1e-11)
    assert same == (positions == "none")


def test_split_factors_keep_labels_from_scores_and_names_from_values():
    """Other labels leave every weight as it is; other names leave the states as they are where weights are uniform."""
    arm = {"model.family": "transformer", "model.layers": 1, "model.factors": "split", "model.positions": "none"}
    small = {"data.name": "graph", "data.train_pairs": 200, "training.select": "last", "model.attention.maps": "tied"}
    data = study.DataModule(experiment := experiment_from(small, arm))
    model = initial_model(experiment, data).eval()
    (site,) = (attention for name, _, attention in model.sites() if name == "encoder_self")
    calls = []
    site.tap = calls.append

    def states(text):
        ids = torch.tensor(data.vocabulary.encode([text]))
        slots = model.encode(ids, torch.ones_like(ids, dtype=torch.bool)).memories[0]
        return slots.values

    plain, labels, names = states(" c3 a1 b7"), states(" c0 a5 b2"), states(" d3 e1 f7")
    assert torch.equal(calls[0].logits, calls[1].logits)
    assert not torch.allclose(calls[0].logits, calls[2].logits)
    torch.testing.assert_close(calls[0].logits, calls[0].logits.mT)
    assert not torch.allclose(plain, labels)
    with torch.no_grad():
        site.get_parameter("map_query.weight").zero_()
    torch.testing.assert_close(states(" c3 a1 b7"), states(" d3 e1 f7"))
    assert not torch.allclose(states(" c3 a1 b7"), states(" c0 a5 b2"))
    assert not torch.allclose(plain, names)
    again = initial_model(experiment, data)
    assert torch.equal(model.state_dict()["name_of"], again.state_dict()["name_of"])
