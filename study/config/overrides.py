"""Convert dotted overrides (`model.attention.heads` ↦ 4) to an `Experiment`, and validation errors to one line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from study.config.experiment import Experiment
from study.config.model import Model
from study.config.textbook import TEXTBOOK
from study.corpora.catalogue import Data
from study.errors import InputError

PRESET = "preset"
"""Name of a published model. Its fields lie below all others."""
FAMILY = "model.family"

UNIONS: dict[str, tuple[str, dict[str, type[BaseModel]]]] = {
    section: (tag, {str(kind.model_fields[tag].default): kind for kind in get_args(get_args(union)[0])})
    for section, union, tag in (("data", Data, "name"), ("model", Model, "family"))
}
"""Section of several kinds ↦ the field that tells them apart, and its values with their kinds."""
TAGS = {tag for _, kinds in UNIONS.values() for tag in kinds}
"""Tags of unions, which pydantic adds to the location of an error."""
LISTS_ALL = "`study train --help` lists all."


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


def _preset(name: Any) -> Mapping[str, Any]:
    """Return the dotted fields of a published model."""
    if not isinstance(name, str) or name not in TEXTBOOK:
        raise InputError(f"{PRESET}: {_one_of(list(TEXTBOOK), name)}")
    return TEXTBOOK[name].overrides


def _over_preset(name: Any, tree: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Lay the tree over a textbook arm; return also the text to add to an error."""
    arm, given = nested(_preset(name)), tree.get("model")
    usual = arm["model"]["family"]
    if isinstance(given, Mapping) and (family := given.get("family", usual)) != usual:
        raise InputError(f"{FAMILY}: expected {usual}, the family of preset {name}, got {family!r}. Remove one.")
    return merged(arm, tree), f" (preset {name} gives the other fields)"


def family_of(overrides: Mapping[str, Any]) -> Any:
    """Return the family that flat overrides declare, directly or by a preset."""
    if overrides.get(PRESET) is not None:
        overrides = {**_preset(overrides[PRESET]), **overrides}
    return overrides.get(FAMILY, "recurrent")


def one_line(error: ValidationError, given: Mapping[str, Any]) -> str:
    """Return the first problem as `field: expected X, got Y. Remedy.`, and how many more there are.

    Args:
        error: what pydantic found.
        given: the fields that the user gave, nested. A site that is not among them is left out of the name.
    """
    problems = list(dict.fromkeys(_line(problem, given) for problem in error.errors()))
    return problems[0] + (f" (and {len(problems) - 1} more)" if problems[1:] else "")


FIELD = re.compile(r"(?![\w.]+\.py: )([a-z_]\w*(?:\.\w+)*): ")
"""Field at the beginning of a refusal, within the section that refuses; the file of a mechanism is none."""


def _line(problem: Any, given: Mapping[str, Any]) -> str:
    parts = [str(part) for part in problem["loc"] if part not in TAGS]
    kind, what = problem["type"], str(problem["msg"]).removeprefix("Value error, ")
    if kind == "value_error" and (found := FIELD.match(what)):
        parts, what = [*parts, *found[1].split(".")], what[found.end() :]
    elif kind == "union_tag_invalid":
        tag, kinds = UNIONS[parts[0]]
        parts, what = [*parts, tag], _one_of(list(kinds), problem["ctx"]["tag"])
    elif kind in ("model_type", "model_attributes_type", "dict_type", "union_tag_not_found"):
        what = f"expected a section of fields, got {problem['input']!r}."
    elif kind == "extra_forbidden":
        what = _foreign(parts, given)
    elif kind != "value_error":
        what = expected(problem)
    if parts[:2] == ["model", "attention"] and len(parts) > 3:
        of_sites = [name.split(".")[2:] for name, _ in flat(given) if name.startswith("model.attention.")]
        if of_sites and parts[2] not in {name[0] for name in of_sites}:
            del parts[2]
    return f"{'.'.join(parts)}: {what}" if parts else what


def _foreign(parts: list[str], given: Mapping[str, Any]) -> str:
    """Return the message for an unknown field: the section that has it, or the nearest name."""
    *above, name = parts
    tag, kinds = UNIONS.get(".".join(above), ("", {}))
    if owners := [kind for kind, section in kinds.items() if name in section.model_fields]:
        field = f"{above[0]}.{tag}"
        chosen = given.get(above[0], {}).get(tag, next(iter(kinds)))
        return f"expected with {field} {' or '.join(owners)}, got {chosen}. Remove it, or change {field}."
    near = difflib.get_close_matches(name, {field for kind in kinds.values() for field in kind.model_fields}, n=1)
    return f"no such field.{f' Did you mean {above[0]}.{near[0]}?' if near else ''} {LISTS_ALL}"


KINDS = {"int": "an integer", "float": "a number", "finite": "a finite number", "bool": "true or false"}
KINDS |= {"string": "a text", "tuple": "a list"}
"""Beginning of a type of pydantic's errors ↦ what it expects."""
LIMITS = {"ge": "from", "gt": "above", "le": "up to", "lt": "below"}


def expected(problem: Any) -> str:
    """Return an error of pydantic in the words `expected X, got Y`."""
    kind, context, value = problem["type"], problem.get("ctx", {}), problem["input"]
    if kind == "missing":
        return "expected a value, got none. Give one."
    if kind == "literal_error":
        return _one_of([part.strip("' ") for part in re.split(r", | or ", context["expected"])], value)
    words = [what for start, what in KINDS.items() if kind.startswith(start)]
    words += [f"a number {what} {context[limit]:.15g}" for limit, what in LIMITS.items() if limit in context]
    return f"expected {words[0]}, got {_shown(value)}." if words else f"{problem['msg']}, got {_shown(value)}."


def _one_of(options: Sequence[str], value: Any) -> str:
    near = difflib.get_close_matches(str(value), options, n=1)
    among = " or ".join(filter(None, (", ".join(options[:-1]), options[-1])))
    return f"expected {among}, got {_shown(value)}.{f' Did you mean {near[0]}?' if near else ''}"


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else repr(value)[:80]
