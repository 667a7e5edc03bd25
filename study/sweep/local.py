"""The local engine: what is declared and missing, several trials side by side, each a process of its own.

What has been run is what is on disk: the same call again continues, and two launchers on one folder share the work. A
trial holds the lease of its run. A run whose lease another launcher's trial holds is left to it, and looked at again
until it has a record or is given up. A trial that ends without a record gets one that says why; a failed one is run
again as often as the call allows, on another GPU if there is one.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import MappingProxyType

from study import records
from study.config import Experiment, plugins, scientific
from study.config.experiment import threads_for
from study.errors import INTERRUPTED as INTERRUPTED
from study.errors import InputError
from study.metrics import decimals
from study.sweep import disk, lease, places, server, slots
from study.sweep.display import Progress, Running, choose, clock
from study.sweep.estimate import memory_need
from study.sweep.outcome import BUSY, LOST, UNWRITTEN, WRONG, cause, memory_kills
from study.sweep.signals import Interrupts
from study.sweep.spec import Cell, Spec
from study.sweep.trial import GRACE, Job, Trial, due, stamp, tidy, train, write_failure

POLL = 0.5
LOOK = 5.0
"""Seconds between two looks at runs that wait for a slot: another launcher may have made them."""
FORGIVEN = 3
"""Number of restarts that do not count as retries, for runs whose fork server was gone."""


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
    slot: slots.Slot
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


def tell(line: str, say: Callable[[str], object] = print) -> None:
    """Print what answers an interrupt. Ctrl-C ends whoever reads through a pipe too, and the answer still goes on."""
    try:
        say(line)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def tasks(spec: Spec, cells: Iterable[Cell], out: Path) -> list[Task]:
    """List the runs to start: declared, applicable, and missing, interrupted or failed.

    Raises:
        InputError: a record in the folder cannot be read.
    """
    found = []
    for cell in cells:
        if cell.experiment is not None and cell.id is not None:
            task = Task(spec.label(cell), cell, cell.experiment, out / cell.id, stamp(out / cell.id))
            if due(task.folder, task.seen):
                found.append(task)
    return found


def layout_for(cells: Sequence[Cell], out: Path, wanted: int | None) -> tuple[list[slots.Slot], str | None]:
    """Return the slots of this machine for runs, and where GPUs are shared, one line that says why so many share one.

    Raises:
        InputError: a run asks for more GPUs than there are.
    """
    trainers = [cell.experiment.trainer for cell in cells if cell.experiment]
    layout = slots.layout(wanted, trainers)
    if wanted or layout[0].gpu is None or layout[0].processes > 1:
        return layout, None
    need = memory_need(cells, out, {gpu.name for gpu in slots.visible().values()})
    shared, why = slots.per_gpu(need)
    return slots.layout(wanted, trainers, shared), why


def run_sweep(
    spec: Spec,
    out: Path,
    wanted_slots: int | None = None,
    *,
    cells: Iterable[Cell] | None = None,
    trial: Trial = train,
    policy: Policy = POLICY,
    sweep: Mapping[str, str] = MappingProxyType({}),
) -> int:
    """Run what is declared and missing in `out`; returns 0, 1 if runs failed, 130 if it was interrupted.

    Args:
        spec: The sweep.
        out: Folder of the runs, one folder a run, named by its identity.
        wanted_slots: How many trials at a time (default: from the machine).
        cells: Only these cells of the sweep (default: all).
        trial: What runs one experiment into its folder; importable, since it is called in another process.
        policy: What is done with trials that fail or hang.
        sweep: Variables of W&B that replace those of offline runs, such as the name of a sweep that a server has made.

    Raises:
        InputError: a run asks for more GPUs than there are, the disk is full, or a record or a run's folder cannot be
            read or written; no trial is left running.
    """
    chosen = [cell for cell in (spec.cells if cells is None else cells) if cell.experiment]
    todo = tasks(spec, chosen, out)
    due_now = {task.folder.name for task in todo}
    for cell in chosen:
        if cell.id is not None and cell.id not in due_now:
            tidy(out / cell.id)
    if not todo:
        print(f"{spec.name}: nothing to do, all {len(chosen)} runs are there")
        return 0
    layout, why = layout_for([task.cell for task in todo], out, wanted_slots)
    if why:
        print(why)
    print(f"{spec.name}: {len(todo)} of {len(chosen)} runs to do, {slots.describe(layout)}, in {out}", flush=True)
    progress = Progress(len(chosen), len(layout), done=len(chosen) - len(todo))
    launcher = Launcher(spec, out, layout, trial, progress, policy, sweep)
    with Interrupts() as interrupts:
        try:
            lease.compare_clocks(out)
            server.start(trial, layout[0].threads)
            places.write(spec, out)
            launcher.run(todo)
        except KeyboardInterrupt:
            stopping = "stopping the runs; they keep their last step. A second interrupt kills them at once"
            tell(stopping, launcher.display.say)
            launcher.stop(hurry=lambda: interrupts.again)
            launcher.display.close()
            done = len(chosen) - len(tasks(spec, chosen, out))  # by any launcher
            tell(f"interrupted: {done} of {len(chosen)} runs done; the same command again continues")
            return INTERRUPTED
        except BaseException as problem:
            interrupts.answer()
            launcher.stop(hurry=lambda: interrupts.again)
            if isinstance(problem, OSError) and (full := disk.problem(out, problem)):
                raise InputError(full) from None
            raise
        finally:
            launcher.display.close()
    return launcher.report()


class Launcher:
    """One call's worth of trials: starts them in free slots, settles how each ended."""

    def __init__(
        self,
        spec: Spec,
        out: Path,
        layout: list[slots.Slot],
        trial: Trial,
        progress: Progress,
        policy: Policy,
        sweep: Mapping[str, str],
    ) -> None:
        self.spec, self.out, self.trial, self.progress, self.policy = spec, out, trial, progress, policy
        self.sweep = sweep
        self.pool = slots.Pool(layout)
        self.pending: deque[Task] = deque()
        self.elsewhere: list[Task] = []
        self.started: dict[int, Started] = {}
        self.orphans: list[Started] = []
        self.lost: Counter[str] = Counter()
        self.failures: list[tuple[Task, str]] = []
        self.diverged: list[tuple[Task, str]] = []
        self.looked = time.monotonic()
        self.display = choose(progress)

    def run(self, todo: list[Task]) -> None:
        """Until every task is settled, by us or by another launcher on the same folder.

        Raises:
            InputError: the disk is full, or a run's folder cannot be written or read.
        """
        self.pending.extend(todo)
        while self.pending or self.started or self.orphans or self.elsewhere:
            self._fill()
            for sentinel in connection.wait(list(self.started), timeout=POLL):
                assert isinstance(sentinel, int)
                self._ended(self.started.pop(sentinel))
            self._look_at_orphans()
            self.look()
            self._enforce_limit()
            self.display.tick()

    def stop(self, hurry: Callable[[], bool]) -> None:
        """End the trials: asked first, killed after a few seconds or when `hurry` says so. They can be resumed."""
        under_way = [*self.started.values(), *self.orphans]
        for one in under_way:
            one.ask_to_end()
        deadline = time.monotonic() + GRACE
        while self._any_left() and time.monotonic() < deadline and not hurry():
            time.sleep(POLL / 10)
        for one in under_way:
            one.kill()
        self.progress.running.clear()

    def _any_left(self) -> bool:
        return any(one.process.is_alive() for one in self.started.values()) or any(
            lease.held(one.task.folder) for one in self.orphans
        )

    def report(self) -> int:
        """Say how it went; the status of the call."""
        progress = self.progress
        print(f"{self.spec.name}: {progress.done} of {progress.total} runs done, {progress.failed} failed")
        for task, error in self.failures:
            tried = f" (tried {task.failures} times)" if task.failures > 1 else ""
            print(f"  failed  {task.label}: {error}{tried}\n          log: {task.folder / 'log.txt'}")
        for task, error in self.diverged:
            print(f"  diverged  {task.label}: {error}; a result, so it is not run again")
        if self.failures:
            print("the same command again runs the failed ones again")
        return 1 if self.failures else 0

    def _fill(self) -> None:
        """Start what there are slots for. A run that has failed waits for a slot on another GPU."""
        for _ in range(len(self.pending)):
            if not self.pool.free:
                return
            task = self.pending.popleft()
            if lease.held(task.folder):
                self._leave(task)
            elif not due(task.folder, task.seen):
                self._settle(task, None)
            elif slot := self.pool.take(self.pool.failed_on.get(task.name, ())):
                self._start(task, slot)
            else:
                self.pending.append(task)

    def _start(self, task: Task, slot: slots.Slot) -> None:
        job = Job(
            _placed(task, slot, self.out),
            task.folder,
            task.cell.given,
            _environment(task, slot, self.sweep),
            task.seen,
        )
        with suppress(OSError):  # the trial meets it too, and says so
            plugins.keep(task.folder, scientific(task.experiment).values())
        process = server.spawn(self.trial, job)
        assert process.pid is not None
        self.started[process.sentinel] = Started(task, slot, process, process.pid)
        self.progress.running[task.name] = Running(task.label, task.folder)
        self.display.say(f"start   {task.name}  {task.label}")

    def _ended(self, ended: Started) -> None:
        """A trial's process has ended, or the one that would know has."""
        code = ended.process.exitcode
        if code == LOST and lease.held(ended.task.folder):
            self.orphans.append(ended)
        else:
            self._take_back(ended, code)

    def _look_at_orphans(self) -> None:
        """Trials that go on while the process that they were forked from is gone: their lease tells when they end."""
        for orphan in list(self.orphans):
            if not lease.held(orphan.task.folder):
                self.orphans.remove(orphan)
                self._take_back(orphan, LOST)

    def _take_back(self, ended: Started, code: int | None) -> None:
        """The slot, and the record or the reason why there is none."""
        task, slot = ended.task, ended.slot
        self.pool.give(slot)
        self.progress.running.pop(task.name)
        ended.process.join()
        ended.process.close()
        if code not in (0, BUSY):
            ended.sweep_up()
        if code == UNWRITTEN:
            raise InputError(disk.problem(task.folder) or disk.full(self.out))
        if code != BUSY and self._recorded(ended, code):
            self._settle(task, ended, again=code != WRONG)
        else:
            self._leave(task)

    def _recorded(self, ended: Started, code: int | None) -> bool:
        """Return True if the trial has a record or gets one with its error; False if the run must be started again."""
        task = ended.task
        if not due(task.folder, None):
            return True
        if code == LOST and self.lost[task.name] < FORGIVEN:
            self.lost[task.name] += 1
            return False
        return self._write_failure(ended, code)

    def _write_failure(self, ended: Started, code: int | None) -> bool:
        """Write the record of a failed trial that left none; return False if another launcher runs it now."""
        task = ended.task
        held = lease.acquire(task.folder)
        if held is None:
            return False
        if due(task.folder, None):
            limit = self.policy.time_limit if ended.overdue else None
            why = cause(code, task.folder / "log.txt", limit, memory_kills() > ended.kills)
            try:
                write_failure(task.experiment, task.folder, why)
            except OSError as problem:
                raise InputError(disk.problem(task.folder, problem) or f"{task.folder}: {problem}") from None
        held.release()
        return True

    def _settle(self, task: Task, ended: Started | None, again: bool = True) -> None:
        """A run that has a record, from this call's trial or another launcher's; `again`: it may be run again."""
        record = records.read(task.folder / "record.json")
        if record.status == "failed":
            self._failed(task, record.error or "no reason recorded", again)
        else:
            if record.status == "diverged":
                self.diverged.append((task, record.error or "no reason recorded"))
            self._done(task, record, ended)
        if ended is not None:
            self._judge(ended, record.status != "failed")

    def _done(self, task: Task, record: records.Record, ended: Started | None) -> None:
        word = "done" if record.status == "finished" else "diverged"
        value = record.score(*self.spec.metric)
        metric = "/".join(self.spec.metric)
        score = "" if value is None else f", {metric} {value:.{decimals(metric)}f}"
        self.progress.done += 1
        took = " by another launcher"
        if ended is not None:
            run = Running(task.label, task.folder, ended.began)
            self.progress.ended(run)
            took = f" after {clock(run.seconds)}"
        self.display.say(f"{word:8}{task.name}  {task.label}{took}{score}")

    def _failed(self, task: Task, error: str, again: bool) -> None:
        task = replace(task, failures=task.failures + 1, seen=stamp(task.folder))
        if again and task.failures <= self.policy.retries:
            self.pending.append(task)
            self.display.say(f"again   {task.name}  {task.label}: {error}")
            return
        self.progress.failed += 1
        self.failures.append((task, error))
        self.display.say(f"failed  {task.name}  {task.label}: {error}")

    def _judge(self, ended: Started, well: bool) -> None:
        """Update the state of the GPU after a run. Runs that failed on an excluded GPU run again elsewhere."""
        pool, gpu, before = self.pool, ended.slot.gpu, set(self.pool.out)
        if well:
            pool.succeeded(gpu)
        else:
            pool.failed(gpu, ended.task.name)
        for one in before - pool.out:
            self.display.say(f"GPU {one} is used again: what failed on it fails elsewhere too")
        for one in pool.out - before:
            runs = pool.blamed[one]
            self.display.say(f"GPU {one} is taken out: {len(runs)} runs in a row failed on it, while others succeeded")
            for task, error in [failure for failure in self.failures if failure[0].name in runs]:
                self.failures.remove((task, error))
                self.progress.failed -= 1
                self.pending.append(replace(task, failures=0))

    def _enforce_limit(self) -> None:
        limit = self.policy.time_limit
        if limit is None:
            return
        for one in (*self.started.values(), *self.orphans):
            over = time.monotonic() - one.began - limit
            if over > 0 and not one.overdue:
                one.overdue = True
                one.ask_to_end()
            elif over > GRACE:
                one.kill()

    def _leave(self, task: Task) -> None:
        self.elsewhere.append(task)
        self.progress.elsewhere = len(self.elsewhere)

    def look(self) -> None:
        """Settle what other launchers have made, and take back what they gave up."""
        for task in [task for task in self.elsewhere if not lease.held(task.folder)]:
            self.elsewhere.remove(task)
            self.progress.elsewhere = len(self.elsewhere)
            self.pending.append(task)
        if time.monotonic() - self.looked >= LOOK:
            self.looked = time.monotonic()
            for task in [task for task in self.pending if not due(task.folder, task.seen)]:
                self.pending.remove(task)
                self._settle(task, None)


def _placed(task: Task, slot: slots.Slot, out: Path) -> Experiment:
    """The experiment with what depends on this machine and this call, none of it part of the identity."""
    trainer = task.experiment.trainer
    threads = threads_for(task.experiment.model.width, trainer.threads, slot.gpu is not None) or slot.threads
    here = trainer.model_copy(update={"threads": threads})
    return task.experiment.model_copy(update={"out": str(out), "trainer": here})


def _environment(task: Task, slot: slots.Slot, sweep: Mapping[str, str]) -> dict[str, str]:
    """Return the W&B environment of a trial: as an agent sets it, but without a sweep that no server has.

    `sweep` names the one that a server has made, with its project and entity. A run that names another one is refused
    (404), online and when it is sent later. Name, group and tags follow from the run's place (`study.sweep.places`).
    """
    contract = {
        "WANDB_MODE": os.environ.get("WANDB_MODE", "offline"),
        **sweep,
        "WANDB_RUN_ID": task.folder.name,
        "WANDB_DIR": str(task.folder.resolve()),
    }
    return contract | ({"CUDA_VISIBLE_DEVICES": slot.gpu} if slot.gpu is not None else {})
