"""Progress of running sweeps: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from study import files
from study.errors import InputError
from study.sweep.estimate import clock

SUMMARY_EVERY = 30.0
ENOUGH = 0.05
"""Part of a run that must be made before the time left is estimated: the first steps are slow."""


@dataclass
class Running:
    """One trial in progress."""

    label: str
    folder: Path
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self.began

    @property
    def testing(self) -> bool:
        """Return True if all training steps are done and the run is being scored."""
        step, steps, _ = self.steps()
        return step >= steps

    def steps(self) -> tuple[int, int, int]:
        """Steps (done, all, done by earlier attempts); (0, 1, 0) until the trial reports them."""
        try:
            told = files.read_json(self.folder / "progress.json", below=self.folder)
            return int(told["step"]), max(int(told["steps"]), 1), int(told.get("from", 0))
        except (InputError, ValueError, KeyError, TypeError, AttributeError):
            return 0, 1, 0


class Display:
    """Counts of one call, over the runs that are declared and not ruled out, and how they are shown.

    Args:
        total: number of runs.
        done: number of those that were there before.
    """

    def __init__(self, total: int, done: int = 0) -> None:
        self.total, self.done, self.failed, self.elsewhere, self.made = total, done, 0, 0, 0
        self.running: dict[str, Running] = {}
        self.began = self.said = time.monotonic()
        self.bars: Progress | None = None
        if sys.stdout.isatty() and (console := Console()).is_terminal:
            columns = (TextColumn("{task.description}", markup=False), BarColumn(20), MofNCompleteColumn())
            self.bars = Progress(*columns, TimeElapsedColumn(), console=console, transient=True)
            self.rows = {"": self.bars.add_task("runs", total=total)}
            self.bars.start()

    def say(self, line: str) -> None:
        """Print an event, such as the start or the end of a run."""
        if self.bars:
            self.bars.console.print(line, markup=False, highlight=False)
        else:
            print(line, flush=True)

    def tick(self) -> None:
        """Show how far the runs are. Called about twice a second."""
        if self.bars:
            for name in self.rows.keys() - self.running.keys() - {""}:
                self.bars.remove_task(self.rows.pop(name))
            for name, run in self.running.items():
                if name not in self.rows:
                    self.rows[name] = self.bars.add_task(run.label)
                step, steps, _ = run.steps()
                self.bars.update(self.rows[name], completed=step, total=steps)
            self.bars.update(self.rows[""], completed=self.done, description=self.line())
        elif time.monotonic() - self.said >= SUMMARY_EVERY:
            self.said = time.monotonic()
            self.say(self.line())

    def close(self) -> None:
        """Take the bars away."""
        if self.bars:
            self.bars.stop()

    def line(self) -> str:
        """Everything in one line."""
        testing = sum(run.testing for run in self.running.values())
        parts = [f"{self.done} of {self.total} done"]
        parts.append(f"{len(self.running)} running" + (f" ({testing} of them testing)" if testing else ""))
        parts.append(f"{self.failed} failed")
        if self.elsewhere:
            parts.append(f"{self.elsewhere} run by another launcher")
        if left := self.time_left():
            parts.append(f"about {clock(left)} left")
        return ", ".join(parts)

    def time_left(self) -> float | None:
        """Seconds to the end, at the pace of this call so far; None until that is known."""
        shares = [(step / steps, before / steps) for step, steps, before in (r.steps() for r in self.running.values())]
        made = self.made + sum(share - before for share, before in shares)
        waiting = self.total - self.done - self.failed - self.elsewhere - len(self.running)
        left = waiting + sum(1 - share for share, _ in shares)
        return (time.monotonic() - self.began) * left / made if made >= ENOUGH else None
