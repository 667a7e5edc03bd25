"""The arms that sweeps declare, found by their fields, and what is on disk of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from study import records
from study.analysis import frame, measures
from study.analysis.inference import Arm
from study.analysis.measures import Measure
from study.errors import InputError
from study.records import Record
from study.sweep import fields
from study.sweep.grid import text
from study.sweep.spec import Cell, Spec, load

SHARED = "model.attention."
NOWHERE = object()


@dataclass(frozen=True)
class Declared:
    """One arm in one corpus and family: an experiment without its seed, and a cell for each seed."""

    key: str
    cells: Mapping[int, Cell]
    spec: Spec = field(repr=False)

    @property
    def label(self) -> str:
        """How its sweep calls it."""
        return self.spec.arm(self.cell)

    @property
    def cell(self) -> Cell:
        """One of them; they differ in the seed alone."""
        return next(iter(self.cells.values()))


def field_of(cell: Cell, name: str) -> Any:
    """The value of a field: what the sweep gives, else what the experiment resolves it to, `NOWHERE` if it has none.

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


def check_fields(chosen: Mapping[str, Any]) -> None:
    """Refuse a field or value that no experiment has.

    Raises:
        InputError: names the field.
    """
    for name, value in chosen.items():
        try:
            fields.check(name, value)
        except InputError as problem:
            raise InputError(f"{name}: {problem}") from None


def matching(arms: Sequence[Declared], chosen: Mapping[str, Any]) -> list[Declared]:
    """The arms that have these values."""
    return [arm for arm in arms if all(_same(field_of(arm.cell, name), value) for name, value in chosen.items())]


def _same(found: Any, wanted: Any) -> bool:
    return isinstance(found, bool) == isinstance(wanted, bool) and bool(found == wanted)


def one(arms: Sequence[Declared], chosen: Mapping[str, Any]) -> Declared:
    """The arm that has these values.

    Raises:
        InputError: there is none, or several.
    """
    return along(arms, chosen)[0][1]


def along(arms: Sequence[Declared], chosen: Mapping[str, Any], *over: str) -> list[tuple[tuple[Any, ...], Declared]]:
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


def _words(chosen: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={text(value)}" for name, value in chosen.items()) or "nothing given"


def _nearest(arms: Sequence[Declared], chosen: Mapping[str, Any]) -> str:
    """What is there instead, of the first field without the value that is wanted."""
    for name, wanted in chosen.items():
        there = [value for arm in arms if (value := field_of(arm.cell, name)) is not NOWHERE]
        if not any(_same(value, wanted) for value in there):
            return f"; {name} is {', '.join(dict.fromkeys(map(text, there))) or 'nowhere'} there"
    return "; each value is there, and not all in one arm"


def _differing(first: Cell, second: Cell, chosen: Mapping[str, Any]) -> str:
    names = dict.fromkeys([*first.overrides, *second.overrides])
    apart = [
        n for n in names if n not in chosen and n != "seed" and repr(field_of(first, n)) != repr(field_of(second, n))
    ]
    return ", ".join(apart)


@dataclass
class Library:
    """Sweeps and runs, each read once, and where measured times are. None: nothing has run, or was measured."""

    sweeps: Path
    runs: Path | None
    benchmarks: Path | None = None
    _specs: dict[Path, Spec] = field(default_factory=dict)
    _states: dict[Path, dict[str, str]] = field(default_factory=dict)
    _records: dict[str, Record] = field(default_factory=dict)

    def spec(self, name: str, beside: Path) -> Spec:
        """A sweep by the name of its file, or by a path relative to the folder `beside`.

        Raises:
            InputError: there is no such sweep, or it is none.
        """
        path = beside / name if name.endswith((".yaml", ".yml")) else self.sweeps / f"{name}.yaml"
        if not path.is_file():
            there = ", ".join(sorted(file.stem for file in self.sweeps.glob("*.yaml")))
            raise InputError(f"there is no sweep {name} ({path}); those in {self.sweeps} are {there or 'none'}")
        if path not in self._specs:
            self._specs[path] = load(path)
        return self._specs[path]

    def arms(self, spec: Spec, corpus: str, family: str) -> list[Declared]:
        """The arms of a sweep in one corpus and family, in the order in which they are listed."""
        found: dict[str, dict[int, Cell]] = {}
        for cell in spec.runnable:
            assert cell.experiment is not None
            assert cell.id is not None
            if (cell.experiment.data.name, cell.experiment.model.family) == (corpus, family):
                found.setdefault(cell.id.rpartition("-s")[0], {})[cell.experiment.seed] = cell
        return [Declared(key, cells, spec) for key, cells in found.items()]

    def measured(self, arm: Declared, measure: Measure | None) -> Arm:
        """What is on disk of one arm; no values without a measure, or where a run has null for it.

        Raises:
            InputError: a record can't be used (see `frame.collect`), or lacks the number.
        """
        states = {seed: self._state(arm.spec, cell) for seed, cell in arm.cells.items()}
        values: dict[int, float | None] = {}
        bleu = []
        for seed, cell in arm.cells.items():
            if states[seed] in ("finished", "diverged"):
                record = self._record(cell)
                score = frame.validation_bleu(record)
                bleu += [] if score is None else [score]
            if states[seed] == "finished" and measure is not None:
                values[seed] = self._value(cell, measure)
        return Arm(
            label=arm.key,
            values={} if None in values.values() else {seed: v for seed, v in values.items() if v is not None},
            diverged=sum(state == "diverged" for state in states.values()),
            holes=sum(state in frame.HOLES for state in states.values()),
            valid_bleu=sum(bleu) / len(bleu) if bleu else None,
        )

    def _state(self, spec: Spec, cell: Cell) -> str:
        if self.runs is None:
            return "missing"
        if spec.path not in self._states:
            table = frame.collect(spec, self.runs)
            self._states[spec.path] = dict(zip(table["id"], table["state"], strict=True))
        return self._states[spec.path][cell.id or ""]

    def _record(self, cell: Cell) -> Record:
        assert cell.id is not None
        if cell.id not in self._records:
            self._records[cell.id] = records.read(self._path(cell))
        return self._records[cell.id]

    def _path(self, cell: Cell) -> Path:
        assert self.runs is not None
        path = frame.record_path(self.runs, cell.id or "")
        assert path is not None
        return path

    def _value(self, cell: Cell, measure: Measure) -> float | None:
        try:
            return measures.value(self._record(cell), measure)
        except InputError as problem:
            raise InputError(f"{self._path(cell)}: {problem}") from None
