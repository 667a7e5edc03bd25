"""Status of a sweep, read from its folder."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from study.engine import lease
from study.store import records
from study.store.folder import Store
from study.sweep.spec import Cell, Spec

STATES = ("finished", "diverged", "failed", "running", "interrupted", "not started", "unreadable", "inapplicable")


def state_of(cell: Cell, out: Path) -> str:
    """Return the state of a cell, one of `STATES`: inapplicable if the configuration rejects it.

    Raises:
        InputError: there is no folder but a file.
    """
    if cell.id is None:
        return "inapplicable"
    state = Store(out).state(cell.id)
    if state in ("started", "failed") and lease.held(out / cell.id):
        return "running"
    return {"started": "interrupted", "missing": "not started"}.get(state, state)


def describe(spec: Spec, cells: tuple[Cell, ...], out: Path) -> str:
    """Return the sweep's state as text: counts, then the runs that want attention by name."""
    found: defaultdict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        found[state_of(cell, out)].append(cell)
    lines = [f"{spec.name} in {out}: {len(cells)} declared"]
    lines += [f"  {state:<13}{len(found[state])}" for state in STATES]
    for state in ("failed", "running", "interrupted"):
        for cell in found[state]:
            why = f": {records.read(out / str(cell.id) / 'record.json').error}" if state == "failed" else ""
            lines.append(f"{state}: {cell.id}  {spec.label(cell)}{why}")
    return "\n".join(lines + inapplicable(spec, cells))


def inapplicable(spec: Spec, cells: Iterable[Cell]) -> list[str]:
    """Return a line for each reason for which the configuration rejects cells."""
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    for cell in cells:
        if cell.reason is not None:
            reasons[cell.reason].append(spec.label(cell))
    return [f"inapplicable: {reason}: {'; '.join(labels)}" for reason, labels in reasons.items()]
