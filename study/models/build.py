"""Build a model with its initial values from a configuration.

Every parameter is drawn from a generator seeded by (seed, parameter name), so that adding a parameter to one arm
leaves the initial values of all others as they were.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from study.attention import AttentionCall, Lengths, MultiHeadAttention
from study.attention.part import Part
from study.config import DecoderOnly as DecoderOnlyConfig
from study.config import Recurrent as RecurrentConfig
from study.config import Transformer as TransformerConfig
from study.config.mechanisms import LOGIT_INIT
from study.models.decoder_only import DecoderOnly
from study.models.recurrent import Recurrent
from study.models.transformer import Transformer
from study.models.translator import Translator

Config = RecurrentConfig | TransformerConfig | DecoderOnlyConfig

MATCHING_ROUNDS, MATCHED = 5, 1e-4
"""Rounds at most, and how near to 1 a standard deviation is near enough."""


def build(config: Config, vocabulary: int, seed: int, lengths: Lengths | None = None) -> Translator:
    """The model that a configuration declares, initialised.

    Args:
        config: which model.
        vocabulary: number of tokens.
        seed: of the initial values.
        lengths: of the training sentences, for the mechanisms whose size or start follows from them.
    """
    model = construct(config, vocabulary, lengths)
    initialise(model, seed)
    return model


def construct(config: Config, vocabulary: int, lengths: Lengths | None = None) -> Translator:
    """The model that a configuration declares, without its initial values."""
    if isinstance(config, RecurrentConfig):
        return Recurrent(config, vocabulary, lengths)
    if isinstance(config, DecoderOnlyConfig):
        return DecoderOnly(config, vocabulary, lengths)
    return Transformer(config, vocabulary, lengths)


@torch.no_grad()
def initialise(model: nn.Module, seed: int) -> None:
    """One scheme for all: matrices N(0, 1/fan-in), embeddings N(0, 1/D), biases 0; norms and learned scales as built.

    A `Part` may declare otherwise for its own parameters: its fan-in, the larger tensor of which a parameter is a
    block, buffers that are drawn too, and values that are set after the draw.
    """
    for name, tensor in (*model.named_parameters(), *_drawn(model)):
        path, _, leaf = name.rpartition(".")
        if leaf.startswith("bias"):
            tensor.zero_()
        elif tensor.ndim >= 2:
            module = model.get_submodule(path)
            part = module if isinstance(module, Part) else Part()
            shape, block = part.stored.get(leaf, (tuple(tensor.shape), ...))
            fan_in = part.fan_in or shape[-1]
            tensor.copy_(torch.randn(shape, generator=generator(seed, name))[block] * fan_in**-0.5)
    for module in model.modules():
        if isinstance(module, Part):
            module.start()


def _drawn(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    for path, module in model.named_modules():
        if isinstance(module, Part):
            yield from ((f"{path}.{leaf}".lstrip("."), module.get_buffer(leaf)) for leaf in module.drawn)


def generator(seed: int, name: str) -> torch.Generator:
    """A stream of random numbers of its own for every (seed, name)."""
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


@torch.no_grad()
def match_logits(model: Translator, source: Tensor, mask: Tensor, target: Tensor) -> None:
    """Give each head's logits standard deviation 1 on this batch, at the sites whose logit_init is measured.

    Site by site in the order of computation, since a later site's logits depend on the earlier ones; and in rounds,
    since a context that enters the cell changes the queries after it. Where there is nothing to measure, nothing is
    rescaled.
    """
    training = model.training
    model.eval()
    for _, _, attention in model.sites():
        if LOGIT_INIT[attention.config.logit_init].measured:
            for _ in range(MATCHING_ROUNDS):
                sd = _logit_sd(model, attention, source, mask, target)
                if bool(((sd - 1).abs() < MATCHED).all()):
                    break
                attention.rescale(torch.where(sd > 0, 1 / sd, 1.0))
    model.train(training)


def _logit_sd(model: Translator, attention: MultiHeadAttention, source: Tensor, mask: Tensor, target: Tensor) -> Tensor:
    """Standard deviation [H] of the visible logits of one attention, of padded queries too; 0 where there are none."""
    seen: list[list[Tensor]] = []

    def collect(call: AttentionCall) -> None:
        visible = call.mask.expand_as(call.logits)
        seen.append([call.logits[:, h][visible[:, h]] for h in range(call.logits.shape[1])])

    attention.tap = collect
    model.decode(model.encode(source, mask), target)
    attention.tap = None
    heads = [torch.cat(calls) for calls in zip(*seen, strict=True)]
    return torch.stack([logits.std() if len(logits) > 1 else logits.new_zeros(()) for logits in heads])
