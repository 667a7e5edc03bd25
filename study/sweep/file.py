"""Reading a sweep file: YAML against `schema.json`, and any problem as one line that names the field."""

from __future__ import annotations

import json
from collections.abc import Hashable
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from study.errors import InputError

REMEDIES = {
    "early_terminate": "early stopping is refused: runs that were cut short do not compare; remove early_terminate",
    "run_cap": "a cap would leave holes in the grid; remove run_cap, or narrow one call with --limit",
    "method": "method must be grid: an ablation runs every cell",
    "metric": "metric must be `name: <split>/<score>`, such as test/exact, with goal maximize or minimize",
    "command": "command must pass ${args_json}, which loses nothing: "
    '["${env}", "${interpreter}", "-m", "study", "train", "--overrides-json", "${args_json}"]',
}
"""What to say about a top-level field, whatever the schema says."""


def read_file(path: Path) -> dict[str, Any]:
    """The tree of a sweep file that the schema accepts.

    Raises:
        InputError: no such file, no YAML, or not the schema's.
    """
    try:
        tree = yaml.load(path.read_text(encoding="utf-8"), Loader=Loader)
    except FileNotFoundError:
        raise InputError(f"{path}: no such sweep file") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as problem:
        raise InputError(f"{path}: not a readable YAML file: {' '.join(str(problem).split())}") from None
    if not isinstance(tree, dict):
        raise InputError(f"{path}: a sweep file is a mapping with method, metric and parameters")
    for breach in sorted(_validator().iter_errors(tree), key=_where):
        raise InputError(f"{path}: {_one_line(breach)}")
    return tree


class Loader(yaml.SafeLoader):
    """Plain YAML, but a key given twice is an error: by default the later silently wins."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"{key} is given twice", node.start_mark)
        return super().construct_mapping(node, deep)


@cache
def _validator() -> jsonschema.Draft7Validator:
    schema = resources.files("study.sweep").joinpath("schema.json").read_text(encoding="utf-8")
    return jsonschema.Draft7Validator(json.loads(schema))


def _where(problem: jsonschema.ValidationError) -> list[str]:
    return [str(part) for part in problem.absolute_path]


def _one_line(problem: jsonschema.ValidationError) -> str:
    where = _where(problem)
    field = where[0] if where else next((name for name in REMEDIES if f"'{name}'" in problem.message), "")
    if field in REMEDIES:
        return REMEDIES[field]
    if problem.validator == "required" and "parameters" in problem.message:
        return "parameters: missing, so there is no grid; list fields with `values: [..., ...]`"
    what = problem.message if len(problem.message) < 160 else f"{problem.message[:157]}..."
    hint = ""
    if where[:1] == ["parameters"]:
        hint = "; a parameter has `values: [...]`, `value: ...` or nested `parameters:`, with plain scalars"
    return f"{'.'.join(where) or 'top level'}: {what}{hint}"
