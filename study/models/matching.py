"""Equal parameters: which width gives an arm as many as its baseline has, found by building models without data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from study.config import Experiment, Recurrent, Transformer
from study.config.mechanisms import SIZES
from study.errors import InputError
from study.models.cost import Sizes, bare, parameters

WIDTHS = ("model.width", *(f"model.attention.{size}" for size in SIZES))
"""The fields that are tried, one at a time."""
SHARED = ("width", "layers", "embeddings")
"""Fields that the baseline takes over from the arm: sizes, and which embeddings are shared."""
LARGEST, TRIES = 2**15, 64
"""The largest width, and how many refused values in a row end the search."""

Counted = tuple[int, int]
"""A value and the number of parameters with it."""


class Match(NamedTuple):
    """The value of a field with which the arm comes nearest to the baseline."""

    field: str
    value: int
    parameters: int


def base_arm(model: Recurrent | Transformer) -> Recurrent | Transformer:
    """The default arm of a model's family, at its sizes."""
    return type(model).model_validate({name: getattr(model, name) for name in SHARED})


def parameters_of(model: Recurrent | Transformer, sizes: Sizes) -> int:
    """Number of parameters, shared ones once."""
    return parameters(bare(model, sizes.vocabulary, sizes.lengths))


def matches(declare: Callable[[dict[str, Any]], Experiment], sizes: Sizes, target: int) -> list[Match]:
    """Return, for every width of the arm, the value whose parameter count is nearest to `target`.

    Args:
        declare: overrides laid over the arm ↦ the experiment, or an `InputError`.
        sizes: of the data.
        target: the baseline's parameters.
    """
    found = []
    for field in WIDTHS:

        def count(value: int, field: str = field) -> int | None:
            try:
                return parameters_of(declare({field: value}).model, sizes)
            except InputError:
                return None

        near = nearest(count, target)
        if near is not None:
            found.append(Match(field, *near))
    return found


def nearest(count: Callable[[int], int | None], target: int) -> Counted | None:
    """The value whose count is nearest to the target; None if no value is taken, or if the value changes nothing.

    A count is None where the value is refused, such as a width that the heads do not divide. It grows with the value.
    """
    low = _first(count, 1, LARGEST)
    high = low and _first(count, low[0] + 1, LARGEST)
    if low is None or high is None or low[1] == high[1]:
        return None
    if low[1] >= target:
        return low
    while high[1] < target:
        above = _first(count, 2 * high[0], LARGEST)
        if above is None:
            return high
        low, high = high, above
    start, end = low[0], high[0]
    while end - start > 1:
        middle = (start + end) // 2
        found = _first(count, middle, end)
        if found is not None and found[1] < target:
            start, low = found[0], found
        else:
            end, high = middle, found or high
    return min(low, high, key=lambda counted: abs(counted[1] - target))


def _first(count: Callable[[int], int | None], start: int, end: int) -> Counted | None:
    """The first value from `start` on, before `end`, that is taken."""
    for value in range(start, min(end, start + TRIES)):
        number = count(value)
        if number is not None:
            return value, number
    return None
