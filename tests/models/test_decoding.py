"""Both families: stepping equals teacher forcing, nothing looks ahead, padding and company change nothing."""

from itertools import product

import model_cases as cases
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from study.config import experiment_from
from study.errors import InputError
from study.models.translator import PAD, Translator

EXACT = {"rtol": 1e-9, "atol": 1e-11}
DECODERS = {
    "bahdanau": {"decoder": "bahdanau"},
    "luong": {"decoder": "luong"},
    "fed": {"decoder": "luong", "input_feeding": True},
}
SCORES = [
    {"score": "dot", "scale": "rsqrt"},
    {"score": "dot", "scale": "learned"},
    {"score": "bilinear", "scale": "none"},
    {"score": "bilinear", "scale": "learned"},
    {"score": "additive", "scale": "inverse", "additive_width": 13},
]


def attention(fields: dict) -> dict:
    return cases.at(fields, "model.attention.")


RECURRENT = {
    f"{decoder}-{cell}-{layers}": [cases.RECURRENT, cases.at({**fields, "cell": cell, "layers": layers})]
    for (decoder, fields), cell, layers in product(DECODERS.items(), ("gru", "lstm"), (1, 2))
}
RECURRENT |= {
    f"{decoder}-{memory}": [cases.RECURRENT, cases.at({**fields, "memory": memory, "init": init})]
    for (decoder, fields), (memory, init) in product(
        DECODERS.items(), [("final", "zero"), ("mean", "mean"), ("empty", "direct")]
    )
}
RECURRENT |= {
    f"{decoder}-heads-{'-'.join(map(str, score.values()))}": [
        cases.RECURRENT,
        cases.at({**fields, "encoder_width": 22, "bidirectional": i % 2 == 0}),
        cases.MULTI_HEAD,
        attention(score),
    ]
    for (decoder, fields), (i, score) in product(DECODERS.items(), enumerate(SCORES))
}
TRANSFORMER = {
    f"transformer-{memory}-{layers}": [cases.TRANSFORMER, cases.at({"memory": memory, "layers": layers})]
    for memory, layers in product(("states", "final", "mean"), (1, 2))
}
TRANSFORMER |= {
    f"transformer-heads-{'-'.join(map(str, score.values()))}": [cases.TRANSFORMER, cases.MULTI_HEAD, attention(score)]
    for score in SCORES
}
TRANSFORMER["transformer-raw"] = [
    cases.TRANSFORMER,
    attention({"maps": "raw", "values": "raw", "output": "raw", "score": "bilinear"}),
    cases.at({"feedforward": 0, "positions": "none"}),
]
MODELS = RECURRENT | TRANSFORMER


@pytest.fixture(params=MODELS)
def translator(request: pytest.FixtureRequest) -> Translator:
    return cases.model(*MODELS[request.param])


@torch.no_grad()
def test_step_by_step_equals_teacher_forcing(translator: Translator) -> None:
    source, target = cases.batch()
    assert_close(cases.stepped(translator, source, target), cases.forced(translator, source, target), **EXACT)


@torch.no_grad()
def test_a_later_token_changes_no_earlier_output(translator: Translator) -> None:
    source, target = cases.batch()
    before = cases.forced(translator, source, target)
    changed = target.clone()
    changed[:, 5] = 4 + (target[:, 5] + 1) % (cases.VOCABULARY - 4)
    after = cases.forced(translator, source, changed)
    assert torch.equal(after[:, :5], before[:, :5])
    assert (after[:, 5] - before[:, 5]).abs().amax(-1).min() > 1e-6


@torch.no_grad()
def test_a_padded_batch_equals_single_sentences(translator: Translator) -> None:
    source, target = cases.batch()
    together = cases.forced(translator, source, target)
    wider = [torch.nn.functional.pad(x, (0, 4), value=PAD) for x in (source, target)]
    assert_close(cases.forced(translator, *wider)[:, : target.shape[1]], together, **EXACT)
    for row, (s, t) in enumerate(zip(cases.SOURCE_LENGTHS, cases.TARGET_LENGTHS, strict=True)):
        alone = cases.forced(translator, source[row : row + 1, :s], target[row : row + 1, :t])
        assert_close(together[row : row + 1, :t], alone, **EXACT)


@pytest.mark.parametrize("name", ["bahdanau-gru-1", "luong-lstm-2", "fed-gru-1", "transformer-states-2"])
def test_a_step_declares_the_position_of_teacher_forcing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Views carry absolute positions, which local and location mechanisms read."""
    translator = cases.model(*MODELS[name])
    positions: dict[str, list[int]] = {}
    for site, layer, module in translator.sites():

        def forward(query, memory, view, name=f"{site} {layer}", inner=module.forward):
            positions.setdefault(name, []).extend(view.position.tolist())
            return inner(query, memory, view)

        monkeypatch.setattr(module, "forward", forward)
    source, target = cases.batch()
    with torch.no_grad():
        cases.forced(translator, source, target)
        whole = dict(positions)
        positions.clear()
        cases.stepped(translator, source, target)
    assert positions == whole
    assert positions["cross 0"] == list(range(target.shape[1]))


def overrides() -> st.SearchStrategy[dict]:
    """Any mixture of fields, legal or not."""
    choice = st.sampled_from
    shared = {
        "model.width": choice([6, 12, 14]),
        "model.layers": choice([1, 2]),
        "model.memory": choice(["states", "final", "mean", "empty"]),
        "model.embeddings": choice(["separate", "target", "shared"]),
        "model.attention.score": choice(["dot", "bilinear", "additive"]),
        "model.attention.scale": choice([None, "none", "rsqrt", "inverse", "learned"]),
        "model.attention.maps": choice(["separate", "raw"]),
        "model.attention.values": choice(["projected", "raw"]),
        "model.attention.output": choice(["projected", "raw"]),
        "model.attention.heads": choice([1, 2, 3]),
        "model.attention.key_width": choice([None, 5]),
        "model.attention.value_width": choice([None, 4]),
    }
    recurrent = {
        "model.family": st.just("recurrent"),
        "model.encoder_width": choice([None, 10, 12]),
        "model.cell": choice(["gru", "lstm"]),
        "model.bidirectional": st.booleans(),
        "model.decoder": choice(["bahdanau", "luong"]),
        "model.input_feeding": st.booleans(),
        "model.readout": choice(["tanh", "linear"]),
        "model.init": choice(["final", "mean", "zero", "direct"]),
    }
    transformer = {
        "model.family": st.just("transformer"),
        "model.feedforward": choice([None, 0, 7]),
        "model.positions": choice(["sinusoidal", "none"]),
    }
    drawn = st.one_of(st.fixed_dictionaries(shared | recurrent), st.fixed_dictionaries(shared | transformer))
    return drawn.filter(legal).filter(lambda fields: fields["model.attention.output"] != "raw" or fits(fields))


def legal(fields: dict) -> bool:
    try:
        experiment_from(fields)
    except InputError:
        return False
    return True


def fits(fields: dict) -> bool:
    """A raw output of a transformer must have the width of the residual stream."""
    model = experiment_from(fields).model
    sites = [getattr(model.attention, name) for name in type(model.attention).model_fields]
    return model.family == "recurrent" or all(s.output_width(model.width, model.width) == model.width for s in sites)


@settings(max_examples=50, deadline=None, derandomize=True, database=None)
@given(overrides())
def test_any_legal_model_steps_is_causal_and_has_finite_gradients(fields: dict) -> None:
    translator = cases.model(fields)
    source, target = cases.batch()
    logits = cases.forced(translator, source, target)
    assert logits.shape == (*target.shape, cases.VOCABULARY)
    logits.square().mean().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in translator.parameters())
    with torch.no_grad():
        assert_close(cases.stepped(translator, source, target), logits.detach(), **EXACT)
        target[:, 7] = 4
        assert torch.equal(cases.forced(translator, source, target)[:, :7], logits[:, :7])
