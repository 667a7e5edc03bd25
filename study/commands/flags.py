"""The flags of an experiment, made from `Experiment` by pydantic-settings: one flag per field.

Flags are read as text. `experiment_from` validates them.
"""

from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal, get_args

from pydantic import BaseModel, Field, create_model
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, CliSettingsSource, SettingsConfigDict, SettingsError
from pydantic_settings.sources import CLI_SUPPRESS

from study.commands.options import Help, join_negatives, rewrite_message
from study.config.attention import Attention
from study.config.experiment import Experiment
from study.config.mechanisms import choices
from study.config.sites import RecurrentSites, Sites, TransformerSites
from study.errors import InputError

ONE_SITE = re.compile(r"--model\.attention\.\w+\.")
NO_NONE = "\0"
"""Text that means None. Nobody can type it."""


def parse(argv: Sequence[str], description: str, extra: dict[str, Any], verb: str = "train") -> dict[str, Any]:
    """Return the flags that were given, as a tree of texts.

    Args:
        argv: command line after the verb.
        description: first paragraph of the help.
        extra: further flags, name ↦ (type, Field).
        verb: verb that has these flags.

    Raises:
        InputError: an unknown flag, or a flag without its value.
    """
    known, words = names(extra), join_negatives(argv)
    for word in _flags_of(words):
        if words_of := [name for name in known if name.startswith(f"{word}.")]:
            raise InputError(f"{word}: expected a field of this section, such as {words_of[0]}, got the section.")
    schema = _schema(description, extra)
    try:
        source: CliSettingsSource[Any] = CliSettingsSource(
            schema, cli_prog_name=f"study {verb}", cli_parse_args=words, formatter_class=_Help
        )
        given: dict[str, Any] = _tree(source())
    except (SettingsError, argparse.ArgumentError) as error:
        what = rewrite_message(str(error).removeprefix("error parsing CLI: "), names(extra))
        if what.startswith("error parsing value"):
            what = "a section: expected a field, got a value. Write --data.name grammar or --model.width 64."
        raise InputError(f"{what} `study {verb} --help` lists all options.") from None
    return given


def _flags_of(words: Sequence[str]) -> list[str]:
    """Return the flags among the words.

    Raises:
        InputError: a flag twice: by default the later value silently wins.
    """
    found = [word.split("=")[0] for word in words if word.startswith("--")]
    for flag in found:
        if found.count(flag) > 1 and flag != "--verbose":
            raise InputError(f"{flag}: expected once, got it twice. Remove one.")
    return found


def names(extra: dict[str, Any]) -> list[str]:
    """Return every flag, such as `--model.width`."""
    flat: dict[str, FieldInfo] = {}
    _flatten(_schema("", extra), "", flat)
    return [f"--{name}" for name in flat]


def _flatten(section: type[BaseModel], prefix: str, flat: dict[str, FieldInfo]) -> None:
    for name, field in section.model_fields.items():
        for inner in _sections(field.annotation):
            _flatten(inner, f"{prefix}{name}.", flat)
        if not _sections(field.annotation):
            flat[prefix + (field.alias or name)] = field


def _schema(description: str, extra: dict[str, Any]) -> type[_Flags]:
    fields = extra | _experiment()  # out is the folder of the runs, which every verb calls --runs
    fields["out"] = (str | None, Field(None, description=CLI_SUPPRESS))
    return create_model("Flags", __base__=_Flags, __doc__=description, **fields)


@cache
def _experiment() -> dict[str, Any]:
    """Return the fields of the experiment. To make them takes a quarter of a parse, which needs them twice."""
    return _fields([Experiment])


class _Flags(BaseSettings):
    model_config = SettingsConfigDict(
        cli_avoid_json=True,
        cli_exit_on_error=False,
        cli_hide_none_type=True,
        cli_parse_none_str=NO_NONE,
    )


class _Help(Help):
    """Help with a short usage line. It omits the fields of single sites, and defaults that are derived."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=min(118, shutil.get_terminal_size().columns - 2))

    def add_argument(self, action: argparse.Action) -> None:
        if not any(ONE_SITE.match(flag) for flag in action.option_strings):
            super().add_argument(action)

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None = None) -> None:
        super().add_usage(f"{self._prog} [--config FILE] [--FIELD VALUE …]", actions, groups, prefix)

    def _expand_help(self, action: argparse.Action) -> str:
        told = super()._expand_help(action)
        return (
            told.replace(" (default: None)", "").replace(f" (default: {NO_NONE})", "").replace(" (default: False)", "")
        )


def _tree(given: Any) -> Any:
    return {name: _tree(value) for name, value in given.items()} if isinstance(given, dict) else given


def _fields(sections: Sequence[type[BaseModel]]) -> dict[str, Any]:
    """Return the fields of a section as flags. Where there are several kinds of it, of all of them."""
    found: dict[str, list[tuple[type[BaseModel], FieldInfo]]] = {}
    for section in sections:
        for name, field in section.model_fields.items():
            found.setdefault(name, []).append((section, field))
    return {name: _flag(name, uses, sections) for name, uses in found.items()}


def _flag(
    name: str, uses: list[tuple[type[BaseModel], FieldInfo]], kinds: Sequence[type[BaseModel]]
) -> tuple[Any, Any]:
    inner = list(dict.fromkeys(section for _, field in uses for section in _sections(field.annotation)))
    if inner:
        doc = " ".join((inner[0].__doc__ or "").split()) if len(inner) == 1 else "One of: " + ", ".join(_kinds(inner))
        nested = _site_fields(inner) if issubclass(inner[0], Sites) else _fields(inner)
        section = create_model(name.title(), __doc__=doc, **nested)
        return section, Field(section.model_construct(), description=SITES if issubclass(inner[0], Sites) else None)
    by_kind = "" if name in ("name", "family") else _defaults(uses)
    only = _only([section for section, _ in uses], kinds)
    fields = [field for _, field in uses]
    told = dict.fromkeys(field.description or "" for field in fields)
    descriptions = [one for one in told if not any(o != one and o.startswith(one.removesuffix(".")) for o in told)]
    defaults = {repr(field.default) for field in fields}
    default = fields[0].default if len(defaults) == 1 or name in ("name", "family") else None
    if fields[0].is_required():  # the experiment, not the flag, says that it is missing
        default = None
    return _type(fields), Field(default, description=" / ".join(descriptions) + only + by_kind)


def _only(having: Sequence[type[BaseModel]], kinds: Sequence[type[BaseModel]]) -> str:
    """Return the kinds of a section that have a field, or those that lack it if these are few: ` [all but files]`."""
    lacking = [kind for kind in kinds if kind not in having]
    few = 2 * len(lacking) < len(having)
    return f" [{'all but ' * few}{', '.join(_kinds(lacking if few else having))}]" if lacking else ""


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


def _base(sites: type[Sites]) -> str:
    """`maps raw, values raw, output raw, heads 1`."""
    return ", ".join(f"{field} {value}" for field, value in sites.BASE.items())


SITES = (
    "--model.attention.FIELD sets a field at every site of the model. --model.attention.SITE.FIELD sets it at one "
    "site: cross, or in the transformer also encoder_self or decoder_self. Defaults of the recurrent family: "
    f"{_base(RecurrentSites)}. Defaults of the transformer: {_base(TransformerSites)}. score, scale, weights, combine "
    "and reach also take a class of your own: FILE.py or FILE.py:CLASS."
)


def _site_fields(sections: Sequence[type[BaseModel]]) -> dict[str, Any]:
    """Return the fields that set all sites, and those of each site. None has a default: it depends on the family."""
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
