"""Arms of sweeps, found by the fields of their experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from study.errors import InputError
from study.sweep import fields
from study.sweep.grid import text
from study.sweep.spec import Cell, Spec

SHARED = "model.attention."
NOWHERE = object()

Overrides = Mapping[str, Any]
"""Field ↦ value, such as `model.attention.scale: none`."""


@dataclass(frozen=True)
class ArmRuns:
    """One arm in one corpus and family: an experiment without its seed, and a cell for each seed."""

    key: str
    cells: Mapping[int, Cell]
    spec: Spec = field(repr=False)

    @property
    def label(self) -> str:
        """The arm's label in its sweep."""
        return self.spec.arm(self.cell)

    @property
    def cell(self) -> Cell:
        """One of the cells; they differ in the seed alone."""
        return next(iter(self.cells.values()))


def arms_of(spec: Spec, corpus: str, family: str) -> list[ArmRuns]:
    """The arms of a sweep in one corpus and family, in the order in which they are listed."""
    found: dict[str, dict[int, Cell]] = {}
    for cell in spec.runnable:
        assert cell.experiment is not None
        assert cell.id is not None
        if (cell.experiment.data.name, cell.experiment.model.family) == (corpus, family):
            found.setdefault(cell.id.rpartition("-s")[0], {})[cell.experiment.seed] = cell
    return [ArmRuns(key, cells, spec) for key, cells in found.items()]


def field_of(cell: Cell, name: str) -> Any:
    """The value of a field: the sweep's, else the one that the experiment resolves to; `NOWHERE` if it has none.

    A field of all attention sites has a value where all sites agree.
    """
    if name in cell.overrides:
        return cell.overrides[name]
    assert cell.experiment is not None
    found = _resolved(cell.experiment, name.split("."))
    if found is NOWHERE and name.startswith(SHARED):
        sites = cell.experiment.model.attention
        leaf = name.removeprefix(SHARED).split(".")
        values = [_resolved(site, leaf) for site in dict(sites).values() if site is not None]
        return values[0] if len({repr(value) for value in values}) == 1 else NOWHERE
    return found


def _resolved(section: Any, path: Sequence[str]) -> Any:
    for name in path:
        if not isinstance(section, BaseModel) or name not in type(section).model_fields:
            return NOWHERE
        section = getattr(section, name)
    return NOWHERE if isinstance(section, BaseModel) else section


def check_fields(chosen: Overrides) -> None:
    """Refuse a field or value that no experiment has.

    Raises:
        InputError: names the field.
    """
    for name, value in chosen.items():
        try:
            fields.check(name, value)
        except InputError as problem:
            raise InputError(f"{name}: {problem}") from None


def matching(arms: Sequence[ArmRuns], chosen: Overrides) -> list[ArmRuns]:
    """The arms that have these values."""
    return [arm for arm in arms if all(_same(field_of(arm.cell, name), value) for name, value in chosen.items())]


def _same(found: Any, wanted: Any) -> bool:
    return isinstance(found, bool) == isinstance(wanted, bool) and bool(found == wanted)


def find_arm(arms: Sequence[ArmRuns], chosen: Overrides) -> ArmRuns:
    """The one arm that has these values.

    Raises:
        InputError: there is none, or several.
    """
    return find_levels(arms, chosen)[0][1]


def find_levels(arms: Sequence[ArmRuns], chosen: Overrides, *over: str) -> list[tuple[tuple[Any, ...], ArmRuns]]:
    """The arms that have these values, one for each value of the fields `over`, in the order of those values.

    Raises:
        InputError: there is none, or two that differ in anything else.
    """
    found = matching(arms, chosen)
    if not found:
        raise InputError(f"no arm has {_words(chosen)}{_nearest(arms, chosen)}")
    values = [tuple(field_of(arm.cell, name) for name in over) for arm in found]
    for i, value in enumerate(values):
        if value in values[:i]:
            apart = _differing(found[values.index(value)].cell, found[i].cell, chosen)
            raise InputError(f"{_words(chosen)} is more than one arm; they differ in {apart}: say which is meant")
    if over and len(found) < 2:
        raise InputError(f"{_words(chosen)} is one arm, and over {' and '.join(over)} needs several")
    return sorted(zip(values, found, strict=True), key=lambda pair: pair[0])


def _words(chosen: Overrides) -> str:
    return " ".join(f"{name}={text(value)}" for name, value in chosen.items()) or "nothing given"


def _nearest(arms: Sequence[ArmRuns], chosen: Overrides) -> str:
    """The values that the arms have of the first field without the value that is wanted."""
    for name, wanted in chosen.items():
        there = [value for arm in arms if (value := field_of(arm.cell, name)) is not NOWHERE]
        if not any(_same(value, wanted) for value in there):
            return f"; {name} is {', '.join(dict.fromkeys(map(text, there))) or 'nowhere'} there"
    return "; each value is there, and not all in one arm"


def _differing(first: Cell, second: Cell, chosen: Overrides) -> str:
    names = dict.fromkeys([*first.overrides, *second.overrides])
    apart = [
        n for n in names if n not in chosen and n != "seed" and repr(field_of(first, n)) != repr(field_of(second, n))
    ]
    return ", ".join(apart)
