"""Verification of published results: every file, every declared run, and on request what is in the records.

Hashes find a file that was changed without its hash, and the root hash that README.md prints finds what was changed
with all hashes. Identities take seconds: each record has its SHA-256; its hash, id, seed and protocol follow from its
configuration; its commit is in the history; no run is a copy of another. To examine records takes minutes: all of them,
or a part that a text draws. Numbers of a record have to agree with each other, and its translations are scored again.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from study.errors import InputError
from study.folders import MANIFEST
from study.publish.checkout import history
from study.publish.evidence import examine_all, identify, trained_alike
from study.store.folder import Store, sha256
from study.store.manifest import GENERATED, Results, shipped
from study.store.records import Record
from study.sweep.spec import load

RESTORE = "Restore what was published."


@dataclass
class Verification:
    """Result of a verification."""

    problems: list[str] = field(default_factory=list)
    """Empty if everything agrees."""
    summary: dict[str, str] = field(default_factory=dict)
    """What was checked, and what was not."""

    def lines(self) -> Iterator[str]:
        """Yield the summary, then the problems."""
        width = max(map(len, self.summary), default=0)
        yield from (f"{name:<{width}}  {text}" for name, text in self.summary.items())
        yield from (f"  {problem}" for problem in self.problems)


def verify(
    results: Results,
    rescore: int | None = None,
    drawn_by: str = "",
    told: Callable[[int, int], None] = lambda done, total: None,
    sources: bool = False,
) -> Verification:
    """Check a folder of published results.

    Args:
        results: the folder.
        rescore: score the translations of one in so many runs again, 1 for all; None: of none.
        drawn_by: the text that draws these runs, such as a commit's hash; empty: the root hash.
        told: called with the number of runs that were scored again, and of all that will be.
        sources: leave out the files that are computed from the others.

    Raises:
        InputError: there is no such folder, or nothing is published in it, or its manifest cannot be read.
    """
    if not results.manifests:
        raise InputError(
            f"{results.root}: expected published results, got none. "
            "Run `study publish SWEEP`, or name another folder with --results."
        )
    report, store = Verification(), results.store
    _check_files(results, sources, report)
    try:
        status = {identity: str(facts["status"]) for identity, facts in store.facts.items()}
        states = ", ".join(f"{count} {state}" for state, count in sorted(Counter(status.values()).items()))
        report.summary["sweeps"] = f"{len(results.manifests)}; runs: {states or 'none'}"
        report.problems += _declared(results, status, report.summary)
        report.problems += _identified(store, report.summary)
        report.summary["translations"] = "not scored again; `study verify --rescore` does"
        if rescore:
            ids, without = drawn(store.ids(), rescore, drawn_by or results.root_hash), 0
            told(0, len(ids))
            for done, (problems, at_hand) in enumerate(examine_all(store, ids), 1):
                report.problems += problems
                without += not at_hand
                told(done, len(ids))
            report.summary["translations"] = f"those of {len(ids)} runs scored again, {without} without references"
    except InputError as problem:  # a table that cannot be read
        report.problems.append(str(problem))
    report.summary["differences"] = str(len(report.problems) or "none")
    return report


def _check_files(results: Results, sources: bool, report: Verification) -> None:
    """Compare the files with the manifest, and the manifest with the root hash that README.md prints."""
    checked = [name for name in results.manifest.files if not (sources and name.startswith(GENERATED))]
    report.summary["files"] = f"{len(checked)} have the SHA-256 of {MANIFEST}"
    for name, how in results.changed():
        if sources and name.startswith(GENERATED):
            continue
        expected = f"SHA-256: expected the files of {MANIFEST}, got {how} one. {RESTORE}"
        report.problems.append(f"{results.root / name}: {expected}")
    printed = results.printed_hash
    report.summary["root hash"] = "that of README.md" if printed else "not compared, since no README prints it"
    if not printed and results.manifest == shipped():
        report.summary["root hash"] = "that of this version of the package"
    if printed not in (None, results.root_hash):
        report.summary["root hash"] = "not that of README.md"
        report.problems.append(
            f"README.md: root hash: expected {results.root_hash}, that of {MANIFEST}, got {printed}. "
            "Restore what was changed. If sweeps were published since, run `study reproduce`."
        )


def _identified(store: Store, summary: dict[str, str]) -> Iterator[str]:
    """Yield records whose identity is wrong, commits that the history lacks, and runs that are copies of another."""
    commits = history(store.folder)
    owners: dict[tuple[str, ...], Record] = {}
    for identity in store.ids():
        yield from identify(store, identity)
        try:
            record = store.record(identity)
        except InputError:  # `identify` has said so
            continue
        for commit in record.provenance.of_calls("git_commit") if record.provenance and commits else ():
            if commit not in commits:
                expected = f"provenance.git_commit: expected one in the history of HEAD, got {commit}"
                yield f"{store.where(identity)}: {expected}. {RESTORE}"
        # The losses of the sentences are those of one run. A pruning has the history of the run that it prunes, and two
        # runs that differ in the choice of the tested update alone were trained alike.
        files = list(record.per_sentence.items())
        if record.history and not record.config.get("pruning"):
            files.append(("history", sha256(json.dumps(record.history).encode())))
        for file in files:
            owner = owners.setdefault(file, record)
            if owner is not record and not trained_alike(owner, record):
                yield f"{store.where(identity)}: {file[0]}: expected one of its own, got that of {owner.id}. {RESTORE}"
    summary["identities"] = "those of all records" + ("" if commits else ", but for commits: no whole git history here")


def drawn(ids: Sequence[str], parts: int, text: str) -> list[str]:
    """Return one of `parts` of the ids, rounded up: which, follows from the text alone."""
    order = sorted(ids, key=lambda identity: hashlib.sha256(f"{text} {identity}".encode()).digest())
    return sorted(order[: -(-len(order) // parts)])


def _declared(results: Results, status: dict[str, str], summary: dict[str, str]) -> Iterator[str]:
    """Yield declared runs that are missing or failed, runs that no sweep declares, and sweep files that changed."""
    declared: set[str] = set()
    for name, sweep in results.manifests.items():
        spec = load(results.file(name))
        then, now = (sweep.sweep_id, sweep.metric), (spec.sweep_id, spec.metric)
        if then != now:
            yield (
                f"{results.root / MANIFEST}: {name}: expected {now}, as in {sweep.file}, got {then}. "
                f"Restore {sweep.file}, or publish the sweep again."
            )
        ids = {cell.id for cell in spec.runnable}
        declared |= ids
        holes = {identity for identity in ids if status.get(identity, "failed") == "failed"}
        if sweep.partial:
            absent = len(ids - status.keys())
            summary[f"partial {name}"] = f"{absent} of its runs missing, as published ({sweep.partial.reason})"
            holes = holes - status.keys() - set(sweep.partial.missing)
        for hole in sorted(holes):
            got = status.get(hole, "none")
            yield f"{results.store.where(hole)}: expected a run, since sweep {name} declares it, got {got}. {RESTORE}"
    for stray in sorted(status.keys() - declared):
        yield f"{results.store.where(stray)}: expected a run of a published sweep, got a stray one. Remove it."
