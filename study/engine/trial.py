"""One run in a process of its own: its lease, its log, W&B's environment, and the record of its failure."""

import faulthandler
import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

from study import files, processes
from study.config import Experiment, account, config_hash, plugins, recorded
from study.engine import lease
from study.errors import BUSY, InputError, lacking
from study.folders import require_working
from study.store import records

Trial = Callable[[Experiment, Path], object]

WRONG = 2
"""Exit status of a trial with invalid input. It would fail again."""
STOPPED = 128 + signal.SIGTERM
"""Exit status of a trial that was asked to end."""
FOLDERS = re.compile(r"(?<![\w.])~?/(?:[^\s/'\":,;()]+/)+")
"""Folders in an error. A record does not describe the machine."""
LONGEST = 500
"""Letters of an error in a record."""


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
    require_working(folder.parent)
    if not in_sweep and not due(folder):
        tidy(folder)
        return records.read(folder / "record.json")
    with lease.holding(folder, wait=in_sweep):
        try:
            from study.pruning.run import run

            record = run(experiment, folder, watch, partial(lease.holding, wait=True), base)
            tidy(folder)
            return record
        except (KeyboardInterrupt, SystemExit):
            kept = folder / records.CHECKPOINT
            outlook = f"continues from {kept}" if kept.exists() else "starts again, since nothing was saved yet"
            print(f"study: stopped; the same command {outlook}", file=sys.stderr, flush=True)
            raise
        except Exception as problem:
            if line := lack_of(problem, folder):
                raise InputError(line) from None
            raise


def due(folder: Path) -> bool:
    """Return True if a run has no good record: it is missing, was interrupted, or has failed."""
    return records.state(folder) not in records.DONE


def tidy(folder: Path) -> None:
    """Remove what attempts that were killed have left beside a record."""
    with suppress(OSError):
        (folder / records.CHECKPOINT).unlink()
    files.clean(folder, folder / plugins.FOLDER)


def lack_of(problem: BaseException, folder: Path) -> str | None:
    """Return one line about what every other run would lack, too; None: nothing, or a user's own file lacks it."""
    return None if plugins.line_of(problem) else lacking(problem, folder)


def main(
    launcher: Connection, trial: Trial, experiment: Experiment, folder: Path, environment: Mapping[str, str]
) -> NoReturn:
    """The process of one attempt. Its exit status: 0 there is a good record, 1 it failed, or one of those above.

    The record of a failed attempt says why; the next attempt removes it. What every other run would lack, too, is no
    failure of this one: the launcher gets a line about it.
    """
    files.collect_seldom()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the launcher to answer
    with suppress(OSError):
        os.setpgid(0, 0)  # what a trial starts can be ended with it
    processes.with_parent()
    with processes.on_request() as signals:
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
                tidy(folder)
        except BaseException as problem:
            with suppress(OSError):  # the log may be what cannot be written
                traceback.print_exception(problem)
            if signals:
                sys.exit(STOPPED)
            if line := lack_of(problem, folder):
                launcher.send(line)
                sys.exit(1)
            if due(folder):
                first, wrong = next(iter(str(problem).strip().splitlines()), ""), isinstance(problem, InputError)
                error = first if wrong else f"{type(problem).__name__}: {first}".removesuffix(": ")
                write_failure(experiment, folder, FOLDERS.sub("", error)[:LONGEST])
                sys.exit(WRONG if wrong else 1)
        sys.exit(0)


def write_failure(experiment: Experiment, folder: Path, error: str) -> None:
    """Write a record that says why there are no numbers."""
    record = records.Record(
        status="failed",
        error=error,
        protocol=experiment.protocol,
        id=folder.name,
        seed=experiment.seed,
        config=recorded(experiment),
        config_hash=config_hash(experiment),
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
    print(time.strftime("--- %Y-%m-%d %H:%M:%S UTC ---", time.gmtime()))
