"""Line at the bottom of a terminal that says how far the runs under way are."""

import os
from collections.abc import Iterable
from pathlib import Path

from study import files
from study.store.rows import CURVE
from study.sweep.spec import Run

TAIL = 2**10
"""Bytes at the end of a training curve that hold its last line."""


class Progress:
    """The line. Lines that are printed while it is there stand above it, folded at words.

    Where standard output is no terminal, there is none.
    """

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        console = Console(highlight=False)
        self._live = Live(console=console, transient=True, redirect_stderr=False, auto_refresh=False)
        self._shown = console.is_terminal

    def hide(self) -> None:
        """Take the line away, until `show`."""
        self._live.stop()

    def show(self, runs: Iterable[Run], out: Path, done: int, total: int) -> None:
        """Show how many runs are done, and the step of each that is under way."""
        if not self._shown:
            return
        from rich.text import Text

        self._live.start()
        texts = [f"{done} of {total} done"]
        for run in runs:
            texts.append(f"{run.label}: {step_of(out / run.id / CURVE)}/{run.experiment.training.steps}")
        self._live.update(Text(" · ".join(texts), style="dim", no_wrap=True, overflow="ellipsis"), refresh=True)


def step_of(path: Path) -> int:
    """Return the last step in a training curve; 0 without one."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
            points = files.json_lines(file.read())
    except OSError:
        return 0
    return points[-1][0] if points else 0
