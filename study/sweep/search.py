"""A search: a W&B sweep file with `method: random` or `grid` in which every arm gets the same settings.

Arms are the values of the parameter `arm`, settings the values of all others. Setting number k of a random search draws
each field from its name and k. So a stopped search continues, and another arm or a larger `run_cap` keeps the runs that
are there. `run_cap` limits the runs of all arms together.
"""

import itertools
import math
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from study.errors import InputError
from study.sweep import spec
from study.sweep.fields import ARM, SEED
from study.sweep.file import LOG, MOST, Parameter, SweepFile
from study.sweep.spec import Cell, Overrides

TRIES = 500  # draws from which the settings of a small budget are taken
EDGE = 0.1  # share of a range, at each end, that counts as its edge


class Search(NamedTuple):
    """A search, read: the sweep of its runs."""

    spec: spec.Spec

    @property
    def searched(self) -> tuple[str, ...]:
        """Fields whose values are searched."""
        return tuple(name for name, field in self.spec.parameters.items() if name != ARM and len(field.choices) != 1)

    @property
    def arms(self) -> dict[Any, list[Cell]]:
        """Arm ↦ its cells, in the order of the settings; without arms all cells are of `base`."""
        arms: dict[Any, list[Cell]] = {}
        for cell in self.spec.cells:
            arms.setdefault(cell.given.get(ARM, "base"), []).append(cell)
        return arms

    def edge(self, name: str, value: Any) -> str:
        """Return lower or upper for a value in that tenth of its range, or at that end of three or more numbers."""
        parameter = self.spec.parameters[name]
        numbers = sorted(number for number in parameter.choices if isinstance(number, int | float))
        share = 0.5
        if not parameter.choices:
            scale = math.log if parameter.distribution == LOG else float
            low, high, position = map(scale, (parameter.min, parameter.max, value))
            share = (position - low) / (high - low)
        elif value in numbers and len(numbers) > 2:
            share = numbers.index(value) / (len(numbers) - 1)
        return "lower" if share <= EDGE else "upper" if share >= 1 - EDGE else ""


def load(path: Path) -> Search:
    """Return the search that a file declares. If the file has no `arm`, there is one arm.

    Raises:
        InputError: the file is no search, its metric is not of validation, `run_cap` does not hold a setting for every
            arm, or the configuration rejects a setting in an arm, so that budgets would differ.
    """
    search = Search(spec.load(path, points))
    for metric in search.spec.metrics.values():
        if not metric.startswith("valid/"):
            remedy = f"Write valid/{metric.partition('/')[2]}: test scores of a model chosen on test are too good."
            raise InputError(f"{path}: metric.name: expected a score of valid, got {metric}. {remedy}")
    for cell in search.spec.cells:
        if cell.reason:
            raise InputError(f"{path}: {cell.reason} Every arm must take every setting, so that budgets are equal.")
    return search


def points(file: SweepFile) -> list[Overrides]:
    """Return every setting with every arm, all arms of a setting together."""
    parameters = file.fields()
    arms = [None]
    if ARM in parameters:
        arms = parameters[ARM].choices or arms
    fields = {name: parameter for name, parameter in parameters.items() if name != ARM}
    if SEED in fields and len(fields[SEED].choices) != 1:
        raise InputError("parameters.seed: expected one value, because every setting runs once, got several.")
    settings = _settings(fields, file, len(arms))
    return [{name: setting.get(name, arm) for name in parameters} for setting in settings for arm in arms]


def _settings(fields: Mapping[str, Parameter], file: SweepFile, arms: int) -> list[dict[str, Any]]:
    """Return the settings that each of so many arms gets."""
    most = (file.run_cap or 0) // arms
    if file.method == "grid":
        for name, parameter in fields.items():
            if not parameter.choices:
                raise InputError(f"parameters.{name}: expected values with method grid, got a range. List values.")
        if not file.run_cap:
            most = math.prod(len(parameter.choices) for parameter in fields.values())
    if not most:
        raise InputError(f"run_cap: expected at least {arms}, a run for each arm, got {file.run_cap or 'none'}.")
    if most * arms > MOST:
        raise InputError(f"parameters: expected at most {MOST:,} runs, got {most * arms:,}. Remove values.")
    if file.method == "grid":
        grid = itertools.product(*(parameter.choices for parameter in fields.values()))
        return [dict(zip(fields, values, strict=True)) for values in itertools.islice(grid, most)]
    settings: dict[str, dict[str, Any]] = {}
    for number in range(TRIES + 9 * most):
        setting = {name: _drawn(name, parameter, number) for name, parameter in fields.items()}
        settings.setdefault(repr(setting), setting)  # a draw that repeats an earlier one is left out
        if len(settings) == most:
            break
    return list(settings.values())


def _drawn(name: str, parameter: Parameter, number: int) -> Any:
    """Return the value of a field in a setting. Numbers have three digits, so that labels show all of them."""
    share = Random(f"{name} {number}").random()
    if values := parameter.choices:
        return values[int(share * len(values))]
    low, high = parameter.min, parameter.max
    if parameter.distribution == "int_uniform":
        return int(low + share * (high - low + 1))
    value = low * (high / low) ** share if parameter.distribution == LOG else low + share * (high - low)
    return sorted((low, float(f"{value:.3g}"), high))[1]
