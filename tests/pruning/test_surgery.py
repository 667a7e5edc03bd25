"""Removed heads: the output is the masked one's; and a smaller checkpoint translates."""

import model_cases as cases
import pytest
import torch

from study.attention import MultiHeadAttention
from study.config import experiment_from
from study.models import build
from study.models.search import beam_search
from study.models.translator import PAD
from study.pruning.surgery import heads_of, masked, remove
from study.training import translation
from study.training.checkpoint import save_model
from study.training.vocabulary import Words

WIDE = {"heads": 3, "key_width": 5, "value_width": 7, "maps": "separate", "values": "projected", "output": "projected"}
RAW = {"heads": 2, "maps": "raw", "values": "raw", "output": "raw", "key_width": None, "value_width": None}


def models(family, site):
    fields = {name: value for name, value in {**WIDE, **site}.items() if value is not None}
    base = {name: value for name, value in cases.FAMILIES[family].items() if "attention" not in name}
    return cases.model(base, cases.at(fields, "model.attention."))


@pytest.mark.parametrize(
    ("family", "site"),
    [
        ("transformer", {}),
        ("transformer", {"combine": "differential", "heads": 4, "groups": 2}),
        ("recurrent", {}),
        ("recurrent", RAW),
    ],
    ids=str,
)
def test_removed_is_masked(family, site):
    """Heads that differ between layers. `tests/models/test_conformance.py` has every mechanism."""
    translator = models(family, site)
    source, target = cases.batch()
    gone = [head for head in heads_of(translator) if head.head == (1 if head.layer else 0)]
    full = cases.forced(translator, source, target)
    with masked(translator, gone):
        expected = cases.forced(translator, source, target)
    before = sum(p.numel() for p in translator.parameters())
    torch.testing.assert_close(cases.forced(translator, source, target), full, rtol=0, atol=0)
    remove(translator, gone)
    assert not torch.allclose(expected, full)
    torch.testing.assert_close(cases.forced(translator, source, target), expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(cases.stepped(translator, source, target), expected, rtol=0, atol=1e-5)
    assert (sum(p.numel() for p in translator.parameters()) < before) or site is RAW


def test_weights_of_a_removed_head_are_gone_and_the_others_keep_their_numbers():
    smaller = models("recurrent", {}).attention.reduced([2, 0])
    assert smaller.kept == (2, 0)
    assert smaller.reduced([1]).kept == (0,)
    assert {name: tuple(p.shape) for name, p in smaller.named_parameters()} == {
        "map_query.weight": (2, 5, cases.WIDTH),
        "map_key.weight": (2, 5, cases.WIDTH),
        "map_value.weight": (2, 7, cases.WIDTH),
        "combine.weight": (2, 7, cases.WIDTH),
    }


@pytest.mark.parametrize(("family", "combine"), [("recurrent", "concat"), ("transformer", "sum_shared")])
def test_without_any_head_the_residual_path_is_left(family, combine):
    translator = models(family, {"combine": combine})
    source, target = cases.batch()
    with masked(translator, heads_of(translator)):
        expected = cases.forced(translator, source, target)
    remove(translator, heads_of(translator))
    out = cases.forced(translator, source, target)
    assert out.isfinite().all()
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(cases.stepped(translator, source, target), expected, rtol=0, atol=1e-5)
    assert heads_of(translator) == []
    attentions = [module for module in translator.modules() if isinstance(module, MultiHeadAttention)]
    assert all(p.numel() == 0 for attention in attentions for p in attention.parameters())
    assert len(beam_search(translator, source, source != PAD, beam=2, length_penalty=1.0)) == len(source)


@pytest.mark.parametrize("last", [True, False], ids=["a layer of cross", "all of cross"])
def test_a_smaller_checkpoint_translates(last, tmp_path):
    experiment = experiment_from({"model.family": "transformer", "model.width": 8, "model.attention.heads": 2})
    vocabulary = Words.learn(["der hund schläft", "the dog sleeps"])
    translator = build(experiment.model, len(vocabulary), 1, cases.LENGTHS).eval()
    gone = [head for head in heads_of(translator, "cross") if head.layer == 1 or not last]
    remove(translator, [*gone, heads_of(translator)[0]])
    save_model(tmp_path / "model.pt", experiment, vocabulary, cases.LENGTHS, translator)
    trained = translation.read((tmp_path / "model.pt").read_bytes(), "model.pt")
    loaded = trained.model
    assert [a.kept for _, _, a in loaded.sites()] == [a.kept for _, _, a in translator.sites()]
    source, target = cases.batch()
    source, target = source % len(vocabulary), target % len(vocabulary)
    torch.testing.assert_close(cases.forced(loaded, source, target), cases.forced(translator, source, target))
    found = translation.translate(trained, "der hund")
    assert (found.weights is None) != last
