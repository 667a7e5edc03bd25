"""Verification of published results: every file, every declared run, and numbers that have to agree with each other.

Hashes find whatever was changed without its hash. Equations between numbers find what was changed with it, and the root
hash that README.md prints what was changed with all hashes. Scoring the translations again, all of them or a part that
a text draws, needs the corpora and minutes.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from study.errors import InputError
from study.publish.evidence import RESTORE, contradictions, examine
from study.publish.results import Results
from study.store import MANIFEST
from study.sweep.spec import load


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
) -> Verification:
    """Check a folder of published results.

    Args:
        results: the folder.
        rescore: score the translations of one in so many runs again, 1 for all; None: of none.
        drawn_by: the text that draws these runs, such as a commit's hash; empty: the root hash.
        told: called with the number of runs that were scored again, and of all that will be.

    Raises:
        InputError: there is no such folder, or nothing is published in it, or its manifest cannot be read.
    """
    if not results.manifests:
        raise InputError(
            f"{results.root}: expected published results, got none. "
            "Run `study publish SWEEP`, or name another folder with --results."
        )
    found, store = Verification(), results.store
    found.summary["files"] = f"{len(results.manifest.files)} have the SHA-256 of {MANIFEST}"
    found.problems += _hashes(results, found.summary)
    try:
        status = {identity: str(facts["status"]) for identity, facts in store.facts.items()}
        states = ", ".join(f"{count} {state}" for state, count in sorted(Counter(status.values()).items()))
        found.summary["sweeps"] = f"{len(results.manifests)}; runs: {states or 'none'}"
        found.problems += _declared(results, status, found.summary)
        found.problems += contradictions(store)
        found.summary["translations"] = "not scored again; `study verify --rescore` does"
        if rescore:
            ids, counted = drawn(store.ids(), rescore, drawn_by or results.root_hash), Counter[str]()
            told(0, len(ids))
            found.problems += examine(store, ids, lambda done: told(done, len(ids)), counted)
            found.summary["translations"] = f"{counted.pop('files', 0)} files of {len(ids)} runs scored again"
            if counted:
                left = ", ".join(f"{what} {count}" for what, count in sorted(counted.items()))
                found.summary["not checked"] = f"scores that need the model or the references: {left}"
    except InputError as problem:  # a table that cannot be read
        found.problems.append(str(problem))
    found.problems = list(dict.fromkeys(found.problems))
    found.summary["differences"] = str(len(found.problems) or "none")
    return found


def drawn(ids: Sequence[str], parts: int, text: str) -> list[str]:
    """Return one of `parts` of the ids, rounded up: which, follows from the text alone."""
    order = sorted(ids, key=lambda one: hashlib.sha256(f"{text} {one}".encode()).digest())
    return sorted(order[: -(-len(order) // parts)])


def _hashes(results: Results, summary: dict[str, str]) -> Iterator[str]:
    """Yield files that were changed, lost or added, and a root hash that is another than README.md prints."""
    manifest = results.root / MANIFEST
    said = {
        "stray": f"expected a file of {manifest}, got a stray one. Publish its sweep again, or remove it.",
        "missing": f"expected a file, since {manifest} names it, got none. Restore it.",
        "changed": f"SHA-256: expected the one in {manifest}, got another. {RESTORE}",
    }
    yield from (f"{results.root / name}: {said[how]}" for name, how in results.changed())
    root, printed = results.root_hash, results.printed_hash
    if printed is None:
        summary["root hash"] = f"not checked: no file prints {root}. Run `study reproduce`."
    elif printed != root:
        yield (
            f"README.md: root hash: expected {root[:12]}…, that of {manifest}, got {printed[:12]}…. "
            "Restore what was changed. If sweeps were published since, run `study reproduce`."
        )


def _declared(results: Results, status: dict[str, str], summary: dict[str, str]) -> Iterator[str]:
    """Yield declared runs that are missing, runs that no sweep declares, and sweep files that were changed."""
    declared: set[str] = set()
    for name, sweep in results.manifests.items():
        where = f"{results.root / MANIFEST}: {name}"
        try:
            spec = load(results.file(name))
        except InputError as problem:
            yield f"{where}: {problem}"
            continue
        then, now = (sweep.sweep_id, sweep.metric), (spec.sweep_id, "/".join(spec.metric))
        if then != now:
            yield (
                f"{where}: expected sweep_id and metric {' and '.join(now)}, as in {sweep.file}, got "
                f"{' and '.join(then)}. Restore {sweep.file}, or publish the sweep again."
            )
        ids = {str(cell.id) for cell in spec.runnable}
        declared |= ids
        absent, allowed = sorted(ids - status.keys()), sweep.partial.missing if sweep.partial else []
        if sweep.partial:
            reason = f"{len(absent)} of its runs missing, as published ({sweep.partial.reason})"
            summary[f"partial {name}"] = reason
        for one in [one for one in absent if one not in allowed]:
            yield (
                f"{results.store.where(one)}: expected a record, since sweep {name} declares it, got none. Restore it."
            )
        for one in sorted(one for one in ids if status.get(one) == "failed" and not sweep.partial):
            yield f"{results.store.where(one)}: status: expected none failed in sweep {name}, got failed. {RESTORE}"
    for one in sorted(status.keys() - declared):
        yield f"{results.store.where(one)}: expected a run of a published sweep, got a stray one. Remove it."
