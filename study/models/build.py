"""From a configuration to a model with its initial values.

Every parameter is drawn from a generator seeded by (seed, parameter name), so that adding a parameter to one arm
leaves the initial values of all others as they were.
"""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor, nn

from study.attention import Attention, Seen
from study.config import Recurrent as RecurrentConfig
from study.config import Transformer as TransformerConfig
from study.models.recurrent import Recurrent
from study.models.transformer import Transformer
from study.models.translator import Translator

MATCHING_ROUNDS, MATCHED = 5, 1e-4
"""Rounds at most, and how near to 1 a standard deviation is near enough."""


def build(config: RecurrentConfig | TransformerConfig, vocabulary: int, seed: int) -> Translator:
    """The model that a configuration declares, initialised."""
    model: Translator
    match config:
        case RecurrentConfig():
            model = Recurrent(config, vocabulary)
        case TransformerConfig():
            model = Transformer(config, vocabulary)
    initialise(model, seed)
    return model


@torch.no_grad()
def initialise(model: nn.Module, seed: int) -> None:
    """One scheme for all: matrices N(0, 1/fan-in), embeddings N(0, 1/D), biases 0; norms and learned scales as built.

    The fan-in is the last axis, or what the parameter's module names as `fan_in`.
    """
    for name, parameter in model.named_parameters():
        path, _, leaf = name.rpartition(".")
        if parameter.ndim >= 2:
            fan_in = getattr(model.get_submodule(path), "fan_in", parameter.shape[-1])
            parameter.copy_(torch.randn(parameter.shape, generator=generator(seed, name)) * fan_in**-0.5)
        elif leaf.startswith("bias"):
            parameter.zero_()


def generator(seed: int, name: str) -> torch.Generator:
    """A stream of random numbers of its own for every (seed, name)."""
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


@torch.no_grad()
def match_logits(model: Translator, source: Tensor, mask: Tensor, target: Tensor) -> None:
    """Where a site asks for `logit_init: matched`, give each head's logits standard deviation 1 on this batch.

    Site by site in the order of computation, since a later site's logits depend on the earlier ones; and in rounds,
    since a context that enters the cell changes the queries after it. Where there is nothing to measure, nothing is
    rescaled.
    """
    training = model.training
    model.eval()
    for _, _, attention in model.sites():
        if attention.config.logit_init == "matched":
            for _ in range(MATCHING_ROUNDS):
                sd = _logit_sd(model, attention, source, mask, target)
                if bool(((sd - 1).abs() < MATCHED).all()):
                    break
                attention.rescale(torch.where(sd > 0, 1 / sd, 1.0))
    model.train(training)


def _logit_sd(model: Translator, attention: Attention, source: Tensor, mask: Tensor, target: Tensor) -> Tensor:
    """Standard deviation [H] of the visible logits of one attention, over a batch; 0 where there are none."""
    seen: list[Tensor] = []

    def collect(call: Seen) -> None:
        visible = call.mask.expand_as(call.logits)
        seen.append(torch.stack([call.logits[:, h][visible[:, h]] for h in range(call.logits.shape[1])]))

    attention.tap = collect
    model.decode(model.encode(source, mask), target)
    attention.tap = None
    logits = torch.cat(seen, 1)
    return logits.std(1) if logits.shape[1] > 1 else logits.new_zeros(len(logits))
