"""Heads in and out of a model: masked by gates that can be opened again, or removed for good."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from study.models import Translator

ALL = "all"
"""Every site together."""


class Head(NamedTuple):
    """One head of a model, by its place among those that are there."""

    site: str
    layer: int
    head: int

    def __str__(self) -> str:
        return f"{self.site} {self.layer} {self.head}"


def heads_of(model: Translator, site: str = ALL) -> list[Head]:
    """List the heads of a site, or of all sites, in the order of computation."""
    return [
        Head(name, layer, head)
        for name, layer, attention in model.sites()
        for head in range(len(attention.kept))
        if site in (ALL, name)
    ]


class Mask(nn.Module):
    """heads ↦ heads · z with one z [H] for all sentences and queries."""

    def __init__(self, z: Tensor) -> None:
        super().__init__()
        self.z = z

    def forward(self, heads: Tensor) -> Tensor:
        return heads * self.z[:, None, None]


@contextmanager
def gated(model: Translator, gates: Mapping[tuple[str, int], nn.Module]) -> Iterator[None]:
    """Each (site, layer) under its gate while the context is open."""
    before = [(attention, attention.gate) for _, _, attention in model.sites()]
    for site, layer, attention in model.sites():
        attention.gate = gates.get((site, layer), attention.gate)
    try:
        yield
    finally:
        for attention, gate in before:
            attention.gate = gate


def _gates(model: Translator, heads: Iterable[Head]) -> dict[tuple[str, int], nn.Module]:
    """Return the gates that set the output of these heads to 0, by the place of their attention."""
    gone = set(heads)
    device = next(model.parameters()).device
    gates: dict[tuple[str, int], nn.Module] = {}
    for site, layer, attention in model.sites():
        z = [float(Head(site, layer, head) not in gone) for head in range(len(attention.kept))]
        if not all(z):
            gates[site, layer] = Mask(torch.tensor(z, device=device))
    return gates


def mask(model: Translator, heads: Iterable[Head]) -> None:
    """Set the output of these heads to 0, and that of no other head, until the next call."""
    gates = _gates(model, heads)
    for site, layer, attention in model.sites():
        attention.gate = gates.get((site, layer), nn.Identity())


def masked(model: Translator, heads: Iterable[Head]) -> AbstractContextManager[None]:
    """Set the output of these heads to 0 while the context is open."""
    return gated(model, _gates(model, heads))


def remove(model: Translator, heads: Collection[Head]) -> None:
    """Remove these heads from the model, in place. A layer that loses all of them attends to nothing any more."""
    paths = {module: path for path, module in model.named_modules()}
    for site, layer, attention in list(model.sites()):
        left = [head for head in range(len(attention.kept)) if Head(site, layer, head) not in heads]
        if len(left) < len(attention.kept):
            model.set_submodule(paths[attention], attention.reduced(left))
