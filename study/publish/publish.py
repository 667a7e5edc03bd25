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

import hashlib
import json
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from study import files
from study.analysis.runs import differences
from study.config import Experiment, plugins
from study.config.overrides import flat
from study.config.words import arm_words
from study.errors import InputError
from study.publish.evidence import corpus_of, examine_all, hypothesis_files
from study.scores import scoring
from study.store import tables
from study.store.folder import ATTENTION, VALIDATIONS, Store
from study.store.manifest import Code, Partial, PublishedSweep, Results, write_manifest
from study.store.records import Record
from study.store.rows import COUNTS, CURVE, HYPOTHESES
from study.store.tables import NewRun
from study.sweep.spec import Spec

DECIDING = tuple(
    f"study/{name}"  # scoring.py until it moved
    for name in ("attention", "config", "corpora", "models", "training", "pruning", "scoring.py", "scores/scoring.py")
)
"""With requirements.lock: what decides a run's numbers."""


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
    file = checkout.require_committed(spec.path)
    working, published = Store(runs), Store(results.root)
    declared = [cell.id for cell in spec.runnable]
    stores: dict[str, Store] = {}
    for identity in declared:
        if identity in published:
            stores[identity] = published
        elif identity in working:
            stores[identity] = working
    old = [identity for identity, store in stores.items() if store is published]
    new = [identity for identity, store in stores.items() if store is working]
    missing = [identity for identity in declared if identity not in stores]
    records = {identity: store.record(identity) for identity, store in stores.items()}
    _check_complete(spec, records, missing, reason)
    for identity in old:
        if identity in working and published.text(identity) != working.text(identity):
            raise InputError(
                f"{published.where(identity)}: expected that of {working.where(identity)}, got another. A published "
                "run is never replaced. Remove the new one, or withdraw the old one in a commit."
            )
    problems: list[str] = []
    for of_run, _ in examine_all(working, new):
        problems += of_run
    if problems:
        raise InputError(problems[0] + (f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""))
    facets = {cell.id: cell.facet for cell in spec.runnable}
    states, compared = {}, []
    for identity, record in records.items():
        store = stores[identity]
        states[identity] = _state_of_code(record, store.where(identity), checkout)
        compared.append((facets[identity], store.where(identity), store.tree(identity)))
    for problem in differences(compared, published=True):
        raise InputError(problem)
    sweep = PublishedSweep(
        file=file,
        sweep_id=spec.sweep_id,
        metric="/".join(spec.metric),
        partial=Partial(reason=" ".join(reason.split()).rstrip("."), missing=missing) if reason else None,
        code=_code(records.values(), states),
    )
    arms = {cell.id: arm_words(cell.arm) for cell in spec.runnable if cell.id in records}
    results.root.mkdir(parents=True, exist_ok=True)
    files.clean(results.root, *filter(Path.is_dir, results.root.rglob("*")))
    tables.add(results.root, [_new(identity, working) for identity in new], {spec.name: arms})
    plugins.keep(results.root, (value for record in records.values() for _, value in flat(record.config)))
    write_manifest(results.root, {spec.name: sweep})
    counts = Counter(record.status for record in records.values())
    by_state = {state: counts[state] for state in ("finished", "diverged", "failed")} | {"missing": len(missing)}
    return Published(sweep, by_state, len(new), len(old))


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


def _state_of_code(record: Record, where: str, checkout: Checkout) -> str | None:
    """Return the state of the code that made a run; None for a failed run without a commit.

    Raises:
        InputError: uncommitted code made it, or commits that HEAD does not contain, or several states of the code.
    """
    provenance = record.provenance
    if record.status == "failed":
        return checkout.state(provenance.git_commit) if provenance and provenance.git_commit else None
    commits = provenance.of_calls("git_commit") if provenance else [None]
    clean = (
        provenance is not None
        and provenance.git_dirty is False
        and not (provenance.calls and provenance.calls[0].from_step)
    )
    states = {checkout.state(commit) if commit and checkout.reaches(commit) else None for commit in commits}
    if not clean or None in states or len(states) > 1:
        got = "others" if len(states) > 1 else f"{commits[0]}{'' if clean else ' with uncommitted changes'}"
        raise InputError(
            f"{where}: provenance.git_commit: expected a clean commit in the history of HEAD for all of the run, got "
            f"{got}. Merge it (a shallow clone lacks it), or run it again from a clean tree."
        )
    return states.pop()


def _code(records: Iterable[Record], states: Mapping[str, str | None]) -> list[Code]:
    """Return the states of the code that decides numbers, that of most runs first."""
    commits: dict[str, list[str]] = {}
    for record in records:
        if (state := states[record.id]) and record.provenance and record.provenance.git_commit:
            commits.setdefault(state, []).append(record.provenance.git_commit)
    code = [Code(state=state, commits=sorted(set(all_)), runs=len(all_)) for state, all_ in commits.items()]
    return sorted(code, key=lambda one: (-one.runs, one.state))


def _new(identity: str, source: Store) -> NewRun:
    """Return a run to write, with all counts if its references are not shipped."""
    record = source.record(identity)
    translated = hypothesis_files(record)
    contents = {}
    for name in (*record.per_sentence, *translated, ATTENTION, CURVE, VALIDATIONS):
        if (content := source.content(identity, name)) is not None:
            contents[name] = content
    shipped = Experiment.model_validate(record.config | {"seed": record.seed}).data.shipped
    counts: dict[str, dict[str, list[int]]] = {}
    if corpus := corpus_of(record):
        for name in translated:
            split = name.removesuffix(HYPOTHESES)
            sentences = scoring.counts(contents[name].decode().split("\n")[:-1], corpus.splits[split])
            columns = {key: list(values) for key, values in zip(COUNTS, zip(*sentences, strict=True), strict=True)}
            columns["exact"] = list(map(bool, columns["exact"]))
            counts[split] = {"exact": columns["exact"]} if shipped else columns
    return NewRun(json.loads(source.text(identity)), contents, counts)


class Checkout:
    """A git checkout.

    Raises:
        InputError: the folder is in none.
    """

    def __init__(self, folder: Path) -> None:
        self.top = folder
        top = self._run("rev-parse", "--show-toplevel")
        if top is None:
            raise InputError(
                f"{folder}: expected a git checkout, which has the code of the runs, got none. Publish from a checkout."
            )
        self.top = Path(top)
        self.reaches, self.state = cache(self._reaches), cache(self._state)

    def require_committed(self, path: Path) -> str:
        """Return the file's path from the top.

        Raises:
            InputError: it is not in HEAD as it is here.
        """
        name = path.resolve().relative_to(self.top.resolve()).as_posix()
        if self._run("ls-files", "--error-unmatch", "--", name) is None or self.changed([name]):
            raise InputError(f"{path}: expected a committed file, got changes. Commit it first.")
        return name

    def _reaches(self, commit: str) -> bool:
        """Return True if HEAD is this commit or a descendant of it, so that a clone with HEAD can check it out."""
        return self._run("merge-base", "--is-ancestor", commit, "HEAD") is not None

    def _state(self, commit: str) -> str:
        """8 hexadecimals that are the same for commits at which the same code decides numbers."""
        listing = self._run("ls-tree", commit, "--", *DECIDING, "requirements.lock") or ""
        return hashlib.sha256(listing.encode()).hexdigest()[:8]

    def changed(self, paths: Iterable[str]) -> list[str]:
        """Lines of `git status --porcelain` below these paths."""
        return (self._run("status", "--porcelain", "--untracked-files=all", "--", *paths) or "").splitlines()

    def commits(self) -> set[str]:
        """Return all commits of the history of HEAD; none in a shallow clone."""
        shallow = self._run("rev-parse", "--is-shallow-repository") != "false"
        return set() if shallow else set((self._run("rev-list", "HEAD") or "").split())

    def _run(self, *arguments: str) -> str | None:
        """Run git and return its output; None if it fails."""
        try:
            done = subprocess.run(["git", *arguments], cwd=self.top, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return None
        return done.stdout.rstrip("\n")


def history(folder: Path) -> set[str]:
    """Return all commits of the history that a folder stands in; none outside a checkout, and in a shallow clone."""
    try:
        return Checkout(folder.resolve().parent).commits()
    except InputError:
        return set()
