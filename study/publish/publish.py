"""Publishing: checks of a sweep's runs, then copies from `runs/` to `results/`.

Everything is checked before the first file is written. Tables get a further part each, that of the runs after those of
their translations and scores, and the manifest is last, so that the next call completes one that was interrupted.
A published run is never changed: the same record is passed over, another one is refused.

Which commits may have made the runs: clean ones that HEAD contains, so that the code of every run can be checked out
from the published history. They need not be one commit, since an arm that several sweeps share is trained once: two
runs are of one experiment when configuration, `protocol` (raised by any fix that moves numbers), data and packages are
the same, and all four are checked. States of the code that differ are counted in the sweep's file and printed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from study import files
from study.analysis.runs import differences
from study.config import Experiment, plugins
from study.config.overrides import flat
from study.config.words import arm_words
from study.errors import InputError
from study.publish.checkout import Checkout
from study.publish.evidence import corpus_of, examine_all, hypothesis_files
from study.scores import scoring
from study.store import tables
from study.store.folder import ATTENTION, VALIDATIONS, Store
from study.store.manifest import Code, Partial, PublishedSweep, Results, write_manifest
from study.store.records import Record
from study.store.rows import COUNTS, CURVE, HYPOTHESES
from study.store.tables import NewRun
from study.sweep.spec import Spec


@dataclass(frozen=True)
class Published:
    """Result of publishing a sweep."""

    sweep: PublishedSweep
    states: dict[str, int]
    """Number of declared runs by state: finished, diverged, failed, missing."""
    new: int
    """Runs that were not published before."""
    kept: int
    """Runs that were, with the same bytes."""


def publish(spec: Spec, runs: Path, results: Results, reason: str | None = None) -> Published:
    """Publish the runs of a sweep.

    Args:
        spec: the sweep.
        runs: folder of the working runs.
        results: where to.
        reason: why it is published with runs missing or failed; None where none is.

    Raises:
        InputError: a run is missing, cannot be believed, does not compare with the others, or is published otherwise.
            Nothing is written then.
        OSError: the folder cannot be written. The same command does the rest.
    """
    checkout = Checkout(spec.path.resolve().parent)
    sweep_file = checkout.require_committed(spec.path)
    working, published = Store(runs), Store(results.root)
    stores: dict[str, Store] = {}
    missing: list[str] = []
    for cell in spec.runnable:
        identity = cell.id
        if identity in published:
            stores[identity] = published
        elif identity in working:
            stores[identity] = working
        else:
            missing.append(identity)
    new = [identity for identity, store in stores.items() if store is working]
    records = {identity: store.record(identity) for identity, store in stores.items()}
    _check_complete(spec, records, missing, reason)
    _check_unchanged(stores, working, published)
    _check_evidence(working, new)
    code = {name: _state_of_code(record, stores[name].where(name), checkout) for name, record in records.items()}
    _check_comparable(spec, stores)
    partial = None
    if reason:
        partial = Partial(reason=" ".join(reason.split()).rstrip("."), missing=missing)
    sweep = PublishedSweep(
        file=sweep_file,
        sweep_id=spec.sweep_id,
        metric=spec.metric,
        partial=partial,
        code=_states_of_code(records, code),
    )
    arms = {cell.id: arm_words(cell.arm) for cell in spec.runnable if cell.id in stores}
    results.root.mkdir(parents=True, exist_ok=True)
    files.clean(results.root, *filter(Path.is_dir, results.root.rglob("*")))
    tables.add(results.root, [_new_run(working, identity) for identity in new], {spec.name: arms})
    plugins.keep(results.root, (value for record in records.values() for _, value in flat(record.config)))
    write_manifest(results.root, {spec.name: sweep})
    statuses = [record.status for record in records.values()]
    states = {status: statuses.count(status) for status in ("finished", "diverged", "failed")}
    states["missing"] = len(missing)
    return Published(sweep, states, len(new), len(stores) - len(new))


def _check_complete(spec: Spec, records: Mapping[str, Record], missing: Sequence[str], reason: str | None) -> None:
    """Refuse a sweep with holes that nobody has given a reason for, and a reason without a hole."""
    failed = [identity for identity, record in records.items() if record.status == "failed"]
    if not records:
        raise InputError(f"{spec.path}: expected finished runs, got none. Make them with `study sweep {spec.path}`.")
    if reason is not None and not (reason.strip() and (missing or failed)):
        raise InputError("--partial: expected a reason, and missing or failed runs. Give the reason, or remove it.")
    if reason is None and (missing or failed):
        raise InputError(
            f"{spec.path}: {len(missing)} missing and {len(failed)} failed of {len(spec.runnable)} declared, such as "
            f"{[*missing, *failed][0]}. `study sweep {spec.path}` runs them; "
            '--partial "the reason" publishes without them.'
        )


def _check_unchanged(stores: Mapping[str, Store], working: Store, published: Store) -> None:
    """Refuse a working run whose published record differs."""
    for identity, store in stores.items():
        if store is published and identity in working and published.text(identity) != working.text(identity):
            raise InputError(
                f"{published.where(identity)}: expected that of {working.where(identity)}, got another. A published "
                "run is never replaced. Remove the new one, or withdraw the old one in a commit."
            )


def _check_evidence(working: Store, new: Sequence[str]) -> None:
    """Refuse new runs that do not agree with their files, translations or identities."""
    problems: list[str] = []
    for problems_of_run, _ in examine_all(working, new):
        problems += problems_of_run
    if len(problems) > 1:
        raise InputError(f"{problems[0]} (and {len(problems) - 1} more)")
    if problems:
        raise InputError(problems[0])


def _check_comparable(spec: Spec, stores: Mapping[str, Store]) -> None:
    """Refuse runs that differ in what published runs of a facet share."""
    runs = []
    for cell in spec.runnable:
        identity = cell.id
        if identity in stores:
            store = stores[identity]
            runs.append((cell.facet, store.where(identity), store.tree(identity)))
    for problem in differences(runs, published=True):
        raise InputError(problem)


def _state_of_code(record: Record, where: str, checkout: Checkout) -> str | None:
    """Return the state of the code that made a run; None for a failed run without a commit.

    Raises:
        InputError: uncommitted code made it, or commits that HEAD does not contain, or several states of the code.
    """
    provenance = record.provenance
    if record.status == "failed":
        return checkout.state(provenance.git_commit) if provenance and provenance.git_commit else None
    commits = provenance.of_calls("git_commit") if provenance else [None]
    clean = provenance is not None and provenance.git_dirty is False
    if provenance and provenance.calls and provenance.calls[0].from_step:  # its first call is not recorded
        clean = False
    states = {checkout.state(commit) if commit and checkout.reaches(commit) else None for commit in commits}
    if clean and len(states) == 1 and None not in states:
        return states.pop()
    if len(states) > 1:
        got = "others"
    elif clean:
        got = str(commits[0])
    else:
        got = f"{commits[0]} with uncommitted changes"
    raise InputError(
        f"{where}: provenance.git_commit: expected a clean commit in the history of HEAD for all of the run, got "
        f"{got}. Merge it (a shallow clone lacks it), or run it again from a clean tree."
    )


def _states_of_code(records: Mapping[str, Record], states: Mapping[str, str | None]) -> list[Code]:
    """Return the states of the code that decides numbers, that of most runs first."""
    commits: dict[str, list[str]] = {}
    for identity, record in records.items():
        state = states[identity]
        if state and record.provenance and record.provenance.git_commit:
            commits.setdefault(state, []).append(record.provenance.git_commit)
    code = [Code(state=state, commits=sorted(set(of_state)), runs=len(of_state)) for state, of_state in commits.items()]
    return sorted(code, key=lambda entry: (-entry.runs, entry.state))


def _new_run(store: Store, identity: str) -> NewRun:
    """Return a run to write, with all counts if its references are not shipped."""
    record = store.record(identity)
    hypotheses = hypothesis_files(record)
    contents: dict[str, bytes] = {}
    for name in (*record.per_sentence, *hypotheses, ATTENTION, CURVE, VALIDATIONS):
        content = store.content(identity, name)
        if content is not None:
            contents[name] = content
    counts: dict[str, dict[str, Sequence[int]]] = {}
    corpus = corpus_of(record)
    if corpus is not None:
        shipped = Experiment.model_validate(record.config | {"seed": record.seed}).data.shipped
        for name in hypotheses:
            split = name.removesuffix(HYPOTHESES)
            lines = contents[name].decode().split("\n")[:-1]
            table = scoring.counts(lines, corpus.splits[split])
            columns: dict[str, Sequence[int]] = dict(zip(COUNTS, zip(*table, strict=True), strict=True))
            columns["exact"] = [bool(count) for count in columns["exact"]]
            counts[split] = {"exact": columns["exact"]} if shipped else columns
    return NewRun(json.loads(store.text(identity)), contents, counts)
