"""A W&B sweep file is a list of labelled experiments.

A file is a full grid over listed values, in the order in which it lists them (the last parameter varies fastest).
Three conventions are ours, and pass unchanged through W&B:

* `seed` is the parameter that repeats an arm;
* `arm`, for grids that are no product, is one parameter whose values are texts of overrides
  (`model.attention.score=additive model.attention.additive_width=16`), laid over the other parameters;
* the first value listed is the baseline: the first arm of the grid is what the others are compared with.

A comment `# tags: embedded` in the file names groups that the sweep belongs to; `study sweep FOLDER --tag` runs one.
A comment `# blind` hides test scores while the sweep runs. A comment `# metric: multi30k test_2016_flickr/nll` names
the score that decides for one corpus; the field `metric` is that of the others.

Arms are compared within a facet: parameters under `data.`, `model.family`, `pruning.site` and `protocol` make facets,
whatever else varies makes arms. A cell that the experiment rejects is kept, with the reason, and never run.
"""

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from study.config import Experiment, experiment_from
from study.config.identity import arm_id
from study.config.overrides import FAMILY, PRESET, family_of
from study.errors import InputError
from study.scores import metrics
from study.sweep.fields import ARM, SEED, check, endings, expand, text, written_out
from study.sweep.file import BLIND, METRIC, MOST, Parameter, SweepFile, comments, read_file, tags

APART = ("model.family", "pruning.site", "protocol")
"""Fields that make facets, beside those of the data."""
Overrides = Mapping[str, Any]
"""Field ↦ value."""


@dataclass(frozen=True)
class Cell:
    """One point of the grid: an experiment with its labels, or the reason why it is none.

    Attributes:
        given: the point as the file has it.
        overrides: the same with `arm` taken apart, by full names.
        experiment: None if the configuration rejects the cell.
        reason: the rejection; empty for an experiment.
        id: identity of the experiment; empty without one.
        facet: such as `family=transformer`; empty where nothing of the kind varies.
        arm: such as `scale=rsqrt key_width=16`; `base` where it gives no field in which arms of its facet differ.
        label: everything that varies over the grid, seeds too.
    """

    given: Overrides
    overrides: Overrides
    experiment: Experiment | None
    reason: str
    id: str
    facet: str
    arm: str
    label: str

    @property
    def overrides_json(self) -> str:
        """The text for `study train --overrides-json` that declares this experiment."""
        return json.dumps(self.overrides)


@dataclass(frozen=True)
class Run(Cell):
    """A cell that is an experiment."""

    experiment: Experiment


@dataclass(frozen=True)
class Spec:
    """A sweep file, read.

    Attributes:
        metrics: facet ↦ the score that decides, `split/score` or `split/score/subset`.
    """

    path: Path
    name: str
    description: str
    metrics: Mapping[str, str]
    sweep_id: str
    tags: tuple[str, ...]
    parameters: Mapping[str, Parameter] = field(repr=False)
    cells: tuple[Cell, ...] = field(repr=False)
    blind: bool = False

    @property
    def metric(self) -> str:
        """The score that decides in the first facet, and in all others unless a comment names theirs."""
        return next(iter(self.metrics.values()))

    @cached_property
    def runnable(self) -> tuple[Run, ...]:
        """The cells that are experiments."""
        return tuple(cell for cell in self.cells if isinstance(cell, Run))

    @cached_property
    def seeds(self) -> tuple[int, ...]:
        """Every seed of the grid, in the order of the file."""
        return tuple(dict.fromkeys(cell.experiment.seed for cell in self.runnable))

    @cached_property
    def arms(self) -> dict[str, tuple[str, ...]]:
        """Facet ↦ the labels of its arms as listed, the baseline first; only arms that the configuration takes."""
        listed: dict[str, dict[str, None]] = {}
        for cell in self.runnable:
            listed.setdefault(cell.facet, {})[cell.arm] = None
        return {facet: tuple(labels) for facet, labels in listed.items()}

    def baseline(self, facet: str) -> str:
        """Return the label of the arm that the others of this facet are compared with: the first one listed."""
        return self.arms[facet][0]


def grid(file: SweepFile) -> Iterable[Overrides]:
    """Return every point of a grid, the last parameter varying fastest.

    Raises:
        InputError: the file is no grid of listed values, or has too many cells.
    """
    parameters = file.fields()
    ranges = [f"parameters.{name}" for name, parameter in parameters.items() if not parameter.choices]
    if file.method != "grid" or file.run_cap or ranges:
        misfit = "method" if file.method != "grid" else "run_cap" if file.run_cap else ranges[0]
        raise InputError(
            f"{misfit}: expected a grid of listed values, every cell of which runs; else see `study tune`."
        )
    values = [parameter.choices for parameter in parameters.values()]
    if (count := math.prod(map(len, values))) > MOST:
        raise InputError(f"parameters: expected at most {MOST:,} cells, got {count:,}. Remove values.")
    return [dict(zip(parameters, point, strict=True)) for point in itertools.product(*values)]


def load(path: Path, points: Callable[[SweepFile], Iterable[Overrides]] = grid) -> Spec:
    """Return the sweep that a file declares.

    Args:
        path: the file.
        points: returns the values of each cell (default: the full grid).

    Raises:
        InputError: the file is no W&B grid sweep, names a field or value that no experiment takes or a score that a run
            does not have, or declares one experiment twice. One line, with the file and the field.
    """
    file, tree = read_file(path)
    try:
        cells = cells_of(list(points(file)))
        decides = _metrics(file, comments(path, METRIC), [cell for cell in cells if isinstance(cell, Run)])
    except InputError as problem:
        raise InputError(f"{path}: {problem}") from None
    return Spec(
        path=path,
        name=file.name,
        description=file.description.strip(),
        metrics=decides,
        sweep_id=_sweep_id(tree, file),
        tags=tags(path),
        parameters=file.fields(),
        cells=cells,
        blind=bool(comments(path, BLIND)),
    )


def _metrics(file: SweepFile, named: Sequence[tuple[str, str]], runs: Sequence[Run]) -> dict[str, str]:
    """Return the score that decides in each facet: that of the file, unless a comment names one for its corpus.

    Raises:
        InputError: runs lack their score, or comments name another corpus than those of the runs, or one twice.
    """
    corpora = {run.facet: run.experiment.data for run in runs}
    names, of_corpus = {data.name: "" for data in corpora.values()}, dict(named)
    if len(of_corpus) < len(named) or of_corpus.keys() - names:
        got = ", ".join(name for name, _ in named)
        raise InputError(f"# metric: expected each once of {', '.join(names)}, got {got}. Correct the comment.")
    pruned = all(run.experiment.pruning for run in runs)
    decides = {facet: of_corpus.get(data.name, file.metric.name) for facet, data in corpora.items()}
    for facet, data in corpora.items():
        goal = None if data.name in of_corpus else file.metric.goal
        try:
            metrics.check(decides[facet], goal, data, pruned)
        except InputError as problem:
            remedy = f" A line `# metric: {data.name} SPLIT/SCORE` names its own." if len(names) > 1 else ""
            raise InputError(f"{problem}{remedy}") from None
    return decides


def cells_of(points: Sequence[Overrides]) -> tuple[Cell, ...]:
    """Return a cell for each point. With presets their family is spelled out, since families are reported apart.

    An arm is validated once for all its seeds.

    Raises:
        InputError: a field or value that no experiment takes, one experiment twice, or none at all.
    """
    declared = [expand(point) for point in points]
    _check_fields(points, declared)
    if any(PRESET in overrides for overrides in declared):
        declared = [{FAMILY: family_of(overrides), **overrides} for overrides in declared]
    cells: list[Cell] = []
    arms: dict[str, tuple[Experiment, str] | str] = {}
    for point, overrides, labels in zip(points, declared, _labels(declared), strict=True):
        arm = {name: value for name, value in overrides.items() if name != SEED}
        key = repr(arm)
        if key not in arms:
            try:
                experiment = experiment_from(arm)
                arms[key] = experiment, arm_id(experiment)
            except InputError as reason:
                arms[key] = str(reason)
        known = arms[key]
        if isinstance(known, str):
            cells.append(Cell(point, overrides, None, known, "", *labels))
            continue
        experiment, identity = known
        if SEED in overrides:
            experiment = experiment.model_copy(update={SEED: overrides[SEED]})  # every seed has been checked
        cells.append(Run(point, overrides, experiment, "", f"{identity}-s{experiment.seed}", *labels))
    _check_once(cells)
    return tuple(cells)


def _check_fields(points: Sequence[Overrides], declared: Sequence[Overrides]) -> None:
    """Refuse what no experiment takes, and a field both in an arm and as a parameter that varies or is the seed."""
    varied = [SEED, *_varied(points, points[0])]
    for arm in dict.fromkeys(point[ARM] for point in points if ARM in point):
        for name in expand({ARM: arm}):
            if name in points[0] and name in varied:
                raise InputError(f"arm: {name}: expected in an arm or as a parameter, got both. Remove one.")
    used = {(name, repr(value)): value for fields in (*points, *declared) for name, value in fields.items()}
    for (name, _), value in used.items():
        if name != ARM:
            check(name, value)


def _check_once(cells: Sequence[Cell]) -> None:
    """Refuse a grid with one experiment twice, or with none."""
    first: dict[str, Cell] = {}
    for cell in cells:
        if cell.id and (twin := first.setdefault(cell.id, cell)) is not cell:
            both = " and ".join(json.dumps(point.given).replace('"', "") for point in (twin, cell))
            raise InputError(f"parameters: two cells are one experiment, {cell.id}: {both}. Remove one.")
    if not first:
        raise InputError(f"parameters: expected a cell that is an experiment, got none. The first: {cells[0].reason}")


def _labels(declared: Sequence[Overrides]) -> Iterator[tuple[str, str, str]]:
    """Yield the facet, the arm and the label of each cell. What is the same all over a facet names no arm of it."""
    varied = _varied(declared, dict.fromkeys(name for overrides in declared for name in overrides))
    short = {name: _short(name, varied) for name in varied}
    apart = [name for name in varied if name.startswith("data.") or name in APART]
    within = [name for name in varied if name not in (*apart, SEED)]

    def label(overrides: Overrides, names: Iterable[str]) -> str:
        return " ".join(f"{short[name]}={text(overrides[name])}" for name in names if name in overrides)

    facets: dict[str, list[Overrides]] = {}
    for overrides in declared:
        facets.setdefault(label(overrides, apart), []).append(overrides)
    differing = {facet: _varied(members, within) for facet, members in facets.items()}
    for overrides in declared:
        facet = label(overrides, apart)
        yield facet, label(overrides, differing[facet]) or "base", label(overrides, varied) or "base"


def _varied(declared: Iterable[Overrides], names: Iterable[str]) -> list[str]:
    """Return the names of fields that have several values, or are given in some cells alone."""
    return [name for name in names if len({repr(overrides.get(name, ...)) for overrides in declared}) > 1]


def _short(name: str, varied: Iterable[str]) -> str:
    """Return the shortest ending of a varied field's name that no other one shares."""
    rest = [f".{field}" for field in varied if field != name]
    return next((end for end in endings(name) if not any(field.endswith(f".{end}") for field in rest)), name)


def _sweep_id(tree: Mapping[str, Any], file: SweepFile) -> str:
    """Return eight letters and digits; the same whenever the file declares the same: comments and short names aside.

    Its project in W&B declares nothing. Nor does the option -P, which keeps a `study.py` of the working directory out
    of a trial; nor protocol 1, which was the only one. Sweeps were published before the files had any of them.
    """
    content = {name: value for name, value in tree.items() if name not in ("project", "entity")}
    if file.command:
        content["command"] = [word for word in file.command if word != "-P"]
    parameters = dict(tree["parameters"])
    if parameters.get("protocol") in ({"value": 1}, {"values": [1]}):
        del parameters["protocol"]
    if ARM in parameters:
        parameters[ARM] = {"values": [written_out(arm) for arm in file.parameters[ARM].choices]}
    return hashlib.sha256(json.dumps(content | {"parameters": parameters}).encode()).hexdigest()[:8]
