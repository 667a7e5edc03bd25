"""Check the fields of an experiment: that they exist and can have the given values.

A sweep file may declare combinations that no experiment allows: those cells are skipped and listed. A field that
exists nowhere, or a value that no experiment takes whatever its other fields are, is a mistake in the file instead.
The difference is made here, field by field: a field counts as known if any corpus or family has it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from study.config import TEXTBOOK, Attention, Experiment
from study.config.overrides import PRESET, expected
from study.config.sites import Sites
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
    if name in _fields():
        return name
    found = [full for full in _fields() if full.endswith(f".{name}")]
    fewest = min((full.count(".") for full in found), default=0)
    shortest = [full for full in found if full.count(".") == fewest]
    if len(shortest) > 1:
        raise InputError(f"{name}: expected one field, got {' and '.join(shortest)}. Write the whole name.")
    return shortest[0] if shortest else name


def check(dotted: str, value: Any) -> None:
    """Refuse a name that is no field of any experiment, and a value that its field never takes.

    Raises:
        InputError: says what was expected.
    """
    if dotted == "out":
        raise InputError("expected no folder of runs in a sweep file. Use --runs or STUDY_RUNS.")
    known = _fields().get(dotted)
    if known is None:
        raise InputError(_unknown(dotted))
    problem = ""
    for field in known:
        try:
            _adapter(field).validate_python(value, strict=True)
        except ValidationError as error:
            problem = problem or expected(error.errors()[0])
        else:
            return
    raise InputError(f"{problem}{_remedy(value)}")


def _unknown(dotted: str) -> str:
    inside = [name for name in _fields() if name.startswith(f"{dotted}.")]
    if inside:
        return f"expected a field, got a section. Name a field of it, such as {inside[0]}."
    close = difflib.get_close_matches(dotted, _fields(), n=1)
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
def _fields() -> dict[str, list[FieldInfo]]:
    known: dict[str, list[FieldInfo]] = {PRESET: [FieldInfo(annotation=Literal[tuple(TEXTBOOK)])]}  # type: ignore[arg-type]
    for name, field in _walk(Experiment, ""):
        known.setdefault(name, []).append(field)
    return known


def _walk(section: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    """Every leaf below a section. Sites also take the fields of an attention, for all sites at once."""
    if issubclass(section, Sites):
        yield from _walk(Attention, prefix)
    for name, field in section.model_fields.items():
        inner = list(_sections(field.annotation))
        if not inner:
            yield prefix + name, field
        for one in inner:
            yield from _walk(one, f"{prefix}{name}.")


def _sections(annotation: Any) -> Iterator[type[BaseModel]]:
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    members = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    for member in members:
        if isinstance(member, type) and issubclass(member, BaseModel):
            yield member


def _adapter(field: FieldInfo) -> TypeAdapter[Any]:
    kind: Any = field.annotation
    for constraint in field.metadata:
        kind = Annotated[kind, constraint]
    return TypeAdapter(kind, config=ConfigDict(allow_inf_nan=False))
