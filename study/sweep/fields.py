"""Check the fields of an experiment: that they exist and can have the given values.

A sweep file may declare combinations that no experiment allows: those cells are skipped and listed. A field that
exists nowhere, or a value that no experiment takes whatever its other fields are, is a mistake in the file instead.
The difference is made here, field by field: a field counts as known if any corpus or family has it.
"""

from __future__ import annotations

import difflib
from contextlib import suppress
from functools import cache
from typing import Annotated, Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from study.config.fields import declared
from study.config.overrides import LISTS_ALL, expected
from study.errors import InputError

ALIASES = {"lr": "training.learning_rate", "corpus": "data.name"}
"""Short names of fields in `arm` texts, beside the endings of full names."""


@cache
def full_name(name: str) -> str:
    """Return the full name of a field from a short one: an alias, or the ending of a full name.

    `heads` and `attention.heads` are `model.attention.heads`, `cross.heads` is `model.attention.cross.heads`. If
    several names end so, the one with the fewest parts is meant. A name that no field has is returned as it is.

    Raises:
        InputError: several names of the same length end so.
    """
    name = ALIASES.get(name, name)
    if name in declared():
        return name
    found = [full for full in declared() if full.endswith(f".{name}")]
    shortest = [full for full in found if full.count(".") == min(other.count(".") for other in found)]
    if len(shortest) > 1:
        raise InputError(f"{name}: expected one field, got {' and '.join(shortest)}. Write the whole name.")
    return shortest[0] if shortest else name


def short_name(name: str) -> str:
    """Return the shortest name that `full_name` resolves to this field."""
    parts = name.split(".")
    endings = [".".join(parts[start:]) for start in reversed(range(1, len(parts)))]
    for short in (*ALIASES, *endings):
        with suppress(InputError):
            if full_name(short) == name:
                return short
    return name


def takes(dotted: str, value: Any) -> bool:
    """Return True if a field of this name can have the value."""
    try:
        check(dotted, value)
    except InputError:
        return False
    return True


def check(dotted: str, value: Any) -> None:
    """Refuse a name that is no field of any experiment, and a value that its field never takes.

    Raises:
        InputError: names the field, and says what was expected.
    """
    if dotted == "out" or dotted not in declared():  # the folder of runs is --runs of the command
        close = difflib.get_close_matches(dotted, declared(), n=1)
        raise InputError(f"{dotted}: no such field. {f'Did you mean {close[0]}?' if close else LISTS_ALL}")
    problems = []
    for adapter in _adapters(dotted):
        try:
            adapter.validate_python(value, strict=True)
            return
        except ValidationError as error:
            problems.append(expected(error.errors()[0]))
    text = isinstance(value, str) and "number" in problems[0]
    hint = " YAML reads numbers such as 1.0e-4, with a point and no quotes." if text else ""
    if not isinstance(value, str) and "string" in problems[0]:
        hint = " YAML reads words such as no and 2014 as other than text: quote them."
    raise InputError(f"{dotted}: {problems[0]}{hint}")


@cache
def _adapters(dotted: str) -> tuple[TypeAdapter[Any], ...]:
    kinds: list[Any] = [Annotated[one.annotation, one] for one in declared()[dotted].values()]
    return tuple(TypeAdapter(kind, config=ConfigDict(allow_inf_nan=False)) for kind in kinds)
