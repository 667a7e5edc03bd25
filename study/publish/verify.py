"""Verification of published results: every file, every declared run, and numbers that have to agree with each other.

Hashes find whatever was changed without its hash. Equations between numbers of one record find what was changed with
it, and the root hash that README.md prints what was changed with all hashes. Scoring the translations again, all of
them or a part that a text draws, needs the corpora and minutes.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from study.errors import InputError
from study.publish.evidence import LARGEST_ERROR, RESTORE, examine, identities
from study.publish.results import Results
from study.store import MANIFEST, RUNS, SENTENCES


@dataclass
class Verification:
    """Result of a verification. `problems` is empty if everything agrees."""

    sweeps: int
    states: Counter[str]
    files: int
    """Files whose SHA-256 was taken."""
    problems: list[str] = field(default_factory=list)
    partial: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Sweep ↦ number of missing runs, and the reason given."""
    rescored: int | None = None
    """Runs whose translations were scored again; None: that was not asked for."""
    counted: Counter[str] = field(default_factory=Counter)
    """Their files by what they were scored from, and their scores that text does not decide, by metric."""
    unprinted: str = ""
    """The root hash, where nothing prints one to compare it with."""

    def lines(self) -> Iterator[str]:
        """Yield the summary, then the problems."""
        runs = ", ".join(f"{count} {state}" for state, count in sorted(self.states.items()))
        yield f"sweeps        {self.sweeps}; runs: {runs or 'none'}"
        for name, (missing, reason) in sorted(self.partial.items()):
            yield f"partial       {name}: {missing} of its runs missing, as published ({reason})"
        yield f"files         {self.files} have the SHA-256 of {MANIFEST}"
        if self.rescored is None:
            yield "translations  not scored again; `study verify --rescore` does"
        else:
            left = Counter(self.counted)
            references, counts = left.pop("references", 0), left.pop("counts", 0)
            yield (
                f"translations  of {self.rescored} runs scored again: {references} files against references, "
                f"{counts} from stored counts"
            )
            if left:
                metrics = ", ".join(f"{metric} {count}" for metric, count in sorted(left.items()))
                yield f"not checked   {left.total()} scores that need the model or the references: {metrics}"
        if self.unprinted:
            yield f"not checked   root hash {self.unprinted}: no file prints it. Run `study reproduce`."
        yield f"differences   {len(self.problems) or 'none'}"
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
    manifests = results.manifests
    if not manifests:
        raise InputError(
            f"{results.root}: expected published results, got none. "
            "Run `study publish SWEEP`, or name another folder with --results."
        )
    found = Verification(len(manifests), Counter(), len(results.manifest.files))
    found.problems += _hashes(results, found)
    try:
        runs = results.store.runs
        found.states = Counter(runs.status)
        found.problems += _declared(results, runs, found)
        scores = results.store.scores
        equations = identities(runs, scores, results.store.curves)
        found.problems += [f"{results.root / RUNS}: {line}" for line in equations]
        found.problems += _sentences(results, scores)
        if rescore:
            ids = drawn(list(runs.id), rescore, drawn_by or results.root_hash)
            found.rescored = len(ids)
            told(0, len(ids))
            found.problems += examine(results.store, ids, lambda done: told(done, len(ids)), found.counted)
    except InputError as problem:  # a table that cannot be read
        found.problems.append(str(problem))
    found.problems = list(dict.fromkeys(found.problems))
    return found


def drawn(ids: Sequence[str], parts: int, text: str) -> list[str]:
    """Return one of `parts` of the ids, rounded up: which, follows from the text alone."""
    order = sorted(ids, key=lambda one: hashlib.sha256(f"{text} {one}".encode()).digest())
    return sorted(order[: -(-len(order) // parts)])


def _hashes(results: Results, found: Verification) -> Iterator[str]:
    """Yield files that were changed, lost or added, and a root hash that is another than README.md prints."""
    told = results.root / MANIFEST
    said = {
        "stray": f"expected a file of {told}, got a stray one. Publish its sweep again, or remove it.",
        "missing": f"expected a file, since {told} names it, got none. Restore it.",
        "changed": f"SHA-256: expected the one in {told}, got another. {RESTORE}",
    }
    yield from (f"{results.root / name}: {said[how]}" for name, how in results.changed())
    root, printed = results.root_hash, results.printed_hash
    if printed is None:
        found.unprinted = root
    elif printed != root:
        yield (
            f"README.md: root hash: expected {root[:12]}…, that of {told}, got {printed[:12]}…. "
            "Restore what was changed. If sweeps were published since, run `study reproduce`."
        )


def _declared(results: Results, runs: pd.DataFrame, found: Verification) -> Iterator[str]:
    """Yield declared runs that are missing, runs that no sweep declares, and sweep files that were changed."""
    status = dict(zip(runs.id, runs.status, strict=True))
    declared: set[str] = set()
    for name, manifest in results.manifests.items():
        where = f"{results.root / MANIFEST}: {name}"
        try:
            spec = results.spec(manifest)
        except InputError as problem:
            yield f"{where}: {problem}"
            continue
        then, now = (manifest.sweep_id, manifest.metric), (spec.sweep_id, "/".join(spec.metric))
        if then != now:
            yield (
                f"{where}: expected sweep_id and metric {' and '.join(now)}, as in {manifest.file}, got "
                f"{' and '.join(then)}. Restore {manifest.file}, or publish the sweep again."
            )
        ids = [str(cell.id) for cell in spec.runnable]
        absent, allowed = [one for one in ids if one not in status], []
        declared |= {*ids}
        if manifest.partial:
            found.partial[name] = (len(absent), manifest.partial.reason)
            allowed = manifest.partial.missing
        for one in ids:
            if one in absent and one not in allowed:
                why = f"since sweep {name} declares it"
                yield f"{results.store.where(one)}: expected a record, {why}, got none. Restore it."
            elif status.get(one) == "failed" and not manifest.partial:
                yield f"{results.store.where(one)}: status: expected none failed in sweep {name}, got failed. {RESTORE}"
    for one in sorted(status.keys() - declared):
        yield f"{results.store.where(one)}: expected a run of a published sweep, got a stray one. Remove it."


def _sentences(results: Results, scores: pd.DataFrame) -> Iterator[str]:
    """Yield exact matches and NLL that are not the mean over their sentences, and sentences of no run."""
    parts = []
    for path in sorted((results.root / SENTENCES).glob("*.parquet")):
        sentences = results.store.frame(f"{SENTENCES}/{path.name}", ["id", "split", "exact", "nll"])
        mean = sentences.astype({"exact": float, "nll": float}).groupby(["id", "split"], observed=True).mean()
        parts.append(mean.assign(exact=100 * mean.exact).stack())
    means: dict[Any, float] = pd.concat(parts).to_dict() if parts else {}
    for identity in sorted({identity for identity, *_ in means} - set(results.store.runs.id)):
        yield f"{results.root / SENTENCES}: {identity}: expected sentences of a run, got others. {RESTORE}"
    whole = scores[scores.subset.isna() & scores.metric.isin(["exact", "nll"])]
    for identity, split, metric, got in whole[["id", "split", "metric", "value"]].itertuples(index=False):
        expected = means.get((identity, split, metric), got)
        if abs(expected - got) > LARGEST_ERROR * abs(got):
            where = f"{results.store.where(identity)}: scores.{split}.{metric}"
            yield f"{where}: expected {expected:.6g}, the mean of its sentences, got {got}. {RESTORE}"
