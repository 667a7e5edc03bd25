"""One run in a process of its own: its lease, its log, W&B's environment, and the reason if it has no record."""

from __future__ import annotations

import errno
import faulthandler
import math
import os
import re
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import NoReturn

from study import files, records
from study.config import Experiment, account
from study.errors import BUSY, UNWRITTEN, InputError
from study.sweep import lease, signals

Trial = Callable[[Experiment, Path], object]

WRONG = 2
"""Exit status of a trial with invalid input. It would fail again."""
STOPPED = 128 + signal.SIGTERM
"""Exit status of a trial that was asked to end."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
ROOM = 2**20
"""Bytes that must be free, or the disk counts as full."""
FOLDERS = re.compile(r"(?<![\w.])~?/(?:[^\s/'\":,;()]+/)+")
"""Folders in an error. A record does not describe the machine."""
HEADER = "---"
"""Beginning of the line in the log with which an attempt begins."""
LONGEST = 500


def train(experiment: Experiment, folder: Path) -> object:
    """The real trial. Imported here, so that a launcher stays free of torch."""
    from study.pruning.run import run

    return run(experiment, folder, hold=partial(lease.holding, wait=True))


def record_of(
    experiment: Experiment,
    folder: Path,
    watch: Callable[[str], object] = print,
    in_sweep: bool = False,
    base: Path | None = None,
) -> records.Record:
    """Return the record of a run, which is made in this process, and with its lease, if there is none.

    Args:
        experiment: what to run.
        folder: the run's folder.
        watch: called with a line of text now and then.
        in_sweep: wait for another process that has the run, and tell W&B of a record that is there already.
        base: folder of the run to prune, if it is not beside `folder`.

    Raises:
        InputError: another process has the run, or data, device or folder cannot be used, or the disk is full.
    """
    if not in_sweep and records.state(folder) in ("finished", "diverged"):
        return records.read(folder / "record.json")
    from study.pruning.run import run

    with lease.holding(folder, wait=in_sweep):
        try:
            return run(experiment, folder, watch, partial(lease.holding, wait=True), base)
        except (KeyboardInterrupt, SystemExit):
            kept = folder / records.CHECKPOINT
            way = f"continues from {kept}" if kept.exists() else "starts again, since nothing was saved yet"
            print(f"study: stopped; the same command {way}", file=sys.stderr, flush=True)
            raise
        except Exception as problem:
            if not isinstance(problem, InputError) and is_full(folder, problem):
                raise InputError(f"{folder}: the disk is full. Make room; the same command continues.") from None
            raise


def due(folder: Path, since: float = math.inf) -> bool:
    """Return True if a run must be started: it has no good record, nor a failed one that was written after `since`."""
    found = records.state(folder)
    if found == "failed":
        with suppress(FileNotFoundError):
            return (folder / "record.json").stat().st_mtime < since
    return found not in ("finished", "diverged")


def main(trial: Trial, experiment: Experiment, folder: Path, environment: Mapping[str, str], since: float) -> NoReturn:
    """The process of one attempt. Its exit status: 0 there is a good record, 1 it failed, or one of those above.

    The last line of the log of a failed attempt is the reason.
    """
    files.collect_seldom()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the launcher to answer
    with suppress(OSError):
        os.setpgid(0, 0)  # what a trial starts can be ended with it
    asked = []

    def stop(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        raise SystemExit(STOPPED)

    signal.signal(signal.SIGTERM, stop)
    signals.with_parent()
    try:
        held = lease.acquire(folder)
    except (InputError, OSError):
        os._exit(UNWRITTEN)
    if held is None:
        sys.exit(BUSY)
    code = 0
    try:
        if due(folder, since):
            (folder / "record.json").unlink(missing_ok=True)
            _redirect(folder / "log.txt")
            for name in account.OF_A_PROCESS:  # of whoever called the launcher
                os.environ.pop(name, None)
            os.environ.update(environment)
            trial(experiment, folder)
            if due(folder):
                raise RuntimeError("the trial ended without a record")
            for path in (folder / records.CHECKPOINT, *files.leftovers(folder)):  # of attempts that were killed
                path.unlink(missing_ok=True)
    except BaseException as problem:
        code = STOPPED if asked else _explain(folder, problem)  # libraries may turn the stop into another exception
    held.release()
    if code == UNWRITTEN:
        os._exit(code)  # an orderly end would write to the log
    sys.exit(code)


def _explain(folder: Path, problem: BaseException) -> int:
    """Print why an attempt failed, and return its exit status. An error after the record was written is none."""
    first = next(iter(str(problem).strip().splitlines()), "")
    wrong = isinstance(problem, InputError)
    with suppress(OSError):
        traceback.print_exception(problem)
        print(first if wrong else f"{type(problem).__name__}: {first}".removesuffix(": "), flush=True)
    if is_full(folder, problem):
        return UNWRITTEN
    return (WRONG if wrong else 1) if due(folder) else 0


def is_full(folder: Path, problem: BaseException | None) -> bool:
    """Return True if a disk without room, or one that is read-only, is behind a problem.

    torch has errors of its own for a file that it cannot write.
    """
    while problem is not None:
        if isinstance(problem, OSError) and problem.errno in FULL:
            return True
        problem = problem.__cause__ or problem.__context__
    try:
        return shutil.disk_usage(folder).free < ROOM
    except OSError:
        return False


def cause(code: int | None, log: Path) -> str:
    """Return why a process ended without a record: the last line of this attempt in its log, and its status."""
    try:
        lines = files.read_text(log, below=log.parent).strip().splitlines()
    except InputError:
        lines = []
    last = FOLDERS.sub("", lines[-1]) if lines and not lines[-1].startswith(HEADER) else ""
    if code in (1, WRONG) and last:
        return last[:LONGEST]
    why = f"ended with exit status {code} and no record"
    if code is not None and code < 0:
        short = ", as the kernel does when memory is short" if -code == signal.SIGKILL else ""
        why = f"killed by signal {-code} ({signal.Signals(-code).name}){short}"
    return (f"{why}; its log ends: {last}" if last else why)[:LONGEST]


def _redirect(log: Path) -> None:
    """Send everything this process and its libraries print to the log, after what an earlier attempt left there."""
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o644)
    os.dup2(target, 1)
    os.dup2(target, 2)
    os.close(target)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(line_buffering=True)
    faulthandler.enable()
    print(f"{HEADER} {time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime())} {HEADER}")
