"""SLURM, through submitit: jobs of even length in one array, with the local engine inside each allocation."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import math
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from study import files
from study.errors import InputError
from study.sweep import local, resources
from study.sweep.estimate import typical
from study.sweep.options import number, pairs
from study.sweep.resources import PER_GPU, plural

FOLDER = "slurm"
"""Folder, beside those of the runs, of `JOBS`, and of a folder for each submission with its scripts and logs."""
JOBS = "jobs.jsonl"
"""One line per submitted job: its id, and the identities of its runs."""
WARNING = 120
"""Seconds before the time limit at which a job is told to stop its runs and to queue again."""
TIMEOUTS = 1000
"""Number of times that a job may use up its time and go on: its runs continue, so it gets nearer to its end."""
PATIENCE = 60.0
"""Seconds that a job which was asked to end waits to be killed: a job that is preempted must not end by itself."""
LOOK = 10.0
"""Seconds between two looks at the queue of who waits for jobs."""
ENDED, UNKNOWN = "ended", "unknown"
EXAMPLE = "Write, for example, partition=gpu,time=4h,gpus=1,parallel=20."
OTHERS = (
    *("account", "clusters", "constraint", "dependency", "exclude", "exclusive", "gres", "licenses", "mail-type"),
    *("mail-user", "mem", "mem-per-cpu", "mem-per-gpu", "nice", "nodelist", "partition", "priority", "qos"),
    *("reservation", "tmp", "wckey"),
)
"""Long options of sbatch that a job may have."""


@dataclass(frozen=True)
class Options:
    """Resources of one job, and how many run at a time. `others` are long options of sbatch."""

    minutes: int = 60
    gpus: int = 0
    cpus: int | None = None
    parallel: int = 16
    others: Mapping[str, str] = field(default_factory=dict)

    def at_once(self, slots: int | None) -> int:
        """Return how many runs a job makes at a time."""
        return slots or max(self.gpus * PER_GPU, self.cpus or 1)

    def split(self, job: local.Job, seconds: Sequence[float | None]) -> list[local.Job]:
        """Divide runs into jobs of even length, at least `parallel`; more if one would exceed its time limit.

        Args:
            job: all runs.
            seconds: the time of each; None where it is not known.
        """
        each = typical(seconds) or 0.0
        total = each * len(job.tasks) / self.at_once(job.slots)
        count = min(max(self.parallel, math.ceil(total / (self.minutes * 60 * 0.8))), len(job.tasks))
        timed = sorted(zip(seconds, job.tasks, strict=True), key=lambda one: -(one[0] or each))
        ordered = [task for _, task in timed]
        return [replace(job, tasks=tuple(ordered[number::count])) for number in range(count)]

    def sbatch(self, name: str) -> dict[str, object]:
        """Return the options of sbatch for one job."""
        given: dict[str, object] = {"job-name": name, "time": self.minutes}
        given |= {"gpus-per-node": self.gpus} if self.gpus else {}
        given |= {"cpus-per-task": self.cpus} if self.cpus else {}
        return given | dict(self.others)

    def describe(self, count: int) -> str:
        """Return jobs and resources in one line."""
        asked = ", ".join(f"{name}={value}" for name, value in self.sbatch("").items() if name != "job-name")
        most = count * self.minutes / 60
        worth = f"{most * self.gpus:.0f} GPU-hours" if self.gpus else f"{most * (self.cpus or 1):.0f} core-hours"
        return f"SLURM: {plural(count, 'job')}, {self.parallel} at a time, each {asked}; at most {worth}"

    def script(self, name: str, count: int, command: Sequence[str]) -> str:
        """Return a script for sbatch that makes a sweep in so many jobs, of which each makes a shard."""
        given = {**self.sbatch(name), "array": f"1-{count}%{self.parallel}", "signal": f"TERM@{WARNING}"}
        lines = [f"#SBATCH --{option}={value}" for option, value in given.items()]
        call = f'exec {shlex.join(command)} --shard "$SLURM_ARRAY_TASK_ID/{count}"'
        return "\n".join(["#!/bin/sh", *lines, "#SBATCH --requeue", call])


def options(text: str | None) -> Options:
    """Return the resources that a text names: `time=4h,gpus=1,parallel=20,partition=gpu`.

    Raises:
        InputError: a part is no name=value, a name is unknown, or a value is no time or number.
    """
    given = pairs("--slurm", text, ("time", "gpus", "cpus", "parallel", *OTHERS), EXAMPLE)
    found: dict[str, Any] = {}
    if "time" in given:
        found["minutes"] = _minutes(given.pop("time"))
    for name in ("gpus", "cpus", "parallel"):
        if name in given:
            found[name] = int(number("--slurm", name, given.pop(name), whole=True, least=name != "gpus"))
    return Options(**found, others=given)


def _minutes(text: str) -> int:
    found = re.fullmatch(r"(\d{1,6})(m|h|d)", text, re.ASCII)
    minutes = int(found[1]) * {"m": 1, "h": 60, "d": 1440}[found[2]] if found else 0
    if minutes * 60 <= WARNING:
        raise InputError(f"--slurm: time: expected a time from 3m with its unit, such as 90m, 4h or 2d, got {text}.")
    return minutes


@dataclass
class Submitted:
    """The function of one job. submitit calls `checkpoint` to learn what is to be run when the job is queued again."""

    job: local.Job

    def __call__(self) -> int:
        """Make the runs. Before the time limit, and on preemption, end them and queue again.

        submitit queues a job again from within the handler of a signal. Here the signal ends the local engine first,
        as Ctrl-C does, so that each run keeps the step at which it is.
        """
        requeue, asked = signal.getsignal(signal.SIGUSR2), threading.Event()

        def stop(number: int, frame: object) -> None:
            asked.set()
            signal.raise_signal(signal.SIGTERM)

        if callable(requeue):
            signal.signal(signal.SIGUSR2, stop)
        code = local.run(self.job, resources.here())
        # SIGTERM alone comes before the kill of a preemption, after which SLURM itself queues the job again; or it
        # comes with `scancel`, after which the job is over.
        if code > 128 and callable(requeue) and (asked.is_set() or asked.wait(PATIENCE)):
            requeue(signal.SIGUSR2, None)
        return code

    def checkpoint(self) -> Any:
        """Return what is to be run again: the same, since what is done is on disk."""
        return importlib.import_module("submitit").helpers.DelayedSubmission(self)


def submit(options: Options, parts: Sequence[local.Job]) -> None:
    """Submit jobs as one array. Its scripts and logs get a folder of their own, which goes if SLURM refuses.

    Raises:
        InputError: there is no SLURM here, or it refuses.
    """
    submitit, out = importlib.import_module("submitit"), parts[0].out.resolve()
    (out / FOLDER).mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=time.strftime("%Y%m%d-%H%M%S-"), dir=out / FOLDER))
    folder.chmod(0o755)
    try:
        executor = submitit.AutoExecutor(folder, cluster="slurm", slurm_max_num_timeout=TIMEOUTS)
        executor.update_parameters(
            name=parts[0].name,
            timeout_min=options.minutes,
            gpus_per_node=options.gpus or None,
            cpus_per_task=options.cpus,
            slurm_array_parallelism=options.parallel,
            slurm_signal_delay_s=WARNING,
            slurm_setup=["export PYTHONSAFEPATH=1"],  # a file study.py of the working directory is not the package
            slurm_additional_parameters={**options.others, "requeue": True},
        )
        with contextlib.redirect_stderr(io.StringIO()), executor.batch(allow_implicit_submissions=True):
            jobs = [executor.submit(Submitted(replace(part, out=out))) for part in parts]
    except Exception as problem:  # submitit has several for what sbatch may say
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            (out / FOLDER).rmdir()
        remedy = "Check --slurm, and that `sinfo` answers on this machine."
        raise InputError(f"--engine slurm: SLURM refuses ({_reason(str(problem))}). {remedy}") from None
    for job, part in zip(jobs, parts, strict=True):
        line = json.dumps({"job": job.job_id, "runs": [task.id for task in part.tasks]})
        files.append(out / FOLDER / JOBS, f"{line}\n")


def _reason(said: str) -> str:
    """The last line in which a command of SLURM names an error, without the command's name."""
    lines = [line for line in said.splitlines() if re.search("error|fatal", line, re.IGNORECASE)]
    return re.sub(r"^\w+: (error|fatal): ", "", " ".join((lines or [said])[-1].split()))[:300].rstrip(".")


def queue(out: Path) -> dict[str, tuple[str, str]]:
    """Run ↦ (job, its state) of the last job that was submitted for it.

    The state is the word of squeue, such as PENDING or RUNNING. A job that is in no queue any more has `ended`; where
    squeue does not answer, the state is `unknown`.
    """
    submitted: dict[str, str] = {}
    with contextlib.suppress(InputError):
        for line in files.read_text(out / FOLDER / JOBS, below=out / FOLDER).splitlines():
            with contextlib.suppress(InputError, KeyError, TypeError):  # a line that was cut
                job = files.parse_json(line, JOBS)
                submitted |= dict.fromkeys(map(str, job["runs"]), str(job["job"]))
    if not submitted:
        return {}
    command = ["squeue", "--me", "--array", "--noheader", "--format=%i|%T"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return {run: (job, UNKNOWN) for run, job in submitted.items()}
    states = dict(line.strip().split("|", 1) for line in said.splitlines() if "|" in line)
    return {run: (job, states.get(job, ENDED)) for run, job in submitted.items()}


def queued(job: local.Job) -> set[str]:
    """Return the runs that are due and in a job that waits or runs."""
    found = queue(job.out)
    return {task.id for task in job.due() if found.get(task.id, ("", ENDED))[1] not in (ENDED, UNKNOWN)}


def wait(job: local.Job) -> None:
    """Print how runs in jobs go on, until no job is left that could make one.

    Raises:
        KeyboardInterrupt: the user does not want to wait. The jobs go on.
    """
    told = ""
    while alive := queued(job):
        states = Counter(state for name, (_, state) in queue(job.out).items() if name in alive)
        there = len(job.tasks) - len(job.due())
        line = f"{there} of {len(job.tasks)} runs done; in jobs: " + ", ".join(f"{n} {s}" for s, n in states.items())
        if line != told:
            print(line, flush=True)
        told = line
        time.sleep(LOOK)
