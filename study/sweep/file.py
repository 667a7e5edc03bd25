"""Reading a sweep file: YAML as a plain tree, checked by a model of what a grid sweep of W&B may declare."""

from __future__ import annotations

import os
import re
from collections.abc import Hashable
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from study import files
from study.config.overrides import expected
from study.errors import InputError

LARGEST = 2**22
"""Bytes of a file."""
DEEPEST = 50
"""Levels of a file. A deeper one could exhaust the stack of whoever walks through it."""
TAGS = re.compile(r"^# tags:(.*)$", re.MULTILINE)


def _plain(value: Any) -> Any:
    if not isinstance(value, str | int | float | None):
        raise ValueError("expected a plain scalar")
    return value


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Parameter(_Section):
    """A field of the experiment, or a section of fields, with its value or values."""

    value: Annotated[Any, AfterValidator(_plain)] = None
    values: Annotated[list[Annotated[Any, AfterValidator(_plain)]], Field(min_length=1)] = []
    parameters: dict[str, Parameter] = {}

    @model_validator(mode="after")
    def _one_kind(self) -> Parameter:
        if len(self.model_fields_set) != 1:
            raise ValueError("expected one of value, values and parameters")
        return self


class Metric(_Section):
    """Score that decides: `split/score` or `split/score/subset`."""

    name: str
    goal: Literal["minimize", "maximize"] | None = None


class SweepFile(_Section):
    """Fields of a sweep file. What stops runs early or leaves cells out is not among them."""

    name: Annotated[str, Field(pattern=r"^\w[^/\\\x00-\x1f]{0,99}$")]
    description: str = ""
    project: str = ""
    entity: str = ""
    method: Literal["grid"]
    metric: Metric
    command: list[Any] = []
    parameters: Annotated[dict[str, Parameter], Field(min_length=1)]

    @field_validator("method", mode="before")
    @classmethod
    def _every_cell(cls, method: Any) -> Any:
        if method in ("random", "bayes") and cls is SweepFile:
            raise ValueError("expected grid, because an ablation runs every cell (see `study tune`)")
        return method

    @field_validator("command")
    @classmethod
    def _lossless(cls, words: list[Any]) -> list[Any]:
        if "${args_json}" not in words:
            raise ValueError("expected ${args_json}, which loses nothing. Copy the command of another sweep file")
        return words


def read_file(path: Path, kind: type[SweepFile] = SweepFile) -> dict[str, Any]:
    """Return the tree of a sweep file. A file that gives no name has that of the file.

    Raises:
        InputError: no such file, no YAML, or no sweep of this kind.
    """
    if not os.path.exists(path):
        raise InputError(f"{path}: no such sweep file. `study ls sweeps` lists those of the project.")
    tree = read_yaml(path, aliases=False)
    if not isinstance(tree, dict):
        raise InputError(f"{path}: expected a mapping with method, metric and parameters, got {type(tree).__name__}.")
    try:
        kind.model_validate({"name": path.stem, **tree})
    except ValidationError as error:
        raise InputError(f"{path}: {refusal(error)}") from None
    return tree


def refusal(error: ValidationError) -> str:
    """Return the first problem that pydantic found, with its place: `parameters.seed.min: no such field.`."""
    problem = error.errors()[0]
    what = expected(problem).removeprefix("Value error, ")
    if problem["type"] == "extra_forbidden":
        what = "no such field. Remove it, or correct the name."
    return f"{'.'.join(map(str, problem['loc']))}: {what}"


def tags(path: Path) -> tuple[str, ...]:
    """Return the words of the comment `# tags: embedded, short` of a sweep file. W&B refuses a field of that name.

    Raises:
        InputError: the file cannot be read.
    """
    return tuple(" ".join(TAGS.findall(_text(path))).replace(",", " ").split())


def tagged(folder: Path, tag: str) -> list[Path]:
    """Return the sweep files of a folder with a tag, by name.

    Raises:
        InputError: no such folder, or no file of it has the tag.
    """
    found = {path: tags(path) for path in sorted(folder.glob("*.yaml"))}
    if not any(tag in of for of in found.values()):
        there = ", ".join(sorted(set().union(*found.values()))) or "none"
        raise InputError(f"--tag: no sweep file of {folder} has the tag {tag!r}. The tags are: {there}.")
    return [path for path, of in found.items() if tag in of]


def _text(path: Path) -> str:
    try:
        return files.read(path, LARGEST).decode()
    except (OSError, ValueError) as problem:
        what = problem.strerror if isinstance(problem, OSError) else problem
        raise InputError(f"{path}: not a readable YAML file: {what}. Check the name.") from None


def read_yaml(path: Path, aliases: bool = True) -> Any:
    """Return the content of a YAML file; None for an empty file.

    Args:
        path: the file.
        aliases: take aliases too, with which few lines can stand for 10^10 values, or have no end.

    Raises:
        InputError: it cannot be read, or is not what `parse` takes.
    """
    try:
        return parse(_text(path), aliases)
    except ValueError as problem:
        raise InputError(f"{path}: not a readable YAML file: {problem}") from None


def parse(text: str, aliases: bool = False) -> Any:
    """Return the content of a YAML text; None for an empty text.

    Raises:
        ValueError: it is no YAML, is nested too deep, has aliases where they are not taken, has a key that is no text
            or a key twice, or a value that does not fit its tag.
    """
    try:
        depth = 0
        for event in yaml.parse(text, Loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise ValueError("nested too deep. Write plain sections.")
            if isinstance(event, yaml.AliasEvent) and not aliases:
                raise ValueError(f"expected plain values, got the alias *{event.anchor}. Write it out.")
        return yaml.load(text, Loader)
    except (ValueError, yaml.YAMLError) as problem:
        raise ValueError(" ".join(str(problem).split())) from None
    except Exception as problem:  # constructors of tags look values up, index them and so on
        raise ValueError(f"a value does not fit its tag, such as !!bool ({type(problem).__name__})") from None


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Plain YAML, where a key that is no text or is given twice is an error: by default the later silently wins."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value if not key.tag.endswith(":merge")]
        for number, key in enumerate(keys):
            if not isinstance(key, str):
                raise ValueError(f"the key {key!r} is no text; a field's name is expected, in quotes if need be")
            if key in keys[:number]:
                raise ValueError(f"{key} is given twice{node.start_mark}")
        found: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return found
