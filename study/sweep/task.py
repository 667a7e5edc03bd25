"""A run to do, its trial under way, and what is done with trials that do not end well."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path

from study.config import Experiment
from study.sweep.outcome import memory_kills
from study.sweep.slots import Slot
from study.sweep.spec import Cell


@dataclass(frozen=True)
class Policy:
    """Limits for trials: the number of retries after a failure, and the time limit of one attempt (None: no limit).

    Diverged is no failure but a result: the same run would diverge again.
    """

    retries: int = 1
    time_limit: float | None = None


@dataclass(frozen=True)
class Task:
    """A run to do. `seen` is the stamp of the failed record that it replaces, `failures` how many this call saw."""

    label: str
    cell: Cell
    experiment: Experiment
    folder: Path
    seen: int | None
    failures: int = 0

    @property
    def name(self) -> str:
        """The identity of the run."""
        return self.folder.name


@dataclass
class Started:
    """A trial under way. `overdue`: it was asked to end for using up its time."""

    task: Task
    slot: Slot
    process: BaseProcess
    pid: int
    overdue: bool = False
    kills: int = field(default_factory=memory_kills)
    began: float = field(default_factory=time.monotonic)

    def ask_to_end(self) -> None:
        """Let the trial close what it has open."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End the trial and all that it has started."""
        self.process.kill()
        self.sweep_up()

    def sweep_up(self) -> None:
        """End what a trial has left behind: the other members of its group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
