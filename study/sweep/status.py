"""Status of a sweep, read from its folder."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from study import records
from study.sweep import lease
from study.sweep.engine import Job
from study.sweep.spec import Cell, Spec

STATES = ("finished", "diverged", "failed", "running", "interrupted", "not started")
LISTED = 20
Jobs = Mapping[str, tuple[str, str]]
"""Run ↦ its job in the queue of a cluster, and the state of the job."""


def state_of(cell: Cell, out: Path) -> str:
    """Return the state of a cell: one of `STATES`, or inapplicable if the configuration rejects it.

    Raises:
        InputError: its record cannot be read.
    """
    if cell.id is None:
        return "inapplicable"
    state: str = records.state(out / cell.id)
    if state in ("started", "failed") and lease.held(out / cell.id):
        return "running"
    return {"started": "interrupted", "missing": "not started"}.get(state, state)


def describe(spec: Spec, cells: tuple[Cell, ...], out: Path, jobs: Jobs) -> str:
    """Return the sweep's state as text: counts, then the runs that want attention by name, with their jobs."""
    found: defaultdict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        found[state_of(cell, out)].append(cell)
    lines = [f"{spec.name} in {out}: {len(cells)} declared"]
    lines += [f"  {state:<13}{len(found[state])}" for state in (*STATES, "inapplicable")]
    for state in STATES[2:]:
        for cell in found[state][:LISTED]:
            name = str(cell.id)
            why = f": {records.read(out / name / 'record.json').error}" if state == "failed" else ""
            job = f"  [job {' '.join(jobs[name])}]" if name in jobs else ""
            lines.append(f"{state}: {name}  {spec.label(cell)}{job}{why}")
        if len(found[state]) > LISTED:
            lines.append(f"{state}: and {len(found[state]) - LISTED} more")
    return "\n".join(lines + inapplicable(spec, cells))


def rows(spec: Spec, cells: tuple[Cell, ...], out: Path, jobs: Jobs) -> list[dict[str, Any]]:
    """Return a row per declared run: id, facet, arm, state, the reason of a cell that is none, and its job if any."""
    keys = ("id", "facet", "arm", "state", "reason", "job", "job_state")
    facts = [(c.id, spec.facet(c), spec.arm(c), state_of(c, out), c.reason) for c in cells]
    return [dict(zip(keys, (*one, *jobs.get(one[0] or "", (None, None))), strict=True)) for one in facts]


def inapplicable(spec: Spec, cells: Iterable[Cell]) -> list[str]:
    """Return a line for each reason for which the configuration rejects cells."""
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
    return int(bool(left))
