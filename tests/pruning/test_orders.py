"""Importance against finite differences, gates against simulation, and one planted head that every order must find."""

from types import SimpleNamespace

import model_cases as cases
import pytest
import torch

from study.config.pruning import Pruning
from study.corpora import Pair
from study.models.translator import BOS
from study.pruning import order
from study.pruning.surgery import Head, Mask, gated, heads_of
from study.training import decode
from study.training.batches import Example, collate

SITE = {"heads": 4, "key_width": 5, "value_width": 6, "maps": "separate", "values": "projected", "output": "projected"}
PLANTED = Head("cross", 0, 2)


def example(source, target):
    return Example(source, target, Pair("", ""))


def random_data(count):
    source, target = (cases.tokens(seed, tuple(3 + i % 4 for i in range(count))) for seed in (5, 6))
    return [
        example([t for t in s.tolist() if t], [t for t in r.tolist() if t]) for s, r in zip(source, target, strict=True)
    ]


@pytest.mark.parametrize("decoder", ["bahdanau", "luong", "transformer"])
def test_importance_is_the_slope_of_the_loss(decoder):
    base = (
        {"model.family": "transformer", "model.width": 26} if decoder == "transformer" else {"model.decoder": decoder}
    )
    translator = cases.model(base, cases.at({**SITE, "heads": 2}, "model.attention."))
    data = random_data(3)
    found = order.gradient(translator, data)
    step = 1e-5
    for head in heads_of(translator)[:: 3 if decoder == "transformer" else 1]:
        slopes = []
        for one in data:
            ends = []
            for sign in (1, -1):
                z = torch.ones(2, dtype=torch.float64)
                z[head.head] += sign * step
                with gated(translator, {(head.site, head.layer): Mask(z)}):
                    batch = collate([one])
                    logits = translator.decode(translator.encode(batch.source, batch.mask), batch.given).logits
                    ends.append(decode.token_nll(logits, batch.wanted).sum().item())
            slopes.append(abs(ends[0] - ends[1]) / (2 * step))
        assert found[head] == pytest.approx(sum(slopes) / len(slopes), rel=1e-4)
    normalised = order.gradient(translator, data, normalise=True)
    for place in {(head.site, head.layer) for head in found}:
        ours = torch.tensor([normalised[head] for head in found if head[:2] == place])
        plain = torch.tensor([found[head] for head in found if head[:2] == place])
        torch.testing.assert_close(ours, plain / plain.norm())


def test_expected_gates_are_those_that_open():
    gate = order.HardConcrete(4 * 20_000)
    levels = torch.tensor([-4.0, -1.0, 0.5, order.OPEN])
    with torch.no_grad():
        gate.log_alpha.copy_(levels.repeat_interleave(20_000))
        drawn = gate.draw(torch.Generator().manual_seed(1)).view(4, -1)
        expected = gate.open().view(4, -1)[:, 0]
    torch.testing.assert_close((drawn > 0).float().mean(1), expected, rtol=0, atol=0.012)
    assert drawn.min() == 0
    assert drawn.max() == 1
    assert (drawn[-1] == 1).float().mean() > 0.8  # open at the start


def planted():
    """A model of which one head alone reaches the output, and data that it made itself with that head."""
    translator = cases.model({"model.decoder": "luong"}, cases.at(SITE, "model.attention.")).float()
    with torch.no_grad():
        _, _, attention = next(iter(translator.sites()))
        weight = attention.combine.weight
        weight[[0, 1, 3]] *= 1e-3
        weight[2] *= 6
        translator.unembedding.weight *= 6
    data = []
    for source in [one.source for one in random_data(24)]:
        batch = collate([example(source, [])])
        encoded = translator.encode(batch.source, batch.mask)
        state, token, target = encoded.state, BOS, []
        for _ in range(6):
            logits, state = translator.step(torch.tensor([token]), state, encoded)
            token = 4 + int(logits[0, 4:].argmax())
            target.append(token)
        data.append(example(source, target))
    return translator, data


@pytest.mark.parametrize("name", ["gradient", "weight_norm", "leave_one_out", "greedy", "gates"])
def test_a_planted_head_is_found(name):
    translator, data = planted()
    if name == "weight_norm":  # what it looks at is size
        norms = order.weight_norm(translator, heads_of(translator))
        assert norms[PLANTED] == max(norms.values())
    given = {"penalty": 0.05, "gate_steps": 120} if name == "gates" else {}
    training = SimpleNamespace(batch_tokens=200)
    declared = SimpleNamespace(pruning=Pruning(order=name, **given), training=training, seed=1)
    found = order.rank(translator, declared, data, data)
    assert found.heads[-1] == PLANTED
    assert sorted(found.heads) == heads_of(translator)
    if name == "gates":
        assert found.importance[PLANTED] > order.OPEN - 1
        assert all(value < 0 for head, value in found.importance.items() if head != PLANTED)


def test_not_by_chance():
    translator, _ = planted()
    among = heads_of(translator)
    drawn = [order.shuffled(among, 1, draw) for draw in range(400)]
    assert 0.18 < sum(one[-1] == PLANTED for one in drawn) / 400 < 0.32
    assert drawn == [order.shuffled(among, 1, draw) for draw in range(400)]
    assert drawn[:20] != [order.shuffled(among, 2, draw) for draw in range(20)]
    assert order.gone(drawn[0], 0.5) == drawn[0][:2]
    assert [len(order.gone(drawn[0], tenth / 10)) for tenth in range(11)] == [0, 0, 1, 1, 2, 2, 2, 3, 3, 4, 4]
