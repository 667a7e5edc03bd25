"""One run in a process of its own: its lease, its log, W&B's environment, and the reason if it has no record."""

from __future__ import annotations

import faulthandler
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
from typing import NoReturn

from study import files, records
from study.config import Experiment, account
from study.errors import BUSY, InputError
from study.sweep import lease, signals

Trial = Callable[[Experiment, Path], object]

WRONG = 2
"""Exit status of a trial with invalid input. It would fail again."""
STOPPED = 128 + signal.SIGTERM
"""Exit status of a trial that was asked to end."""
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
    if not in_sweep and not due(folder):
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
        except Exception:
            check_room(folder)
            raise


def due(folder: Path) -> bool:
    """Return True if a run has no good record: it is missing, was interrupted, or has failed."""
    return records.state(folder) not in ("finished", "diverged")


def check_room(folder: Path) -> None:
    """Look at the disk after a failure: libraries have errors of their own for a file that they cannot write.

    Raises:
        InputError: the disk is full.
    """
    if shutil.disk_usage(folder).free < ROOM:
        raise InputError(f"{folder}: the disk is full. Make room; the same command continues.")


def main(trial: Trial, experiment: Experiment, folder: Path, environment: Mapping[str, str]) -> NoReturn:
    """The process of one attempt. Its exit status: 0 there is a good record, 1 it failed, or one of those above.

    The last line of the log of a failed attempt is the reason.
    """
    files.collect_seldom()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the launcher to answer
    with suppress(OSError):
        os.setpgid(0, 0)  # what a trial starts can be ended with it
    signals.with_parent()
    with signals.on_request() as asked:
        try:
            held = lease.acquire(folder)
        except InputError:
            sys.exit(WRONG)  # the launcher meets it too, and says it
        if held is None:
            sys.exit(BUSY)
        try:
            if due(folder):
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
            sys.exit(STOPPED if asked else _explain(folder, problem))
        sys.exit(0)


def _explain(folder: Path, problem: BaseException) -> int:
    """Print why an attempt failed, and return its exit status. An error after the record was written is none."""
    first = next(iter(str(problem).strip().splitlines()), "")
    wrong = isinstance(problem, InputError)
    with suppress(OSError):
        traceback.print_exception(problem)
        print(first if wrong else f"{type(problem).__name__}: {first}".removesuffix(": "), flush=True)
    return (WRONG if wrong else 1) if due(folder) else 0


def cause(code: int | None, log: Path) -> str:
    """Return why a process ended without a record: the last line of this attempt in its log, and its status."""
    try:
        last = files.read_text(log, below=log.parent).rstrip().rpartition("\n")[2]
    except InputError:
        last = HEADER
    last = "" if last.startswith(HEADER) else FOLDERS.sub("", last)
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
