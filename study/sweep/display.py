"""Progress of a sweep: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from study import files
from study.errors import InputError
from study.sweep.estimate import clock

EVERY = 30.0
"""Seconds between two plain lines."""
PERIOD = 3600.0
"""Seconds over which the pace is measured."""


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
