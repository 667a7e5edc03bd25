"""Check the fields of an experiment: that they exist and can have the given values.

A sweep file may declare combinations that no experiment allows: those cells are skipped and listed. A field that
exists nowhere, or a value that no experiment takes whatever its other fields are, is a mistake in the file instead.
The difference is made here, field by field: a field counts as known if any corpus or family has it.
"""

from __future__ import annotations

import difflib
import re
from functools import cache
from typing import Annotated, Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from study.config.fields import declared
from study.config.overrides import expected
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
    fewest = min((full.count(".") for full in found), default=0)
    shortest = [full for full in found if full.count(".") == fewest]
    if len(shortest) > 1:
        raise InputError(f"{name}: expected one field, got {' and '.join(shortest)}. Write the whole name.")
    return shortest[0] if shortest else name


def short_name(name: str) -> str:
    """Return the shortest name that `full_name` resolves to this field."""
    alias = next((short for short, full in ALIASES.items() if full == name), "")
    parts = name.split(".")
    for start in reversed(range(len(parts))):
        short = ".".join(parts[start:])
        try:
            if not alias and full_name(short) == name:
                return short
        except InputError:
            continue
    return alias or name


def check(dotted: str, value: Any) -> None:
    """Refuse a name that is no field of any experiment, and a value that its field never takes.

    Raises:
        InputError: says what was expected.
    """
    if dotted == "out":
        raise InputError(f"expected no folder of runs in a sweep file, got {value!r}. Use --runs or STUDY_RUNS.")
    if dotted not in declared():
        raise InputError(_unknown(dotted))
    problem = ""
    for adapter in _adapters(dotted):
        try:
            adapter.validate_python(value, strict=True)
        except ValidationError as error:
            problem = problem or expected(error.errors()[0])
        else:
            return
    raise InputError(f"{problem}{_remedy(value)}")


def _unknown(dotted: str) -> str:
    inside = [name for name in declared() if name.startswith(f"{dotted}.")]
    if inside:
        return f"expected a field, got a section. Name a field of it, such as {inside[0]}."
    close = difflib.get_close_matches(dotted, declared(), n=1)
    return "no such field." + (f" Did you mean {close[0]}?" if close else " `study train --help` lists all.")


def _remedy(value: Any) -> str:
    """YAML 1.1 reads 1e-4 as text: with an exponent, a number needs a point and a sign."""
    if not isinstance(value, str):
        return ""
    number = re.fullmatch(r"([-+]?\d+)(\.\d*)?(?:[eE]([-+]?)(\d+))?", value)
    if number is None:
        return ""
    whole, fraction, sign, exponent = number.groups()
    plain = f"{whole}{fraction or '.0'}e{sign or '+'}{exponent}" if exponent else value
    return f" It is text here. Write {plain} without quotes."


@cache
def _adapters(dotted: str) -> tuple[TypeAdapter[Any], ...]:
    return tuple(map(_adapter, declared()[dotted].values()))


def _adapter(field: FieldInfo) -> TypeAdapter[Any]:
    kind: Any = field.annotation
    for constraint in field.metadata:
        kind = Annotated[kind, constraint]
    return TypeAdapter(kind, config=ConfigDict(allow_inf_nan=False))
