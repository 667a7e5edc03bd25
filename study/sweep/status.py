"""Status of a sweep, read from its folder, and its progress: one line that changes on a terminal, else plain lines."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from study import records
from study.sweep import lease
from study.sweep.estimate import clock
from study.sweep.spec import Cell, Spec

STATES = ("finished", "diverged", "failed", "running", "interrupted", "not started")
LISTED = 20
EVERY = 30.0
"""Seconds between two plain lines."""
BLANK = "\r\x1b[K"
"""Clears the line of a terminal."""


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


def describe(spec: Spec, cells: tuple[Cell, ...], out: Path) -> str:
    """Return the sweep's state as text: counts, then the runs that want attention by name."""
    found: defaultdict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        found[state_of(cell, out)].append(cell)
    lines = [f"{spec.name} in {out}: {len(cells)} declared"]
    lines += [f"  {state:<13}{len(found[state])}" for state in (*STATES, "inapplicable")]
    for state in STATES[2:]:
        for cell in found[state][:LISTED]:
            why = f": {records.read(out / str(cell.id) / 'record.json').error}" if state == "failed" else ""
            lines.append(f"{state}: {cell.id}  {spec.label(cell)}{why}")
        if len(found[state]) > LISTED:
            lines.append(f"{state}: and {len(found[state]) - LISTED} more")
    return "\n".join(lines + inapplicable(spec, cells))


def inapplicable(spec: Spec, cells: Iterable[Cell]) -> list[str]:
    """Return a line for each reason for which the configuration rejects cells."""
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    for cell in cells:
        if cell.reason is not None:
            reasons[cell.reason].append(spec.label(cell))
    return [f"inapplicable: {reason}: {'; '.join(labels)}" for reason, labels in reasons.items()]


class Display:
    """Counts of one call, and how they are shown.

    Args:
        total: number of runs.
        done: number of those that were there before.
    """

    def __init__(self, total: int, done: int = 0) -> None:
        self.total, self.done, self.before, self.failed, self.running = total, done, done, 0, 0
        self.began = self.shown = time.monotonic()
        self.blank = BLANK if sys.stdout.isatty() else ""

    def say(self, text: str) -> None:
        """Print a line that stays."""
        print(f"{self.blank}{text}", flush=True)

    def tick(self) -> None:
        """Show how far the runs are. Called about twice a second."""
        if self.blank:
            print(f"{self.blank}{self.line()}", end="", flush=True)
        elif time.monotonic() - self.shown >= EVERY:
            self.shown = time.monotonic()
            self.say(self.line())

    def clear(self) -> None:
        """Remove the line that changes."""
        print(self.blank, end="", flush=True)

    def line(self) -> str:
        """Return everything in one line. The time left follows from the runs that were made since the beginning."""
        settled = self.done + self.failed
        left, made = self.total - settled, settled - self.before
        counts = f"{self.done} of {self.total} done, {self.running} running, {left - self.running} waiting"
        time_left = f", about {clock((time.monotonic() - self.began) / made * left)} left" if made and left else ""
        return f"{counts}, {self.failed} failed{time_left}"
