"""Every field of an experiment: its kinds, its values, its default and its meaning, for help, lists and sweep files."""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Literal, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from study.config.attention import AttentionConfig
from study.config.experiment import Experiment
from study.config.mechanisms import choices
from study.config.overrides import PRESET
from study.config.sites import RecurrentSites, Sites, TransformerSites
from study.config.textbook import TEXTBOOK

TAGS = ("name", "family")
"""Fields that tell the kinds of a section apart."""


@cache
def declared() -> dict[str, dict[str, FieldInfo]]:
    """Return every field by its dotted name: kind of its section ↦ declaration. A field of all kinds has each."""
    names = "A published model; `study ls presets` lists all."
    known = {PRESET: {"": FieldInfo(annotation=Literal[tuple(TEXTBOOK)], default=None, description=names)}}  # type: ignore[arg-type]
    for name, kind, field in _walk(Experiment, "", ""):
        known.setdefault(name, {})[kind] = field
    return known


def _walk(section: type[BaseModel], prefix: str, kind: str) -> Iterator[tuple[str, str, FieldInfo]]:
    """Yield every leaf below a section. Sites also take the fields of an attention, for all sites at once."""
    tags = [str(section.model_fields[tag].default) for tag in TAGS if tag in section.model_fields]
    kind = tags[0] if tags else kind
    if issubclass(section, Sites):
        yield from _walk(AttentionConfig, prefix, kind)
    for name, field in section.model_fields.items():
        inner = _sections(field.annotation)
        if not inner:
            yield prefix + name, kind, field
        for one in inner:
            yield from _walk(one, f"{prefix}{name}.", kind)


def _sections(annotation: Any) -> list[type[BaseModel]]:
    members = get_args(annotation) or (annotation,)
    return [member for member in members if isinstance(member, type) and issubclass(member, BaseModel)]


def is_of_a_site(name: str) -> bool:
    """Return True for a field of a single attention site, such as `model.attention.cross.heads`."""
    return name.startswith("model.attention.") and name.count(".") == 3


def rows() -> Iterator[dict[str, str]]:
    """Yield every field with its values, its default, the kinds that have it (empty: all) and its meaning.

    Fields of one attention site are those of `model.attention.FIELD`. Defaults of the two families are separated by
    " / " if they differ, those of corpora by " | ".
    """
    kinds = {section: list(declared()[f"{section}.{tag}"]) for section, tag in (("data", "name"), ("model", "family"))}
    for name, uses in declared().items():
        section, _, field = name.rpartition(".")
        if is_of_a_site(name) or name == "out":
            continue
        values = [one.default for one in uses.values() if not one.is_required()][: 1 if field in TAGS else None]
        if section == "model.attention":
            values = [sites.BASE.get(field, values[0]) for sites in (RecurrentSites, TransformerSites)]
        first = next(iter(uses.values()))
        meanings = dict.fromkeys(one.description or "" for one in uses.values())
        options = dict.fromkeys(str(value) for one in uses.values() for value in choices(one))
        join = " / " if section.startswith("model") else " | "
        yield {
            "field": name,
            "default": join.join(dict.fromkeys(_default(value, first) for value in values)),
            "values": ", ".join(options),
            "of": ", ".join(uses) if len(uses) < len(kinds.get(section, ())) else "",
            "meaning": " ".join(meanings),
        }


def _default(value: Any, field: FieldInfo) -> str:
    derived = re.search(r"\(derived[^:]*: (.*?)\)", field.description or "")
    if value is None:
        return f"derived: {derived[1]}" if derived else "none"
    return value if isinstance(value, str) else json.dumps(value)
