"""`runs/` → `results/`: what a sweep's runs must show before they are published, and how they get there.

Everything is checked before the first file is written. Files appear whole, a record after the files that it names and
the sweep's own file last, so that a call that was interrupted is completed by the next one. A published run is never
changed: the same bytes are passed over, other bytes are refused.

Which commits may have made the runs: clean ones that HEAD contains, so that the code of every run can be checked out
from the published history. They need not be one commit, since an arm that several sweeps share is trained once: two
runs are of one experiment when configuration, `protocol` (raised by any fix that moves numbers), data and packages are
the same, and all four are checked. States of the code that differ are counted in the sweep's file and printed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from study import records
from study.errors import InputError
from study.publish import store as published
from study.publish.commits import Checkout
from study.publish.comparable import comparable
from study.publish.evidence import Evidence, examine_all
from study.publish.store import Code, Manifest, Partial, Results
from study.records import Provenance, Record
from study.sweep.spec import Spec

NAMED = 3
"""So many runs are named in a refusal, the rest counted."""


@dataclass(frozen=True)
class Published:
    """What a call did."""

    manifest: Manifest
    states: dict[str, int]
    """Of the declared runs: finished, diverged, failed, missing."""
    new: int
    """Runs that were not published before."""
    kept: int
    """Runs that were, with the same bytes."""


@dataclass
class _Found:
    """The declared runs of a sweep: where each record is, and who has none."""

    paths: dict[str, Path] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


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
    found = _find(spec, runs, results)
    _check_complete(spec, found, reason)
    evidence = examine_all(list(found.paths.values()))
    made = _believed(evidence)
    _check_commits(made, found, checkout)
    facets = {cell.id: spec.facet(cell) for cell in spec.runnable}
    for problem in comparable(spec.name, [(facets[one.id], found.paths[one.id], one) for one in made]):
        raise InputError(problem)
    manifest = Manifest(
        name=spec.name,
        file=file,
        sweep_id=spec.sweep_id,
        metric="/".join(spec.metric),
        partial=Partial(reason=" ".join(reason.split()), missing=found.missing) if reason else None,
        code=_code(made, checkout),
        files={name: digest for one in made for name, digest in results.digests(one.id, found.paths[one.id]).items()},
    )
    plans = [plan for one in evidence if (plan := _plan(one, results))]
    _write(plans, manifest, results)
    states = {state: sum(one.status == state for one in made) for state in ("finished", "diverged", "failed")}
    return Published(manifest, states | {"missing": len(found.missing)}, len(plans), len(made) - len(plans))


def _find(spec: Spec, runs: Path, results: Results) -> _Found:
    """The working record of each declared run, else the published one."""
    found = _Found()
    for identity in (str(cell.id) for cell in spec.runnable):
        places = (runs / identity / "record.json", results.record_path(identity))
        path = next((path for path in places if path.is_file()), None)
        if path is None:
            found.missing.append(identity)
        else:
            found.paths[identity] = path
    return found


def _believed(evidence: Sequence[Evidence]) -> list[Record]:
    """The records, if there is nothing wrong with any."""
    problems = [problem for one in evidence for problem in one.problems]
    problems += [
        f"{one.path}: config: no configuration of this program; publish with the one that made it"
        for one in evidence
        if one.unhashed
    ]
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise InputError(f"{problems[0]}{more}")
    return [one.record for one in evidence if one.record]


def _check_complete(spec: Spec, found: _Found, reason: str | None) -> None:
    failed = [identity for identity, path in found.paths.items() if records.read(path).status == "failed"]
    holes = [text for text in (_named("missing", found.missing), _named("failed", failed)) if text]
    if not found.paths:
        raise InputError(f"{spec.path}: no run of it is there, so nothing can be published; `study sweep` makes them")
    if reason is not None and not reason.strip():
        raise InputError("--partial: the reason is empty; say why runs are missing, it is printed with the table")
    if holes and reason is None:
        raise InputError(
            f"{spec.path}: {'; '.join(holes)}, of {len(spec.runnable)} declared; `study sweep {spec.path}` runs them, "
            'or publish with these holes: --partial "the reason"'
        )
    if reason is not None and not holes:
        raise InputError(f"--partial: every run that {spec.path} declares is there; leave --partial out")


def _named(what: str, ids: Sequence[str]) -> str:
    more = ", …" if len(ids) > NAMED else ""
    return f"{len(ids)} {what} ({', '.join(ids[:NAMED])}{more})" if ids else ""


def check_provenance(record: Record, path: Path) -> str | None:
    """What is wrong with where a run says that it comes from; None where nothing is. A failure has no numbers."""
    return None if record.status == "failed" else from_commit(record.provenance, path)


def from_commit(made: Provenance | None, path: Path, verb: str = "run") -> str | None:
    """What is wrong with a file's provenance: no commit, or one that is not what made it."""
    if made is None or None in made.of_calls("git_commit") or (made.calls and made.calls[0].from_step):
        return (
            f"{path}: provenance.git_commit: unknown, so its code cannot be checked out; {verb} it again in a checkout"
        )
    if made.git_dirty is not False:
        return (
            f"{path}: provenance.git_dirty: {made.git_dirty}, so the commit is not what made it; "
            f"{verb} it again from a clean tree (`git worktree add` makes one)"
        )
    return None


def _check_commits(made: Sequence[Record], found: _Found, checkout: Checkout) -> None:
    reached: dict[str, bool] = {}
    for record in made:
        where = found.paths[record.id]
        if problem := check_provenance(record, where):
            raise InputError(problem)
        commits = record.provenance.of_calls("git_commit") if record.provenance else []
        for commit in commits:
            if commit not in reached:
                reached[commit] = commit is None or checkout.reaches(commit)
            if not reached[commit]:
                raise InputError(
                    f"{where}: provenance.git_commit: {commit[:12]} is not in the history of HEAD; "
                    "merge it (a shallow clone lacks it), or run it again"
                )
        if len(commits) > 1 and len({checkout.state(commit) for commit in commits}) > 1:
            raise InputError(
                f"{where}: provenance.calls: expected one state of the code, got several; run it again at one commit"
            )


def _code(made: Sequence[Record], checkout: Checkout) -> list[Code]:
    """The states of the code that decides numbers, that of most runs first."""
    commits = [commit for record in made if (commit := _commit(record)) is not None]
    known = {commit: checkout.state(commit) for commit in set(commits)}
    states: dict[str, list[str]] = {}
    for commit in commits:
        states.setdefault(known[commit], []).append(commit)
    code = [Code(state=state, commits=sorted(set(all_)), runs=len(all_)) for state, all_ in states.items()]
    return sorted(code, key=lambda one: (-one.runs, one.state))


def _commit(record: Record) -> str | None:
    return record.provenance.git_commit if record.provenance else None


Plan = dict[Path, str]


def _plan(evidence: Evidence, results: Results) -> Plan:
    """What has to be written for one run, the record last; nothing where all of it is there.

    Raises:
        InputError: it is published with other bytes.
    """
    record, source = evidence.record, evidence.path
    assert record is not None
    target = results.record_path(record.id)
    texts = {published.beside(target, name): text for name, text in evidence.statistics.items()}
    for name in published.hypothesis_files(record):
        texts[published.beside(target, name)] = _text(published.beside(source, name))
    shown = published.beside(source, published.ATTENTION[1:])
    if shown.is_file():
        texts[published.beside(target, published.ATTENTION[1:])] = _text(shown)
    texts[target] = _text(source)
    for path, text in texts.items():
        if path.exists() and _text(path) != text:
            raise InputError(
                f"{path}: published already, and {source} says otherwise; a published run is never replaced: leave the "
                "new one out, or take the old one back in a commit of its own (git rm), which the history shows"
            )
    return {} if all(path.exists() for path in texts) else texts


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8")


def _write(plans: Sequence[Plan], manifest: Manifest, results: Results) -> None:
    texts = {path: text for plan in plans for path, text in plan.items()}
    texts[results.manifest_path(manifest.name)] = manifest.dumps()
    try:
        _clear(texts, results)
        for path, text in texts.items():
            if not (path.exists() and _text(path) == text):
                records.write(path, text)
    except OSError as problem:
        raise InputError(
            f"{results.root}: cannot be written ({problem.strerror}); mend that and publish again, which completes it"
        ) from None


def _clear(texts: dict[Path, str], results: Results) -> None:
    """What an interrupted call left under temporary names (`.name.process`)."""
    names = {path.name for path in texts}
    for folder in (results.runs, results.root / "sweeps"):
        for path in folder.glob(".*") if folder.is_dir() else ():
            if path.name[1:].rpartition(".")[0] in names:
                path.unlink()
