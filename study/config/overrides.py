"""Dotted overrides (`model.attention.heads` ↦ 4) to an `Experiment`, and a validation error to one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from pydantic import ValidationError

from study.config.experiment import Experiment
from study.config.model import Model
from study.config.textbook import textbook
from study.corpora.catalogue import Data
from study.errors import InputError

PRESET = "preset"
"""Beside the fields: the name of a textbook arm, which lies below them all."""
FAMILY = "model.family"

TAGS = {
    str(section.model_fields[tag].default)
    for union, tag in ((Data, "name"), (Model, "family"))
    for section in get_args(get_args(union)[0])
}
"""What pydantic puts into a location for having chosen a member of a union."""


SUCH_AS = {"data": ", such as data.name", "model": ", such as model.family", "training": ", such as training.steps"}
"""A field of a section, for who gave the section a value."""


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
                raise InputError(
                    f"{dotted}: {section} has a value of its own already, so it can't have fields; drop one"
                )
        if isinstance(value, Mapping):
            node[leaf] = merged(node.get(leaf) or {}, nested(value))
        else:
            node[leaf] = value
    return tree


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Two trees as one; where both have a value, that of `over`."""
    out = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(out.get(key), Mapping)
        out[key] = merged(out[key], value) if both else value
    return out


def experiment_from(*layers: Mapping[str, Any]) -> Experiment:
    """The experiment that these layers of (dotted or nested) overrides declare, the later over the earlier.

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
        raise InputError(one_line(error) + below) from None


def _over_preset(name: Any, tree: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The tree laid over a textbook arm, and what a problem with it should add."""
    arm = nested(textbook(name).overrides)
    given = tree.get("model")
    family = given.get("family") if isinstance(given, Mapping) else None
    if family not in (None, arm["model"]["family"]):
        raise InputError(
            f"{FAMILY}: preset {name} is of family {arm['model']['family']}, not {family!r}; leave one of the two out"
        )
    return merged(arm, tree), f" (fields that are not given are those of preset {name})"


def family_of(overrides: Mapping[str, Any]) -> Any:
    """The family that flat overrides declare, by itself or through a preset."""
    if overrides.get(PRESET) is not None:
        overrides = {**textbook(overrides[PRESET]).overrides, **overrides}
    return overrides.get(FAMILY, "recurrent")


def one_line(error: ValidationError) -> str:
    """The first problem as `field: what is wrong`, and how many more there are."""
    problems = error.errors()
    first = problems[0]
    where = ".".join(str(part) for part in first["loc"] if part not in TAGS)
    what = str(first["msg"]).removeprefix("Value error, ")
    if first["type"] == "union_tag_invalid":
        context = first["ctx"]
        where += "." + str(context["discriminator"]).strip("'")
        what = f"expected one of {context['expected_tags']}, not {context['tag']!r}"
    elif first["type"] in ("model_type", "model_attributes_type", "dict_type"):
        what = f"a section of fields is expected{SUCH_AS.get(where, '')}, not {first['input']!r}"
    elif first["type"] == "union_tag_not_found":
        what = f"a section of fields is expected{SUCH_AS.get(where, '')}"
    elif first["type"] == "extra_forbidden":
        what = "there is no such field here; --help lists all"
    elif "given" not in what and not first["msg"].startswith("Value error") and not isinstance(first["input"], dict):
        what += f", not {first['input']!r}"
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{where}: {what}{more}" if where else f"{what}{more}"
