"""Reading a sweep file: YAML as a plain tree, checked by a model of what a sweep of W&B may declare here."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from study import files
from study.config.overrides import expected
from study.errors import InputError

LARGEST = 2**22
"""Bytes of a file."""
DEEPEST, WORD, UNFOLDED = 50, 1000, 2**26
"""Levels of a file, characters of a word without quotes, and letters for which its aliases may stand."""
MOST = 100_000
"""Runs of a sweep."""
LOG = "log_uniform_values"
TAGS = re.compile(r"^# tags:(.*)$", re.MULTILINE)
BLIND = re.compile(r"^# blind\s*$", re.MULTILINE)
METRIC = re.compile(r"^# metric:[ \t]*(\S*)[ \t]*(.*?)\s*$", re.MULTILINE)


def _plain(value: Any) -> Any:
    if not isinstance(value, str | int | float | None):
        raise ValueError("expected a plain scalar")
    return value


Plain = Annotated[Any, AfterValidator(_plain)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Parameter(_Section):
    """A field of the experiment with its value, its values or a range to draw from; or a section of fields."""

    value: Plain = None
    values: list[Plain] = Field([], min_length=1)
    parameters: dict[str, Parameter] = Field({}, min_length=1)
    distribution: Literal["uniform", "log_uniform_values", "int_uniform"] = "uniform"
    min: float = 0.0
    max: float = 0.0

    @model_validator(mode="after")
    def _one_kind(self) -> Parameter:
        if self.model_fields_set not in ({"value"}, {"values"}, {"parameters"}, {"distribution", "min", "max"}):
            raise ValueError("expected one of value, values and parameters, or distribution with min and max")
        least = 0 if self.distribution == LOG else -math.inf
        if "min" in self.model_fields_set and not least < self.min < self.max < math.inf:
            raise ValueError(f"expected min below max, and above 0 with {LOG}, got {self.min:g} and {self.max:g}")
        if self.distribution == "int_uniform" and not (self.min.is_integer() and self.max.is_integer()):
            raise ValueError(f"expected whole min and max with int_uniform, got {self.min:g} and {self.max:g}")
        return self

    @property
    def choices(self) -> list[Any]:
        """The listed values, or the one value of a constant; empty for a range."""
        return [self.value] if "value" in self.model_fields_set else self.values


class Metric(_Section):
    """Score that decides: `split/score` or `split/score/subset`."""

    name: str
    goal: Literal["minimize", "maximize"] | None = None


class SweepFile(_Section):
    """Fields of a file of `study sweep` or `study tune`. What stops runs early is not among them."""

    name: str = Field(pattern=r"^\w[^/\\\x00-\x1f]{0,99}$")
    description: str = ""
    project: str = ""
    entity: str = ""
    method: Literal["grid", "random"]
    metric: Metric
    command: list[Plain] = []
    parameters: dict[str, Parameter] = Field(min_length=1)
    run_cap: int | None = Field(None, gt=0, le=MOST)

    def fields(self) -> dict[str, Parameter]:
        """Return the parameter of every field by its dotted name."""
        return dict(_leaves(self.parameters, ""))


def _leaves(parameters: Mapping[str, Parameter], prefix: str) -> Iterator[tuple[str, Parameter]]:
    for name, parameter in parameters.items():
        if parameter.parameters:
            yield from _leaves(parameter.parameters, f"{prefix}{name}.")
        else:
            yield prefix + name, parameter


def read_file(path: Path) -> tuple[SweepFile, dict[str, Any]]:
    """Return a sweep file, and its tree as it is written. A file that gives no name has that of the file.

    Raises:
        InputError: no such file, no YAML, or no sweep.
    """
    if not os.path.exists(path):
        raise InputError(f"{path}: no such sweep file. `study ls sweeps` lists those of the project.")
    tree = read_yaml(path)
    if not isinstance(tree, dict):
        raise InputError(f"{path}: expected a mapping with method, metric and parameters, got {type(tree).__name__}.")
    try:
        return SweepFile.model_validate({"name": path.stem, **tree}), tree
    except ValidationError as error:
        raise InputError(f"{path}: {refusal(error)}") from None


def refusal(error: ValidationError) -> str:
    """Return the first problem that pydantic found, with its field: `parameters.seed.min: no such field.`."""
    problem = error.errors()[0]
    message = expected(problem).removeprefix("Value error, ")
    if problem["type"] == "extra_forbidden":
        message = "no such field. Remove it, or correct the name."
    return f"{'.'.join(map(str, problem['loc']))}: {message}"


def tags(path: Path) -> tuple[str, ...]:
    """Return the words of the comment `# tags: embedded, short` of a sweep file. W&B refuses a field of that name.

    Raises:
        InputError: the file cannot be read.
    """
    return tuple(" ".join(comments(path, TAGS)).replace(",", " ").split())


def comments(path: Path, kind: re.Pattern[str]) -> list[Any]:
    """Return what the comments of a kind say: `TAGS`, `BLIND`, or the corpus and the metric of each of `METRIC`.

    Raises:
        InputError: the file cannot be read.
    """
    return kind.findall(files.read_text(path, LARGEST))


def tagged(folder: Path, tag: str) -> list[Path]:
    """Return the sweep files of a folder with a tag, by name.

    Raises:
        InputError: no such folder, or no file of it has the tag.
    """
    paths = [path for path in sorted(folder.glob("*.yaml")) if tag in tags(path)]
    if not paths:
        raise InputError(f"--tag: no sweep file of {folder} has the tag {tag!r}. A line `# tags: {tag}` gives it.")
    return paths


def read_yaml(path: Path) -> Any:
    """Return the content of a YAML file; None for an empty file.

    Raises:
        InputError: it cannot be read, or is not what `parse` takes.
    """
    try:
        return parse(files.read_text(path, LARGEST))
    except ValueError as problem:
        raise InputError(f"{path}: not a readable YAML file: {problem}") from None


def parse(text: str) -> Any:
    """Return the content of a YAML text; None for an empty text.

    Raises:
        ValueError: it is no YAML, has a key that is no text or a key twice, or a value that does not fit its tag.
    """
    try:
        _check_size(text)
        return yaml.load(text, Loader)
    except Exception as problem:  # of the parser, and of the constructors of tags, which look values up and so on
        raise ValueError(" ".join(str(problem).split()) or type(problem).__name__) from None


def _check_size(text: str) -> None:
    """Refuse what the loader could not build: it recurses in C, and aliases may stand for more than memory holds.

    Raises:
        ValueError: the text is deeper than `DEEPEST`, an alias stands within a node that has an anchor, or all aliases
            together may stand for more than `UNFOLDED`.
    """
    opened, aliases = list[str | None](), 0
    for event in yaml.parse(text, Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            opened.append(event.anchor)
        elif isinstance(event, yaml.CollectionEndEvent):
            opened.pop()
        elif isinstance(event, yaml.AliasEvent):
            aliases += 1
            if any(opened):
                raise ValueError(f"alias *{event.anchor}: expected outside of nodes that have an anchor")
        elif isinstance(event, yaml.ScalarEvent):
            word = event.tag or (not event.style and " " not in event.value)
            if word and len(event.value) > WORD:  # a number takes hours
                raise ValueError(f"expected a word of at most {WORD} characters, or quotes, got {event.value[:20]!r}")
        if len(opened) > DEEPEST or aliases * len(text) > UNFOLDED:
            raise ValueError(f"expected at most {DEEPEST} levels, and fewer aliases in a text of {len(text):,} letters")


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Plain YAML, where a key that is no text or is given twice is an error: by default the later silently wins."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key in (self.construct_object(key, deep=True) for key, _ in node.value if not key.tag.endswith(":merge")):
            if not isinstance(key, str):
                raise ValueError(f"the key {key!r} is no text; a field's name is expected, in quotes if need be")
            if key in seen:
                raise ValueError(f"{key} is given twice{node.start_mark}")
            seen.add(key)
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return mapping
