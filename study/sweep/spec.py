"""A W&B sweep file ↔ the experiments that it declares.

A file is a full grid over listed values, in the order in which it lists them (the last parameter varies fastest).
Three conventions are ours, and pass unchanged through W&B:

* `seed` is the parameter that repeats an arm;
* `arm`, for grids that are no product, is one parameter whose values are texts of overrides
  (`model.attention.score=additive model.attention.additive_width=16`), laid over the other parameters;
* the first value listed is the baseline: the first arm of the grid is what the others are compared with.

A comment `# tags: embedded` in the file names groups that the sweep belongs to; `study sweep FOLDER --tag` runs one.
A comment `# blind` hides test scores while the sweep runs.

Arms are compared within a facet: parameters under `data.`, `model.family`, `pruning.site` and `protocol` make facets,
whatever else varies makes arms. A cell that the experiment rejects is kept, with the reason, and never run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from study.errors import InputError
from study.scores import metrics
from study.sweep.file import is_blind, read_file, tags
from study.sweep.grid import Cell, cells_of, expand, flatten, text, values_of, written_out

__all__ = ["Cell", "Spec", "expand", "load"]

APART = ("model.family", "pruning.site", "protocol")
"""Fields that make facets, beside those of the data."""


@dataclass(frozen=True)
class Spec:
    """A sweep file, read. `metric` is (split, score) of the score that decides, or (split, score, subset)."""

    path: Path
    name: str
    description: str
    metric: tuple[str, ...]
    goal: str
    sweep_id: str
    tags: tuple[str, ...]
    cells: tuple[Cell, ...] = field(repr=False)
    blind: bool = False

    @cached_property
    def varied(self) -> tuple[str, ...]:
        """The fields that take more than one value over the grid, in the order of the file (`arm` taken apart)."""
        return _varied(self.cells, dict.fromkeys(name for cell in self.cells for name in cell.overrides))

    @cached_property
    def facet_fields(self) -> tuple[str, ...]:
        """The varied fields whose values are reported apart: corpus, family, whose heads go, and protocol."""
        return tuple(name for name in self.varied if name.startswith("data.") or name in APART)

    @cached_property
    def arms(self) -> dict[str, tuple[str, ...]]:
        """Facet ↦ the labels of its arms as listed, the baseline first; only arms that the configuration takes."""
        listed: dict[str, dict[str, None]] = {}
        for cell in self.runnable:
            listed.setdefault(self.facet(cell), {})[self.arm(cell)] = None
        return {facet: tuple(labels) for facet, labels in listed.items()}

    @cached_property
    def _differing(self) -> dict[str, tuple[str, ...]]:
        """Facet ↦ the fields in which its arms differ: what is the same all over a facet is no part of a label."""
        names = [name for name in self.varied if name not in self.facet_fields and name != "seed"]
        facets: dict[str, list[Cell]] = {}
        for cell in self.cells:
            facets.setdefault(self.facet(cell), []).append(cell)
        return {facet: _varied(cells, names) for facet, cells in facets.items()}

    @cached_property
    def runnable(self) -> tuple[Cell, ...]:
        """The cells that are experiments."""
        return tuple(cell for cell in self.cells if cell.experiment)

    @cached_property
    def seeds(self) -> tuple[int, ...]:
        """Every seed of the grid, in the order of the file."""
        return tuple(dict.fromkeys(cell.experiment.seed for cell in self.cells if cell.experiment))

    def baseline(self, facet: str) -> str:
        """The label of the arm that the others of this facet are compared with: the first one listed."""
        return self.arms[facet][0]

    def facet(self, cell: Cell) -> str:
        """Label of a cell's facet, such as `family=transformer`; empty where nothing of the kind varies."""
        return self._label(cell, self.facet_fields)

    def arm(self, cell: Cell) -> str:
        """Label of a cell's arm, such as `scale=rsqrt key_width=16`; `base` where it gives none of them."""
        return self._label(cell, self._differing[self.facet(cell)]) or "base"

    def label(self, cell: Cell) -> str:
        """A cell in words: everything that varies, seeds too."""
        return self._label(cell, self.varied) or "base"

    def _label(self, cell: Cell, names: tuple[str, ...]) -> str:
        return " ".join(f"{self._short[name]}={text(cell.overrides[name])}" for name in names if name in cell.overrides)

    @cached_property
    def _short(self) -> dict[str, str]:
        """The shortest ending of each varied field's name that no other one shares."""
        short = {}
        for name in self.varied:
            parts, others = name.split("."), [f".{other}" for other in self.varied if other != name]
            endings = [".".join(parts[start:]) for start in reversed(range(len(parts)))]
            short[name] = next((e for e in endings if not any(other.endswith(f".{e}") for other in others)), name)
        return short


def _varied(cells: Iterable[Cell], names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of fields that have several values, or are given in some cells alone."""
    return tuple(name for name in names if len({repr(cell.overrides.get(name, ...)) for cell in cells}) > 1)


def _grid(tree: Mapping[str, Any]) -> tuple[Cell, ...]:
    bodies = flatten(tree["parameters"])
    drawn = [f"parameters.{name}" for name, body in bodies.items() if "min" in body]
    if tree["method"] != "grid" or "run_cap" in tree or drawn:
        where = "method" if tree["method"] != "grid" else "run_cap" if "run_cap" in tree else drawn[0]
        raise InputError(f"{where}: expected a grid of listed values, every cell of which runs; else see `study tune`.")
    return cells_of({name: values_of(body) for name, body in bodies.items()})


def load(path: Path, cells: Callable[[dict[str, Any]], tuple[Cell, ...]] = _grid) -> Spec:
    """Return the sweep that a file declares.

    Args:
        path: the file.
        cells: returns the cells of the file's tree (default: the full grid).

    Raises:
        InputError: the file is no W&B grid sweep, names a field or value that no experiment takes or a score that a run
            does not have, or declares one experiment twice. One line, with the file and the field.
    """
    tree = read_file(path)
    try:
        found = cells(tree)
        metric = tree["metric"]["name"]
        corpora = {cell.experiment.data.name: cell.experiment.data for cell in found if cell.experiment}
        pruned = all(cell.experiment.pruning for cell in found if cell.experiment)
        goal = metrics.check(metric, tree["metric"].get("goal"), corpora.values(), pruned)
    except InputError as problem:
        raise InputError(f"{path}: {problem}") from None
    return Spec(
        path=path,
        name=tree.get("name", path.stem),
        description=tree.get("description", "").strip(),
        metric=tuple(metric.split("/")),
        goal=goal,
        sweep_id=_sweep_id(tree),
        tags=tags(path),
        cells=found,
        blind=is_blind(path),
    )


def _sweep_id(tree: Mapping[str, Any]) -> str:
    """Return eight letters and digits; the same whenever the file declares the same: comments and short names aside.

    Its place in W&B declares nothing. Nor does the option -P, which keeps a `study.py` of the working directory out of
    a trial; nor protocol 1, which was the only one. Sweeps were published before the files had any of them.
    """
    same: dict[str, Any] = {name: value for name, value in tree.items() if name not in ("project", "entity")}
    if "command" in same:
        same["command"] = [word for word in same["command"] if word != "-P"]
    parameters = dict(same["parameters"])
    if parameters.get("protocol") in ({"value": 1}, {"values": [1]}):
        del parameters["protocol"]
    if "arm" in parameters:
        parameters["arm"] = {"values": [written_out(arm) for arm in values_of(parameters["arm"])]}
    return hashlib.sha256(json.dumps(same | {"parameters": parameters}).encode()).hexdigest()[:8]
