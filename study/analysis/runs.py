"""Declared runs of sweeps: each record is read once; arms are found by the fields of their experiments.

A run that is not there is a row, too.
"""

from __future__ import annotations

import csv
import math
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from study import store
from study.analysis import measures
from study.analysis.inference import FEWEST, Arm, SentenceTest
from study.analysis.measures import Measure
from study.config import Experiment, config_hash
from study.corpora import Section
from study.errors import InputError
from study.records import Record, read_json
from study.sweep import fields
from study.sweep.grid import text
from study.sweep.spec import Cell, Spec, load

if TYPE_CHECKING:
    import pandas as pd

HOLES = ("missing", "started", "failed")
"""States that leave a declared run without a result. `diverged` is a result, `inapplicable` no run."""
SET_ASIDE = "set aside"
"""State of a run that does not count, because other arms of its family lack its seed; see `whole_seeds`."""

NUMBERS = ("valid_bleu", "entropy", "tokens_per_second", "freed", "heads", "with_one_head")
PACKAGES = ("torch", "numpy", "sacrebleu", "sentencepiece")
"""Packages that decide numbers."""

SHARED = "model.attention."
NOWHERE = object()

TESTS = "noise.csv"
"""File of a results folder with tests over sentences. They are computed once and kept."""
TEST_COLUMNS = ("metric", "arm", "baseline", "p", "low", "high")
"""`arm` and `baseline`: ids of runs, the same seeds in the same order; `p`: of each; `low`, `high`: the interval."""

SentenceKey = tuple[str, str, str]
"""Metric, runs of the arm and runs of the baseline of a test over sentences, as in the file."""

Overrides = Mapping[str, Any]
"""Field ↦ value, such as `model.attention.scale: none`."""


@dataclass(frozen=True)
class DeclaredRun:
    """One declared cell of a sweep: finished, diverged, failed, started, missing, set aside or inapplicable.

    `record` is None unless the run is finished, diverged or failed.
    """

    cell: Cell = field(repr=False)
    facet: str
    arm: str
    state: str
    record: Record | None = field(default=None, repr=False)
    counts: bool = True
    """False for all runs of a seed that a sweep published in part leaves out."""

    @property
    def id(self) -> str:
        """Identity of the run; empty for a cell that is no experiment."""
        return self.cell.id or ""

    @property
    def experiment(self) -> Experiment:
        """The experiment of a cell that has one."""
        assert self.cell.experiment is not None
        return self.cell.experiment

    def at(self, path: str) -> Any:
        """A field of the resolved experiment by its dotted name; None where the experiment has no such field."""
        found: Any = self.experiment
        for name in path.split("."):
            found = getattr(found, name, None)
        return found

    def score(self, name: str, subset: str | None = None) -> float | None:
        """A score by `split/metric`; None where the run has none."""
        if self.record is None or self.record.status == "failed":
            return None
        split, metric = name.split("/", 1)
        return self.record.score(split, metric, subset)


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
        folder: the records: `runs/`, `results/` or `results/runs/`. None: nothing has run.
        sweeps: the sweep files that are found by name.
    """

    def __init__(self, folder: Path | None, sweeps: Path = Path()) -> None:
        self.folder, self.sweeps = folder, sweeps
        self.store = store.Store(folder) if folder else None
        self._specs: dict[Path, Spec] = {}
        self._declared: dict[Path, tuple[DeclaredRun, ...]] = {}
        self._hashes: dict[str, str | None] = {}

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

    def records(self) -> dict[str, Record]:
        """Every record of the folder by id, declared or not.

        Raises:
            InputError: one cannot be read.
        """
        return {identity: self.store.record(identity) for identity in self.store.ids()} if self.store else {}

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
            counts = self._counts(spec)
            runs = tuple(self._run(spec, cell, counts) for cell in spec.cells)
            found = [(run.facet, self._where(run), run.record) for run in runs if run.record]
            for problem in differences(found, _compared_facts):
                raise InputError(problem)
            self._declared[spec.path] = whole_seeds(runs) if self._in_part(spec) else runs
        return self._declared[spec.path]

    def table(self, spec: Spec, metrics: Sequence[str] = ()) -> pd.DataFrame:
        """One row for each declared cell of a sweep, in the order of the file.

        Columns: facet, arm, seed, id, state and counts (as in `DeclaredRun`), note (an
        error, or why a cell is no experiment), valid_bleu (0–100), entropy (0–1), tokens_per_second, freed, heads,
        with_one_head (of a pruning, see `measures`), rule, device, and one column for each metric: the sweep's
        own and `metrics`, each named `split/metric` or `split/metric/subset`. NaN: no such value.

        Raises:
            InputError: see `of`; or a record has no number where one belongs.
        """
        import pandas as pd

        names = list(dict.fromkeys([primary(spec), *metrics]))
        return pd.DataFrame([self._row(run, names) for run in self.of(spec)])

    def declared(self, sweeps: Sequence[str], corpus: str, family: str, beside: Path = Path()) -> tuple[ArmRuns, ...]:
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

    def values(self, arm: ArmRuns, measure: Measure | None) -> Arm:
        """The values of one arm by seed; no values without a measure, or where a run has null for it.

        Raises:
            InputError: a record cannot be used (see `of`), or lacks the number.
        """
        ids = {cell.id for cell in arm.cells.values()}
        return self._arm(arm.key, [run for run in self.of(arm.spec) if run.id in ids], measure)

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

    def _arm(self, label: str, runs: Sequence[DeclaredRun], measure: Measure | None) -> Arm:
        runs = [run for run in runs if run.counts]
        made = [run for run in runs if run.record and run.state in ("finished", "diverged")]
        finished = [run for run in made if run.state == "finished"] if measure else []
        values = {run.experiment.seed: self._value(run, measure) for run in finished if measure}
        bleu = [score for run in made if run.record and (score := measures.validation_bleu(run.record)) is not None]
        return Arm(
            label=label,
            values={} if None in values.values() else {seed: v for seed, v in values.items() if v is not None},
            diverged=sum(run.state == "diverged" for run in runs),
            holes=sum(run.state in HOLES for run in runs),
            valid_bleu=sum(bleu) / len(bleu) if bleu else None,
            runs=tuple(run.id for run in made),
        )

    def _run(self, spec: Spec, cell: Cell, counts: bool) -> DeclaredRun:
        """One cell with its record, checked."""
        facet, arm = spec.facet(cell), spec.arm(cell)
        if cell.experiment is None or cell.id is None:
            return DeclaredRun(cell, facet, arm, "inapplicable")
        if not counts:
            return DeclaredRun(cell, facet, arm, "missing")
        if self.store is None or cell.id not in self.store:
            return DeclaredRun(cell, facet, arm, self.store.state(cell.id) if self.store else "missing")
        record, where = self.store.supplemented(cell.id), self.store.where(cell.id)
        self._check_identity(record, cell, where)
        if record.status == "finished":
            _check_score(record, primary(spec), where)
        return DeclaredRun(cell, facet, arm, record.status, record)

    def _counts(self, spec: Spec) -> bool:
        """Return False for a sweep of the study that is not published, in a folder of results.

        Some of its runs may be there, because published sweeps share them. It has not run while others are missing.
        """
        if self.store is None or spec.path.parent != self.sweeps:
            return True
        published = {path.stem for path in (self.store.folder.parent / "sweeps").glob("*.json")}
        return not published or spec.name in published

    def _in_part(self, spec: Spec) -> bool:
        """Return True for a sweep that is published in part."""
        path = self.store.folder.parent / "sweeps" / f"{spec.name}.json" if self.store else None
        return path is not None and path.is_file() and bool(read_json(path).get("partial"))

    def _row(self, run: DeclaredRun, names: Sequence[str]) -> dict[str, Any]:
        row: dict[str, Any] = {"facet": run.facet, "arm": run.arm, "seed": None, "id": run.cell.id}
        row |= {"state": run.state, "counts": run.counts, "note": ""} | dict.fromkeys((*NUMBERS, *names), math.nan)
        row |= {"rule": "", "device": ""}
        if run.state == "inapplicable":
            return row | {"seed": run.cell.overrides.get("seed"), "note": run.cell.reason or ""}
        row["seed"] = run.experiment.seed
        record = run.record
        if record is None:
            return row
        row["note"] = record.error or ""
        if record.status != "failed":
            row |= {name: _number(record.score(*name.split("/", 2))) for name in names}
            try:
                row |= {
                    "valid_bleu": _number(measures.validation_bleu(record)),
                    "entropy": _number(measures.entropy(record)),
                }
            except (TypeError, ValueError) as problem:
                mend = "Restore the record, or run it again."
                raise InputError(
                    f"{self._where(run)}: history or diagnostics: expected numbers, got others ({problem}). {mend}"
                ) from None
            row["freed"] = _number(measures.free_heads(record))
            row["heads"] = len(measures.head_order(record)) or math.nan
            row["with_one_head"] = _number(measures.with_one_head(record))
            row["tokens_per_second"] = record.resources.tokens_per_second if record.resources else math.nan
        row["rule"] = record.selection.rule if record.selection else ""
        row["device"] = record.provenance.device if record.provenance else ""
        return row

    def _value(self, run: DeclaredRun, measure: Measure) -> float | None:
        assert run.record is not None
        try:
            return measure.of(run.record)
        except InputError as problem:
            raise InputError(f"{self._where(run)}: {problem}") from None

    def _where(self, run: DeclaredRun) -> str:
        return self.store.where(run.id) if self.store else run.id

    def _check_identity(self, record: Record, cell: Cell, where: str) -> None:
        """The record is of this cell, and its configuration is the one that its hash was taken from."""
        assert cell.experiment is not None
        assert cell.id is not None
        if cell.id not in self._hashes:
            self._hashes[cell.id] = _rehashed(record)
        wanted = config_hash(cell.experiment)
        for name, found, expected in (
            ("id", record.id, cell.id),
            ("config_hash", record.config_hash, wanted),
            ("seed", record.seed, cell.experiment.seed),
            ("config.seed", record.config.get("seed", record.seed), cell.experiment.seed),
            ("config", self._hashes[cell.id], wanted),
        ):
            if found is not None and found != expected:
                raise InputError(
                    f"{where}: {name}: expected {expected}, as declared, got {found}. The record was changed by "
                    "hand or moved: restore it, or remove it to run again."
                )


def whole_seeds(runs: Sequence[DeclaredRun]) -> tuple[DeclaredRun, ...]:
    """Return the runs of a sweep published in part, with only those that count: of seeds that all arms have.

    Arms are compared within a corpus and family, so seeds are counted there. Where fewer than three are whole, nothing
    is set aside: arms with a hole are not compared. A failed run is no reason to leave its seed out.
    """
    seeds: dict[tuple[str, str], dict[int, bool]] = {}
    for run in (one for one in runs if one.state != "inapplicable"):
        whole = seeds.setdefault(_pair(run), {})
        seed = run.experiment.seed
        whole[seed] = whole.get(seed, True) and run.state not in ("missing", "started")
    short = {pair for pair, whole in seeds.items() if sum(whole.values()) < FEWEST}

    def marked(run: DeclaredRun) -> DeclaredRun:
        if run.state == "inapplicable" or _pair(run) in short or seeds[_pair(run)][run.experiment.seed]:
            return run
        return replace(run, record=None, state=SET_ASIDE if run.record else run.state, counts=False)

    return tuple(map(marked, runs))


def _pair(run: DeclaredRun) -> tuple[str, str]:
    return run.experiment.data.name, run.experiment.model.family


def primary(spec: Spec) -> str:
    """The score that decides, as `split/metric`."""
    return "/".join(spec.metric)


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _rehashed(record: Record) -> str | None:
    """The hash of the record's configuration; None for one that today's fields no longer take."""
    try:
        return config_hash(Experiment.model_validate(record.config))
    except ValidationError:
        return None


def differences(
    cells: Iterable[tuple[str, str, Record]], facts: Callable[[Record], Mapping[str, Any]]
) -> Iterator[str]:
    """Yield one line for each fact in which compared runs differ.

    Args:
        cells: (facet, place, record) of each run.
        facts: the facts that the runs of a facet must share. Signatures of scores are those of all facets.
    """
    first: dict[tuple[str, str], tuple[Any, str]] = {}
    for facet, where, record in cells:
        for name, value in facts(record).items():
            usual, there = first.setdefault(("" if name.startswith("scores.") else facet, name), (value, where))
            if value != usual:
                yield (
                    f"{where}: {name}: {value}, and {there} has {usual}; they can't be compared: run one of them again"
                )


def _compared_facts(record: Record) -> dict[str, Any]:
    """Collect what no comparison may mix: files of data, and signatures of scores, with the version of sacreBLEU."""
    facts = {f"data.files.{name}": digest for name, digest in (record.data.files if record.data else {}).items()}
    signed = [s for s in record.scores if s.hypotheses is not None or s.metric in ("bleu", "chrf")]
    return facts | {f"scores.{s.metric}.signature": s.signature for s in signed}


def published_facts(record: Record) -> dict[str, Any]:
    """Collect what published runs of a comparison share: the same, and machine, packages, precision and subwords."""
    facts = _compared_facts(record)
    if data := record.data:
        facts |= {"data.version": data.version, "data.subwords": data.subwords}
    if made := record.provenance:
        facts |= {f"provenance.packages.{name}": made.packages.get(name) for name in PACKAGES}
        facts["provenance.precision"] = made.precision
        for name in ("device", "device_count", "threads"):
            values = made.of_calls(name)
            if values != [None]:  # older records do not say with how many threads
                facts[f"provenance.{name}"] = ", then ".join(map(str, values))
    return facts


def _check_score(record: Record, name: str, where: str) -> None:
    split, metric, *subset = name.split("/", 2)
    wanted = (split, metric, subset[0] if subset else None)
    if not any((s.split, s.metric, s.subset) == wanted for s in record.scores):
        there = sorted({f"{s.split}/{s.metric}" for s in record.scores if s.subset is None})
        raise InputError(
            f"{where}: scores: expected {name}, the metric of the sweep, got a record with "
            f"{', '.join(there) or 'no scores'}. Correct the metric, or run it again."
        )


def sentence_tests(results: Path) -> dict[SentenceKey, SentenceTest]:
    """Return the tests over sentences of a results folder; none where there is no file.

    Raises:
        InputError: the file is damaged.
    """
    path, found = results / TESTS, {}
    if path.is_file():
        try:
            for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines()):
                ends = (float(row["low"]), float(row["high"])) if row["low"] else None
                found[row["metric"], row["arm"], row["baseline"]] = SentenceTest(
                    tuple(map(float, row["p"].split())), ends
                )
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            mend = "Remove the file and run `study reproduce`."
            raise InputError(f"{path}: expected numbers, got others ({problem}). {mend}") from None
    return found


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
