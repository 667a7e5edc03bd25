"""The local engine: what is declared and missing, several trials side by side, each a process of its own.

What has been run is what is on disk: the same call again continues, and two launchers on one folder share the work. A
trial holds the lease of its run. A run whose lease another launcher's trial holds is looked at again until it has a
record or is given up. A trial that fails is started again; after its last attempt the run has a record that says why.
"""

import multiprocessing
import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from study import processes
from study.config import plugins, scientific
from study.config.experiment import threads_for
from study.engine import lease
from study.engine.estimate import clock
from study.engine.progress import Progress
from study.engine.resources import Plan, Resources, Slot
from study.engine.trial import WRONG, Trial, due, main, train, write_failure
from study.errors import BUSY, LOST, InputError, ending, lacking
from study.scores.metrics import decimals
from study.store import records
from study.store.folder import Store
from study.sweep.spec import Cell, Run, Spec

POLL = 0.5
"""Seconds between two looks at what happens."""
ORPHANED = 255
"""Exit status that multiprocessing gives a trial whose fork server was killed, so that nobody knows the real one."""
SOCKET = 75
"""Bytes of a folder of temporary files in which a socket, whose path has at most 107, has room for its own names."""
LOSSES = 10
"""Number of fork servers that a sweep may lose one after another, and that a run may lose."""
PRELOAD = ("torch", "pytorch_lightning", "wandb.apis.public", "study.pruning.run")
"""Modules of a real trial, W&B's first run included. Named, not imported: the launcher itself stays light."""


@dataclass(frozen=True)
class Job:
    """Runs of a sweep that one process makes with what it may use, here or where an engine sends it.

    Attributes:
        name: name of the sweep.
        metrics: facet ↦ the score that is printed.
        out: folder of the runs.
        tasks: the runs. What has a good record is kept.
        retries: attempts after one that failed. Diverged is no failure but a result.
        slots: runs at a time (default: from the resources).
        environment: variables of W&B that replace those of offline runs.
        trial: what runs one experiment into its folder; importable, since another process calls it.
        allowed: code that may run.
        mechanisms: content of the files of a user's own mechanisms, for a process that has not read them.
        baselines: run ↦ the run of the baseline of its facet with its seed.
    """

    name: str
    metrics: Mapping[str, str]
    out: Path
    tasks: tuple[Run, ...]
    retries: int = 1
    slots: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    trial: Trial = train
    allowed: str = field(default_factory=lambda: os.environ.get(plugins.ALLOWED, ""))
    mechanisms: tuple[str, ...] = ()
    baselines: Mapping[str, str] = field(default_factory=dict)

    def due(self) -> tuple[Run, ...]:
        """Return the runs without a good record.

        Raises:
            InputError: a file is where the folder of a run belongs.
        """
        return tuple(task for task in self.tasks if due(self.out / task.id))

    def unreadable(self) -> tuple[Run, ...]:
        """Return the runs with a record that cannot be read. They are not made again; a line names each, and why."""
        store = Store(self.out)
        return tuple(task for task in self.tasks if store.state(task.id) == "unreadable")

    def layout(self, machine: Resources) -> list[Slot]:
        """Return the slots for these runs."""
        return machine.slots([task.experiment for task in self.tasks], self.slots)


def job_of(spec: Spec, cells: Iterable[Cell], out: Path, **more: Any) -> Job:
    """Return the job that makes cells of a sweep; `more` are further fields of it."""
    runs = (cell for cell in cells if isinstance(cell, Run))
    tasks = tuple(sorted(runs, key=lambda run: spec.seeds.index(run.experiment.seed)))  # every arm once, then again
    texts = (plugin.text for task in tasks for plugin in plugins.among(scientific(task.experiment).values()))
    first = {(run.facet, run.experiment.seed): run.id for run in tasks if run.arm == spec.baseline(run.facet)}
    baselines = {run.id: first.get((run.facet, run.experiment.seed), run.id) for run in tasks}
    return Job(spec.name, spec.metrics, out, tasks, mechanisms=tuple(dict.fromkeys(texts)), baselines=baselines, **more)


def plan(job: Job, machine: Resources, commands: Sequence[str]) -> Plan:
    """Return the processes that make runs here, and the command of each run."""
    layout = job.layout(machine)
    count, gpus = len(layout), len({slot.gpu for slot in layout if slot.gpu})
    return Plan(machine.describe(layout), "\n".join(commands), count, machine.cores / count, gpus / count)


def run(job: Job, machine: Resources, report: Callable[[int], None] = lambda seed: None) -> int:
    """Make the runs of a job; return 0, 1 if runs failed, 130 or 143 if a signal ended it.

    Args:
        job: the runs.
        machine: what they may use.
        report: called with a seed when all its runs are there, while those of others are not.

    Raises:
        InputError: a record or a run's folder cannot be read or locked, or the disk is full; no trial is left running.
        OSError: a run's folder cannot be written.
    """
    os.environ[plugins.ALLOWED] = job.allowed
    plugins.remember(job.mechanisms)
    todo = job.due()
    if not todo:
        bad, count = len(job.unreadable()), len(job.tasks)
        state = f"{count - bad} of {count} runs are there, {bad} unreadable" if bad else f"all {count} runs are there"
        print(f"{job.name}: nothing to do, {state}")
        return int(bad > 0)
    layout = job.layout(machine)
    how = f"{machine.describe(layout)}, in {job.out}; steps in log.txt of a run"
    print(f"{job.name}: {len(todo)} of {len(job.tasks)} runs to do, {how}", flush=True)
    with processes.noted() as signals:
        return Launcher(job, todo, layout, signals, report).run()


@dataclass
class Started:
    """A trial under way."""

    task: Run
    slot: Slot
    process: BaseProcess
    trial: connection.Connection
    pid: int
    began: float = field(default_factory=time.monotonic)

    def end(self, how: signal.Signals) -> None:
        """Send SIGTERM to the trial, which closes what it has open, or SIGKILL to it and all that it has started."""
        for send in (os.kill, os.killpg) if how == signal.SIGKILL else (os.kill,):
            with suppress(ProcessLookupError, PermissionError):
                send(self.pid, how)


class Launcher:
    """One call's worth of trials: starts them in free slots, settles how each ended.

    Args:
        job: the runs, and how they are made.
        todo: those without a good record.
        layout: the slots.
        signals: gets the signals that ask to end.
    """

    def __init__(
        self,
        job: Job,
        todo: Iterable[Run],
        layout: Iterable[Slot],
        signals: Sequence[int] = (),
        report: Callable[[int], None] = lambda seed: None,
    ) -> None:
        self.job, self.pending, self.free, self.signals, self.report = job, list(todo), list(layout), signals, report
        self.began, self.total, self.settled, self.failed = time.monotonic(), len(self.pending), 0, 0
        self.attempts, self.losses = Counter[tuple[str, bool]](), 0
        self.started: dict[int, Started] = {}
        self.progress = Progress()
        self.notes: list[str] = []
        """Failed and diverged runs, for the end."""

    def run(self) -> int:
        """Go on until every task is settled, by us or by another launcher on the same folder, or a signal ends it.

        Raises:
            InputError: a run's folder cannot be read.
            OSError: it cannot be written.
        """
        try:
            while (self.pending or self.started) and not self.signals:
                self.fill()
                under_way = [started.task for started in self.started.values()]
                self.progress.show(under_way, self.job.out, self.settled, self.total)
                for sentinel in connection.wait(list(self.started), timeout=POLL):
                    assert isinstance(sentinel, int)
                    self.ended(self.started.pop(sentinel))
            if self.signals:
                print("stopping the runs; they keep their last step. A second interrupt kills them at once", flush=True)
        finally:
            self.progress.hide()
            self.stop()
        bad = self.job.unreadable()
        done = len(self.job.tasks) - len(self.job.due()) - len(bad)  # by any launcher
        self.notes += [f"  unreadable  {task.label}: {self.job.out / task.id / 'record.json'}" for task in bad]
        if self.signals:
            print(f"interrupted: {done} of {len(self.job.tasks)} runs done; the same command again continues")
            return 128 + self.signals[0]
        print(
            f"{self.job.name}: {done} of {len(self.job.tasks)} runs done, {self.failed} failed", *self.notes, sep="\n"
        )
        if self.failed:
            print("the same command again runs the failed ones again; a diverged run is a result")
        return int(self.failed > 0 or bool(bad))

    def fill(self) -> None:
        """Start what there are slots for."""
        for task in list(self.pending):
            folder = self.job.out / task.id
            if not self.free:
                return
            if lease.held(folder):
                continue
            self.pending.remove(task)
            if due(folder):
                self.start(task, self.free.pop(0))
                if self.losses:  # a fork server that was killed is gone a moment later
                    return
            else:
                self.settle(task)

    def start(self, task: Run, slot: Slot) -> None:
        """Start the process of a trial. If its fork server is killed before it begins, the run is queued again.

        Raises:
            InputError: that has happened too often.
        """
        folder, trainer = self.job.out / task.id, task.experiment.trainer
        on_gpu = bool(slot.gpu) and trainer.device != "cpu"
        threads = threads_for(task.experiment.model.width, trainer.threads, on_gpu) or slot.threads
        trainer = trainer.model_copy(update={"threads": threads})
        environment = {"WANDB_MODE": os.environ.get("WANDB_MODE", "offline"), **self.job.environment}
        environment |= {"WANDB_RUN_ID": task.id, "WANDB_DIR": str(folder.resolve())}
        gpu = os.environ.get("CUDA_VISIBLE_DEVICES") if slot.gpu is None else slot.gpu
        environment |= {} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu}  # the fork server may be older
        plugins.keep(folder, scientific(task.experiment).values())
        experiment = task.experiment.model_copy(update={"trainer": trainer})
        try:
            process, trial = spawn(self.job.trial, (experiment, folder, environment), slot.threads)
        except LOST:
            self.losses += 1
            if self.losses > LOSSES:
                raise InputError(
                    f"{self.job.out}: the process that starts runs ended {self.losses} times before a run began, as "
                    "when memory is short. Give the sweep more memory; the same command continues."
                ) from None
            self.pending.append(task)
            self.free.append(slot)
            return
        self.losses = 0
        self.started[process.sentinel] = Started(task, slot, process, trial, process.pid or 0)
        self.say("start", task)

    def ended(self, started: Started) -> None:
        """Settle a trial whose process has ended, or the process that it was forked from; then it ends soon, too."""
        started.process.join()
        code = started.process.exitcode
        started.process.close()
        self.free.append(started.slot)
        if code not in (0, BUSY):
            started.end(signal.SIGKILL)
        with suppress(EOFError), started.trial:  # an end without a line, too, is something to read
            if started.trial.poll():
                raise InputError(started.trial.recv())
        if code == BUSY:
            self.pending.append(started.task)
        elif due(self.job.out / started.task.id):
            self.retry(started, code)
        else:
            self.settle(started.task, started)

    def retry(self, started: Started, code: int | None) -> None:
        """Queue a run again, or leave the record of its failure, which a trial that was killed has not written."""
        task, folder = started.task, self.job.out / started.task.id
        if line := lacking(None, self.job.out):
            raise InputError(line)
        orphaned = code == ORPHANED
        self.attempts[task.id, orphaned] += 1
        recorded = records.state(folder) == "failed"
        why = records.read(folder / "record.json").error if recorded else ending(code)
        if code != WRONG and self.attempts[task.id, orphaned] <= (LOSSES if orphaned else self.job.retries):
            self.say("again", task, f": {why}")
            self.pending.append(task)
        elif (held := lease.acquire(folder)) is None:
            self.pending.append(task)
        else:
            if records.state(folder) in ("missing", "started"):
                write_failure(task.experiment, folder, ending(code))
            held.release()
            self.settle(task, started)

    def settle(self, task: Run, started: Started | None = None) -> None:
        """Count a run that has a record, from this call's trial or another launcher's."""
        folder, metric = self.job.out / task.id, self.job.metrics[task.facet]
        record = records.read(folder / "record.json")
        word = "done" if record.status == "finished" else record.status
        rest = f" after {clock(time.monotonic() - started.began)}" if started else " by another launcher"
        if word != "done":
            rest += f": {record.error}"
            self.notes.append(f"  {word}  {task.label}: {record.error}; log: {folder / 'log.txt'}")
        elif (value := record.score(*metric.split("/"))) is not None:
            rest += f", {metric} {value:.{decimals(metric)}f}{self.beside(task, value)}"
        self.settled += 1
        self.failed += word == "failed"
        left = self.total - self.settled
        each = (time.monotonic() - self.began) / self.settled
        far = f"{self.settled} of {self.total}" + (f", about {clock(each * left)} left" if left else "")
        self.say(word, task, f"{rest} ({far})")
        seeds = {run.experiment.seed for run in (*self.pending, *(trial.task for trial in self.started.values()))}
        if seeds and task.experiment.seed not in seeds:
            self.progress.hide()
            self.report(task.experiment.seed)

    def beside(self, task: Run, value: float) -> str:
        """Return the difference to the baseline with this seed, if that is there."""
        baseline, metric = self.job.baselines.get(task.id, task.id), self.job.metrics[task.facet]
        if baseline == task.id or records.state(self.job.out / baseline) != "finished":
            return ""
        base = records.read(self.job.out / baseline / "record.json").score(*metric.split("/"))
        return "" if base is None else f" ({value - base:+.{decimals(metric)}f} from the baseline)".replace("-", "−")

    def say(self, word: str, task: Run, rest: str = "") -> None:
        """Print a line about a run."""
        print(f"{word:<9}{task.id}  {task.label}{rest}", flush=True)

    def stop(self) -> None:
        """End the trials: asked first, killed after a while or at the second interrupt. They can be resumed."""
        for trial in self.started.values():
            trial.end(signal.SIGTERM)
        deadline = time.monotonic() + processes.GRACE
        while any(trial.process.is_alive() for trial in self.started.values()):
            if len(self.signals) > 1 or time.monotonic() > deadline:
                break
            time.sleep(POLL / 10)
        for trial in self.started.values():
            trial.end(signal.SIGKILL)


def spawn(trial: Trial, arguments: tuple[Any, ...], threads: int) -> tuple[BaseProcess, connection.Connection]:
    """Start a trial in a fork of a process that has imported torch and the like, which takes seconds, once.

    Return its process, and the end of a pipe that gets a line if the trial lacks what every other run would lack, too.

    That process, the fork server, has never touched CUDA. The signals that are for the launcher are blocked in it:
    while it imports, Ctrl-C would print a traceback, and SLURM sends SIGUSR2, the warning before a time limit, to every
    process of a job.

    Raises:
        EOFError, ConnectionError: the fork server was killed, so no trial was started; see `study.errors.LOST`.
    """
    from multiprocessing import forkserver, resource_tracker  # here, since Windows has none

    settings = {
        "OMP_NUM_THREADS": str(threads),  # for numpy's share; torch is told by the trial
        "PYTHONSAFEPATH": "1",  # a study.py in the working directory is not this package
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # asking for GPUs must not initialise CUDA before the fork
    }
    unset = {name: value for name, value in settings.items() if name not in os.environ}
    blocked = (signal.SIGINT, signal.SIGUSR2)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*(PRELOAD if trial is train else (trial.__module__,)), "study.engine.trial"])
    os.environ.update(unset)
    if len(os.fsencode(tempfile.gettempdir())) > SOCKET:
        tempfile.tempdir = "/tmp"
    resource_tracker.ensure_running()  # its start unblocks SIGINT, so it comes first
    signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    forkserver.ensure_running()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, blocked)
    for name in unset:
        del os.environ[name]
    launcher_end, trial_end = context.Pipe(duplex=False)
    with trial_end:
        process = context.Process(target=main, args=(trial_end, trial, *arguments))
        process.start()
    return process, launcher_end
