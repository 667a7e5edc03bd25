"""Both families: stepping equals teacher forcing, nothing looks ahead, padding and company change nothing."""

from itertools import product

import model_cases as cases
import pytest
import torch
from torch.testing import assert_close

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
TRANSFORMER |= {
    f"transformer-{'-'.join(map(str, fields.values()))}": [cases.TRANSFORMER, cases.at(fields)]
    for fields in (
        {"mixing": "convolution", "convolution_width": 2},
        {"positions": "learned"},
        {"attention.encoder_self.exclude_self": True, "attention.decoder_self.exclude_self": True},
    )
}
BOTH = {
    f"{family}-{'-'.join(map(str, fields.values()))}": [base, cases.at(fields)]
    for (family, base), fields in product(
        [*cases.FAMILIES.items(), ("bahdanau", cases.RECURRENT | cases.at(DECODERS["bahdanau"]))],
        (
            {"memory": "max"},
            {"memory": "structured", "annotations": 5},
            {"attention.reach": "local_m", "attention.window": 1},
            {"attention.reach": "local_p", "attention.window": 2},
            {"attention.cross.reach": "hard"},
        ),
    )
}
MODELS = RECURRENT | TRANSFORMER | BOTH


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
