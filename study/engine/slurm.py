"""SLURM, through submitit: one array of jobs, with the local engine inside each allocation."""

import contextlib
import importlib
import re
import shlex
import signal
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field

from study.engine import local, resources
from study.engine.resources import PER_GPU, Asked, Plan, plural
from study.errors import InputError

FOLDER = "slurm"
"""Folder, beside those of the runs, of the scripts and logs of jobs."""
WARNING = 120
"""Seconds before the time limit at which a job is told to stop its runs and to queue again."""
TIMEOUTS = 1000
"""Number of times that a job may use up its time and go on: its runs continue, so it gets nearer to its end."""
PATIENCE = 60.0
"""Seconds that a job which was asked to end waits to be killed: a job that is preempted must not end by itself."""

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def _minutes(text: str) -> int:
    """Return the minutes of a time such as 45m, 2h or 2d."""
    match = re.fullmatch(r"(\d{1,6})([smhd])", text, re.ASCII)
    if not match or (minutes := int(match[1]) * SECONDS[match[2]] // 60) * 60 <= WARNING:
        raise ValueError(f"expected a time from 3m, such as 45m, 2h or 2d, got {text!r}")
    return minutes


class Options(Asked):
    """Write, for example, partition=gpu,time=4h,gpus=1,parallel=20.

    Any other long option of sbatch may be among them. sbatch itself refuses what it does not know.
    """

    model_config = ConfigDict(extra="allow")

    time: Annotated[int, BeforeValidator(_minutes)] = 60
    gpus: int = Field(0, ge=0)
    cpus: int | None = Field(None, ge=1)
    parallel: int = Field(16, ge=1)

    def plan(self, job: local.Job, command: Sequence[str]) -> Plan:
        """Return the jobs that make runs, and a script for sbatch, of which all jobs share the runs of `command`."""
        count = min(self.parallel, len(job.tasks))
        each = job.slots or max(self.gpus * PER_GPU, self.cpus or 1)
        request = {
            "time": self.time,
            "gpus-per-node": self.gpus,
            "cpus-per-task": self.cpus,
            **(self.model_extra or {}),
        }
        request = {name: value for name, value in request.items() if value}
        words = ", ".join(f"{name}={value}" for name, value in request.items())
        request |= {"job-name": job.name, "array": f"1-{count}", "signal": f"B:TERM@{WARNING}"}
        lines = [f"#SBATCH --{name}={value}" for name, value in request.items()]
        script = "\n".join(["#!/bin/sh", *lines, "#SBATCH --requeue", f"exec {shlex.join(command)}"])
        cores, gpus = (self.cpus or 1) / each, self.gpus / each
        return Plan(f"SLURM: {plural(count, 'job')}, each {words}", script, count * each, cores, gpus)


class Runs:
    """The function of a job. submitit calls `checkpoint` to learn what is to be run when the job is queued again."""

    def __call__(self, job: local.Job) -> int:
        """Make the runs. Before the time limit, and on preemption, end them and queue again.

        submitit queues a job again from within the handler of a signal. Here the signal ends the local engine first,
        as Ctrl-C does, so that each run keeps the step at which it is.
        """
        requeue, warned = signal.getsignal(signal.SIGUSR2), threading.Event()

        def stop(number: int, frame: object) -> None:
            warned.set()
            signal.raise_signal(signal.SIGTERM)

        if callable(requeue):
            signal.signal(signal.SIGUSR2, stop)
        code = local.run(job, resources.here())
        # SIGTERM alone comes before the kill of a preemption, after which SLURM itself queues the job again; or it
        # comes with `scancel`, after which the job is over.
        if code > 128 and callable(requeue) and (warned.is_set() or warned.wait(PATIENCE)):
            requeue(signal.SIGUSR2, None)
        return code

    def checkpoint(self, job: local.Job) -> Any:
        """Return what is to be run again: the same, since what is done is on disk."""
        return importlib.import_module("submitit").helpers.DelayedSubmission(self, job)


def run(todo: local.Job, options: Options) -> int:
    """Submit the runs of a job as one array of `parallel` jobs, unless jobs of this sweep and folder wait or run.

    Raises:
        InputError: there is no SLURM here, or it refuses.
    """
    if waiting(todo):
        print(f"{todo.name}: jobs of this sweep wait or run; `squeue --me` lists them, and --status shows the runs")
        return 0
    submitit, out = importlib.import_module("submitit"), todo.out.resolve()
    count = min(options.parallel, len(todo.tasks))
    parts = [replace(todo, out=out, tasks=todo.tasks[number::count]) for number in range(count)]
    try:
        executor = submitit.AutoExecutor(out / FOLDER, cluster="slurm", slurm_max_num_timeout=TIMEOUTS)
        executor.update_parameters(
            name=todo.name,
            timeout_min=options.time,
            gpus_per_node=options.gpus or None,
            cpus_per_task=options.cpus,
            slurm_signal_delay_s=WARNING,
            slurm_setup=["export PYTHONSAFEPATH=1"],  # a file study.py of the working directory is not the package
            slurm_additional_parameters={**(options.model_extra or {}), "requeue": True, "comment": _comment(todo)},
        )
        with contextlib.redirect_stderr(None):
            executor.map_array(Runs(), parts)
    except Exception as problem:  # submitit has several for what sbatch may say
        said = [line for line in str(problem).splitlines() if line.startswith("sbatch: ")] or [str(problem)]
        why = " ".join(said[0].split())[:300]
        remedy = "Check --slurm, and that `sinfo` answers on this machine."
        raise InputError(f"--engine slurm: SLURM refuses ({why}). {remedy}") from None
    runs, how = plural(len(todo.tasks), "run"), options.plan(todo, ()).words
    print(f"{todo.name}: {runs} in {how}, logs in {todo.out / FOLDER}")
    print("the same command again submits what is due then, and --status shows the runs")
    return 0


def waiting(job: local.Job) -> bool:
    """Return True if jobs of this sweep and folder wait or run, as squeue lists them; False if it does not answer."""
    command = ["squeue", "--me", "--noheader", "--format=%k"]
    try:
        return _comment(job) in subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        return False


def _comment(job: local.Job) -> str:
    """Return the comment by which squeue tells whose a job is."""
    return f"{job.name} in {job.out.resolve()}"
