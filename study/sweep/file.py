"""Reading a sweep file: YAML as a plain tree, against `schema.json`; a problem is one line that names the field."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Hashable
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from study import files
from study.errors import InputError

REMEDIES = {
    "early_terminate": "early_terminate: not allowed, because runs that stop early do not compare. Remove it.",
    "run_cap": "run_cap: not allowed, because it leaves holes in the grid. Remove it, or use --limit.",
    "method": "method: expected grid, because an ablation runs every cell, got {}.",
    "metric": "metric: expected `name: <split>/<score>`, such as test/exact, with goal maximize or minimize, got {}.",
    "command": "command: expected ${args_json}, which loses nothing, got {}. Write "
    '["${env}", "${interpreter}", "-P", "-m", "study", "train", "--overrides-json", "${args_json}"]',
}
"""Errors of top-level fields, instead of those of the schema."""
DEEPEST = 50
MOST = 100_000
LARGEST = 2**22
"""Levels, values and bytes of a file."""
SAFE = 10_000
"""Levels that libyaml, which calls itself for each, can take."""
INDENTED = re.compile(r"^[ ?-]*", re.MULTILINE)
TAGS = re.compile(r"^# tags:(.*)$", re.MULTILINE)
MERGE = "tag:yaml.org,2002:merge"


def read_file(path: Path) -> dict[str, Any]:
    """The tree of a sweep file that the schema accepts.

    Raises:
        InputError: no such file, no YAML, or not the schema's.
    """
    if not os.path.exists(path):
        raise InputError(f"{path}: no such sweep file. `study ls sweeps` lists those of the project.")
    tree = read_yaml(path)
    if not isinstance(tree, dict):
        raise InputError(f"{path}: expected a mapping with method, metric and parameters, got {type(tree).__name__}.")
    for breach in sorted(_validator().iter_errors(tree), key=_where):
        raise InputError(f"{path}: {_one_line(breach)}")
    return tree


def tags(path: Path) -> tuple[str, ...]:
    """The tags of a sweep file: the words of its comment `# tags: embedded, short`. W&B refuses a field of that name.

    Raises:
        InputError: the file cannot be read, or has two such comments.
    """
    try:
        found = TAGS.findall(files.read(path, LARGEST).decode())
    except (OSError, ValueError) as problem:
        raise InputError(f"{path}: not a readable sweep file: {' '.join(str(problem).split())}") from None
    if len(found) > 1:
        raise InputError(f"{path}: tags: expected one comment, got {len(found)}. Write all tags in one.")
    return tuple(found[0].replace(",", " ").split()) if found else ()


def tagged(folder: Path, tag: str) -> list[Path]:
    """The sweep files of a folder with a tag, by name.

    Raises:
        InputError: no such folder, or no file of it has the tag.
    """
    if not folder.is_dir():
        got = "a file" if folder.exists() else "a name that does not exist"
        raise InputError(f"{folder}: expected a folder of sweep files for --tag, got {got}. Give one, such as sweeps.")
    found = {path: tags(path) for path in sorted(folder.glob("*.yaml"))}
    if not any(tag in of for of in found.values()):
        there = ", ".join(sorted(set().union(*found.values()))) or "none"
        raise InputError(f"--tag: no sweep file of {folder} has the tag {tag!r}. The tags are: {there}.")
    return [path for path, of in found.items() if tag in of]


def read_yaml(path: Path) -> Any:
    """Read a YAML file and return its content as a finite tree; None for an empty file.

    Raises:
        InputError: it cannot be read, is no YAML, or holds what `parse` refuses.
    """
    try:
        return parse(files.read(path, LARGEST).decode())
    except OSError as problem:
        raise InputError(f"{path}: not a readable YAML file: {problem.strerror}. Check the name.") from None
    except (ValueError, yaml.YAMLError) as problem:
        raise InputError(f"{path}: not a readable YAML file: {' '.join(str(problem).split())}") from None


def parse(text: str) -> Any:
    """Parse a YAML text and return its content; None for an empty text.

    Raises:
        ValueError: it is too large or nested too deep, stands inside itself, or has a value that does not fit its tag.
        yaml.YAMLError: it is no YAML, has a key that is no text or a key twice, or a number that is read in another
            base than it seems to be written in.
    """
    indented = max(map(len, INDENTED.findall(text)))
    if text.count("[") + text.count("{") + indented > SAFE:  # libyaml may overflow the stack
        raise ValueError("nested too deep. Write plain sections.")
    try:
        depth = 0
        for event in yaml.parse(text, Loader):  # one at a time: a tree that is too deep exhausts the memory
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise ValueError("nested too deep. Write plain sections.")
        loader = Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _size(node, {})
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except (ValueError, yaml.YAMLError):
        raise
    except Exception as problem:  # constructors of tags look values up, index them and so on
        raise ValueError(f"a value does not fit its tag, such as !!bool ({type(problem).__name__})") from None


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Plain YAML, but a key that is no text or given twice is an error: by default the later silently wins."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = set()
        for one, _ in node.value:
            if one.tag == MERGE:
                continue
            key = self.construct_object(one, deep=True)
            if not isinstance(key, str):
                problem = f"the key {key!r} is no text; a field's name is expected, in quotes if need be"
                raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
            if key in keys:
                raise yaml.constructor.ConstructorError(None, None, f"{key} is given twice", node.start_mark)
            keys.add(key)
        found: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return found

    def construct_number(self, node: yaml.ScalarNode) -> int | float:
        """A number, unless YAML 1.1 reads it in another base than it seems to have: 010 is 8 there, and 1:30 is 90."""
        text = str(self.construct_scalar(node))
        if re.match(r"[-+]?0[0-9_]|.*:", text):
            problem = f"{text} is a number of base 8 or 60 in YAML; write it without leading zeros and colons"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        whole = node.tag.endswith(":int")
        number: int | float = self.construct_yaml_int(node) if whole else self.construct_yaml_float(node)
        return number


for _tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float"):
    Loader.add_constructor(_tag, Loader.construct_number)


def _size(node: yaml.Node, known: dict[int, int | None]) -> int:
    """Return the number of values in a node with its aliases expanded. A few lines can declare 10^10.

    Raises:
        ValueError: it has no end, or stands for too many.
    """
    if id(node) in known:
        size = known[id(node)]
        if size is None:
            raise ValueError("an alias (*) stands inside what it names, so there is no end. Write it out.")
        return size
    known[id(node)] = None
    inner = node.value if isinstance(node, yaml.CollectionNode) else ()
    parts = (part for one in inner for part in (one if isinstance(one, tuple) else (one,)))
    total = 1
    for part in parts:
        total += _size(part, known)
        if total > MOST:
            raise ValueError(f"more than {MOST:,} values, aliases (*) written out. Write a smaller file.")
    known[id(node)] = total
    return total


@cache
def _validator() -> jsonschema.Draft7Validator:
    return jsonschema.Draft7Validator(_schema())


def _schema() -> dict[str, Any]:
    text = resources.files("study.sweep").joinpath("schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def _where(problem: jsonschema.ValidationError) -> list[str]:
    return [str(part) for part in problem.absolute_path]


def _one_line(problem: jsonschema.ValidationError) -> str:
    where = _where(problem)
    field = where[0] if where else next((name for name in REMEDIES if f"'{name}'" in problem.message), "")
    if field in REMEDIES:
        return REMEDIES[field].replace("{}", f"{problem.instance!r:.80}" if where else "none")
    if problem.validator == "required" and "parameters" in problem.message:
        return "parameters: expected a grid, got none. List fields with `values: [..., ...]`."
    if not where and problem.validator == "additionalProperties":
        what = problem.message.rpartition("(")[2].rstrip(")")
        return f"{what}. Expected only {', '.join(_schema()['properties'])}."
    what = problem.message if len(problem.message) < 160 else f"{problem.message[:157]}..."
    hint = "."
    if where[:1] == ["parameters"]:
        hint = ". Write `values: [...]`, `value: ...` or nested `parameters:`, with plain scalars."
    return f"{'.'.join(where) or 'top level'}: {what}{hint}"
