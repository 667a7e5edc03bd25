"""Progress of a running sweep: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from study import files
from study.errors import InputError

SUMMARY_EVERY = 30.0


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
        steps = self.steps()
        return steps is not None and steps[0] >= steps[1]

    @property
    def to_do(self) -> float:
        """The share of its steps that this trial has to make; the others were made before an interruption."""
        steps = self.steps()
        return 1 - steps[2] / steps[1] if steps else 1.0

    def steps(self) -> tuple[int, int, int] | None:
        """Steps (done, all, done by earlier trials of the same run), where the trial reports them."""
        try:
            told = files.read_json(self.folder / "progress.json", below=self.folder)
            return int(told["step"]), max(int(told["steps"]), 1), int(told.get("from", 0))
        except (InputError, ValueError, KeyError, TypeError, AttributeError):
            return None


@dataclass
class Progress:
    """Counts of one call, over the runs that are declared and not ruled out."""

    total: int
    slots: int
    done: int = 0
    failed: int = 0
    elsewhere: int = 0
    running: dict[str, Running] = field(default_factory=dict)
    durations: list[float] = field(default_factory=list)

    def ended(self, run: Running) -> None:
        """A run has ended well. What a whole one takes follows, unless all of its steps were made before."""
        if run.to_do:
            self.durations.append(run.seconds / run.to_do)

    def time_left(self) -> float | None:
        """Seconds to the end, from the runs that this call has finished, or else from the steps of those under way."""
        typical = self._typical()
        if typical is None:
            return None
        waiting = self.total - self.done - self.failed - self.elsewhere - len(self.running)
        under_way = [max(typical * run.to_do - run.seconds, 0.0) for run in self.running.values()]
        together = (waiting * typical + sum(under_way)) / self.slots
        return max(together, *under_way, 0.0) if under_way else together

    def _typical(self) -> float | None:
        """Seconds of a whole run."""
        if self.durations:
            return sum(self.durations) / len(self.durations)
        told = [(run.seconds, run.steps()) for run in self.running.values()]
        made = [(seconds, steps[0] - steps[2], steps[1]) for seconds, steps in told if steps]
        # The first steps are slow and a poor guess: none is made before a twentieth of them.
        guesses = [seconds * steps / now for seconds, now, steps in made if now > 0 and 20 * now >= steps]
        return sum(guesses) / len(guesses) if guesses else None

    def line(self) -> str:
        """Everything in one line."""
        testing = sum(run.testing for run in list(self.running.values()))
        running = f"{len(self.running)} running" + (f" ({testing} of them testing)" if testing else "")
        parts = [f"{self.done} of {self.total} done", running, f"{self.failed} failed"]
        if self.elsewhere:
            parts.append(f"{self.elsewhere} run by another launcher")
        left = self.time_left()
        if left is None:
            parts.append("time left not known yet")
        elif not self.durations:  # the tests of a run come after its steps, and take a time not known yet
            parts.append(f"at least {clock(left)} left")
        elif left >= 1 or not self.running:  # what is left of a run that takes longer than the others is not known
            parts.append(f"time left {clock(left)}")
        return ", ".join(parts)


class Display(Protocol):
    """Interface through which an engine reports progress."""

    def say(self, line: str) -> None:
        """One event, such as the start or the end of a run."""

    def tick(self) -> None:
        """Called about twice a second."""

    def close(self) -> None:
        """The sweep is over."""


class Plain:
    """Lines, for logs: one an event, and a summary now and then."""

    def __init__(self, progress: Progress) -> None:
        self.progress, self.last = progress, time.monotonic()

    def say(self, line: str) -> None:
        """Print an event."""
        print(line, flush=True)

    def tick(self) -> None:
        """Print a summary when one is due."""
        if time.monotonic() - self.last >= SUMMARY_EVERY:
            self.last = time.monotonic()
            self.say(self.progress.line())

    def close(self) -> None:
        """Nothing to clean up."""


class OnTerminal:
    """A table that is redrawn in place, with the events above it."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.live = Live(get_renderable=self.render, refresh_per_second=2, transient=True)
        self.live.start()

    def say(self, line: str) -> None:
        """Print an event above the table."""
        self.live.console.print(line, markup=False, highlight=False)

    def tick(self) -> None:
        """The table redraws itself."""

    def close(self) -> None:
        """Take the table away."""
        self.live.stop()

    def render(self) -> RenderableType:
        """The table now."""
        table = Table.grid(padding=(0, 2))
        for run in list(self.progress.running.values()):
            steps = run.steps()
            bar: RenderableType = ProgressBar(steps[1], steps[0], width=20) if steps else Text("starting", style="dim")
            count = "testing" if run.testing else f"{steps[0]}/{steps[1]}" if steps else ""
            table.add_row(run.label, bar, count, clock(run.seconds))
        return Group(table, Text(self.progress.line(), style="bold"))


def choose(progress: Progress) -> Display:
    """The display for where standard output goes."""
    return OnTerminal(progress) if sys.stdout.isatty() and Console().is_terminal else Plain(progress)


@contextmanager
def following(folder: Path) -> Iterator[None]:
    """Show on a terminal how far one run is, while the body makes it. Elsewhere the lines that it prints must do."""
    progress = Progress(total=1, slots=1, running={folder.name: Running(folder.name, folder)})
    display = choose(progress)
    try:
        yield
    finally:
        display.close()


def clock(seconds: float) -> str:
    """`42 s`, `3 min 05 s`, `2 h 10 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"
