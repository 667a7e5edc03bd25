"""Convert dotted overrides (`model.attention.heads` ↦ 4) to an `Experiment`, and validation errors to one line."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from study.config.experiment import Experiment
from study.config.model import Model
from study.config.textbook import TEXTBOOK
from study.corpora.catalogue import Data
from study.errors import InputError

Fields = Mapping[str, Any]
"""Fields by name: dotted, nested, or both."""
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


def nested(overrides: Fields) -> dict[str, Any]:
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


def flat(tree: Fields, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted name and the value of every leaf: the inverse of `nested`."""
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def merged(base: Fields, over: Fields) -> dict[str, Any]:
    """Merge two trees; `over` wins where both have a value."""
    out = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(out.get(key), Mapping)
        out[key] = merged(out[key], value) if both else value
    return out


def experiment_from(*layers: Fields) -> Experiment:
    """Build the experiment from layers of dotted or nested overrides; a later layer wins.

    Raises:
        InputError: a field or value that the experiment does not take, in one line.
    """
    tree: dict[str, Any] = {}
    for layer in layers:
        tree = merged(tree, nested(layer))
    if (preset := tree.pop(PRESET, None)) is not None:
        tree = merged(nested(_preset(preset)), tree)
    try:
        return Experiment.model_validate(tree)
    except ValidationError as error:
        raise InputError(one_line(error, tree)) from None


def _preset(name: Any) -> Fields:
    """Return the dotted fields of a published model."""
    if not isinstance(name, str) or name not in TEXTBOOK:
        raise InputError(f"{PRESET}: expected {', '.join(TEXTBOOK)}, got {name!r:.80}.")
    return TEXTBOOK[name].overrides


def family_of(overrides: Fields) -> Any:
    """Return the family that flat overrides declare, directly or by a preset."""
    if overrides.get(PRESET) is not None:
        overrides = {**_preset(overrides[PRESET]), **overrides}
    return overrides.get(FAMILY, "recurrent")


FIELD = re.compile(r"(?![\w.]+\.py: )([a-z_]\w*(?:\.\w+)*): ")
"""Field at the beginning of a refusal, within the section that refuses; the file of a mechanism is none."""


def one_line(error: ValidationError, given: Fields) -> str:
    """Return the first problem as one line: field, what was expected, what was given, remedy.

    Args:
        error: what pydantic found.
        given: the fields that the user gave, nested. A site that is not among them is left out of the name.
    """
    problem: Any = error.errors()[0]
    parts = [str(part) for part in problem["loc"] if part not in TAGS]
    what = expected(problem)
    if problem["type"] == "extra_forbidden":
        what = _foreign(parts, given)
    elif problem["type"] == "value_error":
        what = str(problem["ctx"]["error"])
        if found := FIELD.match(what):
            parts, what = [*parts, *found[1].split(".")], what[found.end() :]
    if parts[:2] == ["model", "attention"] and len(parts) > 3:
        of_sites = [name.split(".")[2:] for name, _ in flat(given) if name.startswith("model.attention.")]
        if of_sites and parts[2] not in {name[0] for name in of_sites}:
            del parts[2]
    return f"{'.'.join(parts)}: {what}" if parts else what


def _foreign(parts: list[str], given: Fields) -> str:
    """Return the message for a field that a section lacks, with the kind of section that has it."""
    *above, name = parts
    tag, kinds = UNIONS.get(".".join(above), ("", {}))
    if owners := [kind for kind, section in kinds.items() if name in section.model_fields]:
        field = f"{above[0]}.{tag}"
        chosen = given.get(above[0], {}).get(tag, next(iter(kinds)))
        return f"expected with {field} {' or '.join(owners)}, got {chosen}. Remove it, or change {field}."
    return f"no such field. {LISTS_ALL}"


def expected(problem: Any) -> str:
    """Return an error of pydantic in the words `expected X, got Y`."""
    given = "none" if problem["type"] == "missing" else f"{problem['input']!r:.80}"
    return f"{problem['msg'].replace('Input should be', 'expected')}, got {given}."
