"""Verification of published results: hashes, declared runs and, on request, the scores of each translation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from study.analysis.runs import differences, published_facts
from study.claims import costs
from study.errors import InputError
from study.publish import models, noise, supplement
from study.publish.evidence import Evidence, Task, examine_all
from study.publish.publish import check_provenance, from_commit
from study.publish.results import Code, Manifest, Results
from study.records import Record
from study.store import ARCHIVE, ATTENTION, Store
from study.sweep.spec import Spec


@dataclass
class Verification:
    """Result of a verification. `problems` is empty if everything agrees."""

    sweeps: int
    states: Counter[str]
    problems: list[str] = field(default_factory=list)
    partial: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Sweep ↦ number of missing runs, and the reason given."""
    hashed: int = 0
    """Files of translations whose SHA-256 is right."""
    rescored: int | None = None
    """Files of translations that were scored again; None: that was not asked for."""
    from_statistics: int = 0
    unchecked: Counter[str] = field(default_factory=Counter)
    unhashed: int = 0
    unprinted: str = ""
    """The root hash, where nothing prints one to compare it with."""
    costs: str = ""
    models: int = 0
    """Published models whose SHA-256 was taken again."""

    def lines(self) -> Iterator[str]:
        """Yield the summary, then the problems."""
        runs = ", ".join(f"{count} {state}" for state, count in sorted(self.states.items()))
        yield f"sweeps        {self.sweeps}; runs: {runs or 'none'}"
        for name, (missing, reason) in sorted(self.partial.items()):
            yield f"partial       {name}: {missing} of its runs missing, as published ({reason})"
        yield f"translations  {self.hashed} files have the SHA-256 of their record" + (
            "; `study verify --rescore` scores them again"
            if self.rescored is None
            else f"; {self.rescored} re-scored against references, {self.from_statistics} from stored statistics"
        )
        if self.models:
            yield f"models        {self.models}, whose SHA-256 is compared with {models.FILE}"
        if self.unchecked:
            metrics = ", ".join(f"{metric} {count}" for metric, count in sorted(self.unchecked.items()))
            yield f"not checked   {self.unchecked.total()} scores that need the model or the references: {metrics}"
        if self.unhashed:
            yield f"not checked   {self.unhashed} hashes of configurations that today's fields do not take"
        if self.unprinted:
            yield f"not checked   root hash {self.unprinted}: no file prints it. Run `study reproduce`."
        if self.costs:
            yield f"not checked   {self.costs}"
        yield f"differences   {len(self.problems) or 'none'}"
        yield from (f"  {problem}" for problem in self.problems)


def verify(
    results: Results,
    rescore: bool = False,
    processes: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Verification:
    """Check a folder of published results.

    Args:
        results: the folder.
        rescore: score every translation again, too.
        processes: how many to use (default: one a core).
        progress: called at once and then often, with the number of runs that are checked and the number of all.

    Raises:
        InputError: there is no such folder, nothing is published in it, or a sweep's own file cannot be read.
    """
    manifests, store = results.manifests, Store(results.runs)
    problems: list[str] = []
    ids = list(_readable(store, problems))
    if not manifests and not ids and not problems:
        raise InputError(
            f"{results.root}: expected published results, got none. "
            "Run `study publish SWEEP`, or name another folder with --results."
        )
    progress(0, len(ids))
    evidence = examine_all(
        Task(results.runs, published=True, rescore=rescore), ids, processes, lambda done: progress(done, len(ids))
    )
    made = {one.id: store.record(one.id) for one in evidence if one.status}
    found = Verification(len(manifests), Counter(record.status for record in made.values()), problems)
    found.rescored = 0 if rescore else None
    declared: set[str] = set()
    for manifest in manifests.values():
        declared |= _check_sweep(manifest, made, store, results, found)
    for one in evidence:
        _add(one, made.get(one.id), found)
    found.problems = list(
        dict.fromkeys(found.problems)
    )  # an archive that cannot be read is one problem of several runs
    digests = {name: (one, digest) for one in evidence for name, digest in one.digests.items()}
    found.problems += dict.fromkeys(_changed(declared, digests, results))  # a run may be of several sweeps
    found.problems += _strays(evidence, declared, results)
    found.problems += _other_roots(results)
    if not results.printed_hashes:
        found.unprinted = results.root_hash
    _check_costs(results, found)
    if rescore:
        found.problems += supplement.problems(results, evidence)
        found.problems += noise.problems(results, found.unchecked)
    try:
        found.models = len(models.listed(results))
        found.problems += [*models.model_problems(results), *models.map_problems(results)]
    except InputError as problem:
        found.problems.append(str(problem))
    return found


def _readable(store: Store, problems: list[str]) -> Iterator[str]:
    """Yield the ids of all runs. An arm whose file cannot be read is a problem, and the others are checked."""
    for arm in store.arms():
        try:
            yield from store.ids(arm)
            names = store.foreign(arm)
        except InputError as problem:
            problems.append(str(problem))
        else:
            for name in names:
                problems.append(
                    f"{store.folder / arm}{ARCHIVE}: {name}: expected files of runs in {arm}.json, got a stray file. "
                    "Remove it."
                )


def _other_roots(results: Results) -> Iterator[str]:
    """Yield files that print a root hash other than the manifests': a record and its hashes may be changed together."""
    root = results.root_hash
    for path, printed in results.printed_hashes.items():
        if printed != root:
            yield (
                f"{path}: root hash: expected {root[:12]}…, that of {results.root / 'sweeps'}, got {printed[:12]}…. "
                "Restore what was changed. If sweeps were published since, run `study reproduce`."
            )


def _check_costs(results: Results, found: Verification) -> None:
    """Check that the measured times are complete and name the measured code. The times cannot be checked."""
    try:
        measured = costs.read(results.benchmarks)
    except InputError as problem:
        found.problems.append(str(problem))
        return
    if measured is None:
        return
    if wrong := from_commit(measured.provenance, str(results.benchmarks / costs.FILE), "measure"):
        found.problems.append(wrong)
    found.costs = f"times of {len(measured.measured)} sites in {measured.processes} processes ({measured.machine})"


def _add(one: Evidence, record: Record | None, found: Verification) -> None:
    found.problems += one.problems
    if record and (problem := check_provenance(record, one.where)):
        found.problems.append(problem)
    found.hashed += one.hashed
    if found.rescored is not None:
        found.rescored += one.rescored
    found.from_statistics += one.from_statistics
    found.unchecked += one.unchecked
    found.unhashed += one.unhashed


def _check_sweep(
    manifest: Manifest, made: dict[str, Record], store: Store, results: Results, found: Verification
) -> set[str]:
    """The sweep file is the published one, and its runs are there or declared missing; the ids that it declares."""
    path = results.manifest_path(manifest.name)
    try:
        spec = results.spec(manifest)
    except InputError as problem:
        found.problems.append(f"{path}: file: {problem}")
        return set()
    for name, then, now in (
        ("name", manifest.name, spec.name),
        ("sweep_id", manifest.sweep_id, spec.sweep_id),
        ("metric", manifest.metric, "/".join(spec.metric)),
    ):
        if then != now:
            found.problems.append(
                f"{path}: {name}: expected {now}, as in {manifest.file}, got {then}. "
                f"Restore {manifest.file}, or publish the sweep again."
            )
    found.problems += _holes(spec, manifest, made, store, found)
    cells = [(spec.facet(c), store.where(c.id), made[c.id]) for c in spec.runnable if c.id and c.id in made]
    found.problems += differences(cells, published_facts)
    if other := _code(manifest.code, [record for _, _, record in cells]):
        found.problems.append(f"{path}: {other}")
    return {str(cell.id) for cell in spec.runnable}


def _holes(spec: Spec, manifest: Manifest, made: dict[str, Record], store: Store, found: Verification) -> Iterator[str]:
    """Yield declared runs that are absent and not declared missing, and failures in a whole sweep."""
    excused = set(manifest.partial.missing) if manifest.partial else set()
    absent = [str(cell.id) for cell in spec.runnable if not _there(store, str(cell.id))]
    if manifest.partial:
        found.partial[manifest.name] = (len(absent), manifest.partial.reason)
    for identity in absent:
        if identity not in excused:
            why = f"since sweep {manifest.name} declares it"
            yield f"{store.folder}: {identity}: expected a record, {why}, got none. Restore it."
    if manifest.partial is None:
        for cell in spec.runnable:
            if cell.id in made and made[cell.id].status == "failed":
                yield (
                    f"{store.where(cell.id)}: status: expected finished or diverged, since sweep {manifest.name} is "
                    "published as complete, got failed. Restore the record."
                )


def _there(store: Store, identity: str) -> bool:
    """Return True if a run has a record, or if its arm's file cannot be read, which is reported elsewhere."""
    try:
        return identity in store
    except InputError:
        return True


def _code(code: list[Code], records: list[Record]) -> str | None:
    """Check that the manifest lists the commits of its runs."""
    listed = {commit for one in code for commit in one.commits}
    made = {record.provenance.git_commit for record in records if record.provenance and record.provenance.git_commit}
    if other := sorted(listed ^ made):
        extra = "a listed commit without records" if other[0] in listed else "records of an unlisted commit"
        return (
            f"code.commits: expected the commits of its records, got {extra}, {other[0][:12]}. "
            "Restore the file, or publish the sweep again."
        )
    return None


def _changed(declared: set[str], digests: dict[str, tuple[Evidence, str]], results: Results) -> Iterator[str]:
    """Yield records and attention maps whose bytes were changed."""
    named: set[str] = set()
    for manifest in results.manifests.values():
        told = results.manifest_path(manifest.name)
        for name, digest in manifest.files.items():
            named.add(name)
            if name not in digests:
                if name.endswith(f".{ATTENTION}"):
                    yield f"{results.runs}: {name}: expected a file, since {told} names it, got none. Restore it."
            elif digests[name][1] != digest:
                where = f"{digests[name][0].where}: " + (f"{ATTENTION}: " if name.endswith(f".{ATTENTION}") else "")
                yield f"{where}SHA-256: expected the one in {told}, got another. Restore what was published."
    for name, (one, _) in digests.items():
        if one.id in declared and name not in named:
            yield f"{one.where}: {name}: expected its SHA-256 in a published sweep, got none. Publish its sweep again."


def _strays(evidence: list[Evidence], declared: set[str], results: Results) -> Iterator[str]:
    """Yield records that no published sweep declares, and files that do not belong to the store."""
    for one in evidence:
        if one.id not in declared:
            yield f"{one.where}: expected a run of a published sweep, got a stray one. Publish its sweep, or remove it."
    expected = {results.runs / f"{arm}{end}" for arm in results.store.arms() for end in (".json", ARCHIVE)}
    known = {results.manifest_path(name) for name in results.manifests}
    for folder, kept in ((results.runs, expected), (results.root / "sweeps", known)):
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if path not in kept:
                yield f"{path}: expected a published file, got a stray one. Publish its sweep again, or remove it."
