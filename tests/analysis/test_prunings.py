"""Numbers of prunings, by hand."""

import pytest

from study.analysis import measures
from study.analysis.measures import Measure
from study.config import Grammar
from study.errors import InputError
from study.scores import metrics

SITES = ("encoder_self", "decoder_self", "cross")
HEADS = [f"{site} {layer} {head}" for site in SITES for layer in range(2) for head in range(4)]


def record(free, **more):
    """Encoder heads go first, then those of the decoder, then cross."""
    scores = [{"metric": "free", "value": free}]
    return {"diagnostics": {"pruning": {"order": HEADS, "removed": []} | more}, "scores": scores}


def test_heads_left_and_heads_free():
    """31% of 24 heads are 7 (7.44), all of the encoder; for random orders the number is a mean, .24."""
    assert measures.free_heads(record(31.0)) == (HEADS, 7.0)
    assert [measures.diagnostic(record(31.0), f"{metrics.LEFT}{site}") for site in SITES] == [1 / 8, 1.0, 1.0]
    chance = record(1.0, draws={"bleu": []})
    assert measures.free_heads(chance)[1] == pytest.approx(0.24)
    assert measures.diagnostic(chance, f"{metrics.LEFT}cross") is None


def test_the_share_of_heads_that_cost_more():
    values = {None: 40.0, "without cross 0 0": 35.0, "without cross 0 1": 39.4, "without cross 0 2": 39.6}
    shares = [Measure("test/bleu", costing).of(values) for costing in (1.0, 0.5, 0.25)]
    assert shares == pytest.approx([100 / 3, 200 / 3, 100])
    negative = {subset: -value for subset, value in values.items()}
    assert Measure("test/nll", 1.0).of(negative) == shares[0], "less is better"
    with pytest.raises(KeyError):
        Measure("test/bleu", 1.0).of({None: 40.0})


def test_units_and_metrics_of_prunings():
    assert (metrics.unit_of("test/cliff"), metrics.unit_of("test/bleu/kept 0.5")) == ("bleu",) * 2
    for wrong in ("test/aer/kept 0.5", "test/bleu/kept 0.55", "test/bleu/one of mlp 0"):
        with pytest.raises(InputError, match="grammar has no "):
            metrics.check_claimed(wrong, Grammar())
