"""The flags of an experiment, made from `Experiment` by pydantic-settings: one flag per field, one help text.

The flags only say what was given; all validation happens in one place, `experiment_from`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, Literal, get_args

from pydantic import BaseModel, Field, create_model
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, CliSettingsSource, SettingsConfigDict, SettingsError

from study.config.attention import Attention
from study.config.experiment import Experiment
from study.config.mechanisms import choices
from study.config.sites import Sites
from study.errors import InputError

NO_NONE = "\0"
"""The text that would mean None, which nobody can type."""


def parse(argv: Sequence[str], description: str, extra: dict[str, Any], verb: str = "train") -> dict[str, Any]:
    """What the flags say, as a tree of texts; a flag that was not given is absent.

    Args:
        argv: the command line after the verb.
        description: the first paragraph of the help.
        extra: further flags, name ↦ (type, Field).
        verb: whose flags they are.

    Raises:
        InputError: an unknown flag, or a flag without its value.
    """
    schema = create_model("Flags", __base__=_Flags, __doc__=description, **extra, **_fields([Experiment]))
    try:
        source: CliSettingsSource[Any] = CliSettingsSource(
            schema, cli_prog_name=f"study {verb}", cli_parse_args=list(argv), formatter_class=_Help
        )
        given: dict[str, Any] = _tree(source())
    except (SettingsError, argparse.ArgumentError) as error:
        what = str(error).removeprefix("error parsing CLI: ")
        if what.startswith("error parsing value"):
            what = "a section takes no value; name a field of it, such as --data.name grammar or --model.width 64"
        raise InputError(f"{what}; `study {verb} --help` lists every flag") from None
    return given


class _Flags(BaseSettings):
    model_config = SettingsConfigDict(
        cli_avoid_json=True,
        cli_exit_on_error=False,
        cli_hide_none_type=True,
        cli_parse_none_str=NO_NONE,
    )


class _Help(argparse.RawDescriptionHelpFormatter):
    """A short usage line, and no default where it is derived or depends on the family."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=34, width=118)

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None = None) -> None:
        super().add_usage(f"{self._prog} [--config FILE] [--FIELD VALUE …]", actions, groups, prefix)

    def _expand_help(self, action: argparse.Action) -> str:
        told = super()._expand_help(action)
        return told.replace(" (default: None)", "").replace(f" (default: {NO_NONE})", "")


def _tree(given: Any) -> Any:
    return {name: _tree(value) for name, value in given.items()} if isinstance(given, dict) else given


def _fields(sections: Sequence[type[BaseModel]]) -> dict[str, Any]:
    """The fields of a section as flags. Where there are several kinds of it, of all of them."""
    found: dict[str, list[tuple[type[BaseModel], FieldInfo]]] = {}
    for section in sections:
        for name, field in section.model_fields.items():
            found.setdefault(name, []).append((section, field))
    return {name: _flag(name, uses, len(sections)) for name, uses in found.items()}


def _flag(name: str, uses: list[tuple[type[BaseModel], FieldInfo]], kinds: int) -> tuple[Any, Any]:
    inner = list(dict.fromkeys(section for _, field in uses for section in _sections(field.annotation)))
    if inner:
        doc = " ".join((inner[0].__doc__ or "").split()) if len(inner) == 1 else "One of: " + ", ".join(_kinds(inner))
        nested = _site_fields(inner) if issubclass(inner[0], Sites) else _fields(inner)
        section = create_model(name.title(), __doc__=SITES if issubclass(inner[0], Sites) else doc, **nested)
        return section, Field(section.model_construct())
    by_kind = "" if name in ("name", "family") else _defaults(uses)
    only = f" [{', '.join(_kinds([section for section, _ in uses]))}]" if len(uses) < kinds else ""
    fields = [field for _, field in uses]
    told = dict.fromkeys(field.description or "" for field in fields)
    descriptions = [one for one in told if not any(o != one and o.startswith(one.removesuffix(".")) for o in told)]
    defaults = {repr(field.default) for field in fields}
    default = fields[0].default if len(defaults) == 1 or name in ("name", "family") else None
    return _type(fields), Field(default, description=" / ".join(descriptions) + only + by_kind)


def _defaults(uses: list[tuple[type[BaseModel], FieldInfo]]) -> str:
    """The defaults where kinds differ in them; the one of more than two kinds is the usual one, without their names."""
    kinds: dict[str, list[str]] = {}
    for section, field in uses:
        kinds.setdefault(str(field.default), []).extend(_kinds([section]))
    if len(kinds) < 2:
        return ""
    told = [
        value if len(names) > 2 else f"{value} {' and '.join(names)}"
        for value, names in sorted(kinds.items(), key=lambda item: -len(item[1]))
        if value != "None"  # derived, as the description says
    ]
    return f" (default: {', '.join(told)})"


SITES = (
    "What attends: at every site of the model, or at one (encoder_self, decoder_self, cross). Fields left out are "
    "those of the base arm: raw maps, values and output and one head in the recurrent family; four heads with separate "
    "maps, projected values and a projected output in the transformer."
)


def _site_fields(sections: Sequence[type[BaseModel]]) -> dict[str, Any]:
    """The fields that set all sites, and those of each site. None has a default: it depends on the family."""
    shared = {
        name: (_type([field]), Field(None, description=field.description))
        for name, field in Attention.model_fields.items()
    }
    names = dict.fromkeys(name for section in sections for name in section.model_fields)
    sites = {}
    for name in names:
        doc = f"The same at {name} alone."
        site = create_model(f"Site_{name}", __doc__=doc, **shared)  # type: ignore[call-overload]
        sites[name] = (site, Field(site.model_construct()))
    return shared | sites


def _sections(annotation: Any) -> list[type[BaseModel]]:
    members = get_args(annotation) or (annotation,)
    return [member for member in members if isinstance(member, type) and issubclass(member, BaseModel)]


def _kinds(sections: Sequence[type[BaseModel]]) -> list[str]:
    tags = ("name", "family")
    return [str(s.model_fields[tag].default) for s in sections for tag in tags if tag in s.model_fields]


def _type(fields: list[FieldInfo]) -> Any:
    """One type for all uses: the choices together, where they are choices."""
    values = dict.fromkeys(value for field in fields for value in choices(field))
    if not values:
        return fields[0].annotation
    return Literal[tuple(values)] | None if type(None) in get_args(fields[0].annotation) else Literal[tuple(values)]
