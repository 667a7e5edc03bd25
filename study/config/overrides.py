"""Convert dotted overrides (`model.attention.heads` ↦ 4) to an `Experiment`, and validation errors to one line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from pydantic import ValidationError

from study.config.experiment import Experiment
from study.config.model import Model
from study.config.sites import TransformerSites
from study.config.textbook import textbook
from study.corpora.catalogue import Data
from study.errors import InputError

PRESET = "preset"
"""Name of a published model. Its fields lie below all others."""
FAMILY = "model.family"

TAGS = {
    str(section.model_fields[tag].default)
    for union, tag in ((Data, "name"), (Model, "family"))
    for section in get_args(get_args(union)[0])
}
"""Tags of unions, which pydantic adds to the location of an error."""


SUCH_AS = {"data": ", such as data.name", "model": ", such as model.family", "training": ", such as training.steps"}
"""Example of a field of each section."""


def nested(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """`{"a.b": 1, "a": {"c": 2}}` ↦ `{"a": {"b": 1, "c": 2}}`; the later wins.

    Raises:
        InputError: one name is used both as a field and as a section.
    """
    tree: dict[str, Any] = {}
    for dotted, value in overrides.items():
        *sections, leaf = str(dotted).split(".")
        node = tree
        for section in sections:
            node = node.setdefault(section, {})
            if not isinstance(node, dict):
                raise InputError(f"{dotted}: expected a section {section}, got a value for {section} too. Remove one.")
        if isinstance(value, Mapping):
            node[leaf] = merged(node.get(leaf) or {}, nested(value))
        else:
            node[leaf] = value
    return tree


def flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted name and the value of every leaf: the inverse of `nested`."""
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two trees; `over` wins where both have a value."""
    out = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(out.get(key), Mapping)
        out[key] = merged(out[key], value) if both else value
    return out


def experiment_from(*layers: Mapping[str, Any]) -> Experiment:
    """Build the experiment from layers of dotted or nested overrides; a later layer wins.

    Raises:
        InputError: a field or value that the experiment does not take, in one line.
    """
    tree: dict[str, Any] = {}
    for layer in layers:
        tree = merged(tree, nested(layer))
    preset, below = tree.pop(PRESET, None), ""
    if preset is not None:
        tree, below = _over_preset(preset, tree)
    try:
        return Experiment.model_validate(tree)
    except ValidationError as error:
        raise InputError(one_line(error, tree) + below) from None


def _over_preset(name: Any, tree: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Lay the tree over a textbook arm; return also the text to add to an error."""
    arm = nested(textbook(name).overrides)
    given = tree.get("model")
    family = given.get("family") if isinstance(given, Mapping) else None
    if family not in (None, arm["model"]["family"]):
        raise InputError(
            f"{FAMILY}: expected {arm['model']['family']}, the family of preset {name}, got {family!r}. Remove one."
        )
    return merged(arm, tree), f" (preset {name} gives the other fields)"


def family_of(overrides: Mapping[str, Any]) -> Any:
    """Return the family that flat overrides declare, directly or by a preset."""
    if overrides.get(PRESET) is not None:
        overrides = {**textbook(overrides[PRESET]).overrides, **overrides}
    return overrides.get(FAMILY, "recurrent")


def one_line(error: ValidationError, given: Mapping[str, Any]) -> str:
    """Return the first problem as `field: expected X, got Y. Remedy.` and further ones if they are short.

    Args:
        error: what pydantic found.
        given: the fields that the user gave, nested. A site that is not among them is left out of the name.
    """
    problems = list(dict.fromkeys(_line(problem, given) for problem in error.errors()))
    more = f" ({len(problems) - 1} more: {' '.join(problems[1:])})"
    return problems[0] + (more if len(problems) > 1 and len(more) < LONGEST else "")


LONGEST = 200
"""Characters of all further problems; longer ones are told once the first is solved."""


def _line(first: Any, given: Mapping[str, Any]) -> str:
    parts = [str(part) for part in first["loc"] if part not in TAGS]
    what, context = str(first["msg"]).removeprefix("Value error, "), first.get("ctx", {})
    while first["type"] == "value_error" and (found := FIELD.match(what)):
        parts, what = [*parts, *found[1].split(".")], what[found.end() :]
    if first["type"] == "union_tag_invalid":
        parts.append(context["discriminator"].strip("'"))
        options = [option.strip(" '") for option in context["expected_tags"].split(",")]
        what = expected_of(options, context["tag"])
    elif first["type"] in ("model_type", "model_attributes_type", "dict_type", "union_tag_not_found"):
        what = f"expected a section of fields{SUCH_AS.get('.'.join(parts), '')}, got {first['input']!r}."
    elif first["type"] == "missing":
        what = "expected a value, got none. Give one."
    elif first["type"] == "extra_forbidden":
        what = _foreign(parts, given)
    elif first["type"] != "value_error":
        what = expected(first)
    where = ".".join(part for part in _typed(parts, given) if part)
    return f"{where}: {what}" if where else what


FIELD = re.compile(r"(?![\w.]+\.py: )([a-z_]\w*(?:\.\w+)*): ")
"""Field at the beginning of a refusal, within the section that refuses; the file of a mechanism is none."""


def _typed(parts: list[str], given: Mapping[str, Any]) -> list[str]:
    """Return the name of a field of a site as the user gave it: with the site only if one was given."""
    if parts[:2] != ["model", "attention"] or len(parts) < 4 or parts[2] not in TransformerSites.model_fields:
        return parts
    section: Any = given.get("model")
    section = section.get("attention") if isinstance(section, Mapping) else None
    site = section.get(parts[2]) if isinstance(section, Mapping) else None
    own = isinstance(site, Mapping) and parts[3] in site
    shared = isinstance(section, Mapping) and any(not isinstance(value, Mapping) for value in section.values())
    return parts if own or not shared else [*parts[:2], *parts[3:]]


def _foreign(parts: list[str], given: Mapping[str, Any]) -> str:
    """Return the message for an unknown field: the section that has it, or the nearest name."""
    *above, name = parts
    for section, union, tag in (("data", Data, "name"), ("model", Model, "family")):
        kinds = get_args(get_args(union)[0])
        owners = [str(kind.model_fields[tag].default) for kind in kinds if name in kind.model_fields]
        if above == [section] and owners:
            chosen = given.get(section, {}).get(tag, kinds[0].model_fields[tag].default)
            return f"expected with {section}.{tag} {_or(owners)}, got {chosen}. Remove it, or change {section}.{tag}."
        if above == [section]:
            near = difflib.get_close_matches(name, {field for kind in kinds for field in kind.model_fields}, n=1)
            return f"no such field.{f' Did you mean {section}.{near[0]}?' if near else ''} {LISTS_ALL}"
    return f"no such field. {LISTS_ALL}"


LISTS_ALL = "`study train --help` lists all."


def expected(problem: Any) -> str:
    """Return an error of pydantic in the words `expected X, got Y`."""
    kind, context, value = str(problem["type"]), problem.get("ctx", {}), problem["input"]
    if kind == "literal_error" or kind.startswith("enum"):
        options = [part.strip("' ") for part in re.split(r", | or ", str(context["expected"]))]
        return expected_of(options, value)
    for start, name in KINDS.items():
        if kind.startswith(start):
            return f"expected {name}, got {_shown(value)}."
    for limit, words in LIMITS.items():
        if limit in context:
            return f"expected a number {words} {context[limit]:.15g}, got {_shown(value)}."
    return f"{problem['msg']}, got {_shown(value)}."


KINDS = {
    "int": "an integer",
    "float": "a number",
    "finite": "a finite number",
    "bool": "true or false",
    "string": "a text",
    "tuple": "a list",
    "missing": "a value",
}
LIMITS = {"ge": "from", "gt": "above", "le": "up to", "lt": "below"}


def expected_of(options: Sequence[str], value: Any) -> str:
    """Return the refusal of a value that is not among the options, with the nearest one."""
    near = difflib.get_close_matches(str(value), options, n=1)
    return f"expected {_or(options)}, got {_shown(value)}.{f' Did you mean {near[0]}?' if near else ''}"


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else repr(value)[:80]


def _or(words: Sequence[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last
