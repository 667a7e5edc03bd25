"""Fields of an experiment as sweep files name them: short names, texts of arms, and values that no experiment takes.

A sweep file may declare combinations that no experiment allows: those cells are skipped and listed. A field that
exists nowhere, or a value that no experiment takes whatever its other fields are, is a mistake in the file instead.
The difference is made here, field by field: a field exists if any corpus or family has it.
"""

import difflib
import json
import re
import shlex
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, lru_cache
from typing import Annotated, Any, Union

from pydantic import ConfigDict, TypeAdapter, ValidationError

from study.config.fields import declared
from study.config.overrides import LISTS_ALL, expected, flat
from study.errors import InputError
from study.sweep.file import parse

ARM, SEED = "arm", "seed"
ALIASES = {"lr": "training.learning_rate", "corpus": "data.name"}
"""Short names of fields in `arm` texts, beside the endings of full names."""
EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")
QUOTES = re.compile(r"[\"'\\]")
FORM = "Write overrides such as `score=dot heads=4`."


def expand(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return flat overrides of the experiment from the parameters of one trial, as W&B passes them.

    Raises:
        InputError: `arm` is no text of the form `field=value field=value`.
    """
    overrides = dict(flat(parameters))
    arm = overrides.pop(ARM, "")
    if not isinstance(arm, str):
        raise InputError(f"arm: expected a text, got {arm!r}. {FORM}")
    return overrides | _settings(arm)


@lru_cache(4096)  # arms repeat few texts, once for each seed
def _settings(arm: str) -> dict[str, Any]:
    """Return the overrides of an `arm` text. Names may be short (`full_name`)."""
    overrides = {}
    try:
        for short, word in (setting.split("=", 1) for setting in _words(arm)):
            name = full_name(short)
            if name in overrides:
                raise InputError(f"expected every field once, got {name} twice. Remove one.")
            overrides[name] = _value(name, word)
    except ValueError:
        raise InputError(f"arm: expected field=value field=value, got {arm[:80]!r}. {FORM}") from None
    except InputError as problem:
        raise InputError(f"arm: {problem}") from None
    return overrides


def _words(arm: str) -> list[str]:
    """Return the words of an `arm` text as a shell splits it. shlex, a loop in Python, is for texts with quotes."""
    return shlex.split(arm) if QUOTES.search(arm) else re.findall(r"[^ \t\r\n]+", arm)


@lru_cache(4096)
def _value(name: str, word: str) -> Any:
    """Return the value of a YAML scalar. 1e-3 is a number too, which YAML 1.1 reads as text; `no` may be a language."""
    value = parse(word)
    if isinstance(value, bool | int | float) and not takes(name, value) and takes(name, word):
        return word
    return float(value) if isinstance(value, str) and EXPONENT.fullmatch(value) else value


def written_out(arm: str) -> str:
    """Return an `arm` text with full names and YAML's exponents: `lr=1e-3` ↦ `training.learning_rate=1.0e-3`."""
    settings = []
    for setting in _words(arm):
        name, value = setting.split("=", 1)
        value = re.sub(r"^([-+]?\d+)[eE](?=[-+]?\d+$)", r"\1.0e", value)
        settings.append(f"{full_name(name)}={value}")
    return " ".join(settings)


def text(value: Any) -> str:
    """Return a value as labels show it."""
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else json.dumps(value)


@cache
def full_name(name: str) -> str:
    """Return the full name of a field from a short one: an alias, or the ending of a full name.

    `heads` and `attention.heads` are `model.attention.heads`, `cross.heads` is `model.attention.cross.heads`. If
    several names end so, the one with the fewest parts is meant. A name that no field has is returned as it is.

    Raises:
        InputError: several names of the same length end so.
    """
    name = ALIASES.get(name, name)
    if name in declared():
        return name
    fitting = [field for field in declared() if field.endswith(f".{name}")]
    fewest = min((field.count(".") for field in fitting), default=0)
    shortest = [field for field in fitting if field.count(".") == fewest]
    if len(shortest) > 1:
        raise InputError(f"{name}: expected one field, got {' and '.join(shortest)}. Write the whole name.")
    return shortest[0] if shortest else name


def short_name(name: str) -> str:
    """Return the shortest name that `full_name` resolves to this field."""
    for short in (*ALIASES, *endings(name)):
        with suppress(InputError):
            if full_name(short) == name:
                return short
    return name


def endings(name: str) -> list[str]:
    """Return the endings of a dotted name, the shortest first: `c`, `b.c` and `a.b.c`."""
    parts = name.split(".")
    return [".".join(parts[start:]) for start in reversed(range(len(parts)))]


def takes(dotted: str, value: Any) -> bool:
    """Return True if a field of this name can have the value."""
    try:
        check(dotted, value)
    except InputError:
        return False
    return True


def check(dotted: str, value: Any) -> None:
    """Refuse a name that is no field of any experiment, and a value that its field never takes.

    Raises:
        InputError: names the field, and says what was expected.
    """
    if dotted not in declared() or dotted == "out":  # the folder of runs is --runs of the command
        near = difflib.get_close_matches(dotted, [name for name in declared() if name != "out"], n=1)
        raise InputError(f"{dotted}: no such field. {f'Did you mean {near[0]}?' if near else LISTS_ALL}")
    try:
        _adapter(dotted).validate_python(value, strict=True)
    except ValidationError as error:
        problem = expected(error.errors()[0])
        hint = ""
        if isinstance(value, str) and "number" in problem:
            hint = " YAML reads numbers such as 1.0e-4, with a point and no quotes."
        elif not isinstance(value, str) and "string" in problem:
            hint = " YAML reads words such as no and 2014 as other than text: quote them."
        raise InputError(f"{dotted}: {problem}{hint}") from None


@cache
def _adapter(dotted: str) -> TypeAdapter[Any]:
    """Return what validates a value of a field. A field of several kinds takes the values of each."""
    kinds: Any = Union[tuple(Annotated[field.annotation, field] for field in declared()[dotted].values())]  # noqa: UP007
    return TypeAdapter(kinds, config=ConfigDict(allow_inf_nan=False))
