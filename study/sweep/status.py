"""Status of a sweep, read from its folder."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from study import records
from study.sweep import lease
from study.sweep.local import Job
from study.sweep.spec import Cell, Spec

STATES = ("finished", "diverged", "failed", "running", "interrupted", "missing")
WORDS = {"missing": "not started"}
"""States of runs in words; a launcher that has just begun needs some seconds until its first run has started."""
LISTED = 20
Jobs = Mapping[str, tuple[str, str]]
"""Run ↦ its job in the queue of a cluster, and the state of the job."""
NO_JOBS: Jobs = MappingProxyType({})


def by_state(cells: Iterable[Cell], out: Path) -> dict[str, list[Cell]]:
    """State ↦ the cells in it; every state is there. Cells that the configuration rejects are left out.

    Raises:
        InputError: a record in the folder cannot be read.
    """
    found: dict[str, list[Cell]] = {state: [] for state in STATES}
    for cell in cells:
        if cell.id is not None:
            state: str = records.state(out / cell.id)
            if state in ("started", "failed") and lease.held(out / cell.id):
                state = "running"
            found["interrupted" if state == "started" else state].append(cell)
    return found


def describe(spec: Spec, cells: tuple[Cell, ...], out: Path, jobs: Jobs = NO_JOBS) -> str:
    """The sweep's state as text: counts, then the runs that want attention by name, with their jobs in a queue."""
    found = by_state(cells, out)
    lines = [f"{spec.name} in {out}: {len(cells)} declared"]
    lines += [f"  {WORDS.get(state, state):<13}{len(members)}" for state, members in found.items()]
    lines += [f"  {'inapplicable':<13}{sum(cell.experiment is None for cell in cells)}"]
    for state in ("failed", "running", "interrupted", "missing"):
        for cell in found[state][:LISTED]:
            name = str(cell.id)
            why = f": {records.read(out / name / 'record.json').error}" if state == "failed" else ""
            job = f"  [job {' '.join(jobs[name])}]" if name in jobs else ""
            lines.append(f"{WORDS.get(state, state)}: {name}  {spec.label(cell)}{job}{why}")
        if len(found[state]) > LISTED:
            lines.append(f"{WORDS.get(state, state)}: and {len(found[state]) - LISTED} more")
    return "\n".join(lines + inapplicable(spec, cells))


def rows(spec: Spec, cells: tuple[Cell, ...], out: Path, jobs: Jobs = NO_JOBS) -> list[dict[str, str | None]]:
    """One row per declared run: id, facet, arm, state and, for a cell that the configuration rejects, the reason.

    With `jobs`, also the job of each run, and the state of the job.
    """
    states = {cell.id: state for state, members in by_state(cells, out).items() for cell in members}
    return [
        {
            "id": cell.id,
            "facet": spec.facet(cell),
            "arm": spec.arm(cell),
            "state": states.get(cell.id, "inapplicable"),
            "reason": cell.reason,
            **(dict(zip(("job", "job_state"), jobs.get(cell.id or "", (None, None)), strict=True)) if jobs else {}),
        }
        for cell in cells
    ]


def inapplicable(spec: Spec, cells: Iterable[Cell]) -> list[str]:
    """One line a reason, with the cells that the configuration rejects for it."""
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    for cell in cells:
        if cell.reason is not None:
            reasons[cell.reason].append(spec.label(cell))
    return [f"inapplicable: {reason}: {'; '.join(labels)}" for reason, labels in reasons.items()]


def check(job: Job) -> int:
    """Look for every run of a job by its identity, print what is missing, and return 0, or 1 if a run is missing."""
    left = job.due()
    print(f"{job.name}: {len(job.tasks) - len(left)} of {len(job.tasks)} runs there, by identity")
    for task in left:
        print(f"  missing  {task.id}  {task.label}")
    if left:
        print("the same command again makes the missing ones")
    return 1 if left else 0
