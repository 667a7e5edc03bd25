"""Publishing: checks of a sweep's runs, then copies from `runs/` to `results/`.

Everything is checked before the first file is written. Tables are replaced as wholes, that of the runs after those of
their translations and scores, and the manifest last, so that a call that was interrupted is completed by the next one.
A published run is never changed: the same bytes are passed over, other bytes are refused. Two calls at once write one
after the other.

Which commits may have made the runs: clean ones that HEAD contains, so that the code of every run can be checked out
from the published history. They need not be one commit, since an arm that several sweeps share is trained once: two
runs are of one experiment when configuration, `protocol` (raised by any fix that moves numbers), data and packages are
the same, and all four are checked. States of the code that differ are counted in the sweep's file and printed.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from study import files, rows, scoring
from study.analysis.runs import differences
from study.config import plugins
from study.config.words import arm_words
from study.errors import InputError
from study.publish import tables
from study.publish.evidence import examine, hypothesis_files, section_of
from study.publish.results import Code, Partial, PublishedSweep, Results, write_manifest
from study.publish.tables import NewRun
from study.records import Provenance, Record
from study.rows import CURVE, HYPOTHESES, STATISTICS
from study.store import ATTENTION, SENTENCES, Store
from study.sweep.spec import Spec
from study.tracking.view import MAPS

NAMED = 3
"""So many runs are named in a refusal, the rest counted."""


DECIDING = tuple(
    f"study/{name}" for name in ("attention", "config", "corpora", "models", "training", "pruning", "scoring.py")
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


@dataclass
class _Found:
    """The declared runs of a sweep: the store that has each record, and the ids without one."""

    stores: dict[str, Store] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    def record(self, identity: str) -> Record:
        return self.stores[identity].record(identity)

    def where(self, identity: str) -> str:
        return self.stores[identity].where(identity)


def publish(spec: Spec, runs: Path, results: Results, reason: str | None = None) -> Published:
    """Publish the runs of a sweep.

    Args:
        spec: the sweep.
        runs: folder of the working runs.
        results: where to.
        reason: why it is published with runs missing or failed; None where none is.

    Raises:
        InputError: a run is missing, cannot be believed, does not compare with the others, or is published otherwise;
            or the folder cannot be written. Nothing is written then, but in the last case.
    """
    checkout = Checkout(spec.path.resolve().parent)
    file = checkout.require_committed(spec.path)
    found = _find(spec, Store(runs), Store(results.root))
    _check_complete(spec, found, reason)
    fresh = [identity for identity, store in found.stores.items() if not store.published]
    if fresh and (problems := examine(Store(runs), fresh)):
        raise InputError(problems[0] + (f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""))
    made = [found.record(identity) for identity in found.stores]
    _check_commits(made, found, checkout)
    facets = {cell.id: spec.facet(cell) for cell in spec.runnable}
    trees = [(facets[one.id], found.where(one.id), found.stores[one.id].tree(one.id)) for one in made]
    for problem in differences(trees, published=True):
        raise InputError(problem)
    sweep = PublishedSweep(
        name=spec.name,
        file=file,
        sweep_id=spec.sweep_id,
        metric="/".join(spec.metric),
        partial=Partial(reason=" ".join(reason.split()).rstrip("."), missing=found.missing) if reason else None,
        code=_code(made, checkout),
    )
    arms = {cell.id: arm_words(spec.arm(cell)) for cell in spec.runnable if cell.id in found.stores}
    try:
        with tables.locked(results.root):  # another call may have published some of these runs by now
            store = Store(results.root)
            new = [run for identity in fresh if (run := _new(identity, found.stores[identity], store))]
            for folder in (results.root, results.root / SENTENCES):
                for left in files.leftovers(folder):
                    left.unlink(missing_ok=True)
            if new or spec.name not in results.manifests:
                tables.add(results.root, new, {spec.name: arms})
            plugins.keep(results.root, (value for one in made for value in plugins.values_of(one.config)))
            write_manifest(results.root, {spec.name: sweep})
    except OSError as problem:
        raise InputError(
            f"{results.root}: cannot be written ({problem.strerror}). Mend that; the same command does the rest."
        ) from None
    states = {state: sum(one.status == state for one in made) for state in ("finished", "diverged", "failed")}
    return Published(sweep, states | {"missing": len(found.missing)}, len(new), len(made) - len(new))


def _find(spec: Spec, working: Store, published: Store) -> _Found:
    """Return the working record of each declared run, else the published one."""
    found = _Found()
    for identity in (str(cell.id) for cell in spec.runnable):
        store = next((store for store in (working, published) if identity in store), None)
        if store is None:
            found.missing.append(identity)
        else:
            found.stores[identity] = store
    return found


def _check_complete(spec: Spec, found: _Found, reason: str | None) -> None:
    failed = [identity for identity in found.stores if found.record(identity).status == "failed"]
    holes = [text for text in (_named("missing", found.missing), _named("failed", failed)) if text]
    if not found.stores:
        raise InputError(f"{spec.path}: expected finished runs, got none. Make them with `study sweep {spec.path}`.")
    if reason is not None and not reason.strip():
        raise InputError(
            "--partial: expected a reason, which the table prints, got an empty text. Say why runs are missing."
        )
    if holes and reason is None:
        raise InputError(
            f"{spec.path}: {'; '.join(holes)}, of {len(spec.runnable)} declared. `study sweep {spec.path}` runs them; "
            '--partial "the reason" publishes without them.'
        )
    if reason is not None and not holes:
        raise InputError(f"--partial: expected missing or failed runs of {spec.path}, got none. Remove --partial.")


def _named(what: str, ids: Sequence[str]) -> str:
    more = ", …" if len(ids) > NAMED else ""
    return f"{len(ids)} {what} ({', '.join(ids[:NAMED])}{more})" if ids else ""


def check_provenance(record: Record, where: str) -> str | None:
    """Return the problem with a run's provenance; None if there is none, or if the run failed and has no numbers."""
    return None if record.status == "failed" else from_commit(record.provenance, where)


def from_commit(made: Provenance | None, where: str, verb: str = "run") -> str | None:
    """Return the problem with a file's provenance: its commit is unknown, or uncommitted code made it."""
    if made is None or None in made.of_calls("git_commit") or (made.calls and made.calls[0].from_step):
        return (
            f"{where}: provenance.git_commit: expected a commit, got none. {verb.capitalize()} it again in a checkout."
        )
    if made.git_dirty is not False:
        return (
            f"{where}: provenance.git_dirty: expected False, got {made.git_dirty}, so the commit did not make it. "
            f"{verb.capitalize()} it again from a clean tree (`git worktree add` makes one)."
        )
    return None


def _check_commits(made: Sequence[Record], found: _Found, checkout: Checkout) -> None:
    reached: dict[str, bool] = {}
    for record in made:
        where = found.where(record.id)
        if problem := check_provenance(record, where):
            raise InputError(problem)
        commits = record.provenance.of_calls("git_commit") if record.provenance else []
        for commit in commits:
            if commit not in reached:
                reached[commit] = commit is None or checkout.reaches(commit)
            if not reached[commit]:
                raise InputError(
                    f"{where}: provenance.git_commit: expected a commit in the history of HEAD, got {commit[:12]}. "
                    "Merge it (a shallow clone lacks it), or run it again."
                )
        if len(commits) > 1 and len({checkout.state(commit) for commit in commits}) > 1:
            raise InputError(
                f"{where}: provenance.calls: expected one state of the code, got several. Run it again at one commit."
            )


def _code(made: Sequence[Record], checkout: Checkout) -> list[Code]:
    """Return the states of the code that decides numbers, that of most runs first."""
    commits = [commit for one in made if one.provenance and (commit := one.provenance.git_commit) is not None]
    known = {commit: checkout.state(commit) for commit in set(commits)}
    states: dict[str, list[str]] = {}
    for commit in commits:
        states.setdefault(known[commit], []).append(commit)
    code = [Code(state=state, commits=sorted(set(all_)), runs=len(all_)) for state, all_ in states.items()]
    return sorted(code, key=lambda one: (-one.runs, one.state))


def _new(identity: str, source: Store, published: Store) -> NewRun | None:
    """Return a run to write; None for one that is published.

    Raises:
        InputError: it is published with other bytes.
    """
    record, text = source.record(identity), source.text(identity)
    named = [*hypothesis_files(record), *record.per_sentence, ATTENTION]
    contents = {name: content for name in named if (content := source.content(identity, name)) is not None}
    if identity not in published:
        curves = {name: content for name in (CURVE, MAPS) if (content := source.content(identity, name)) is not None}
        statistics, exact = _counts(record, contents)
        return NewRun(json.loads(text), contents | curves | statistics, exact)
    there = {"record": published.text(identity).encode()} | {n: published.content(identity, n) for n in contents}
    if wrong := [name for name, content in ({"record": text.encode()} | contents).items() if there[name] != content]:
        raise InputError(
            f"{published.where(identity)}: {wrong[0]}: expected that of {source.where(identity)}, got another. "
            "A published run is never replaced. Remove the new one, or withdraw the old one in a commit of its own."
        )
    return None


def _counts(record: Record, contents: Mapping[str, bytes]) -> tuple[dict[str, bytes], dict[str, list[bool]]]:
    """Return files of counts, for references that are not shipped, and by split which translations are right."""
    section = section_of(record)
    corpus = section.read() if section is not None and section.at_hand() else None
    statistics, exact = {}, {}
    for name in hypothesis_files(record):
        split = name.removesuffix(HYPOTHESES)
        if corpus is None or section is None:
            continue
        columns = list(
            zip(*scoring.counts(contents[name].decode().split("\n")[:-1], corpus.splits[split]), strict=True)
        )
        exact[split] = [bool(one) for one in columns[1]]
        if not section.shipped and (content := rows.file_of(STATISTICS, columns)):
            statistics[split + STATISTICS] = content
    return statistics, exact


class Checkout:
    """A git checkout.

    Raises:
        InputError: the folder is in none.
    """

    def __init__(self, folder: Path) -> None:
        self.top = folder
        found = self._run("rev-parse", "--show-toplevel")
        if found is None:
            raise InputError(
                f"{folder}: expected a git checkout, which has the code of the runs, got none. Publish from a checkout."
            )
        self.top = Path(found)

    def require_committed(self, path: Path) -> str:
        """Return the file's path from the top.

        Raises:
            InputError: it is not in HEAD as it is here.
        """
        name = path.resolve().relative_to(self.top.resolve()).as_posix()
        tracked = self._run("ls-files", "--error-unmatch", "--", name) is not None
        if not tracked or self._run("status", "--porcelain", "--", name):
            raise InputError(f"{path}: expected a committed file, got changes. Commit it first.")
        return name

    def reaches(self, commit: str) -> bool:
        """Return True if HEAD is this commit or a descendant of it, so that a clone with HEAD can check it out."""
        return self._run("merge-base", "--is-ancestor", commit, "HEAD") is not None

    def state(self, commit: str) -> str:
        """8 hexadecimals that are the same for commits at which the same code decides numbers."""
        listing = self._run("ls-tree", commit, "--", *DECIDING, "requirements.lock") or ""
        return hashlib.sha256(listing.encode()).hexdigest()[:8]

    def changed(self, paths: Iterable[str]) -> list[str]:
        """Lines of `git status --porcelain` below these paths."""
        return (self._run("status", "--porcelain", "--untracked-files=all", "--", *paths) or "").splitlines()

    def _run(self, *arguments: str) -> str | None:
        """Run git and return its output; None if it fails."""
        try:
            done = subprocess.run(["git", *arguments], cwd=self.top, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return None
        return done.stdout.rstrip("\n")
