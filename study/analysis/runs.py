"""Declared runs of sweeps in one table; arms are found by the fields of their experiments.

A run that is not there is a row, too.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from study.analysis import measures
from study.analysis.inference import Arm
from study.analysis.measures import Measure
from study.config import Experiment, config_hash, trained
from study.config.overrides import flat
from study.errors import InputError
from study.folders import SWEEPS
from study.scores.metrics import is_diagnostic
from study.store.folder import Store
from study.store.rows import arm_of
from study.sweep.fields import text
from study.sweep.spec import Cell, Spec, load

if TYPE_CHECKING:
    import pandas as pd

HOLES = ("missing", "started", "failed")
"""States that leave a declared run without a result. `diverged` is a result, `inapplicable` no run."""
SCORED = ("finished", "diverged")
"""States with scores that count."""
MADE = (*SCORED, "failed")
"""States of runs with a record."""
PACKAGES = ("torch", "numpy", "sacrebleu", "sentencepiece")
"""Packages that decide numbers."""
SHARED = "model.attention."
VALID_LOSS = "valid_loss"
Parts = dict[str | None, float | None]
"""Values of one score of one run by subset; None: the whole split."""
Overrides = Mapping[str, Any]
"""Field ↦ value, such as `model.attention.scale: none`."""


class DeclaredRun(NamedTuple):
    """One declared cell of a sweep: finished, diverged, failed, started, missing or inapplicable.

    Attributes:
        id: empty for a cell that is no experiment.
        note: why a cell is no experiment.
    """

    facet: str
    arm: str
    seed: Any
    id: str
    state: str
    note: str
    cell: Cell


@dataclass(frozen=True)
class ArmRuns:
    """One arm in one corpus and family: an experiment without its seed, and a run for each seed.

    Attributes:
        label: the arm's label in its sweep.
    """

    key: str
    label: str
    runs: Sequence[DeclaredRun] = field(repr=False)

    @property
    def experiment(self) -> Experiment:
        """The experiment of its first run."""
        experiment = self.runs[0].cell.experiment
        assert experiment is not None
        return experiment

    @property
    def pair(self) -> tuple[str, str]:
        """Its corpus and family."""
        return self.experiment.data.name, self.experiment.model.family

    @cached_property
    def fields(self) -> dict[str, Any]:
        """Every field of the experiment by its dotted name, without the seed; a value of the sweep as the sweep has it.

        One that has the same value in all attention sites is also there without the site.
        """
        fields = dict(flat(self.experiment.model_dump()))
        by_site: dict[str, list[Any]] = {}
        for name, value in fields.items():
            if name.startswith(SHARED):
                by_site.setdefault(name.removeprefix(SHARED).partition(".")[2], []).append(value)
        for name, values in by_site.items():
            if len(set(map(repr, values))) == 1:
                fields[SHARED + name] = values[0]
        fields |= self.runs[0].cell.overrides
        fields.pop("seed", None)
        return fields

    @cached_property
    def trained(self) -> str:
        """What decides the training of its runs (`study.config.trained`)."""
        return trained(self.experiment)

    def has(self, chosen: Overrides) -> bool:
        """Return True if the arm has these values. True is no 1."""
        return all(
            name in self.fields and (type(self.fields[name]) is bool, self.fields[name]) == (type(value) is bool, value)
            for name, value in chosen.items()
        )


class Runs:
    """The runs of all sweeps that have records in one folder.

    Args:
        folder: the records: `runs/` or `results/`.
        sweeps: the sweep files that are found by name.
    """

    def __init__(self, folder: Path, sweeps: Path = Path()) -> None:
        self.folder, self.sweeps = folder, sweeps
        self.store = Store(folder)
        self._specs: dict[Path, Spec] = {}
        self._declared: dict[Path, tuple[DeclaredRun, ...]] = {}
        self._arms: dict[Path, list[ArmRuns]] = {}
        self._scored: dict[tuple[str, str], dict[str, Parts]] = {}

    def spec(self, name: str, beside: Path = Path()) -> Spec:
        """Return a sweep by the name of its file, or by a path relative to the folder `beside`.

        Raises:
            InputError: there is no such sweep, or it is none.
        """
        path = beside / name
        if not name.endswith((".yaml", ".yml")):
            places = [folder / f"{name}.yaml" for folder in (self.sweeps, SWEEPS)]
            path = next(filter(Path.is_file, places), places[0])
        if path not in self._specs:
            self._specs[path] = load(path)
        return self._specs[path]

    def of(self, spec: Spec) -> tuple[DeclaredRun, ...]:
        """Return every declared cell of a sweep, in the order of the file.

        A sweep of the study that is not published has not run, although published sweeps may share some of its runs.

        Raises:
            InputError: the folder is absent, or a record cannot be read, is not of the cell that its name says, lacks
                the deciding score, or was made from other data or scored by another scorer than its neighbours.
        """
        if not self.folder.is_dir():
            remedy = f"`study sweep {shlex.quote(str(spec.path))}` makes it; --runs names another."
            raise InputError(f"{self.folder}: no such folder of runs. {remedy}")
        if spec.path not in self._declared:
            sweeps = self.store.manifest["sweeps"] if self.store.published else ()
            published = not sweeps or spec.path.parent not in (self.sweeps, SWEEPS) or spec.name in sweeps
            runs = tuple(self._run(spec, cell, published) for cell in spec.cells)
            if not self.store.published:
                records = (
                    (run.facet, self.store.where(run.id), self._tree(run.id)) for run in runs if run.state in MADE
                )
                for problem in differences(records):
                    raise InputError(problem)
            self._declared[spec.path] = runs
        return self._declared[spec.path]

    def declared(self, spec: Spec, metrics: Sequence[str] = ()) -> pd.DataFrame:
        """Return one row for each declared cell of a sweep, in the order of the file.

        Columns: facet, arm, seed, id, state, note (an error, or why a cell is no experiment), those of
        `measures.FACTS`, rule, device, and one for each metric (the sweep's own and `metrics`, `split/metric` or
        `split/metric/subset`). NaN: no such value.

        Raises:
            InputError: see `of`; or a record has no number where one belongs.
        """
        import pandas as pd

        runs = self.of(spec)
        rows = []
        for run in runs:
            facts = measures.facts(self._tree(run.id)) if run.state in MADE else {}
            rows.append(run._asdict() | facts)
        columns = [*DeclaredRun._fields[:-1], *measures.FACTS, "rule", "device"]
        frame = pd.DataFrame(rows, columns=columns)
        frame = frame.fillna({"rule": "", "device": ""}).astype(dict.fromkeys(measures.FACTS, float))
        for name in dict.fromkeys([*spec.metrics.values(), *metrics]):
            values = [self.score(run.id, name) for run in runs]
            frame[name] = pd.Series(values, dtype=float).where(frame["state"].isin(SCORED))
        return frame

    def arms(self, spec: Spec) -> list[ArmRuns]:
        """Return the arms of a sweep as listed, those of all facets; cells that are no experiments left out.

        Raises:
            InputError: see `of`.
        """
        if spec.path not in self._arms:
            arms: dict[str, list[DeclaredRun]] = {}
            for run in self.of(spec):
                if run.id:
                    arms.setdefault(arm_of(run.id), []).append(run)
            self._arms[spec.path] = [ArmRuns(key, runs[0].arm, runs) for key, runs in arms.items()]
        return self._arms[spec.path]

    def named_arms(self, sweeps: Sequence[str], corpus: str, family: str, beside: Path = Path()) -> tuple[ArmRuns, ...]:
        """Return the arms of sweeps in one corpus and family, each once, in the order in which they are listed.

        An arm that several sweeps have has the runs of all.

        Raises:
            InputError: see `spec` and `of`; or the sweeps are of different protocols, whose runs are not compared.
        """
        arms: dict[str, list[ArmRuns]] = {}
        protocols: set[frozenset[int]] = set()
        for name in sweeps:
            listed = [arm for arm in self.arms(self.spec(name, beside)) if arm.pair == (corpus, family)]
            for arm in listed:
                arms.setdefault(arm.trained, []).append(arm)
            if listed:
                protocols.add(frozenset(arm.experiment.protocol for arm in listed))
        if len(protocols) > 1:
            raise InputError("with_sweeps: expected sweeps of one protocol, got several. Ask of each on its own.")
        return tuple(chain.from_iterable(map(self._joined, arms.values())))

    def _joined(self, arms: Sequence[ArmRuns]) -> list[ArmRuns]:
        """Return arms that were trained alike as one, with a run for each seed.

        Arms that differ in the choice of the tested update count as one for runs that were tested at their last update.
        The arm is named after the one that is always tested there. Runs that were tested earlier stay apart.
        """
        if len(arms) == 1:
            return list(arms)
        arms = sorted(arms, key=lambda arm: arm.fields["training.select"] != "last")
        same_key = len({arm.key for arm in arms}) == 1
        joined: dict[Any, DeclaredRun] = {}
        early: list[DeclaredRun] = []
        for arm in arms:
            for run in arm.runs:
                if same_key or arm.fields["training.select"] == "last" or self.tested_last(run):
                    joined.setdefault(run.seed, run)
                else:
                    early.append(run)
        whole = replace(arms[0], runs=[joined[seed] for seed in sorted(joined)])
        rest = [run for run in early if run.seed not in joined]
        return [whole, replace(arms[-1], runs=rest)] if rest else [whole]

    def tested(self, identity: str) -> int | None:
        """Return the update whose weights were tested; None without one."""
        if self.store.published:
            step: int | None = self.store.facts[identity]["selected_step"]
            return step
        selection = self.store.record(identity).selection
        return selection.step if selection else None

    def updates(self, arms: Iterable[Arm]) -> dict[int, int]:
        """Return the updates at which the runs of arms were tested, in order, with their numbers of runs."""
        counts: Counter[int] = Counter()
        for arm in arms:
            for identity in arm.runs:
                update = self.tested(identity)
                if update is not None:
                    counts[update] += 1
        return dict(sorted(counts.items()))

    def last_loss(self, arm: Arm) -> Arm:
        """Return the smoothed loss per token on validation at the last update of published runs, by place."""
        curves = self.store.curves
        losses = curves[curves["name"].eq(VALID_LOSS) & curves["id"].isin(arm.runs)].sort_values("step")
        last = losses.groupby("id")["value"].last()
        return replace(arm, values={place: float(last[identity]) for place, identity in enumerate(arm.runs)})

    def tested_last(self, run: DeclaredRun) -> bool:
        """Return True if a run was tested at its last update."""
        experiment = run.cell.experiment
        return run.state in SCORED and experiment is not None and self.tested(run.id) == experiment.training.steps

    def values(self, arm: ArmRuns, measure: Measure) -> Arm:
        """Return the values of one arm by seed; no values where a run has null for it.

        Raises:
            InputError: a record cannot be used (see `of`), or lacks the number.
        """
        values: dict[int, float] = {}
        scored = []
        diverged = 0
        meaningless = False
        for run in arm.runs:
            if run.state in SCORED:
                scored.append(run.id)
            if run.state == "diverged":
                diverged += 1
            elif run.state == "finished":
                value = self.value(run.id, measure)
                if value is None:
                    meaningless = True
                else:
                    values[run.seed] = value
        holes = len(arm.runs) - len(scored)
        return Arm(arm.key, {} if meaningless else values, diverged, holes, tuple(scored), arm.label)

    def value(self, identity: str, measure: Measure) -> float | None:
        """Return one number of a run; None where the record says null: it means nothing in this run.

        Raises:
            InputError: the record has no such score or diagnostic.
        """
        metric = measure.metric
        try:
            if is_diagnostic(metric):
                return measures.diagnostic(self._tree(identity), metric)
            return measure.of(self.scored(*metric.split("/")[:2])[identity])
        except KeyError:
            raise InputError(f"{self.store.where(identity)}: expected {metric}, got a record without it.") from None

    def score(self, identity: str, metric: str) -> float | None:
        """Return a score of a run by `split/metric` or `split/metric/subset`; None without it."""
        split, score, *subset = metric.split("/", 2)
        return self.scored(split, score).get(identity, {}).get(subset[0] if subset else None)

    def scored(self, split: str, score: str) -> dict[str, Parts]:
        """Return the values of one score by run and subset."""
        if (split, score) not in self._scored:
            scores = self._scored[split, score] = {}
            for identity, _, _, subset, value in self.store.scores_of([score], split):
                scores.setdefault(identity, {})[subset] = value
        return self._scored[split, score]

    def _run(self, spec: Spec, cell: Cell, published: bool) -> DeclaredRun:
        """Return a cell with the state of its run. Working records are checked; `study verify` checks others."""
        e, store = cell.experiment, self.store
        seed, state = (e.seed, "missing") if e else (cell.overrides.get("seed"), "inapplicable")
        run = DeclaredRun(cell.facet, cell.arm, seed, cell.id, state, cell.reason, cell)
        if e is None or not published:
            return run
        if store.published:
            state = store.facts.get(cell.id, {}).get("status", state)
        elif (state := store.state(cell.id)) in MADE:
            record = store.record(cell.id)
            for name, expected in {"id": cell.id, "config_hash": config_hash(e), "seed": e.seed}.items():
                value = getattr(record, name)
                if value != expected:
                    problem = f"{store.where(cell.id)}: {name}: expected {expected}, as declared, got {value}."
                    remedy = "The record was changed by hand or moved: restore it, or remove it to run again."
                    raise InputError(f"{problem} {remedy}")
        if state == "finished":
            self.value(cell.id, Measure(spec.metrics[cell.facet]))
        return run._replace(state=state)

    def _tree(self, identity: str) -> dict[str, Any]:
        """Return a record as plain data; of a published run without history, and scores only of a pruning."""
        if not self.store.published:
            return self.store.record(identity).model_dump(mode="json")
        tree = self.store.rest(identity)
        return tree | {"scores": self.store.score_rows(identity) if tree["config"].get("pruning") else []}


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
        for name, value in _compared(tree, published):
            scope = "" if name.startswith("scores.") else facet
            usual, place = first.setdefault((scope, name), (value, where))
            if value != usual:
                remedy = "they can't be compared: run one of them again"
                yield f"{where}: {name}: {value}, and {place} has {usual}; {remedy}"


def _compared(tree: Mapping[str, Any], published: bool) -> Iterator[tuple[str, Any]]:
    data = tree["data"] or {}
    provenance = tree["provenance"]
    for name, digest in (data.get("files") or {}).items():
        yield f"data.files.{name}", digest
    for score in tree["scores"]:
        if score["hypotheses"] is not None or score["metric"] in ("bleu", "chrf"):
            yield f"scores.{score['metric']}.signature", score["signature"]
    if published and data:
        yield "data.version", data["version"]
        yield "data.subwords", data["subwords"]
    if published and provenance:
        for name in PACKAGES:
            yield f"provenance.packages.{name}", provenance["packages"].get(name)
        yield "provenance.precision", provenance["precision"]
        for name in ("device", "device_count", "threads"):
            values = list(dict.fromkeys(call.get(name) for call in provenance.get("calls") or [provenance]))
            if name == "device" and provenance["deterministic"]:
                values = ["one thread of a processor"]
            if values != [None]:  # older records do not say with how many threads
                yield f"provenance.{name}", ", then ".join(map(str, values))


def matching(arms: Sequence[ArmRuns], chosen: Overrides) -> list[ArmRuns]:
    """Return the arms that have these values."""
    return [arm for arm in arms if arm.has(chosen)]


def find_levels(arms: Sequence[ArmRuns], chosen: Overrides, *over: str) -> dict[tuple[Any, ...], ArmRuns]:
    """Return the arms that have these values by the values of the fields `over`, in the order of those values.

    Raises:
        InputError: there is none, or two that differ in anything else.
    """
    fitting = matching(arms, chosen)
    words = " ".join(f"{name}={text(value)}" for name, value in chosen.items())
    if not fitting:
        values = []
        for name in chosen:
            listed = dict.fromkeys(text(arm.fields[name]) for arm in arms if name in arm.fields)
            values.append(f"{name} is {', '.join(listed) or 'nowhere'}")
        raise InputError(f"no arm has {words}. In these sweeps {'; '.join(values)}.")
    levels: dict[tuple[Any, ...], ArmRuns] = {}
    for arm in fitting:
        first = levels.setdefault(tuple(arm.fields.get(name) for name in over), arm)
        if first is not arm:
            names = dict.fromkeys([*first.runs[0].cell.overrides, *arm.runs[0].cell.overrides])
            apart = [n for n in names if n not in chosen and repr(first.fields.get(n)) != repr(arm.fields.get(n))]
            raise InputError(
                f"expected one arm, got several with {words or 'nothing given'}. They differ in {', '.join(apart)}. "
                "Add one of these fields."
            )
    if over and len(fitting) < 2:
        raise InputError(f"over: expected several values of {' and '.join(over)}, got one arm with {words}.")
    try:
        return dict(sorted(levels.items()))
    except TypeError:
        raise InputError(f"over: expected values of {' and '.join(over)} in all arms, got none in some.") from None
