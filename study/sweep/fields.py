"""Check the fields of an experiment: that they exist and can have the given values.

A sweep file may declare combinations that no experiment allows: those cells are skipped and listed. A field that
exists nowhere, or a value that no experiment takes whatever its other fields are, is a mistake in the file instead.
The difference is made here, field by field: a field counts as known if any corpus or family has it.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from study.config import TEXTBOOK, Attention, Experiment
from study.config.overrides import PRESET, expected, experiment_from
from study.config.sites import Sites
from study.errors import InputError

ALIASES = {"lr": "training.learning_rate", "corpus": "data.name"}
"""Short names of fields in `arm` texts, beside the endings of full names."""
FAMILIES = ("recurrent", "transformer")


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


def listed() -> list[dict[str, str]]:
    """Return every field of an experiment with its short name in `arm` texts and its default.

    A field of one attention site has the name and default of `model.attention.FIELD`. Defaults of the two families
    are separated by " / " if they differ, those of corpora by " | ".
    """
    models = [experiment_from({"model.family": name}).model_dump(mode="json")["model"] for name in FAMILIES]
    rows = []
    for name, found in _fields().items():
        section, _, field = name.removeprefix("model.").rpartition(".")
        if section.startswith("attention.") or name == "out":  # a single site; no field of a sweep file
            continue
        if section == "attention":
            values = [model["attention"]["cross"][field] for model in models]
        elif name.startswith("model.") and field != "family":
            values = [model[field] for model in models if field in model]
        else:
            values = [one.default for one in found if not one.is_required()]
        join = " / " if name.startswith("model.") else " | "
        texts = dict.fromkeys(_default_text(value, found[0]) for value in values)
        rows.append({"field": name, "short": _short_name(name), "default": join.join(texts)})
    return rows


def _default_text(value: Any, field: FieldInfo) -> str:
    derived = re.search(r"\(derived[^:]*: (.*?)\)", field.description or "")
    if value is None:
        return f"derived: {derived[1]}" if derived else "none"
    return value if isinstance(value, str) else json.dumps(value)


def _short_name(name: str) -> str:
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
    if dotted not in _fields():
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


@cache
def _adapters(dotted: str) -> tuple[TypeAdapter[Any], ...]:
    return tuple(map(_adapter, _fields()[dotted]))


def _adapter(field: FieldInfo) -> TypeAdapter[Any]:
    kind: Any = field.annotation
    for constraint in field.metadata:
        kind = Annotated[kind, constraint]
    return TypeAdapter(kind, config=ConfigDict(allow_inf_nan=False))
