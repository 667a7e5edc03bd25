"""Declared runs: one row for each, with its record; a run that is not there is a row too. Each record is read once."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from study import store
from study.analysis import measures, prunings
from study.analysis.arms import ArmRuns
from study.analysis.inference import Arm
from study.analysis.measures import Measure
from study.config import Experiment, config_hash
from study.errors import InputError
from study.records import Record
from study.sweep.spec import Cell, Spec, load

if TYPE_CHECKING:
    import pandas as pd

HOLES = ("missing", "started", "failed")
"""States that leave a declared run without a result. `diverged` is a result, `inapplicable` no run."""

NUMBERS = ("valid_bleu", "entropy", "tokens_per_second", "freed", "heads", "with_one_head")


@dataclass(frozen=True)
class Run:
    """One declared cell of a sweep: finished, diverged, failed, started, missing or inapplicable.

    `record` is None unless the run is finished, diverged or failed.
    """

    cell: Cell = field(repr=False)
    facet: str
    arm: str
    state: str
    record: Record | None = field(default=None, repr=False)

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
        self._declared: dict[Path, tuple[Run, ...]] = {}
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
                raise InputError(f"there is no sweep {name} ({path}); those in {self.sweeps} are {there or 'none'}")
            self._specs[path] = load(path)
        return self._specs[path]

    def records(self) -> dict[str, Record]:
        """Every record of the folder by id, declared or not.

        Raises:
            InputError: one cannot be read.
        """
        return {identity: self.store.record(identity) for identity in self.store.ids()} if self.store else {}

    def of(self, spec: Spec) -> tuple[Run, ...]:
        """Every declared cell of a sweep, in the order of the file.

        Raises:
            InputError: the folder is absent, or a record cannot be read, is not of the cell that its name says, lacks
                the deciding score, or was made from other data or scored by another scorer than its neighbours.
        """
        if self.folder is not None and not self.folder.is_dir():
            file = shlex.quote(str(spec.path))
            raise InputError(f"{self.folder}: no such folder of runs; `study sweep {file}` makes one, --runs names it")
        if spec.path not in self._declared:
            facts: dict[str, dict[str, tuple[str, str]]] = {}
            self._declared[spec.path] = tuple(self._run(spec, cell, facts) for cell in spec.cells)
        return self._declared[spec.path]

    def table(self, spec: Spec, metrics: Sequence[str] = ()) -> pd.DataFrame:
        """One row for each declared cell of a sweep, in the order of the file.

        Columns: facet, arm, seed, id, state (finished, diverged, failed, started, missing, inapplicable), note (an
        error, or why a cell is no experiment), valid_bleu (0–100), entropy (0–1), tokens_per_second, freed, heads,
        with_one_head (of a pruning, see `prunings`), rule, device, and one column for each metric: the sweep's
        own and `metrics`, each named `split/metric` or `split/metric/subset`. NaN: no such value.

        Raises:
            InputError: see `of`; or a record has no number where one belongs.
        """
        import pandas as pd

        names = list(dict.fromkeys([primary(spec), *metrics]))
        return pd.DataFrame([self._row(run, names) for run in self.of(spec)])

    def values(self, arm: ArmRuns, measure: Measure | None) -> Arm:
        """The values of one arm by seed; no values without a measure, or where a run has null for it.

        Raises:
            InputError: a record cannot be used (see `of`), or lacks the number.
        """
        ids = {cell.id for cell in arm.cells.values()}
        runs = [run for run in self.of(arm.spec) if run.id in ids]
        finished = [run for run in runs if run.state == "finished" and measure is not None]
        values = {run.experiment.seed: self._value(run, measure) for run in finished if measure is not None}
        made = [run.record for run in runs if run.record and run.state in ("finished", "diverged")]
        bleu = [score for record in made if (score := validation_bleu(record)) is not None]
        return Arm(
            label=arm.key,
            values={} if None in values.values() else {seed: v for seed, v in values.items() if v is not None},
            diverged=sum(run.state == "diverged" for run in runs),
            holes=sum(run.state in HOLES for run in runs),
            valid_bleu=sum(bleu) / len(bleu) if bleu else None,
        )

    def _run(self, spec: Spec, cell: Cell, facts: dict[str, dict[str, tuple[str, str]]]) -> Run:
        """One cell with its record, checked."""
        facet, arm = spec.facet(cell), spec.arm(cell)
        if cell.experiment is None or cell.id is None:
            return Run(cell, facet, arm, "inapplicable")
        if self.store is None or cell.id not in self.store:
            return Run(cell, facet, arm, self.store.state(cell.id) if self.store else "missing")
        record, where = self.store.record(cell.id), self.store.where(cell.id)
        self._check_identity(record, cell, where)
        _check_facts(record, where, facts.setdefault(facet, {}))
        if record.status == "finished":
            _check_score(record, primary(spec), where)
        return Run(cell, facet, arm, record.status, record)

    def _row(self, run: Run, names: Sequence[str]) -> dict[str, Any]:
        row: dict[str, Any] = {"facet": run.facet, "arm": run.arm, "seed": None, "id": run.cell.id}
        row |= {"state": run.state, "note": ""} | dict.fromkeys((*NUMBERS, *names), math.nan)
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
                row |= {"valid_bleu": _number(validation_bleu(record)), "entropy": _number(entropy(record))}
            except (TypeError, ValueError) as problem:
                why = f"no number where one belongs ({problem})"
                mend = "restore the record, or run it again"
                raise InputError(f"{self._where(run)}: history or diagnostics: {why}; {mend}") from None
            row["freed"] = _number(prunings.free_heads(record))
            row["heads"] = _number(prunings.number_of_heads(record))
            row["with_one_head"] = _number(prunings.with_one_head(record))
            row["tokens_per_second"] = record.resources.tokens_per_second if record.resources else math.nan
        row["rule"] = record.selection.rule if record.selection else ""
        row["device"] = record.provenance.device if record.provenance else ""
        return row

    def _value(self, run: Run, measure: Measure) -> float | None:
        assert run.record is not None
        try:
            return measures.value(run.record, measure)
        except InputError as problem:
            raise InputError(f"{self._where(run)}: {problem}") from None

    def _where(self, run: Run) -> str:
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
                    f"{where}: {name}: {found}, and the run declared here has {expected}; the record was changed by "
                    "hand or moved: restore it, or remove it to run again"
                )


def primary(spec: Spec) -> str:
    """The score that decides, as `split/metric`."""
    return "/".join(spec.metric)


def entropy(record: Record, site: str = "cross") -> float | None:
    """Attention entropy of a site, 0–1: H(weights) / log(visible slots), the mean over layers and heads.

    0: every query looks at one slot; 1: at all alike. None where no head has one (a memory of one slot or none).
    """
    known = [value for value in _named(record.diagnostics.get(site, []), "entropy") if value is not None]
    return sum(known) / len(known) if known else None


def _named(tree: Any, name: str) -> Iterator[Any]:
    """Every value of that name in a site's diagnostics, through layers and heads."""
    for item in tree if isinstance(tree, list) else [tree]:
        if isinstance(item, list):
            yield from _named(item, name)
        elif isinstance(item, dict):
            yield from _named(item.get(name), name)
        else:
            yield item


def validation_bleu(record: Record) -> float | None:
    """BLEU on validation at the selected step, else at the last one that has any."""
    known = [point for point in record.history if point.get("valid_bleu") is not None]
    step = record.selection.step if record.selection else None
    chosen = [point for point in known if point.get("step") == step] or known[-1:]
    return float(chosen[-1]["valid_bleu"]) if chosen else None


def arms_of_rows(frame: pd.DataFrame, metric: str) -> list[Arm]:
    """The arms of one facet's rows of the table; cells that are no experiments left out.

    Raises:
        InputError: arms declare unequal lists of seeds.
    """
    out = []
    first: tuple[str, set[int]] | None = None
    for label, rows in frame[frame["state"] != "inapplicable"].groupby("arm", sort=False):
        seeds = {int(seed) for seed in rows["seed"]}
        first = first or (str(label), seeds)
        if seeds != first[1]:
            raise InputError(
                f"arm {label}: seeds {sorted(seeds)}, and arm {first[0]} has {sorted(first[1])}; "
                "a comparison needs the same list for every arm"
            )
        known = rows[rows[metric].notna()]
        if (rows[metric].isna() & (rows["state"] == "finished")).any():
            known = known[:0]
        bleu = rows["valid_bleu"].dropna()
        out.append(
            Arm(
                label=str(label),
                values={int(seed): float(value) for seed, value in zip(known["seed"], known[metric], strict=True)},
                diverged=int((rows["state"] == "diverged").sum()),
                holes=int(rows["state"].isin(HOLES).sum()),
                valid_bleu=float(bleu.mean()) if len(bleu) else None,
            )
        )
    return out


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _rehashed(record: Record) -> str | None:
    """The hash of the record's configuration; None for one that today's fields no longer take."""
    try:
        return config_hash(Experiment.model_validate(record.config))
    except ValidationError:
        return None


def _check_facts(record: Record, where: str, facts: dict[str, tuple[str, str]]) -> None:
    """One data checksum and one signature per score in a comparison."""
    now = {f"scores.{s.split}.{s.metric}.signature": s.signature for s in record.scores if s.metric in ("bleu", "chrf")}
    now |= {f"data.files.{name}": digest for name, digest in (record.data.files if record.data else {}).items()}
    for name, value in now.items():
        first, there = facts.setdefault(name, (str(value), where))
        if str(value) != first:
            raise InputError(
                f"{where}: {name}: {value}, and {there} has {first}; they can't be compared: run one of them again"
            )


def _check_score(record: Record, name: str, where: str) -> None:
    split, metric, *subset = name.split("/", 2)
    wanted = (split, metric, subset[0] if subset else None)
    if not any((s.split, s.metric, s.subset) == wanted for s in record.scores):
        there = sorted({f"{s.split}/{s.metric}" for s in record.scores if s.subset is None})
        raise InputError(
            f"{where}: scores: no {name}, which the sweep's metric names; "
            f"the record has {', '.join(there) or 'none at all'}"
        )
