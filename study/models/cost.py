"""Cost of a model: parameters and floating-point operations of its parts.

The model is built and run on torch's meta device, so that shapes are real and nothing is computed. Operations are
those that `torch.utils.flop_counter` knows: matrix products and convolutions, a multiplication and an addition as
two. Recurrent cells and their steps are products of that kind and are counted one by one. A product of two tensors that
is summed over an axis is a matrix product too: attention over a gathered window is written so. What such counters leave
out (tanh, softmax, normalisation, gates, masks, sums) is counted apart, as the numbers that those functions gave.

B batch · S source tokens · L target tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from study.attention import Attention, Lengths, Whole
from study.config import Recurrent, Transformer
from study.models.build import construct
from study.models.translator import Translator, output_logits

ENCODER, MEMORY, DECODER, OUTPUT = "encoder", "memory", "decoder", "output layer"
BEGINNINGS = {ENCODER: ("source_", "encoder", "bridges."), MEMORY: ("memory.",), OUTPUT: ("unembedding.",)}
"""Prefixes of the names of their parameters."""
BESIDE = (torch.ops.aten._softmax.default, torch.ops.aten.native_layer_norm.default)
"""Functions of every number that carry no tag for it."""
PRODUCT, SUM = torch.ops.aten.mul.Tensor, torch.ops.aten.sum.dim_IntList
"""Elementwise product, and sum over an axis: one after the other they contract an axis."""


class Sizes(NamedTuple):
    """Sizes of the data on which a model's cost depends."""

    vocabulary: int
    lengths: Lengths | None
    """Lengths of the training sentences, for parts that are sized by them."""
    source: int
    """S, end-of-sentence counted."""
    target: int
    """L, likewise."""


class Part(NamedTuple):
    """A part of a model: its parameters, and what one forward pass of one sentence costs there."""

    parameters: int
    flops: int
    elementwise: int
    """Numbers given by functions that are no matrix product."""


class Cost(NamedTuple):
    """A model's cost, by part, in the order of computation. `parts` add up to the model."""

    parts: dict[str, Part]
    sites: tuple[str, ...]
    """The parts that are attention."""
    target: int
    """L, the target tokens of the sentence."""

    @property
    def parameters(self) -> int:
        """Number of all parameters, shared ones once."""
        return sum(part.parameters for part in self.parts.values())

    @property
    def parameters_attention(self) -> int:
        """Those of the attention sites."""
        return sum(self.parts[site].parameters for site in self.sites)

    @property
    def flops_per_token(self) -> int:
        """Forward, teacher-forced, the encoder's share included."""
        return round(sum(part.flops for part in self.parts.values()) / self.target)


def bare(config: Recurrent | Transformer, vocabulary: int, lengths: Lengths | None) -> Translator:
    """The model without values."""
    with torch.device("meta"):
        return construct(config, vocabulary, lengths).eval()


def cost(config: Recurrent | Transformer, sizes: Sizes) -> Cost:
    """The cost of a model for one sentence pair of these sizes."""
    return cost_of(bare(config, sizes.vocabulary, sizes.lengths), sizes)


def cost_of(model: Translator, sizes: Sizes) -> Cost:
    """The same of a model without values, which is of no use afterwards."""
    count = _counted(model, sizes)
    stored = _parameters(model)
    names = [ENCODER, *dict.fromkeys(site for site, _, _ in _attending(model)), MEMORY, DECODER, OUTPUT]
    parts = {name: Part(stored[name], count.flops[name], count.elementwise[name]) for name in names}
    if not any(parts[MEMORY]):
        del parts[MEMORY]
    return Cost(parts, tuple(name for name in names if name not in (ENCODER, MEMORY, DECODER, OUTPUT)), sizes.target)


def _attending(model: Translator) -> Iterator[tuple[str, int, nn.Module]]:
    """Yield the places of attention, those of a user's own included."""
    for site, layer, module in model.places():
        if isinstance(module, Whole) or (isinstance(module, Attention) and module.kept):
            yield site, layer, module


def _parameters(model: Translator) -> Counter[str]:
    """Count parameters by part. Shared parameters count once, as the decoder's embedding."""
    sites = {id(p): site for site, _, attention in _attending(model) for p in attention.parameters()}
    stored: Counter[str] = Counter()
    for name, parameter in model.named_parameters():
        other = next((part for part, begins in BEGINNINGS.items() if name.startswith(begins)), DECODER)
        stored[sites.get(id(parameter), other)] += parameter.numel()
    return stored


@torch.no_grad()
def _counted(model: Translator, sizes: Sizes) -> _Count:
    source, target = (
        torch.empty(1, length, dtype=torch.long, device="meta") for length in (sizes.source, sizes.target)
    )
    count = _Count()
    for site, _, attention in _attending(model):
        _attribute(attention, site, count)
    model.memory.forward = count.within(MEMORY, model.memory.forward)
    with count:
        encoded = count.within(ENCODER, model.encode)(source, source.bool())
        count.within(DECODER, model.decode)(encoded, target)
    return _without_output(count, model, sizes)


def _attribute(attention: nn.Module, site: str, count: _Count) -> None:
    """Count the operations of an attention for its site, whoever calls it. The model is thrown away afterwards."""
    for name in ("remember", "forward"):
        setattr(attention, name, count.within(site, getattr(attention, name)))


def _without_output(count: _Count, model: Translator, sizes: Sizes) -> _Count:
    """The decoder's share parted into the output layer, counted by itself, and the rest."""
    alone = _Count()
    states = torch.empty(1, sizes.target, model.unembedding.in_features, device="meta")
    with alone:
        alone.within(OUTPUT, output_logits)(model.unembedding, states)
    for mine, of_output in ((count.flops, alone.flops), (count.elementwise, alone.elementwise)):
        mine[OUTPUT] = of_output[OUTPUT]
        mine[DECODER] -= of_output[OUTPUT]
    return count


class _Count(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts every operation for the part that is being computed."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops: Counter[str] = Counter()
        self.elementwise: Counter[str] = Counter()
        self.part = ""
        self.product: Tensor | None = None
        """The result of the last operation, if that was a product of two tensors of numbers."""

    def within(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, whose operations count for `part`."""

        def counted(*args: Any, **kwargs: Any) -> Any:
            with self._as(part):
                return function(*args, **kwargs)

        return counted

    @contextmanager
    def _as(self, part: str) -> Iterator[None]:
        outer, self.part = self.part, part
        yield
        self.part = outer

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        before, self.product = self.product, None
        formula = flop_registry.get(func._overloadpacket)
        if func is PRODUCT and all(isinstance(x, Tensor) and x.is_floating_point() and x.ndim for x in args):
            self.product = out
        if func is SUM and before is not None and args[0] is before:
            self.flops[self.part] += 2 * before.numel()
            self.elementwise[self.part] -= before.numel()
        elif formula is not None:
            self.flops[self.part] += formula(*args, **(kwargs or {}), out_val=out)
        elif torch.Tag.pointwise in func.tags or func in BESIDE:
            first = out if isinstance(out, Tensor) else out[0]
            self.elementwise[self.part] += first.numel() if first.is_floating_point() else 0
        return out
