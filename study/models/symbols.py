"""Numbers of parameters in symbols, read off parts that are built with sizes told apart.

A tensor of shape (3, 13, 51) in a part built with H = 3, K = 13 and D = 51 has K·D parameters per head.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Any

import torch
from torch import nn

from study.attention import Attention as Site
from study.attention import Lengths
from study.attention.mixing import build_mixing
from study.attention.positions import build_positions
from study.config import Attention, Recurrent, Transformer
from study.config.mechanisms import SCORE, SIZES
from study.models.bridge import build_memory

H = 3
NAMES = {51: "D", 57: "Dk", 58: "D", 17: "Kq", 19: "Kk", 36: "(Kq + Kk)", 13: "K", 11: "V", 23: "A", 29: "R"}
NAMES |= {31: "S_max", 41: "U", 7: "r", 5: "w"}
"""Sizes ↦ symbols. D = 3·17 and Dk = 3·19, for raw maps of 3 heads; an even D of 58 outside attention."""
LENGTHS = Lengths(longest=31, typical=29)
SIZED = {field: next(size for size, name in NAMES.items() if name == symbol) for field, symbol in SIZES.items()}
MAPS: tuple[dict[str, Any], ...] = ({"maps": "raw"}, {"key_width": SIZED["key_width"]}, {})
VALUES: tuple[dict[str, Any], ...] = ({"value_width": SIZED["value_width"]}, {"values": "raw"}, {})
SCORES: tuple[dict[str, Any], ...] = (*({field: size} for field, size in SIZED.items() if SCORE.taking(field)), {})
MODELS: tuple[dict[str, Any], ...] = ({"annotations": 7, "annotation_width": 41}, {"convolution_width": 5}, {})
OUTSIDE: dict[str, Callable[[Any], nn.Module]] = {
    "memory": lambda config: build_memory(config, 58),
    "positions": lambda config: build_positions(config, LENGTHS),
    "mixing": lambda config: build_mixing(config, LENGTHS),
}
"""Axes of a model beside its attention, and what builds the part."""


def site(**fields: Any) -> Site:
    """An attention with these fields; all others are what the configuration takes with them, told apart if it can."""
    maps = [context for context in MAPS if not fields.keys() & context.keys()]
    for memory, *parts in product((57, 51), maps, VALUES, SCORES):
        given = {"heads": H, **parts[0], **parts[1], **parts[2], **fields}
        try:
            config = Attention.model_validate(given).resolved(51, memory)
        except ValueError:
            continue
        with torch.device("meta"):
            return Site(config, 51, memory, LENGTHS)
    raise AssertionError(fields)


def outside(axis: str, value: str) -> nn.Module:
    """The part of a model that is no attention and that `axis` chooses."""
    family: type[Recurrent | Transformer] = Recurrent if axis in Recurrent.model_fields else Transformer
    for extra in MODELS:
        try:
            config = family.model_validate({"width": 58, "attention": {"heads": 1}, axis: value, **extra})
        except ValueError:
            continue
        with torch.device("meta"):
            return OUTSIDE[axis](config)
    raise AssertionError((axis, value))


def in_symbols(parts: Iterable[nn.Module], heads: bool) -> str:
    """Parameters of the parts; with `heads` per head, or for all where a tensor has nothing of its own for each."""
    own: Counter[str] = Counter()
    shared: Counter[str] = Counter()
    for parameter in {id(p): p for part in parts for p in part.parameters()}.values():
        if heads and parameter.shape[0] == H:
            own[_product(parameter.shape[1:])] += 1
        else:
            shared[_product(parameter.shape)] += 1
    texts = [*_terms(own), *(f"{term}{' for all heads' if heads else ''}" for term in _terms(shared))]
    return " + ".join(texts) or "0"


def _product(shape: Iterable[int]) -> str:
    counted = Counter(NAMES[size] for size in shape)
    return "·".join(name + ("²" if count == 2 else "") for name, count in counted.items()) or "1"


def _terms(terms: Counter[str]) -> Iterator[str]:
    for term, count in terms.items():
        yield term if count == 1 else f"{count}·{term}"
