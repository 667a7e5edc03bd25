"""The local engine: what is declared and missing, several trials side by side, each a process of its own.

What has been run is what is on disk: the same call again continues, and two launchers on one folder share the work. A
trial holds the lease of its run. A run whose lease another launcher's trial holds is left to it, and looked at again
until it has a record or is given up. A trial that ends without a record is started again, on another GPU if there is
one; after its last attempt the run has a record that says why.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from study import files, records
from study.config import Experiment, plugins, scientific
from study.errors import BUSY, UNWRITTEN, InputError
from study.metrics import decimals
from study.sweep import lease, server
from study.sweep.display import Display, Running
from study.sweep.estimate import Past, clock
from study.sweep.resources import Resources, Slot
from study.sweep.signals import GRACE, Interrupts
from study.sweep.spec import Cell, Spec
from study.sweep.trial import Attempt, Trial, cause, due, last_words, stamp, tidy, train, write_failure

POLL = 0.5
"""Seconds between two looks at what happens."""
SUSPECT = 3
"""So many failures in a row on one GPU, and it gets no more work as long as others have had fewer."""


@dataclass(frozen=True)
class Policy:
    """Limits for trials: the number of retries after a failure, and the time limit of one attempt (None: no limit).

    Diverged is no failure but a result: the same run would diverge again.
    """

    retries: int = 1
    time_limit: float | None = None


POLICY = Policy()


@dataclass(frozen=True)
class Task:
    """A declared run: its identity, its label, its experiment and its parameters in the sweep."""

    id: str
    label: str
    experiment: Experiment
    given: Mapping[str, Any]


@dataclass(frozen=True)
class Job:
    """Runs of a sweep that one process makes with what it may use, here or where an engine sends it.

    Attributes:
        name: name of the sweep.
        metric: score that is printed.
        out: folder of the runs.
        tasks: the runs. What has a good record is kept.
        policy: what is done with trials that fail or hang.
        slots: runs at a time (default: from the resources).
        environment: variables of W&B that replace those of offline runs.
        trial: what runs one experiment into its folder; importable, since another process calls it.
        allowed: code that may run.
    """

    name: str
    metric: tuple[str, ...]
    out: Path
    tasks: tuple[Task, ...]
    policy: Policy = POLICY
    slots: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    trial: Trial = train
    allowed: str = field(default_factory=lambda: os.environ.get(plugins.ALLOWED, ""))

    def due(self) -> tuple[Task, ...]:
        """Return the runs without a good record.

        Raises:
            InputError: a record in the folder cannot be read.
        """
        return tuple(task for task in self.tasks if due(self.out / task.id, stamp(self.out / task.id)))

    def layout(self, here: Resources) -> list[Slot]:
        """Return the slots for these runs. How many share a GPU depends on what similar runs have needed there."""
        experiments = [task.experiment for task in self.tasks]
        names = {gpu.name for gpu in here.gpus.values()}
        return here.slots(experiments, self.slots, Past(self.out).memory(experiments, names) if names else 0)


def job_of(spec: Spec, cells: Iterable[Cell], out: Path, **more: Any) -> Job:
    """Return the job that makes cells of a sweep; `more` are further fields of it."""
    tasks = tuple(
        Task(cell.id, spec.label(cell), cell.experiment, cell.given)
        for cell in cells
        if cell.id is not None and cell.experiment is not None
    )
    return Job(spec.name, spec.metric, out, tasks, **more)


def tell(line: str, say: Callable[[str], object] = print) -> None:
    """Print what answers an interrupt. Ctrl-C ends whoever reads through a pipe too, and the answer still goes on."""
    try:
        say(line)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run(job: Job, here: Resources) -> int:
    """Make the runs of a job; return 0, 1 if runs failed, 130 or 143 if a signal ended it.

    Raises:
        InputError: a run asks for more GPUs than there are, the disk is full, or a record or a run's folder cannot be
            read or written; no trial is left running.
    """
    os.environ[plugins.ALLOWED] = job.allowed
    todo = job.due()
    for name in {task.id for task in job.tasks} - {task.id for task in todo}:
        tidy(job.out / name)
    if not todo:
        print(f"{job.name}: nothing to do, all {len(job.tasks)} runs are there")
        return 0
    layout = job.layout(here)
    told = here.describe(layout, [task.experiment for task in todo])
    print(f"{job.name}: {len(todo)} of {len(job.tasks)} runs to do, {told}, in {job.out}", flush=True)
    launcher = Launcher(job, layout, Display(len(job.tasks), len(job.tasks) - len(todo)))
    with Interrupts() as interrupts:
        try:
            server.start(job.trial, layout[0].threads)
            launcher.run(todo)
        except BaseException as problem:
            interrupts.answer()
            if isinstance(problem, KeyboardInterrupt):
                tell("stopping the runs; they keep their last step. A second interrupt kills them at once")
            launcher.stop(hurry=lambda: interrupts.again)
            if not isinstance(problem, KeyboardInterrupt):
                raise
            there = len(job.tasks) - len(job.due())  # by any launcher
            tell(f"interrupted: {there} of {len(job.tasks)} runs done; the same command again continues")
            return interrupts.status
        finally:
            launcher.display.close()
    return launcher.report()


@dataclass
class Started:
    """A trial under way. `overdue`: it was asked to end for using up its time."""

    task: Task
    slot: Slot
    process: BaseProcess
    pid: int
    overdue: bool = False
    began: float = field(default_factory=time.monotonic)

    def ask_to_end(self) -> None:
        """Let the trial close what it has open."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End the trial, and all that it has started: the other members of its group."""
        self.process.kill()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


class Launcher:
    """One call's worth of trials: starts them in free slots, settles how each ended."""

    def __init__(self, job: Job, layout: Sequence[Slot], display: Display) -> None:
        self.job, self.display = job, display
        self.environment = {"WANDB_MODE": os.environ.get("WANDB_MODE", "offline"), **job.environment}
        self.seen = {task.id: stamp(job.out / task.id) for task in job.tasks}
        self.free, self.gpus = deque(layout), {slot.gpu for slot in layout}
        self.blamed: Counter[str | None] = Counter()
        self.failed_on: dict[str, list[str | None]] = {}
        self.pending: deque[Task] = deque()
        self.elsewhere: list[Task] = []
        self.started: dict[int, Started] = {}
        self.failures: list[tuple[Task, str]] = []
        self.diverged: list[tuple[Task, str]] = []

    def run(self, todo: Iterable[Task]) -> None:
        """Until every task is settled, by us or by another launcher on the same folder.

        Raises:
            InputError: the disk is full, or a run's folder cannot be written or read.
        """
        self.pending.extend(todo)
        while self.pending or self.started or self.elsewhere:
            self.fill()
            for sentinel in connection.wait(list(self.started), timeout=POLL):
                assert isinstance(sentinel, int)
                self._ended(self.started.pop(sentinel))
            for task in [task for task in self.elsewhere if not lease.held(self.job.out / task.id)]:
                self.elsewhere.remove(task)
                self.pending.append(task)
            self.display.elsewhere = len(self.elsewhere)
            self._enforce_limit()
            self.display.tick()

    def stop(self, hurry: Callable[[], bool]) -> None:
        """End the trials: asked first, killed after a while or when `hurry` says so. They can be resumed."""
        for one in self.started.values():
            one.ask_to_end()
        deadline = time.monotonic() + GRACE
        while any(one.process.is_alive() for one in self.started.values()) and not hurry():
            if time.monotonic() > deadline:
                break
            time.sleep(POLL / 10)
        for one in self.started.values():
            one.kill()

    def report(self) -> int:
        """Print how it went; return the status of the call."""
        print(f"{self.job.name}: {self.display.done} of {self.display.total} runs done, {self.display.failed} failed")
        for task, error in self.failures:
            tries = len(self.failed_on.get(task.id, ()))
            tried = f" (tried {tries} times)" if tries > 1 else ""
            print(f"  failed  {task.label}: {error}{tried}\n          log: {self.job.out / task.id / 'log.txt'}")
        for task, error in self.diverged:
            print(f"  diverged  {task.label}: {error}; a result, so it is not run again")
        if self.failures:
            print("the same command again runs the failed ones again")
        return 1 if self.failures else 0

    def fill(self) -> None:
        """Start what there are slots for. A run that has failed waits for a slot on another GPU."""
        for _ in range(len(self.pending)):
            task = self.pending.popleft()
            if lease.held(self.job.out / task.id):
                self.elsewhere.append(task)
            elif not due(self.job.out / task.id, self.seen[task.id]):
                self._settle(task, None)
            elif slot := self.take(self.failed_on.get(task.id, ())):
                self._start(task, slot)
            else:
                self.pending.append(task)

    def take(self, avoid: Collection[str | None]) -> Slot | None:
        """Take a free slot: not on a GPU on which this run or the last three have failed, if there is another."""
        fit = {gpu for gpu in self.gpus if self.blamed[gpu] < SUSPECT} or self.gpus
        wanted = fit - set(avoid) or fit
        for slot in self.free:
            if slot.gpu in wanted:
                self.free.remove(slot)
                return slot
        return None

    def _start(self, task: Task, slot: Slot) -> None:
        folder = self.job.out / task.id
        here = task.experiment.trainer.model_copy(update={"threads": slot.threads_of(task.experiment)})
        own = {"WANDB_RUN_ID": task.id, "WANDB_DIR": str(folder.resolve())}
        if slot.gpu is not None:
            own["CUDA_VISIBLE_DEVICES"] = slot.gpu
        attempt = Attempt(
            task.experiment.model_copy(update={"out": str(self.job.out), "trainer": here}),
            folder,
            task.given,
            {**self.environment, **own},
            self.seen[task.id],
            last=len(self.failed_on.get(task.id, ())) >= self.job.policy.retries,
        )
        with suppress(OSError):  # the trial meets it too, and says so
            plugins.keep(folder, scientific(task.experiment).values())
        process = server.spawn(self.job.trial, attempt)
        assert process.pid is not None
        self.started[process.sentinel] = Started(task, slot, process, process.pid)
        self.display.running[task.id] = Running(task.label, folder)
        self.display.say(f"start   {task.id}  {task.label}")

    def _ended(self, ended: Started) -> None:
        """A trial's process has ended, or the one that it was forked from. Then the trial ends soon, too."""
        task, folder, code = ended.task, self.job.out / ended.task.id, ended.process.exitcode
        ended.process.join()
        ended.process.close()
        self.free.append(ended.slot)
        self.display.running.pop(task.id)
        if code not in (0, BUSY):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(ended.pid, signal.SIGKILL)
        if code == UNWRITTEN:
            if held := lease.acquire(folder):  # else it says what is wrong
                held.release()
            raise InputError(f"{self.job.out}: the disk is full. Make room; the same command continues.")
        if code == BUSY or lease.held(folder):
            self.elsewhere.append(task)
        elif not due(folder, self.seen[task.id]):
            self._settle(task, ended)
        else:
            self._failed_once(ended, code)

    def _failed_once(self, ended: Started, code: int | None) -> None:
        """Start a run again, or write the record of its failure."""
        task, folder = ended.task, self.job.out / ended.task.id
        limit = self.job.policy.time_limit
        log = folder / "log.txt"
        if ended.overdue and limit:
            why = f"not done within its time limit of {clock(limit)}{last_words(log)}"
        else:
            why = cause(code, log)
        self._blame(ended)
        if len(self.failed_on[task.id]) <= self.job.policy.retries:
            self.pending.append(task)
            self.display.say(f"again   {task.id}  {task.label}: {why}")
            return
        if (held := lease.acquire(folder)) is None:
            self.elsewhere.append(task)
            return
        try:
            if due(folder, self.seen[task.id]):
                write_failure(task.experiment, folder, why)
        except OSError as problem:
            raise files.unwritable(folder, problem) from None
        finally:
            held.release()
        self._settle(task, None)

    def _blame(self, ended: Started) -> None:
        gpu = ended.slot.gpu
        self.failed_on.setdefault(ended.task.id, []).append(gpu)
        self.blamed[gpu] += 1
        if self.blamed[gpu] == SUSPECT and any(self.blamed[other] < SUSPECT for other in self.gpus):
            self.display.say(f"GPU {gpu} is taken out: {SUSPECT} runs in a row failed on it")

    def _settle(self, task: Task, ended: Started | None) -> None:
        """A run that has a record, from this call's trial or another launcher's."""
        record, display = records.read(self.job.out / task.id / "record.json"), self.display
        if record.status == "failed":
            if ended is not None:
                self._blame(ended)
            display.failed += 1
            self.failures.append((task, record.error or "no reason recorded"))
            display.say(f"failed  {task.id}  {task.label}: {record.error}")
            return
        if record.status == "diverged":
            self.diverged.append((task, record.error or "no reason recorded"))
        display.done += 1
        took = " by another launcher"
        if ended is not None:
            self.blamed[ended.slot.gpu] = 0
            display.made += 1
            took = f" after {clock(time.monotonic() - ended.began)}"
        value, metric = record.score(*self.job.metric), "/".join(self.job.metric)
        score = "" if value is None else f", {metric} {value:.{decimals(metric)}f}"
        word = "done" if record.status == "finished" else "diverged"
        display.say(f"{word:8}{task.id}  {task.label}{took}{score}")

    def _enforce_limit(self) -> None:
        limit = self.job.policy.time_limit
        for one in self.started.values() if limit else ():
            over = time.monotonic() - one.began - (limit or 0)
            if over > 0 and not one.overdue:
                one.overdue = True
                one.ask_to_end()
            elif over > GRACE:
                one.kill()
