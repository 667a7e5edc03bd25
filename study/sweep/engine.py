"""The local engine: what is declared and missing, several trials side by side, each a process of its own.

What has been run is what is on disk: the same call again continues, and two launchers on one folder share the work. A
trial holds the lease of its run. A run whose lease another launcher's trial holds is looked at again until it has a
record or is given up. A trial that ends without a record is started again, on another GPU if there is one; after its
last attempt the run has a record that says why.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from study import files, records
from study.config import Experiment, config_hash, plugins, recorded, scientific
from study.errors import BUSY, UNWRITTEN, InputError
from study.metrics import decimals
from study.sweep import lease
from study.sweep.estimate import clock
from study.sweep.resources import Plan, Resources, Slot
from study.sweep.signals import GRACE, Interrupts, answer
from study.sweep.spec import Cell, Spec
from study.sweep.status import Display
from study.sweep.trial import WRONG, Trial, cause, due, main, train

POLL = 0.5
"""Seconds between two looks at what happens."""
PRELOAD = ("torch", "pytorch_lightning", "wandb", "study.pruning.run")
"""Modules of a real trial. Named, not imported: the launcher itself stays light."""


@dataclass(frozen=True)
class Task:
    """A declared run: its identity, its label and its experiment."""

    id: str
    label: str
    experiment: Experiment


@dataclass(frozen=True)
class Job:
    """Runs of a sweep that one process makes with what it may use, here or where an engine sends it.

    Attributes:
        name: name of the sweep.
        metric: score that is printed.
        out: folder of the runs.
        tasks: the runs. What has a good record is kept.
        retries: attempts after one that failed. Diverged is no failure but a result.
        time_limit: seconds of one attempt (None: no limit).
        slots: runs at a time (default: from the resources).
        environment: variables of W&B that replace those of offline runs.
        trial: what runs one experiment into its folder; importable, since another process calls it.
        allowed: code that may run.
    """

    name: str
    metric: tuple[str, ...]
    out: Path
    tasks: tuple[Task, ...]
    retries: int = 1
    time_limit: float | None = None
    slots: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    trial: Trial = train
    allowed: str = field(default_factory=lambda: os.environ.get(plugins.ALLOWED, ""))

    def due(self) -> tuple[Task, ...]:
        """Return the runs without a good record.

        Raises:
            InputError: a record in the folder cannot be read.
        """
        return tuple(task for task in self.tasks if due(self.out / task.id))

    def check(self) -> int:
        """Print which runs have no good record, and return 0, or 1 if there is one."""
        left = self.due()
        print(f"{self.name}: {len(self.tasks) - len(left)} of {len(self.tasks)} runs there, by identity")
        for task in left:
            print(f"  missing  {task.id}  {task.label}")
        if left:
            print("the same command again makes the missing ones")
        return int(bool(left))

    def layout(self, here: Resources) -> list[Slot]:
        """Return the slots for these runs."""
        return here.slots([task.experiment for task in self.tasks], self.slots)


def job_of(spec: Spec, cells: Iterable[Cell], out: Path, **more: Any) -> Job:
    """Return the job that makes cells of a sweep; `more` are further fields of it."""
    tasks = [Task(cell.id, spec.label(cell), cell.experiment) for cell in cells if cell.id and cell.experiment]
    return Job(spec.name, spec.metric, out, tuple(tasks), **more)


def plan(job: Job, here: Resources, commands: Sequence[str]) -> Plan:
    """Return the processes that make runs here, and the command of each run."""
    layout = job.layout(here)
    gpus = len({slot.gpu for slot in layout if slot.gpu}) / len(layout)
    cores = layout[0].threads_of(job.tasks[0].experiment) * layout[0].processes
    words = here.describe(layout, [task.experiment for task in job.tasks])
    return Plan(f"local: {words}", "\n".join(commands), len(layout), cores, gpus)


def run(job: Job, here: Resources) -> int:
    """Make the runs of a job; return 0, 1 if runs failed, 130 or 143 if a signal ended it.

    Raises:
        InputError: a run asks for more GPUs than there are, the disk is full, or a record or a run's folder cannot be
            read or written; no trial is left running.
    """
    os.environ[plugins.ALLOWED] = job.allowed
    todo = job.due()
    if not todo:
        print(f"{job.name}: nothing to do, all {len(job.tasks)} runs are there")
        return 0
    layout = job.layout(here)
    told = here.describe(layout, [task.experiment for task in todo])
    print(f"{job.name}: {len(todo)} of {len(job.tasks)} runs to do, {told}, in {job.out}", flush=True)
    launcher = Launcher(job, todo, layout)
    with Interrupts() as interrupts:
        try:
            launcher.run()
        except BaseException as problem:
            interrupts.answering = True
            launcher.display.clear()
            if isinstance(problem, KeyboardInterrupt):
                answer("stopping the runs; they keep their last step. A second interrupt kills them at once")
            launcher.stop(interrupts)
            if not isinstance(problem, KeyboardInterrupt):
                raise
            there = len(job.tasks) - len(job.due())  # by any launcher
            answer(f"interrupted: {there} of {len(job.tasks)} runs done; the same command again continues")
            return interrupts.status
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

    def end(self, how: signal.Signals) -> None:
        """Send SIGTERM to the trial, which closes what it has open, or SIGKILL to it and all that it has started."""
        for send in (os.kill, os.killpg) if how == signal.SIGKILL else (os.kill,):
            with suppress(ProcessLookupError, PermissionError):
                send(self.pid, how)


class Launcher:
    """One call's worth of trials: starts them in free slots, settles how each ended."""

    def __init__(self, job: Job, todo: Iterable[Task], layout: Iterable[Slot]) -> None:
        self.job, self.pending, self.free = job, list(todo), list(layout)
        self.gpus, self.threads = {slot.gpu for slot in layout}, self.free[0].threads
        self.display = Display(len(job.tasks), len(job.tasks) - len(self.pending))
        self.since = time.time()
        """Failed records that are older are replaced; newer ones are another launcher's, and count."""
        self.failed_on: defaultdict[str, list[str | None]] = defaultdict(list)
        self.started: dict[int, Started] = {}
        self.notes: list[str] = []
        """Failed and diverged runs, for the end."""

    def run(self) -> None:
        """Go on until every task is settled, by us or by another launcher on the same folder.

        Raises:
            InputError: the disk is full, or a run's folder cannot be written or read.
        """
        while self.pending or self.started:
            self.fill()
            for sentinel in connection.wait(list(self.started), timeout=POLL):
                assert isinstance(sentinel, int)
                self.ended(self.started.pop(sentinel))
            for one in self.started.values() if self.job.time_limit else ():
                over = time.monotonic() - one.began - (self.job.time_limit or 0)
                if over > (GRACE if one.overdue else 0):
                    one.end(signal.SIGKILL if one.overdue else signal.SIGTERM)
                    one.overdue = True
            self.display.tick()

    def fill(self) -> None:
        """Start what there are slots for. A run that has failed waits for a slot on another GPU, if there is one."""
        for task in list(self.pending) if self.free else ():
            folder = self.job.out / task.id
            if lease.held(folder):
                continue
            wanted = self.gpus - set(self.failed_on[task.id]) or self.gpus
            if not due(folder, self.since):
                self.pending.remove(task)
                self.settle(task)
            elif slot := next((slot for slot in self.free if slot.gpu in wanted), None):
                self.free.remove(slot)
                self.pending.remove(task)
                self.start(task, slot)

    def start(self, task: Task, slot: Slot) -> None:
        """Start the process of a trial."""
        folder, trainer = self.job.out / task.id, task.experiment.trainer
        trainer = trainer.model_copy(update={"threads": slot.threads_of(task.experiment)})
        experiment = task.experiment.model_copy(update={"out": str(self.job.out), "trainer": trainer})
        environment = {"WANDB_MODE": os.environ.get("WANDB_MODE", "offline"), **self.job.environment}
        environment |= {"WANDB_RUN_ID": task.id, "WANDB_DIR": str(folder.resolve())}
        environment |= {"CUDA_VISIBLE_DEVICES": slot.gpu} if slot.gpu is not None else {}
        with suppress(OSError):  # the trial meets it too, and says so
            plugins.keep(folder, scientific(task.experiment).values())
        process = spawn(self.job.trial, (experiment, folder, environment, self.since), self.threads)
        self.started[process.sentinel] = Started(task, slot, process, process.pid or 0)
        self.display.running += 1
        self.display.say(f"start   {task.id}  {task.label}")

    def ended(self, one: Started) -> None:
        """Settle a trial whose process has ended, or the process that it was forked from; then it ends soon, too."""
        task, folder = one.task, self.job.out / one.task.id
        one.process.join()
        code = one.process.exitcode
        one.process.close()
        self.free.append(one.slot)
        self.display.running -= 1
        if code not in (0, BUSY):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(one.pid, signal.SIGKILL)
        if code == UNWRITTEN:
            if held := lease.acquire(folder):  # else it says what is wrong
                held.release()
            raise InputError(f"{self.job.out}: the disk is full. Make room; the same command continues.")
        if code == BUSY:
            self.pending.append(task)
        elif not due(folder, self.since):
            self.settle(task, one)
        else:
            self.failed(one, code)

    def failed(self, one: Started, code: int | None) -> None:
        """Queue a run again, or write the record of its failure."""
        task, folder, limit = one.task, self.job.out / one.task.id, self.job.time_limit
        why = cause(code, folder / "log.txt")
        if one.overdue and limit:
            why = f"not done within its time limit of {clock(limit)}; {why}"
        tried = self.failed_on[task.id]
        tried.append(one.slot.gpu)
        if code != WRONG and len(tried) <= self.job.retries:
            self.display.say(f"again   {task.id}  {task.label}: {why}")
            self.pending.append(task)
        elif (held := lease.acquire(folder)) is None:
            self.pending.append(task)
        else:
            if due(folder, self.since):
                write_failure(task, folder, why)
            held.release()
            self.settle(task)

    def settle(self, task: Task, one: Started | None = None) -> None:
        """Count a run that has a record, from this call's trial or another launcher's."""
        folder, metric = self.job.out / task.id, "/".join(self.job.metric)
        record = records.read(folder / "record.json")
        if record.status == "failed":
            self.display.failed += 1
            self.notes += [f"  failed  {task.label}: {record.error}", f"          log: {folder / 'log.txt'}"]
            self.display.say(f"failed  {task.id}  {task.label}: {record.error}")
            return
        self.display.done += 1
        if record.status == "diverged":
            self.notes.append(f"  diverged  {task.label}: {record.error}; a result, so it is not run again")
        took = f"after {clock(time.monotonic() - one.began)}" if one else "by another launcher"
        value = record.score(*self.job.metric)
        score = "" if value is None else f", {metric} {value:.{decimals(metric)}f}"
        word = "done" if record.status == "finished" else "diverged"
        self.display.say(f"{word:8}{task.id}  {task.label} {took}{score}")

    def stop(self, interrupts: Interrupts) -> None:
        """End the trials: asked first, killed after a while or at the second interrupt. They can be resumed."""
        for one in self.started.values():
            one.end(signal.SIGTERM)
        deadline = time.monotonic() + GRACE
        while any(one.process.is_alive() for one in self.started.values()):
            if interrupts.again or time.monotonic() > deadline:
                break
            time.sleep(POLL / 10)
        for one in self.started.values():
            one.end(signal.SIGKILL)

    def report(self) -> int:
        """Print how it went; return the status of the call."""
        self.display.clear()
        print(f"{self.job.name}: {self.display.done} of {self.display.total} runs done, {self.display.failed} failed")
        for line in self.notes:
            print(line)
        if self.display.failed:
            print("the same command again runs the failed ones again")
        return int(self.display.failed > 0)


def write_failure(task: Task, folder: Path, error: str) -> None:
    """Write a record that says why there are no numbers.

    Raises:
        InputError: the folder cannot be written.
    """
    made = task.experiment
    config: dict[str, Any] = {"config": recorded(made), "config_hash": config_hash(made), "seed": made.seed}
    record = records.Record(protocol=made.protocol, id=task.id, status="failed", error=error, **config)
    try:
        files.write(folder / "record.json", records.dumps(record))
    except OSError as problem:
        raise files.unwritable(folder, problem) from None


def spawn(trial: Trial, arguments: tuple[Any, ...], threads: int) -> BaseProcess:
    """Start a trial in a fork of a process that has imported torch and the like, which takes seconds, once.

    That process, the fork server, has never touched CUDA. It may have been killed since the last trial: then another
    one is started.
    """
    from multiprocessing import forkserver  # here, since Windows has none

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*(PRELOAD if trial is train else (trial.__module__,)), "study.sweep.trial"])
    for left in (2, 1, 0):
        with _for_server(threads):
            forkserver.ensure_running()
        process = context.Process(target=main, args=(trial, *arguments))
        try:
            process.start()
            break
        except (OSError, EOFError):
            if not left:
                raise
            time.sleep(POLL)
    return process


@contextmanager
def _for_server(threads: int) -> Iterator[None]:
    """Set what the fork server inherits: variables that its imports read, and the signals that are for the launcher.

    The signals are blocked, not handled, since Ctrl-C while it imports would print a traceback. SLURM sends SIGUSR2,
    the warning before a time limit, to every process of a job.
    """
    from multiprocessing import resource_tracker

    settings = {
        "OMP_NUM_THREADS": str(threads),  # for numpy's share; torch is told by the trial
        "PYTHONSAFEPATH": "1",  # a study.py in the working directory is not this package
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # asking for GPUs must not initialise CUDA before the fork
    }
    before, blocked = dict(os.environ), {signal.SIGINT, signal.SIGUSR2}
    resource_tracker.ensure_running()  # its start unblocks SIGINT, so it comes first
    os.environ.update({name: value for name, value in settings.items() if name not in before})
    signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, blocked)
