"""SLURM, through submitit: one array of jobs, with the local engine inside each allocation."""

from __future__ import annotations

import contextlib
import importlib
import json
import re
import shlex
import signal
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field

from study import files
from study.errors import InputError
from study.sweep import engine, resources
from study.sweep.resources import PER_GPU, Asked, Plan, plural

FOLDER = "slurm"
"""Folder, beside those of the runs, of `JOBS` and of the scripts and logs of jobs."""
JOBS = "jobs.jsonl"
"""One line per submitted job: its id, and the identities of its runs."""
WARNING = 120
"""Seconds before the time limit at which a job is told to stop its runs and to queue again."""
TIMEOUTS = 1000
"""Number of times that a job may use up its time and go on: its runs continue, so it gets nearer to its end."""
PATIENCE = 60.0
"""Seconds that a job which was asked to end waits to be killed: a job that is preempted must not end by itself."""


def _minutes(text: str) -> int:
    found = re.fullmatch(r"(\d{1,6})([mhd])", text, re.ASCII)
    minutes = int(found[1]) * {"m": 1, "h": 60, "d": 1440}[found[2]] if found else 0
    if minutes * 60 <= WARNING:
        raise ValueError("expected a time from 3m with its unit, such as 90m, 4h or 2d")
    return minutes


class Options(Asked):
    """Write, for example, partition=gpu,time=4h,gpus=1,parallel=20.

    Any other long option of sbatch may be among them. sbatch itself refuses what it does not know.
    """

    model_config = ConfigDict(extra="allow")

    time: Annotated[int, BeforeValidator(_minutes)] = 60
    gpus: Annotated[int, Field(ge=0)] = 0
    cpus: Annotated[int | None, Field(ge=1)] = None
    parallel: Annotated[int, Field(ge=1)] = 16

    def plan(self, job: engine.Job, command: Sequence[str]) -> Plan:
        """Return the jobs that make runs, and a script for sbatch, of which all jobs share the runs of `command`."""
        count = min(self.parallel, len(job.tasks))
        each = job.slots or max(self.gpus * PER_GPU, self.cpus or 1)
        asked = {"time": self.time, "gpus-per-node": self.gpus, "cpus-per-task": self.cpus, **(self.model_extra or {})}
        asked = {name: value for name, value in asked.items() if value}
        words = ", ".join(f"{name}={value}" for name, value in asked.items())
        asked |= {"job-name": job.name, "array": f"1-{count}", "signal": f"TERM@{WARNING}"}
        lines = [f"#SBATCH --{name}={value}" for name, value in asked.items()]
        script = "\n".join(["#!/bin/sh", *lines, "#SBATCH --requeue", f"exec {shlex.join(command)}"])
        cores, gpus = (self.cpus or 1) / each, self.gpus / each
        return Plan(f"SLURM: {plural(count, 'job')}, each {words}", script, count * each, cores, gpus)


class Runs:
    """The function of a job. submitit calls `checkpoint` to learn what is to be run when the job is queued again."""

    def __call__(self, job: engine.Job) -> int:
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
        code = engine.run(job, resources.here())
        # SIGTERM alone comes before the kill of a preemption, after which SLURM itself queues the job again; or it
        # comes with `scancel`, after which the job is over.
        if code > 128 and callable(requeue) and (asked.is_set() or asked.wait(PATIENCE)):
            requeue(signal.SIGUSR2, None)
        return code

    def checkpoint(self, job: engine.Job) -> Any:
        """Return what is to be run again: the same, since what is done is on disk."""
        return importlib.import_module("submitit").helpers.DelayedSubmission(self, job)


def run(todo: engine.Job, options: Options) -> int:
    """Submit what is in no job that waits or runs.

    Raises:
        InputError: there is no SLURM here, or it refuses.
    """
    known = queued(todo.out)
    free = replace(todo, tasks=tuple(task for task in todo.tasks if task.id not in known))
    if len(free.tasks) < len(todo.tasks):
        print(f"{len(todo.tasks) - len(free.tasks)} runs are in jobs that wait or run; `squeue --me` lists them")
    if free.tasks:
        submit(free, options)
        print(f"{todo.name}: {len(free.tasks)} runs in {options.plan(free, ()).words}, logs in {todo.out / FOLDER}")
    print("the same command again submits what is due then, and --status shows the runs")
    return 0


def submit(job: engine.Job, options: Options) -> None:
    """Submit the runs of a job as one array of `parallel` jobs.

    Raises:
        InputError: there is no SLURM here, or it refuses.
    """
    submitit, out = importlib.import_module("submitit"), job.out.resolve()
    count = min(options.parallel, len(job.tasks))
    parts = [replace(job, out=out, tasks=job.tasks[number::count]) for number in range(count)]
    try:
        executor = submitit.AutoExecutor(out / FOLDER, cluster="slurm", slurm_max_num_timeout=TIMEOUTS)
        executor.update_parameters(
            name=job.name,
            timeout_min=options.time,
            gpus_per_node=options.gpus or None,
            cpus_per_task=options.cpus,
            slurm_signal_delay_s=WARNING,
            slurm_setup=["export PYTHONSAFEPATH=1"],  # a file study.py of the working directory is not the package
            slurm_additional_parameters={**(options.model_extra or {}), "requeue": True},
        )
        with contextlib.redirect_stderr(None):
            jobs = executor.map_array(Runs(), parts)
    except Exception as problem:  # submitit has several for what sbatch may say
        said = [line for line in str(problem).splitlines() if line.startswith("sbatch: ")] or [str(problem)]
        why = " ".join(said[0].split())[:300]
        remedy = "Check --slurm, and that `sinfo` answers on this machine."
        raise InputError(f"--engine slurm: SLURM refuses ({why}). {remedy}") from None
    for made, part in zip(jobs, parts, strict=True):
        line = json.dumps({"job": made.job_id, "runs": [task.id for task in part.tasks]})
        files.append(out / FOLDER / JOBS, f"{line}\n")


def queued(out: Path) -> set[str]:
    """Return the runs that are in a job that waits or runs, as squeue lists it; none where squeue does not answer."""
    command = ["squeue", "--me", "--array", "--noheader", "--format=%i"]
    try:
        alive = set(subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.split())
    except (OSError, subprocess.SubprocessError):
        return set()
    journal = out / FOLDER / JOBS
    lines = files.read_text(journal, below=out / FOLDER).splitlines() if journal.exists() else []
    jobs = [json.loads(line) for line in lines if line.endswith("}")]  # another one was cut
    return {run for job in jobs if job["job"] in alive for run in job["runs"]}
