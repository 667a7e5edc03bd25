"""Properties of every legal model, drawn at random from all axes at once."""

from random import Random

import legal_models
import model_cases as cases
import torch
from torch.nn.functional import pad
from torch.testing import assert_close

from study.attention import Lengths
from study.config import experiment_from
from study.config.mechanisms import SCORE
from study.models import build, match_logits
from study.models.translator import PAD
from study.training.decode import token_nll
from study.training.step import has_samples, penalties, surrogate_loss

DRAWN = 38
EXACT = {"rtol": 1e-8, "atol": 1e-10}
MORE = 4
"""Padding that is added on both sides."""
LONG, SHORT = Lengths(15, 9), Lengths(5, 4)
"""Training lengths: as long as the padded batch, or shorter than its sentences, so that slots lie beyond a table."""


def built(fields, source, target):
    """The model in float64. Learned positions end where training sentences do, so theirs are long."""
    config = experiment_from(fields).model
    learned = config.family != "recurrent" and config.positions == "learned"
    lengths = LONG if learned or config.width == 12 else SHORT
    translator = build(config, cases.VOCABULARY, 3, lengths)
    match_logits(translator, source, source != PAD, target)
    return translator.double()


def check_gradients(translator, source, target):
    """Check that the whole loss, penalties and samples included, gives every parameter a finite gradient."""
    wanted = pad(target[:, 1:], (0, 1))
    translator.train()
    encoded = translator.encode(source, source != PAD)
    output = translator.decode(encoded, target)
    assert output.logits.shape == (*target.shape, cases.VOCABULARY)
    terms, log_p = (*encoded.terms, *output.terms), -token_nll(output.logits, wanted)
    loss = penalties(terms) - log_p.mean()
    if has_samples(terms):
        loss = loss + surrogate_loss(terms, log_p, wanted != PAD, torch.tensor(-3.0))
    loss.backward()
    for name, parameter in translator.named_parameters():
        if parameter.grad is None:
            assert name in unused(translator), name
            continue
        assert parameter.grad.isfinite().all(), name


def unused(translator):
    """Parameters without use in a cross-attention that reads no query: the transformer's norm of its queries."""
    crosses = [attention.config for site, _, attention in translator.sites() if site == "cross"]
    if not all(SCORE[config.score].content_free for config in crosses):
        return set()
    return {name for name, _ in translator.named_parameters() if ".cross_norm." in name}


@torch.no_grad()
def check_decoding(translator, source, target):
    """Steps equal the whole; a later token changes nothing before it; padding and company change nothing."""
    translator.eval()
    whole = cases.forced(translator, source, target)
    assert whole.isfinite().all()
    assert_close(cases.stepped(translator, source, target), whole, **EXACT)
    changed = target.clone()
    changed[:, 5] = 4 + (target[:, 5] + 1) % (cases.VOCABULARY - 4)
    assert torch.equal(cases.forced(translator, source, changed)[:, :5], whole[:, :5])
    padded = cases.forced(translator, pad(source, (0, MORE)), pad(target, (0, MORE)))
    assert_close(padded[:, : target.shape[1]], whole, **EXACT)
    s, t = cases.SOURCE_LENGTHS[1], cases.TARGET_LENGTHS[1]
    assert_close(cases.forced(translator, source[1:2, :s], target[1:2, :t]), whole[1:2, :t], **EXACT)


def test_every_legal_model():
    """Drawn at random, what no earlier one had first, until every value that has a name and every field was.

    The configuration that a record would have is accepted again, with the same meaning.
    """
    missing, random = legal_models.everything(), Random(9)
    source, target = cases.batch()
    for drawn in range(DRAWN):
        fields = legal_models.drawn_from(random, missing)
        missing -= {legal_models.said(*item) for item in fields.items()}
        try:
            experiment = experiment_from(fields)
            assert experiment_from(experiment.model_dump(mode="json")) == experiment
            translator = built(fields, source, target)
            check_gradients(translator, source, target)
            check_decoding(translator, source, target)
        except Exception as problem:
            raise AssertionError(f"model {drawn}: {fields}") from problem
    assert missing == set()
