"""Small models in float64 and a small batch, for the tests of models and of prunings."""

import torch

from study.attention import Lengths
from study.config import experiment_from
from study.models import build
from study.models.translator import BOS, PAD

VOCABULARY, WIDTH = 23, 26
SOURCE_LENGTHS, TARGET_LENGTHS = (7, 3, 5), (11, 2, 6)
LENGTHS = Lengths(31, 19)
"""Lengths of the training sentences, longer than any here."""

RECURRENT = {"model.family": "recurrent", "model.width": WIDTH}
TRANSFORMER = {
    "model.family": "transformer",
    "model.width": WIDTH,
    "model.feedforward": 29,
    "model.attention.heads": 2,
}
DECODER_ONLY = TRANSFORMER | {"model.family": "decoder_only"}
FAMILIES = {"recurrent": RECURRENT, "transformer": TRANSFORMER, "decoder_only": DECODER_ONLY}
MULTI_HEAD = {  # pairwise different widths wherever a head may choose its own
    "model.attention.maps": "separate",
    "model.attention.values": "projected",
    "model.attention.output": "projected",
    "model.attention.heads": 3,
    "model.attention.key_width": 5,
    "model.attention.value_width": 7,
}


def at(fields, prefix="model."):
    """Names without their common beginning: {"layers": 2} ↦ {"model.layers": 2}."""
    return {prefix + name: value for name, value in fields.items()}


def model(*overrides, seed=3, vocabulary=VOCABULARY, lengths=LENGTHS):
    """An initialised model in evaluation mode and in float64."""
    return build(experiment_from(*overrides).model, vocabulary, seed, lengths).double().eval()


def tokens(seed, lengths, longest=None):
    """Random tokens of these lengths, then padding: [B, longest]."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(4, VOCABULARY, (len(lengths), longest or max(lengths)), generator=generator)
    position = torch.arange(drawn.shape[1])
    return torch.where(position < torch.tensor(lengths)[:, None], drawn, PAD)


def batch():
    """Sources [3, 7] and targets [3, 11] that begin with BOS."""
    target = tokens(2, TARGET_LENGTHS)
    target[:, 0] = BOS
    return tokens(1, SOURCE_LENGTHS), target


def forced(translator, source, target):
    """Logits of teacher-forced decoding, [B, L, N]."""
    return translator.decode(translator.encode(source, source != PAD), target).logits


def stepped(translator, source, target):
    """The same logits, token by token."""
    encoded = translator.encode(source, source != PAD)
    state, out = encoded.state, []
    for t in range(target.shape[1]):
        logits, state = translator.step(target[:, t], state, encoded)
        out.append(logits)
    return torch.stack(out, 1)
