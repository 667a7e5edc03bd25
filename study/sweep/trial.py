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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import yaml

from study import records
from study.config import Experiment, config_hash, experiment_id
from study.errors import InputError
from study.sweep import lease

Trial = Callable[[Experiment, Path], object]

BUSY = 75
"""Exit status of a trial whose lease another process holds."""
STOPPED = 128 + signal.SIGTERM
GRACE = 5.0
"""Seconds that a process has to end by itself before it is killed."""


@dataclass(frozen=True)
class Job:
    """What a trial's process is told. `seen` is the stamp of the failed record that it is to replace."""

    experiment: Experiment
    folder: Path
    given: Mapping[str, Any]
    environment: Mapping[str, str]
    seen: int | None = None


def train(experiment: Experiment, folder: Path) -> object:
    """The real trial. Imported here, so that a launcher stays free of torch."""
    from study.pruning.run import run

    return run(experiment, folder, hold=lease.waiting)


def stamp(folder: Path) -> int | None:
    """When the record was written, in nanoseconds: tells a failure seen before from one that happened since."""
    try:
        return (folder / "record.json").stat().st_mtime_ns
    except (FileNotFoundError, NotADirectoryError):
        return None


def due(folder: Path, seen: int | None) -> bool:
    """Whether a run is to be run: it has no record, or still the failed one that was `seen` when the call began."""
    found = records.state(folder)
    return found in ("missing", "started") or (found == "failed" and stamp(folder) == seen)


def main(trial: Trial, job: Job) -> NoReturn:
    """The process of one trial. Its exit status: 0 there is a good record, 1 failed, BUSY another process has it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the launcher is the one to answer
    try:
        held = lease.acquire(job.folder)
    except InputError:  # the launcher meets it too, and says so
        sys.exit(1)
    if held is None:
        sys.exit(BUSY)
    if not due(job.folder, job.seen):
        sys.exit(0)
    (job.folder / "record.json").unlink(missing_ok=True)
    _redirect(job.folder / "log.txt")
    stopping = _end_with_launcher()
    _environment(job)
    try:
        trial(job.experiment, job.folder)
        if records.state(job.folder) in ("missing", "started"):
            raise RuntimeError("the trial ended without a record")
    except BaseException as problem:
        if stopping.is_set():  # libraries may turn the interruption into another exception
            sys.exit(STOPPED)
        traceback.print_exc()
        if records.state(job.folder) in ("missing", "started"):
            write_failure(job.experiment, job.folder, error_line(problem))
    sys.exit(1 if records.state(job.folder) == "failed" else 0)


def write_failure(experiment: Experiment, folder: Path, error: str) -> None:
    """A record that says why there are no numbers."""
    config = experiment.model_dump(mode="json", exclude={"out": True, "trainer": True, "tracking": True})
    config["data"].pop("folder", None)
    record = records.Record(
        protocol=experiment.protocol,
        id=experiment_id(experiment),
        status="failed",
        error=error,
        config=config,
        config_hash=config_hash(experiment),
        seed=experiment.seed,
    )
    records.write(folder / "record.json", records.dumps(record))


def error_line(problem: BaseException) -> str:
    """`Type: first line`, without folders: a record says nothing of the machine."""
    first = next(iter(str(problem).strip().splitlines()), "")
    text = first if isinstance(problem, InputError) else f"{type(problem).__name__}: {first}".removesuffix(": ")
    return re.sub(r"(?<![\w.])~?/(?:[^\s/'\":,;()]+/)+", "", text)[:500]


def _redirect(log: Path) -> None:
    """Send everything this process and its libraries print to the log, after what an earlier attempt left there."""
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
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
            os._exit(STOPPED)

    signal.signal(signal.SIGTERM, stop)
    threading.Thread(target=watch, name="launcher-watch", daemon=True).start()
    return stopping


def _environment(job: Job) -> None:
    """What a W&B agent would have set."""
    parameters = {"wandb_version": 1, **{name: {"value": value} for name, value in job.given.items()}}
    path = job.folder / "sweep-parameters.yaml"
    records.write(path, yaml.safe_dump(parameters, sort_keys=False))
    os.environ.pop("WANDB_SERVICE", None)  # names a process of the launcher's, not ours
    os.environ.update(job.environment)
    os.environ["WANDB_SWEEP_PARAM_PATH"] = str(path.resolve())
