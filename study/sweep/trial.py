"""One run in its own process: its lease, its log, W&B's environment, and a record even when it fails."""

from __future__ import annotations

import errno
import faulthandler
import os
import re
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import yaml

from study import files, records
from study.config import Experiment, account, config_hash, experiment_id, recorded
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
HEADER = "---"
"""Beginning of the line in the log with which an attempt begins."""
LONGEST = 500


@dataclass(frozen=True)
class Attempt:
    """Input of a trial's process.

    Attributes:
        experiment: what to run.
        folder: the run's folder.
        given: parameters of the sweep, for W&B.
        environment: variables of W&B.
        seen: stamp of the failed record that is replaced.
        last: write a record if it fails.
    """

    experiment: Experiment
    folder: Path
    given: Mapping[str, Any]
    environment: Mapping[str, str]
    seen: int | None = None
    last: bool = True


def train(experiment: Experiment, folder: Path) -> object:
    """The real trial. Imported here, so that a launcher stays free of torch."""
    from study.pruning.run import run

    return run(experiment, folder, hold=partial(lease.holding, wait=True))


@contextmanager
def guarded(folder: Path, wait: bool = False) -> Iterator[None]:
    """Make a run within, in this process: with its lease, its progress on a terminal, and problems in one line.

    Args:
        folder: the run's folder.
        wait: wait as long as another process has the run; else that is an error.

    Raises:
        InputError: another process has the run, the folder cannot be written, or the disk is full.
    """
    with lease.holding(folder, wait), signals.announced(folder):
        try:
            yield
        except InputError:
            raise
        except Exception as problem:
            if is_full(folder, problem):
                raise InputError(f"{folder}: the disk is full. Make room; the same command continues.") from None
            raise


def record_of(
    experiment: Experiment, folder: Path, watch: Callable[[str], object] = print, in_sweep: bool = False
) -> records.Record:
    """Return the record of a run, which is made in this process if there is none.

    Args:
        experiment: what to run.
        folder: the run's folder.
        watch: called with a line of text now and then.
        in_sweep: wait for another process that has the run, and tell W&B of a record that is there already.

    Raises:
        InputError: another process has the run, or data, device or folder cannot be used.
    """
    if records.state(folder) in ("finished", "diverged") and not in_sweep:
        record = records.read(folder / "record.json")
        tidy(folder)
        return record
    from study.pruning.run import run

    with guarded(folder, wait=in_sweep):
        return run(experiment, folder, watch, partial(lease.holding, wait=True))


def stamp(folder: Path) -> int | None:
    """Return the modification time of the record in nanoseconds. It separates an old failure from a new one."""
    try:
        return (folder / "record.json").stat().st_mtime_ns
    except (FileNotFoundError, NotADirectoryError):
        return None


def due(folder: Path, seen: int | None) -> bool:
    """Return True if a run must be started: it has no record, or its failed record still has the stamp `seen`."""
    found = records.state(folder)
    return found in ("missing", "started") or (found == "failed" and stamp(folder) == seen)


def tidy(folder: Path) -> None:
    """Remove what a killed process has left beside a good record, unless a process is there now."""
    with suppress(OSError, InputError):  # somebody else's folder
        if _left(folder) and (held := lease.acquire(folder)) is not None:
            for path in _left(folder):
                path.unlink(missing_ok=True)
            held.release()


def _left(folder: Path) -> list[Path]:
    kept = [folder / name for name in (records.CHECKPOINT, records.PARTS) if (folder / name).exists()]
    return kept + files.leftovers(folder)


def main(trial: Trial, attempt: Attempt) -> NoReturn:
    """The process of one attempt. Its exit status: 0 there is a good record, 1 it failed, or one of those above."""
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
        held = lease.acquire(attempt.folder)
    except (InputError, OSError):
        os._exit(UNWRITTEN)
    if held is None:
        sys.exit(BUSY)
    try:
        code = _run(trial, attempt) if due(attempt.folder, attempt.seen) else 0
    except BaseException as problem:
        code = STOPPED if asked else _settle(attempt, problem)  # libraries may turn the stop into another exception
    for path in _left(attempt.folder) if code == 0 else ():
        path.unlink(missing_ok=True)
    held.release()
    if code == UNWRITTEN:
        os._exit(code)  # an orderly end would write to the log
    sys.exit(code)


def _run(trial: Trial, attempt: Attempt) -> int:
    (attempt.folder / "record.json").unlink(missing_ok=True)
    _redirect(attempt.folder / "log.txt")
    _environment(attempt)
    trial(attempt.experiment, attempt.folder)
    if records.state(attempt.folder) in ("missing", "started"):
        raise RuntimeError("the trial ended without a record")
    return 0


def _settle(attempt: Attempt, problem: BaseException) -> int:
    """After an exception: return the exit status. The last attempt gets a record that says why, if the disk has room.

    A failure of W&B after the record was written is none.
    """
    with suppress(OSError):
        traceback.print_exception(problem)
    if is_full(attempt.folder, problem):
        return UNWRITTEN
    if records.state(attempt.folder) in ("finished", "diverged"):
        return 0
    wrong = isinstance(problem, InputError)
    if attempt.last or wrong:
        write_failure(attempt.experiment, attempt.folder, error_line(problem))
    return WRONG if wrong else 1


def write_failure(experiment: Experiment, folder: Path, error: str) -> None:
    """Write a record that says why there are no numbers."""
    record = records.Record(
        protocol=experiment.protocol,
        id=experiment_id(experiment),
        status="failed",
        error=error,
        config=recorded(experiment),
        config_hash=config_hash(experiment),
        seed=experiment.seed,
    )
    files.write(folder / "record.json", records.dumps(record))


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


def error_line(problem: BaseException) -> str:
    """`Type: first line`, without folders: a record does not describe the machine."""
    first = next(iter(str(problem).strip().splitlines()), "")
    text = first if isinstance(problem, InputError) else f"{type(problem).__name__}: {first}".removesuffix(": ")
    return FOLDERS.sub("", text)[:LONGEST]


def cause(code: int | None, log: Path) -> str:
    """Return why a process ended that could not say so itself, and the last line of this attempt in its log."""
    if code == 1 and (words := last_words(log)):
        return words.removeprefix("; its log ends: ")[:LONGEST]
    why = f"ended with exit status {code} and no record"
    if code is not None and code < 0:
        known = f" ({signal.Signals(-code).name})" if -code in set(signal.Signals) else ""
        short = ", as the kernel does when memory is short" if -code == signal.SIGKILL else ""
        why = f"killed by signal {-code}{known}{short}"
    return f"{why}{last_words(log)}"[:LONGEST]


def last_words(log: Path) -> str:
    """`; its log ends: …`, with the last line of this attempt, or that with which Python says why it crashed."""
    try:
        lines = files.read_text(log, below=log.parent).strip().splitlines()[-50:]
    except InputError:
        return ""
    fatal = [line for line in lines if line.startswith("Fatal Python error")]
    last = (fatal or lines or [HEADER])[-1].strip()
    return "" if last.startswith(HEADER) else f"; its log ends: {FOLDERS.sub('', last)}"


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
    print(f"{HEADER} {time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime())} ---")


def _environment(attempt: Attempt) -> None:
    """Set the environment as a W&B agent does; sweep parameters only if the run belongs to a W&B sweep."""
    for name in account.OF_A_PROCESS:  # of whoever called the launcher
        os.environ.pop(name, None)
    os.environ.update(attempt.environment)
    if "WANDB_SWEEP_ID" in attempt.environment:
        parameters = {"wandb_version": 1, **{name: {"value": value} for name, value in attempt.given.items()}}
        path = attempt.folder / "sweep-parameters.yaml"
        files.write(path, yaml.safe_dump(parameters, sort_keys=False))
        os.environ["WANDB_SWEEP_PARAM_PATH"] = str(path.resolve())
