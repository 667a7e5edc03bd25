"""Status of a sweep, read from its folder, and its progress: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from study import files, records
from study.errors import InputError
from study.sweep import lease
from study.sweep.estimate import clock
from study.sweep.spec import Cell, Spec

STATES = ("finished", "diverged", "failed", "running", "interrupted", "not started")
LISTED = 20
EVERY = 30.0
"""Seconds between two plain lines."""
PERIOD = 3600.0
"""Seconds over which the pace is measured."""
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


class Display:
    """Counts of one call, over the runs that are declared and not ruled out, and how they are shown.

    Args:
        total: number of runs.
        done: number of those that were there before.
    """

    def __init__(self, total: int, done: int = 0) -> None:
        self.total, self.done, self.failed, self.said = total, done, 0, time.monotonic()
        columns = (TextColumn("{task.description}", markup=False), BarColumn(20), MofNCompleteColumn())
        self.plain, console = not sys.stdout.isatty(), Console(soft_wrap=True, markup=False, highlight=False)
        options = {"console": console, "transient": True, "disable": self.plain}
        self.bars = Progress(*columns, TimeElapsedColumn(), speed_estimate_period=PERIOD, **options)  # type: ignore[arg-type]
        self.say = partial(print, flush=True) if self.plain else console.print
        self.whole = self.bars.add_task("runs", total=total, completed=done)
        self.running: dict[str, tuple[Path, TaskID]] = {}
        self.bars.start()

    def begin(self, label: str, folder: Path) -> None:
        """Show a run that has begun."""
        self.running[folder.name] = folder, self.bars.add_task(label, total=1)

    def end(self, name: str) -> None:
        """Show a run no more."""
        self.bars.remove_task(self.running.pop(name)[1])

    def tick(self) -> None:
        """Show how far the runs are. Called about twice a second."""
        made = float(self.done + self.failed)
        for folder, row in self.running.values():
            try:
                told = files.read_json(folder / "progress.json", below=folder)
                step, steps, before = int(told["step"]), int(told["steps"]), int(told.get("from", 0))
            except (InputError, ValueError, KeyError, TypeError, AttributeError):  # none yet
                continue
            made += (step - before) / max(steps - before, 1)
            self.bars.update(row, completed=step, total=steps)
        self.bars.update(self.whole, completed=made, description=self.line())
        if self.plain and time.monotonic() - self.said >= EVERY:
            self.said = time.monotonic()
            self.say(self.line())

    def line(self) -> str:
        """Return everything in one line."""
        left = self.bars.tasks[0].time_remaining
        waiting = self.total - self.done - self.failed - len(self.running)
        counts = (
            f"{self.done} of {self.total} done, {len(self.running)} running, {waiting} waiting, {self.failed} failed"
        )
        return counts + (f", about {clock(left)} left" if left else "")
