"""One call's trials: started in free slots, and settled however they end.

A trial holds the lease of its run. A run whose lease another launcher's trial holds is left to it, and looked at
again until it has a record or is given up. A trial that ends without a record gets one that says why.
"""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from study import records
from study.config import Experiment
from study.errors import InputError
from study.sweep import lease, server, slots
from study.sweep.display import Progress, Running, choose, clock
from study.sweep.spec import Cell, Spec
from study.sweep.trial import BUSY, GRACE, STOPPED, Job, Trial, due, write_failure

POLL = 0.5


@dataclass(frozen=True)
class Task:
    """A run to do. `seen` is the stamp of its failed record, if there was one when the call began."""

    label: str
    cell: Cell
    experiment: Experiment
    folder: Path
    seen: int | None


@dataclass
class Started:
    """A trial under way."""

    task: Task
    slot: slots.Slot
    process: ForkServerProcess


class Launcher:
    """One call's worth of trials: starts them in free slots, settles how each ended."""

    def __init__(self, spec: Spec, out: Path, layout: list[slots.Slot], trial: Trial, progress: Progress) -> None:
        self.spec, self.out, self.trial, self.progress = spec, out, trial, progress
        self.free = deque(layout)
        self.pending: deque[Task] = deque()
        self.elsewhere: list[Task] = []
        self.started: dict[int, Started] = {}
        self.failures: list[tuple[Task, str]] = []
        self.display = choose(progress)

    def run(self, todo: list[Task]) -> None:
        """Until every task is settled, by us or by another launcher on the same folder."""
        self.pending.extend(todo)
        while self.pending or self.started or self.elsewhere:
            while self.pending and self.free:
                self._start(self.pending.popleft())
            for sentinel in connection.wait(list(self.started), timeout=POLL):
                assert isinstance(sentinel, int)
                self._ended(self.started.pop(sentinel))
            self._look_elsewhere()
            self.display.tick()

    def stop(self) -> None:
        """End the trials: asked first, killed after a few seconds or at a second interrupt. They can be resumed."""
        processes = [started.process for started in self.started.values()]
        try:
            for process in processes:
                process.terminate()
            deadline = time.monotonic() + GRACE
            for process in processes:
                process.join(max(deadline - time.monotonic(), 0))
        except KeyboardInterrupt:
            pass
        for process in processes:
            process.kill()
        self.progress.running.clear()

    def report(self) -> int:
        """Say how it went; the status of the call."""
        progress = self.progress
        print(f"{self.spec.name}: {progress.done} of {progress.total} runs done, {progress.failed} failed")
        for task, error in self.failures:
            print(f"  failed  {task.label}: {error}\n          log: {task.folder / 'log.txt'}")
        if self.failures:
            print("the same command again runs the failed ones again")
        return 1 if self.failures else 0

    def _start(self, task: Task) -> None:
        if lease.held(task.folder):
            self._leave(task)
            return
        if not due(task.folder, task.seen):
            self._settle(task, None)
            return
        slot = self.free.popleft()
        job = Job(self._placed(task, slot), task.folder, task.cell.given, self._environment(task, slot), task.seen)
        process = server.spawn(self.trial, job)
        self.started[process.sentinel] = Started(task, slot, process)
        self.progress.running[task.folder.name] = Running(task.label, task.folder)
        self.display.say(f"start   {task.folder.name}  {task.label}")

    def _ended(self, started: Started) -> None:
        task, code = started.task, started.process.exitcode
        self.free.append(started.slot)
        running = self.progress.running.pop(task.folder.name)
        started.process.join()
        started.process.close()
        if code == BUSY:
            self._leave(task)
            return
        try:
            ours = not due(task.folder, None) or self._write_failure(task, code)
        except (OSError, InputError) as problem:
            self._failed(task, f"{_cause(code)}, and none could be written: {problem}")
            return
        if ours:
            self._settle(task, running.seconds)
        else:
            self._leave(task)

    def _write_failure(self, task: Task, code: int | None) -> bool:
        """For a trial that could not do it itself. False where another launcher has taken the run over."""
        held = lease.acquire(task.folder)
        if held is None:
            return False
        if due(task.folder, None):
            write_failure(task.experiment, task.folder, _cause(code))
        lease.release(held)
        return True

    def _settle(self, task: Task, seconds: float | None) -> None:
        record = records.read(task.folder / "record.json")
        took = f" after {clock(seconds)}" if seconds is not None else " by another launcher"
        if record.status == "failed":
            self._failed(task, record.error or "no reason recorded")
            return
        self.progress.done += 1
        if seconds is not None:
            self.progress.durations.append(seconds)
        word = "done" if record.status == "finished" else "diverged"
        self.display.say(f"{word:8}{task.folder.name}  {task.label}{took}")

    def _failed(self, task: Task, error: str) -> None:
        self.progress.failed += 1
        self.failures.append((task, error))
        self.display.say(f"failed  {task.folder.name}  {task.label}: {error}")

    def _leave(self, task: Task) -> None:
        self.elsewhere.append(task)
        self.progress.elsewhere = len(self.elsewhere)

    def _look_elsewhere(self) -> None:
        """Runs that another launcher had: settled when they have a record, ours again when it gave them up."""
        for task in list(self.elsewhere):
            if lease.held(task.folder):
                continue
            self.elsewhere.remove(task)
            self.progress.elsewhere = len(self.elsewhere)
            self.pending.append(task)

    def _placed(self, task: Task, slot: slots.Slot) -> Experiment:
        """The experiment with what depends on this machine and this call, none of it part of the identity."""
        trainer = task.experiment.trainer
        placed = trainer.model_copy(update={"threads": trainer.threads or slot.threads})
        return task.experiment.model_copy(update={"out": str(self.out), "trainer": placed})

    def _environment(self, task: Task, slot: slots.Slot) -> dict[str, str]:
        """The agent's contract: what a trial of a W&B sweep finds in its environment."""
        data, model = task.experiment.data, task.experiment.model
        environment = {
            "WANDB_MODE": os.environ.get("WANDB_MODE", "offline"),
            "WANDB_SWEEP_ID": self.spec.sweep_id,
            "WANDB_RUN_ID": task.folder.name,
            "WANDB_RUN_GROUP": self.spec.name,
            "WANDB_JOB_TYPE": "trial",
            "WANDB_TAGS": f"{self.spec.name},{data.name},{model.family}",
            "WANDB_DIR": str(task.folder.resolve()),
        }
        return environment | ({"CUDA_VISIBLE_DEVICES": slot.gpu} if slot.gpu is not None else {})


def _cause(code: int | None) -> str:
    """Why a process ended, from its exit status."""
    number = -code if code is not None and code < 0 else signal.SIGTERM if code == STOPPED else None
    if number is None:
        return f"ended with exit status {code} and no record"
    return f"killed by signal {int(number)} ({signal.Signals(number).name})"
