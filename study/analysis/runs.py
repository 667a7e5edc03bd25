"""Declared runs of sweeps in one table; arms are found by the fields of their experiments.

A run that is not there is a row, too.
"""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from study.analysis import measures
from study.analysis.inference import FEWEST, Arm
from study.analysis.measures import Measure
from study.config import Experiment, config_hash
from study.corpora import Section
from study.errors import InputError
from study.metrics import is_diagnostic
from study.store import Store
from study.sweep import fields
from study.sweep.grid import text
from study.sweep.spec import Cell, Spec, load

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

HOLES = ("missing", "started", "failed")
"""States that leave a declared run without a result. `diverged` is a result, `inapplicable` no run."""
SCORED = ("finished", "diverged")
"""States with scores that count."""
SET_ASIDE = "set aside"
"""State of a run that does not count, because other arms of its family lack its seed; see `whole_seeds`."""
PACKAGES = ("torch", "numpy", "sacrebleu", "sentencepiece")
"""Packages that decide numbers."""

SHARED = "model.attention."
NOWHERE = object()
Overrides = Mapping[str, Any]
"""Field ↦ value, such as `model.attention.scale: none`."""


@dataclass(frozen=True)
class DeclaredRun:
    """One declared cell of a sweep: finished, diverged, failed, started, missing, set aside or inapplicable."""

    cell: Cell = field(repr=False)
    facet: str
    arm: str
    state: str
    counts: bool = True
    """False for all runs of a seed that a sweep published in part leaves out."""

    @property
    def id(self) -> str:
        """Identity of the run; empty for a cell that is no experiment."""
        return self.cell.id or ""

    @property
    def made(self) -> bool:
        """Return True if the run has a record that counts."""
        return self.state in (*SCORED, "failed")

    @property
    def seed(self) -> Any:
        """Its seed."""
        return self.cell.experiment.seed if self.cell.experiment else self.cell.overrides.get("seed")

    @property
    def experiment(self) -> Experiment:
        """The experiment of a cell that has one."""
        assert self.cell.experiment is not None
        return self.cell.experiment


@dataclass(frozen=True)
class ArmRuns:
    """One arm in one corpus and family: an experiment without its seed, and a cell for each seed."""

    key: str
    cells: Mapping[int, Cell]
    spec: Spec = field(repr=False)
    label: str
    """The arm's label in its sweep."""

    @property
    def cell(self) -> Cell:
        """One of the cells; they differ in the seed alone."""
        return next(iter(self.cells.values()))

    @property
    def corpus(self) -> Section:
        """The corpus of its runs."""
        assert self.cell.experiment is not None
        return self.cell.experiment.data


class Runs:
    """The runs of all sweeps that have records in one folder.

    Args:
        folder: the records: `runs/` or `results/`. None: nothing has run.
        sweeps: the sweep files that are found by name.
    """

    def __init__(self, folder: Path | None, sweeps: Path = Path()) -> None:
        self.folder, self.sweeps = folder, sweeps
        self.store = Store(folder) if folder else None
        self._specs: dict[Path, Spec] = {}
        self._declared: dict[Path, tuple[DeclaredRun, ...]] = {}
        self._scored: dict[tuple[str, str], dict[str, list[tuple[str | None, float | None, int]]]] = {}
        self._facts: dict[str, dict[str, Any]] = {}

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row for each run with a record, declared or not, by id; see `Store.runs`.

        Raises:
            InputError: a record cannot be read.
        """
        assert self.store is not None
        return self.store.runs.set_index("id", drop=False)

    def spec(self, name: str, beside: Path = Path()) -> Spec:
        """A sweep by the name of its file, or by a path relative to the folder `beside`.

        Raises:
            InputError: there is no such sweep, or it is none.
        """
        path = beside / name if name.endswith((".yaml", ".yml")) else self.sweeps / f"{name}.yaml"
        if path not in self._specs:
            if not path.is_file():
                there = ", ".join(sorted(file.stem for file in self.sweeps.glob("*.yaml")))
                raise InputError(f"no such sweep: {name} ({path}). {self.sweeps} has {there or 'none'}.")
            self._specs[path] = load(path)
        return self._specs[path]

    def of(self, spec: Spec) -> tuple[DeclaredRun, ...]:
        """Every declared cell of a sweep, in the order of the file.

        Raises:
            InputError: the folder is absent, or a record cannot be read, is not of the cell that its name says, lacks
                the deciding score, or was made from other data or scored by another scorer than its neighbours.
        """
        if self.folder is not None and not self.folder.is_dir():
            file = shlex.quote(str(spec.path))
            raise InputError(
                f"{self.folder}: no such folder of runs. `study sweep {file}` makes it; --runs names another."
            )
        if spec.path not in self._declared:
            published = self._published(spec)
            runs = tuple(self._run(spec, cell, published is not None) for cell in spec.cells)
            if self.store and not self.store.published:
                for problem in differences(
                    (run.facet, self.where(run.id), self._tree(run.id)) for run in runs if run.made
                ):
                    raise InputError(problem)
            self._declared[spec.path] = whole_seeds(runs) if published and published.get("partial") else runs
        return self._declared[spec.path]

    def declared(self, spec: Spec, metrics: Sequence[str] = ()) -> pd.DataFrame:
        """One row for each declared cell of a sweep, in the order of the file.

        Columns: facet, arm, seed, id, state, counts, note (an error, or why a cell is no experiment), those of
        `measures.FACTS`, rule, device, and one for each metric (the sweep's own and `metrics`, `split/metric` or
        `split/metric/subset`). NaN: no such value.

        Raises:
            InputError: see `of`; or a record has no number where one belongs.
        """
        import pandas as pd

        runs = self.of(spec)
        frame = pd.DataFrame(
            {"facet": run.facet, "arm": run.arm, "seed": run.seed, "id": run.cell.id, "state": run.state}
            | {"counts": run.counts, "note": run.cell.reason or ""} | dict.fromkeys(measures.FACTS, math.nan)
            | {"rule": "", "device": ""} | (self._facts_of(run.id) if run.made else {})
            for run in runs
        )  # fmt: skip
        for name in dict.fromkeys([primary(spec), *metrics]):
            split, score, *part = name.split("/", 2)
            rows = self.scored(split, score)
            values = [{s: v for s, v, _ in rows.get(run.id, ())}.get(part[0] if part else None) for run in runs]
            frame[name] = pd.Series(values, dtype=float).where(frame["state"].isin(SCORED))
        return frame

    def named_arms(self, sweeps: Sequence[str], corpus: str, family: str, beside: Path = Path()) -> tuple[ArmRuns, ...]:
        """The arms of sweeps in one corpus and family, each once, in the order in which they are listed.

        Raises:
            InputError: see `spec`; or the sweeps are of different protocols, whose runs are not compared.
        """
        found: dict[str, ArmRuns] = {}
        protocols: dict[tuple[int, ...], str] = {}
        for spec in [self.spec(name, beside) for name in sweeps]:
            cells: dict[str, dict[int, Cell]] = {}
            used: set[int] = set()
            for cell in spec.cells:
                if (e := cell.experiment) and (e.data.name, e.model.family) == (corpus, family):
                    cells.setdefault(str(cell.id).rpartition("-s")[0], {})[e.seed] = cell
                    used.add(e.protocol)
            if cells:
                protocols.setdefault(tuple(sorted(used)), spec.name)
            found |= {key: ArmRuns(key, some, spec, spec.arm(next(iter(some.values())))) for key, some in cells.items()}
        if len(protocols) > 1:
            (one, first), (two, second) = list(protocols.items())[:2]
            raise InputError(
                f"with_sweeps: expected sweeps of one protocol, got {' and '.join(map(str, one))} in {first} and "
                f"{' and '.join(map(str, two))} in {second}. Ask of each in a question of its own."
            )
        return tuple(found.values())

    def values(self, arm: ArmRuns, measure: Measure) -> Arm:
        """The values of one arm by seed; no values where a run has null for it.

        Raises:
            InputError: a record cannot be used (see `of`), or lacks the number.
        """
        ids = {cell.id for cell in arm.cells.values()}
        found = self._arm(arm.key, [run for run in self.of(arm.spec) if run.id in ids], measure)
        return replace(found, name=arm.label)

    def arms(self, spec: Spec, facet: str, metric: str) -> tuple[Arm, ...]:
        """The arms of one facet of a sweep with their scores, as listed; cells that are no experiments left out.

        Raises:
            InputError: a record cannot be used (see `of`).
        """
        runs: dict[str, list[DeclaredRun]] = {}
        for run in self.of(spec):
            if run.facet == facet and run.state != "inapplicable":
                runs.setdefault(run.arm, []).append(run)
        return tuple(self._arm(label, some, Measure(metric)) for label, some in runs.items())

    def value(self, identity: str, measure: Measure) -> float | None:
        """Return one number of a run; None where the record says null: it means nothing in this run.

        Raises:
            InputError: the record has no such score or diagnostic.
        """
        metric = measure.metric
        try:
            if is_diagnostic(metric):
                return measures.diagnostic(self._tree(identity), metric)
            split, score, *_ = metric.split("/", 2)
            return measure.of(self.scored(split, score)[identity])
        except KeyError:
            there = sorted({"/".join(names) for names in self._scores_where(("split", "metric"), id=identity)})
            raise InputError(
                f"{self.where(identity)}: expected {metric}, got a record with {', '.join(there) or 'no scores'}."
            ) from None

    def scored(self, split: str, score: str) -> dict[str, list[tuple[str | None, float | None, int]]]:
        """Return the rows of one score by run: subset (None: the whole split), value, and number of sentences."""
        if (split, score) not in self._scored:
            found = self._scored[split, score] = {}
            for identity, *row in self._scores_where(("id", "subset", "value", "n"), split=split, metric=score):
                found.setdefault(identity, []).append(tuple(row))
        return self._scored[split, score]

    def _scores_where(self, columns: Sequence[str], **equal: str) -> Iterator[tuple[Any, ...]]:
        """Yield columns of the table of scores, of the rows that have these values."""
        return rows_where(self.store.score_table, columns, **equal) if self.store else iter(())

    def where(self, identity: str) -> str:
        """Return the place of a run's record, for messages."""
        return self.store.where(identity) if self.store else identity

    def _arm(self, label: str, runs: Sequence[DeclaredRun], measure: Measure) -> Arm:
        runs = [run for run in runs if run.counts]
        made = [run for run in runs if run.state in SCORED]
        values = {run.seed: self.value(run.id, measure) for run in made if run.state == "finished"}
        return Arm(
            label=label,
            values={} if None in values.values() else {seed: v for seed, v in values.items() if v is not None},
            diverged=sum(run.state == "diverged" for run in runs),
            holes=sum(run.state in HOLES for run in runs),
            runs=tuple(run.id for run in made),
        )

    def _run(self, spec: Spec, cell: Cell, counts: bool) -> DeclaredRun:
        """One cell with the state of its run, checked."""
        facet, arm = spec.facet(cell), spec.arm(cell)
        if cell.experiment is None or cell.id is None:
            return DeclaredRun(cell, facet, arm, "inapplicable")
        if not counts or self.store is None:
            return DeclaredRun(cell, facet, arm, "missing")
        if cell.id not in self.store.facts:
            return DeclaredRun(cell, facet, arm, "missing" if self.store.published else self.store.state(cell.id))
        self._check_identity(cell)
        status = str(self.store.facts[cell.id]["status"])
        if status == "finished":
            self.value(cell.id, Measure(primary(spec)))
        return DeclaredRun(cell, facet, arm, status)

    def _published(self, spec: Spec) -> dict[str, Any] | None:
        """Return what the manifest says of a sweep; None for a sweep of the study that is not published.

        Some of its runs may be there, because published sweeps share them. It has not run while others are missing.
        Other folders have no manifest, and every sweep file is read there.
        """
        published = self.store.manifest["sweeps"] if self.store and self.store.published else {}
        if not published or spec.path.parent != self.sweeps:
            return {}
        found: dict[str, Any] | None = published.get(spec.name)
        return found

    def _facts_of(self, identity: str) -> dict[str, Any]:
        """Return what tables show of a run beside its scores: note, device, rule and, unless it failed, its facts."""
        if identity not in self._facts:
            tree = self._tree(identity)
            found = {"note": tree["error"] or "", "device": (tree["provenance"] or {}).get("device", "")}
            found["rule"] = (tree["selection"] or {}).get("rule", "")
            known = {} if tree["status"] == "failed" else measures.facts({"scores": ()} | tree)
            self._facts[identity] = found | {name: value for name, value in known.items() if value is not None}
        return self._facts[identity]

    def _tree(self, identity: str) -> dict[str, Any]:
        """Return a record as plain data; of a published run without history, and scores only of a pruning."""
        assert self.store is not None
        if not self.store.published:
            return self.store.record(identity).model_dump(mode="json")
        tree = self.store.rest(identity)
        if tree["config"].get("pruning"):
            names = ("metric", "subset", "value")
            tree["scores"] = [dict(zip(names, row, strict=True)) for row in self._scores_where(names, id=identity)]
        return tree

    def _check_identity(self, cell: Cell) -> None:
        """The record is of this cell, and its configuration is the one that its hash was taken from."""
        assert cell.experiment is not None
        assert cell.id is not None
        assert self.store is not None
        wanted, row = config_hash(cell.experiment), self.store.facts[cell.id]
        checks = [("config_hash", row["config_hash"], wanted), ("seed", row["seed"], cell.experiment.seed)]
        if not self.store.published:  # `study verify` checks the published ones
            record = self.store.record(cell.id)
            checks += [("config.seed", record.config.get("seed", record.seed), cell.experiment.seed)]
            checks += [("id", record.id, cell.id), ("config", _rehashed(record.config), wanted)]
        for name, found, expected in checks:
            if found is not None and found != expected:
                raise InputError(
                    f"{self.where(cell.id)}: {name}: expected {expected}, as declared, got {found}. The record was "
                    "changed by hand or moved: restore it, or remove it to run again."
                )


def rows_where(table: pa.Table, columns: Sequence[str], **equal: str) -> Iterator[tuple[Any, ...]]:
    """Yield columns of the rows that have these values.

    They are looked for as values of the table: for others pyarrow asks pandas, which takes longer than all to load.
    """
    import pyarrow.compute as pc

    for name, value in equal.items():
        if not len(table):
            return
        column = table[name].unify_dictionaries().combine_chunks()
        column = column if hasattr(column, "indices") else column.dictionary_encode()
        there = column.dictionary.to_pylist()
        if value not in there:
            return
        table = table.filter(pc.equal(column, column.dictionary[there.index(value)]))
    yield from zip(*(table[name].to_pylist() for name in columns), strict=True)


def whole_seeds(runs: Sequence[DeclaredRun]) -> tuple[DeclaredRun, ...]:
    """Return the runs of a sweep published in part, with only those that count: of seeds that all arms have.

    Arms are compared within a corpus and family, so seeds are counted there. Where fewer than three are whole, nothing
    is set aside: arms with a hole are not compared. A failed run is no reason to leave its seed out.
    """

    def place(run: DeclaredRun) -> tuple[str, str, int]:
        return run.experiment.data.name, run.experiment.model.family, run.seed

    real = [run for run in runs if run.state != "inapplicable"]
    whole = {place(run) for run in real} - {place(run) for run in real if run.state in ("missing", "started")}
    count = Counter(one[:2] for one in whole)

    def marked(run: DeclaredRun) -> DeclaredRun:
        if run.state == "inapplicable" or place(run) in whole or count[place(run)[:2]] < FEWEST:
            return run
        return replace(run, state=SET_ASIDE if run.made else run.state, counts=False)

    return tuple(map(marked, runs))


def primary(spec: Spec) -> str:
    """The score that decides, as `split/metric`."""
    return "/".join(spec.metric)


def _rehashed(config: Mapping[str, Any]) -> str | None:
    """The hash of a record's configuration; None for one that today's fields no longer take."""
    try:
        return config_hash(Experiment.model_validate(config))
    except ValidationError:
        return None


def differences(cells: Iterable[tuple[str, str, Mapping[str, Any]]], published: bool = False) -> Iterator[str]:
    """Yield one line for each fact in which compared runs differ.

    No comparison may mix files of data, and signatures of scores. Published runs also share packages, precision,
    subwords and the device. Runs on one thread of a processor may come from different processors: their rounding
    moves a run as another seed would (LOG.md, third edition).

    Args:
        cells: (facet, place, record as plain data) of each run.
        published: compare all facts that published runs share.
    """
    first: dict[tuple[str, str], tuple[Any, str]] = {}
    for facet, where, tree in cells:
        for name, value in {**_compared(tree), **(_shared(tree) if published else {})}.items():
            usual, there = first.setdefault(("" if name.startswith("scores.") else facet, name), (value, where))
            if value != usual:
                yield (
                    f"{where}: {name}: {value}, and {there} has {usual}; they can't be compared: run one of them again"
                )


def _compared(tree: Mapping[str, Any]) -> dict[str, Any]:
    facts = {f"data.files.{name}": digest for name, digest in ((tree["data"] or {}).get("files") or {}).items()}
    signed = [s for s in tree["scores"] if s["hypotheses"] is not None or s["metric"] in ("bleu", "chrf")]
    return facts | {f"scores.{s['metric']}.signature": s["signature"] for s in signed}


def _shared(tree: Mapping[str, Any]) -> dict[str, Any]:
    facts = {f"data.{name}": tree["data"][name] for name in ("version", "subwords")} if tree["data"] else {}
    if made := tree["provenance"]:
        facts |= {f"provenance.packages.{name}": made["packages"].get(name) for name in PACKAGES}
        facts["provenance.precision"] = made["precision"]
        for name in ("device", "device_count", "threads"):
            values = list(dict.fromkeys(call.get(name) for call in made.get("calls") or [made]))
            if values != [None]:  # older records do not say with how many threads
                facts[f"provenance.{name}"] = ", then ".join(map(str, values))
        if made["deterministic"]:
            facts["provenance.device"] = "one thread of a processor"
    return facts


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


def find_levels(arms: Sequence[ArmRuns], chosen: Overrides, *over: str) -> list[tuple[tuple[Any, ...], ArmRuns]]:
    """The arms that have these values, one for each value of the fields `over`, in the order of those values.

    Raises:
        InputError: there is none, or two that differ in anything else.
    """
    found = matching(arms, chosen)
    if not found:
        raise InputError(f"no arm has {_words(chosen)}.{_nearest(arms, chosen)}")
    values = [tuple(field_of(arm.cell, name) for name in over) for arm in found]
    for i, value in enumerate(values):
        if value in values[:i]:
            apart = _differing(found[values.index(value)].cell, found[i].cell, chosen)
            raise InputError(
                f"expected one arm, got several with {_words(chosen)}. They differ in {apart}. Add one of these fields."
            )
    if over and len(found) < 2:
        raise InputError(f"over: expected several values of {' and '.join(over)}, got one arm with {_words(chosen)}.")
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
