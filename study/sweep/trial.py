"""One trial, in its own process: the lease, the log, W&B's environment, and a record even when it fails."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import re
import signal
import sys
import threading
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
from study.errors import InputError
from study.sweep import disk, display, lease, signals
from study.sweep.outcome import BUSY, STOPPED, UNWRITTEN, WRONG, error_line

Trial = Callable[[Experiment, Path], object]

LEFT = re.compile(rf"{files.TEMPORARY.pattern}|(checkpoint|model|progress)\.tmp|\.(record|history)\.json.?\.\d+")
"""Names of temporary files in a run's folder, also those of earlier versions."""
GRACE = 5.0
"""Seconds that a process has to end by itself before it is killed."""


@dataclass(frozen=True)
class Job:
    """Input of a trial's process. `seen` is the stamp of the failed record that it replaces."""

    experiment: Experiment
    folder: Path
    given: Mapping[str, Any]
    environment: Mapping[str, str]
    seen: int | None = None


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
        InputError: another process has the run, or the folder cannot be written.
    """
    with lease.holding(folder, wait), signals.announced(folder), disk.reported(folder), display.following(folder):
        yield


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
    """Remove what a killed process has left beside a good record: temporary files, its claim and its checkpoint."""
    with suppress(OSError, InputError):  # somebody else's folder
        names = [
            name for name in os.listdir(folder) if name in (records.CHECKPOINT, records.PARTS) or LEFT.fullmatch(name)
        ]
        if not (names or lease.claimed(folder)) or (held := lease.acquire(folder)) is None:
            return
        try:
            for name in names:
                (folder / name).unlink(missing_ok=True)
        finally:
            held.release()


def main(trial: Trial, job: Job) -> NoReturn:
    """The process of one trial. Its exit status: 0 there is a good record, else one of `study.sweep.outcome`, or 1."""
    files.collect_seldom()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the launcher to answer
    with suppress(OSError):
        os.setpgid(0, 0)  # what a trial starts can be ended with it
    try:
        held = lease.acquire(job.folder)
    except (InputError, OSError):
        os._exit(UNWRITTEN)
    if held is None:
        sys.exit(BUSY)
    stopping = _end_with_launcher()
    held.keep(lost=lambda: os.kill(os.getpid(), signal.SIGTERM))
    try:
        code = _attempt(trial, job) if due(job.folder, job.seen) else 0
    except BaseException as problem:
        code = STOPPED if stopping.is_set() else _settle(job, problem)  # libraries may turn the stop into another one
    held.release()
    if code == UNWRITTEN:
        os._exit(code)  # an orderly end would write to the log
    sys.exit(code)


def _attempt(trial: Trial, job: Job) -> int:
    (job.folder / "record.json").unlink(missing_ok=True)
    _redirect(job.folder / "log.txt")
    _environment(job)
    trial(job.experiment, job.folder)
    found = records.state(job.folder)
    if found in ("missing", "started"):
        raise RuntimeError("the trial ended without a record")
    return 1 if found == "failed" else 0


def _settle(job: Job, problem: BaseException) -> int:
    """After an exception: a record that says so, unless the disk is at fault. The exit status."""
    with suppress(OSError):
        traceback.print_exception(problem)
    if disk.problem(job.folder, problem):
        return UNWRITTEN
    try:
        if records.state(job.folder) in ("missing", "started"):
            write_failure(job.experiment, job.folder, error_line(problem))
        if records.state(job.folder) != "failed":
            return 0
    except OSError:
        return UNWRITTEN
    except InputError:  # the record cannot be read; the launcher meets it too
        return WRONG
    return WRONG if isinstance(problem, InputError) else 1


def write_failure(experiment: Experiment, folder: Path, error: str) -> None:
    """A record that says why there are no numbers."""
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
    print(f"--- {time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime())} ---")


def _end_with_launcher() -> threading.Event:
    """End on SIGTERM, and when the launcher is gone: a run without one would be a run that nobody counts."""
    stopping = threading.Event()

    def stop(signum: int, frame: FrameType | None) -> None:
        stopping.set()
        raise SystemExit(STOPPED)

    def watch() -> None:
        launcher = multiprocessing.parent_process()
        if launcher is not None:
            launcher.join()
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(GRACE)
            if os.getpgrp() == os.getpid():
                os.killpg(0, signal.SIGKILL)
            os._exit(STOPPED)

    signal.signal(signal.SIGTERM, stop)
    threading.Thread(target=watch, name="launcher-watch", daemon=True).start()
    return stopping


def _environment(job: Job) -> None:
    """Set the environment as a W&B agent does; sweep parameters only if the trial belongs to a W&B sweep."""
    for name in account.OF_A_PROCESS:  # of whoever called the launcher
        os.environ.pop(name, None)
    os.environ.update(job.environment)
    if "WANDB_SWEEP_ID" in job.environment:
        parameters = {"wandb_version": 1, **{name: {"value": value} for name, value in job.given.items()}}
        path = job.folder / "sweep-parameters.yaml"
        files.write(path, yaml.safe_dump(parameters, sort_keys=False))
        os.environ["WANDB_SWEEP_PARAM_PATH"] = str(path.resolve())
