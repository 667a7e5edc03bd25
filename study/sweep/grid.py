"""The grid that a sweep file spans: parameters ↦ cells, each an experiment or the reason why it is none."""

from __future__ import annotations

import itertools
import json
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from study.config import Experiment, experiment_from, experiment_id
from study.config.overrides import FAMILY, PRESET, family_of, flat
from study.errors import InputError
from study.sweep import fields
from study.sweep.file import MOST, parse

ARM, SEED = "arm", "seed"
EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")


@dataclass(frozen=True)
class Cell:
    """One point of the grid. `given` is what the file says, `overrides` the same with `arm` taken apart."""

    given: Mapping[str, Any]
    overrides: Mapping[str, Any]
    experiment: Experiment | None
    reason: str | None

    @cached_property
    def id(self) -> str | None:
        """The experiment's identity; None for a cell that the configuration rejects."""
        return experiment_id(self.experiment) if self.experiment else None

    @cached_property
    def overrides_json(self) -> str:
        """The text for `study train --overrides-json` that declares this experiment."""
        return json.dumps(dict(self.overrides))


def expand(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return flat overrides of the experiment from the parameters of one trial, as W&B passes them.

    Raises:
        InputError: `arm` is no text of the form `field=value field=value`.
    """
    found = dict(flat(given))
    return {name: value for name, value in found.items() if name != ARM} | (_arm(found[ARM]) if ARM in found else {})


def _arm(text: Any) -> dict[str, Any]:
    """Return the overrides of an `arm` text. Names may be short (`study.sweep.fields.full_name`)."""
    form = "Write overrides such as `score=dot heads=4`."
    if not isinstance(text, str):
        raise InputError(f"arm: expected a text, got {text!r}. {form}")
    overrides: dict[str, Any] = {}
    try:
        for short, value in (word.split("=", 1) for word in shlex.split(text)):
            name = fields.full_name(short)
            if name in overrides:
                raise InputError(f"expected every field once, got {name} twice. Remove one.")
            overrides[name] = _value(name, value)
    except ValueError:
        raise InputError(f"arm: expected field=value field=value, got {text[:80]!r}. {form}") from None
    except InputError as problem:
        raise InputError(f"arm: {problem}") from None
    return overrides


def written_out(text: str) -> str:
    """Return an `arm` text with full names and YAML's exponents: `lr=1e-3` ↦ `training.learning_rate=1.0e-3`."""
    pairs = [word.partition("=")[::2] for word in shlex.split(text)]
    values = [re.sub(r"^([-+]?\d+)[eE](?=[-+]?\d+$)", r"\1.0e", value) for _, value in pairs]
    return " ".join(f"{fields.full_name(name)}={value}" for (name, _), value in zip(pairs, values, strict=True))


@lru_cache(4096)  # arms repeat few texts, once for each seed
def _value(name: str, text: str) -> Any:
    """Return the value of a YAML scalar. 1e-3 is a number too, which YAML 1.1 reads as text; `no` may be a language."""
    value = parse(text)
    if isinstance(value, bool | int | float) and not fields.takes(name, value) and fields.takes(name, text):
        return text
    return float(value) if isinstance(value, str) and EXPONENT.fullmatch(value) else value


def flatten(parameters: Mapping[str, Any], prefix: str = "") -> dict[str, Mapping[str, Any]]:
    """Return the body of every field by its dotted name."""
    found: dict[str, Mapping[str, Any]] = {}
    for name, body in parameters.items():
        if "parameters" in body:
            found |= flatten(body["parameters"], f"{prefix}{name}.")
        else:
            found[prefix + name] = body
    return found


def values_of(body: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the values of a body; none for a range."""
    return tuple(body.get("values", [body["value"]] if "value" in body else ()))


def cells_of(parameters: Mapping[str, tuple[Any, ...]], points: Sequence[Any] = ()) -> tuple[Cell, ...]:
    """Return every point of the grid, the last parameter varying fastest; or the given points, each a mapping.

    Raises:
        InputError: a field or value that no experiment takes, one experiment twice, or none at all.
    """
    for name, values in parameters.items():
        for value in values:
            for dotted, leaf in expand({name: value}).items():
                if name == ARM and dotted in parameters and (dotted == SEED or len(parameters[dotted]) > 1):
                    raise InputError(f"arm: {dotted}: expected in an arm or as a parameter, got both. Remove one.")
                fields.check(dotted, leaf)
    if (count := math.prod(map(len, parameters.values()))) > MOST and not points:
        raise InputError(f"parameters: expected at most {MOST:,} cells, got {count:,}. Remove values.")
    points = points or [dict(zip(parameters, point, strict=True)) for point in itertools.product(*parameters.values())]
    presets = PRESET in parameters or any(PRESET in _arm(text) for text in parameters.get(ARM, ()))
    built: dict[str, Experiment | str] = {}
    cells = tuple(_cell(point, presets, built) for point in points)
    seen: dict[str, Cell] = {}
    for cell in cells:
        if cell.id is not None and (first := seen.setdefault(cell.id, cell)) is not cell:
            two = " and ".join(json.dumps(one.given).replace('"', "") for one in (first, cell))
            raise InputError(f"parameters: two cells are one experiment, {cell.id}: {two}. Remove one.")
    if not seen:
        raise InputError(f"parameters: expected a cell that is an experiment, got none. The first: {cells[0].reason}")
    return cells


def _cell(given: dict[str, Any], presets: bool, built: dict[str, Experiment | str]) -> Cell:
    """Return a point of the grid. With presets their family is spelled out, since families are reported apart.

    An arm is built once for all its seeds; `built` keeps it. Every seed has been checked.
    """
    overrides = expand(given)
    if presets:
        overrides = {FAMILY: family_of(overrides), **overrides}
    arm = {name: value for name, value in overrides.items() if name != SEED}
    key = json.dumps(arm, default=repr)
    if key not in built:
        try:
            built[key] = experiment_from(arm)
        except InputError as reason:
            built[key] = str(reason)
    made = built[key]
    if isinstance(made, str):
        return Cell(given, overrides, None, made)
    return Cell(given, overrides, made.model_copy(update={SEED: overrides[SEED]}) if SEED in overrides else made, None)


def text(value: Any) -> str:
    """Return a value as labels show it."""
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else json.dumps(value)
