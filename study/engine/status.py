"""Status of a sweep, read from its folder."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
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
    if not cell.id:
        return "inapplicable"
    state = Store(out).state(cell.id)
    if state in ("started", "failed") and lease.held(out / cell.id):
        return "running"
    return {"started": "interrupted", "missing": "not started"}.get(state, state)


def describe(spec: Spec, cells: Sequence[Cell], out: Path) -> str:
    """Return the sweep's state as text: counts, then the runs that want attention by name."""
    by_state: defaultdict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        by_state[state_of(cell, out)].append(cell)
    lines = [f"{spec.name} in {out}: {len(cells)} declared"]
    lines += [f"  {state:<13}{len(by_state[state])}" for state in STATES]
    for state in ("failed", "running", "interrupted"):
        for cell in by_state[state]:
            why = f": {records.read(out / cell.id / 'record.json').error}" if state == "failed" else ""
            lines.append(f"{state}: {cell.id}  {cell.label}{why}")
    return "\n".join(lines + inapplicable(cells))


def inapplicable(cells: Iterable[Cell]) -> list[str]:
    """Return a line for each reason for which the configuration rejects cells."""
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    for cell in cells:
        if cell.reason:
            reasons[cell.reason].append(cell.label)
    return [f"inapplicable: {reason}: {'; '.join(labels)}" for reason, labels in reasons.items()]
