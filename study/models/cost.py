"""Cost of a model: parameters and floating-point operations of its parts.

The model is built and run on torch's meta device, so that shapes are real and nothing is computed. Operations are
those that `torch.utils.flop_counter` knows: matrix products and convolutions, a multiplication and an addition as
two. A product of two tensors that is summed over an axis is a matrix product too: attention over a gathered window is
written so.

B batch · S source tokens · L target tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from study.attention import Lengths, MultiHeadAttention, Whole
from study.models.bridge import SourceMemory
from study.models.build import Config, construct
from study.models.translator import Translator

MEMORY, OUTPUT = "memory", "output layer"
ENCODING = ("source_", "encoder", "bridges.")
BEGINNINGS = {MEMORY: ("memory.",), OUTPUT: ("unembedding.",)}
"""Prefixes of the names of their parameters."""
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


class PartCost(NamedTuple):
    """A part of a model: its parameters, and the operations of one forward pass of one sentence."""

    parameters: int
    flops: int


class Cost(NamedTuple):
    """A model's cost, by part, in the order of computation. `parts` add up to the model."""

    parts: dict[str, PartCost]
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


def bare(config: Config, vocabulary: int, lengths: Lengths | None) -> Translator:
    """Return the model without values."""
    with torch.device("meta"):
        return construct(config, vocabulary, lengths).eval()


def cost(config: Config, sizes: Sizes) -> Cost:
    """Return the cost of a model for one sentence pair of these sizes."""
    return cost_of(bare(config, sizes.vocabulary, sizes.lengths), sizes)


@torch.no_grad()
def cost_of(model: Translator, sizes: Sizes) -> Cost:
    """Return the same of a model without values, which is of no use afterwards."""
    operations, stored, owners = _Operations(), Counter[str](), dict[int, str]()
    encoder, decoder = model.phases
    beginnings = {encoder: ENCODING, **BEGINNINGS}
    for site, _, module in model.places():
        if isinstance(module, Whole) or (isinstance(module, MultiHeadAttention) and module.kept):
            owners |= {id(parameter): site for parameter in module.parameters()} | {id(module): site}
            module.remember = operations.within(site, module.remember)  # type: ignore[method-assign]
            module.extend = operations.within(site, module.extend)  # type: ignore[method-assign]
            module.forward = operations.within(site, module.forward)  # type: ignore[method-assign]
    for module in model.modules():
        if isinstance(module, SourceMemory):
            module.forward = operations.within(MEMORY, module.forward)  # type: ignore[method-assign]
    for name, parameter in model.named_parameters():
        other = next((part for part, begins in beginnings.items() if name.startswith(begins)), decoder)
        stored[owners.get(id(parameter), other)] += parameter.numel()
    source, target = (torch.empty(1, n, dtype=torch.long, device="meta") for n in (sizes.source, sizes.target))
    with operations:
        encoded = operations.within(encoder, model.encode)(source, source.bool())
        operations.within(decoder, model.decode)(encoded, target)
    operations.count[OUTPUT] = 2 * model.unembedding.weight.numel() * sizes.target
    operations.count[decoder] -= operations.count[OUTPUT]
    sites = tuple(dict.fromkeys(owners.values()))
    parts = {
        name: PartCost(stored[name], operations.count[name]) for name in (encoder, *sites, MEMORY, decoder, OUTPUT)
    }
    return Cost({name: part for name, part in parts.items() if name != MEMORY or any(part)}, sites, sizes.target)


class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operations of every part."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count: Counter[str] = Counter()
        self.part = ""
        self.product: Tensor | None = None
        """Result of the last operation, if that was a product of two tensors of numbers."""

    def within(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, with its operations counted for `part`."""

        def counted(*args: Any, **kwargs: Any) -> Any:
            outer, self.part = self.part, part
            out = function(*args, **kwargs)
            self.part = outer
            return out

        return counted

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        before, self.product = self.product, None
        if func is PRODUCT and all(isinstance(x, Tensor) and x.is_floating_point() and x.ndim for x in args):
            self.product = out
        if func is SUM and before is not None and args[0] is before:
            self.count[self.part] += 2 * before.numel()
        elif formula := flop_registry.get(func._overloadpacket):
            self.count[self.part] += formula(*args, **(kwargs or {}), out_val=out)
        return out
