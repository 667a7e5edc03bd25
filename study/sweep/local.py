"""The local engine: what is declared and missing, several trials side by side, each a process of its own.

What has been run is what is on disk: the same call again continues, and two launchers on one folder share the work.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from study.errors import INTERRUPTED as INTERRUPTED
from study.errors import InputError
from study.sweep import disk, lease, places, server, slots
from study.sweep.display import Progress
from study.sweep.estimate import memory_need
from study.sweep.launcher import Launcher
from study.sweep.signals import Interrupts
from study.sweep.spec import Cell, Spec
from study.sweep.task import Policy, Task
from study.sweep.trial import Trial, due, stamp, tidy, train

POLICY = Policy()
NO_SWEEP: Mapping[str, str] = MappingProxyType({})
"""No server has made the sweep."""


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
    layout = slots.layout_for(wanted, trainers)
    if wanted or layout[0].gpu is None or layout[0].processes > 1:
        return layout, None
    need = memory_need(cells, out, {gpu.name for gpu in slots.visible().values()})
    shared, why = slots.per_gpu(need)
    return slots.layout_for(wanted, trainers, shared), why


def run_sweep(
    spec: Spec,
    out: Path,
    wanted_slots: int | None = None,
    *,
    cells: Iterable[Cell] | None = None,
    trial: Trial = train,
    preload: Iterable[str] = server.PRELOAD,
    policy: Policy = POLICY,
    sweep: Mapping[str, str] = NO_SWEEP,
) -> int:
    """Run what is declared and missing in `out`; returns 0, 1 if runs failed, 130 if it was interrupted.

    Args:
        spec: The sweep.
        out: Folder of the runs, one folder a run, named by its identity.
        wanted_slots: How many trials at a time (default: from the machine).
        cells: Only these cells of the sweep (default: all).
        trial: What runs one experiment into its folder; importable, since it is called in another process.
        preload: Modules that the server imports before the first trial.
        policy: What is done with trials that fail or hang.
        sweep: Variables of W&B that name the sweep which a server has made.

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
            server.start(preload, layout[0].threads)
            places.write(spec, out)
            launcher.run(todo)
        except KeyboardInterrupt:
            stopping = "stopping the trials; they can be continued. A second interrupt kills them at once"
            tell(stopping, launcher.display.say)
            launcher.stop(hurry=lambda: interrupts.again)
            launcher.display.close()
            tell(f"interrupted: {progress.done} of {len(chosen)} runs done; the same command again continues")
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
