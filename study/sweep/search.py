"""A search: a W&B sweep file with `method: random` or `grid` in which every arm gets the same settings.

Arms are the values of the parameter `arm`, settings the values of all others. Setting number k of a random search draws
each field from its name and k. So a stopped search continues, and another arm or a larger `run_cap` keeps the runs that
are there. `run_cap` limits the runs of all arms together.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from study.errors import InputError
from study.sweep import spec
from study.sweep.file import LOG, MOST
from study.sweep.grid import ARM, SEED, Cell, cells_of, flatten, values_of

TRIES = 500  # draws from which the settings of a small budget are taken
EDGE = 0.1  # share of a range, at each end, that counts as its edge
Body = Mapping[str, Any]


class Search(NamedTuple):
    """A search, read: the sweep of its runs, and every body by its field."""

    spec: spec.Spec
    bodies: Mapping[str, Body]

    @property
    def searched(self) -> tuple[str, ...]:
        """Fields whose values are searched."""
        return tuple(name for name, body in self.bodies.items() if name != ARM and "value" not in body)

    @property
    def arms(self) -> dict[Any, list[Cell]]:
        """Arm ↦ its cells, in the order of the settings; without arms all cells are of `base`."""
        found: dict[Any, list[Cell]] = {}
        for cell in self.spec.cells:
            found.setdefault(cell.given.get(ARM, "base"), []).append(cell)
        return found

    def edge(self, name: str, value: Any) -> str:
        """Return lower or upper for a value in that tenth of its range, or at that end of three or more numbers."""
        body = self.bodies[name]
        numbers = sorted(one for one in body.get("values", ()) if isinstance(one, int | float))
        share = numbers.index(value) / (len(numbers) - 1) if value in numbers and len(numbers) > 2 else 0.5
        if "min" in body:
            low, high, at = map(math.log if body["distribution"] == LOG else float, (body["min"], body["max"], value))
            share = (at - low) / (high - low)
        return "lower" if share <= EDGE else "upper" if share >= 1 - EDGE else ""


def load(path: Path) -> Search:
    """Return the search that a file declares. If the file has no `arm`, there is one arm.

    Raises:
        InputError: the file is no search, its metric is not of validation, `run_cap` does not hold a setting for every
            arm, or the configuration rejects a setting in an arm, so that budgets would differ.
    """
    bodies: dict[str, Body] = {}

    def cells(tree: dict[str, Any]) -> tuple[Cell, ...]:
        if not (metric := tree["metric"]["name"]).startswith("valid/"):
            remedy = f"Write valid/{metric.partition('/')[2]}: test scores of a model chosen on test are too good."
            raise InputError(f"metric.name: expected a score of valid, got {metric}. {remedy}")
        bodies.update(flatten(tree["parameters"]))
        points = _points(bodies, tree["method"], tree.get("run_cap"))
        found = cells_of({name: tuple(dict.fromkeys(at[name] for at in points)) for name in bodies}, points)
        for cell in found:
            if cell.reason:
                raise InputError(f"{cell.reason} Every arm must take every setting, so that budgets are equal.")
        return found

    return Search(spec.load(path, cells), bodies)


def _points(bodies: Mapping[str, Body], method: str, cap: int | None) -> list[dict[str, Any]]:
    """Return every setting with every arm, all arms of a setting together."""
    arms = values_of(bodies.get(ARM, {})) or (None,)
    others = {name: body for name, body in bodies.items() if name != ARM}
    if SEED in others and len(values_of(others[SEED])) != 1:
        raise InputError("parameters.seed: expected one value, because every setting runs once, got several.")
    most = (cap or 0) // len(arms)
    if method == "grid":
        if ranges := [name for name, body in others.items() if "min" in body]:
            raise InputError(f"parameters.{ranges[0]}: expected values with method grid, got a range. List values.")
        points = itertools.product(*map(values_of, others.values()))
        settings: Iterator[dict[str, Any]] = (dict(zip(others, point, strict=True)) for point in points)
        most = most if cap else math.prod(len(values_of(body)) for body in others.values())
    else:  # draws that repeat an earlier one are left out
        drawn: dict[str, dict[str, Any]] = {}
        for draw in itertools.takewhile(lambda _: len(drawn) < most, range(TRIES + 9 * most)):
            setting = {name: _drawn(name, body, draw) for name, body in others.items()}
            drawn.setdefault(repr(setting), setting)
        settings = iter(drawn.values())
    if not most:
        raise InputError(f"run_cap: expected at least {len(arms)}, a run for each arm, got {cap or 'none'}.")
    if most * len(arms) > MOST:
        raise InputError(f"parameters: expected at most {MOST:,} runs, got {most * len(arms):,}. Remove values.")
    return [{name: at.get(name, arm) for name in bodies} for at in itertools.islice(settings, most) for arm in arms]


def _drawn(name: str, body: Body, number: int) -> Any:
    """Return the value of a field in a setting. Numbers have three digits, so that labels show all of them."""
    at = Random(f"{name} {number}").random()
    if values := values_of(body):
        return values[int(at * len(values))]
    low, high = body["min"], body["max"]
    if body["distribution"] == "int_uniform":
        return int(low + at * (high - low + 1))
    value = low * (high / low) ** at if body["distribution"] == LOG else low + at * (high - low)
    return sorted((float(low), float(f"{value:.3g}"), float(high)))[1]
