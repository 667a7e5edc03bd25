"""SLURM, through submitit: jobs of even length in one array, with the local engine inside each allocation."""

from __future__ import annotations

import contextlib
import importlib
import json
import re
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from study import files
from study.errors import InputError
from study.sweep import engine, resources
from study.sweep.estimate import typical
from study.sweep.resources import PER_GPU, Asked, Plan, plural
from study.sweep.signals import answer

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
LOOK = 10.0
"""Seconds between two looks at the queue of who waits for jobs."""
ENDED, UNKNOWN = "ended", "unknown"
OTHERS = (
    *("account", "clusters", "constraint", "dependency", "exclude", "exclusive", "gres", "licenses", "mail-type"),
    *("mail-user", "mem", "mem-per-cpu", "mem-per-gpu", "nice", "nodelist", "partition", "priority", "qos"),
    *("reservation", "tmp", "wckey"),
)
"""Long options of sbatch that a job may have."""


def _minutes(text: str) -> int:
    found = re.fullmatch(r"(\d{1,6})([mhd])", text, re.ASCII)
    minutes = int(found[1]) * {"m": 1, "h": 60, "d": 1440}[found[2]] if found else 0
    if minutes * 60 <= WARNING:
        raise ValueError("expected a time from 3m with its unit, such as 90m, 4h or 2d")
    return minutes


class Options(Asked):
    """Write, for example, partition=gpu,time=4h,gpus=1,parallel=20."""

    time: Annotated[int, BeforeValidator(_minutes)] = 60
    gpus: Annotated[int, Field(ge=0)] = 0
    cpus: Annotated[int | None, Field(ge=1)] = None
    parallel: Annotated[int, Field(ge=1)] = 16

    def split(self, job: engine.Job, seconds: Sequence[float | None]) -> list[engine.Job]:
        """Divide runs into `parallel` jobs of even length, by the time of each run where it is known."""
        each, count = typical(seconds), min(self.parallel, len(job.tasks))
        ordered = [task for _, task in sorted(zip(seconds, job.tasks, strict=True), key=lambda one: -(one[0] or each))]
        return [replace(job, tasks=tuple(ordered[number::count])) for number in range(count)]

    def plan(self, job: engine.Job, command: Sequence[str]) -> Plan:
        """Return the jobs that make runs, and a script for sbatch, of which each job makes a shard of `command`."""
        count = min(self.parallel, len(job.tasks))
        each = job.slots or max(self.gpus * PER_GPU, self.cpus or 1)
        asked = {"time": self.time, "gpus-per-node": self.gpus, "cpus-per-task": self.cpus, **(self.model_extra or {})}
        asked = {name: value for name, value in asked.items() if value}
        words = ", ".join(f"{name}={value}" for name, value in asked.items())
        asked |= {"job-name": job.name, "array": f"1-{count}", "signal": f"TERM@{WARNING}"}
        lines = [f"#SBATCH --{name}={value}" for name, value in asked.items()]
        call = f'exec {shlex.join(command)} --shard "$SLURM_ARRAY_TASK_ID/{count}"'
        script = "\n".join(["#!/bin/sh", *lines, "#SBATCH --requeue", call])
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


def run(job: engine.Job, todo: engine.Job, options: Options, seconds: Sequence[float | None], wait: bool) -> int:
    """Submit what is due and in no queue, and wait for all jobs where that is asked for.

    Raises:
        InputError: there is no SLURM here, or it refuses.
    """
    known = queued(todo)
    free = [(took, task) for took, task in zip(seconds, todo.tasks, strict=True) if task.id not in known]
    if known:
        print(f"{len(known)} runs are in jobs that wait or run; --status lists them")
    if free:
        new = replace(todo, tasks=tuple(task for _, task in free))
        submit(options, options.split(new, [took for took, _ in free]))
        print(f"{job.name}: {len(free)} runs in {options.plan(new, ()).words}, logs in {job.out / FOLDER}")
    if not wait:
        print("the same command again submits what is due then, and --status shows jobs and runs")
        return 0
    told = ""
    try:
        while alive := queued(job):
            line = f"{len(job.tasks) - len(job.due())} of {len(job.tasks)} runs done, {len(alive)} in jobs"
            if line != told:
                print(line, flush=True)
            told = line
            time.sleep(LOOK)
    except KeyboardInterrupt:
        answer("interrupted: the jobs go on; --status shows them, and the same command waits again")
        return 130
    return job.check()


def submit(options: Options, parts: Sequence[engine.Job]) -> None:
    """Submit jobs as one array.

    Raises:
        InputError: there is no SLURM here, or it refuses.
    """
    submitit, out = importlib.import_module("submitit"), parts[0].out.resolve()
    try:
        executor = submitit.AutoExecutor(out / FOLDER, cluster="slurm", slurm_max_num_timeout=TIMEOUTS)
        executor.update_parameters(
            name=parts[0].name,
            timeout_min=options.time,
            gpus_per_node=options.gpus or None,
            cpus_per_task=options.cpus,
            slurm_signal_delay_s=WARNING,
            slurm_setup=["export PYTHONSAFEPATH=1"],  # a file study.py of the working directory is not the package
            slurm_additional_parameters={**(options.model_extra or {}), "requeue": True},
        )
        with contextlib.redirect_stderr(None):
            jobs = executor.map_array(Runs(), [replace(part, out=out) for part in parts])
    except Exception as problem:  # submitit has several for what sbatch may say
        why = next((line for line in str(problem).splitlines() if "error: " in line), str(problem))[:300]
        remedy = "Check --slurm, and that `sinfo` answers on this machine."
        raise InputError(f"--engine slurm: SLURM refuses ({' '.join(why.split())}). {remedy}") from None
    for job, part in zip(jobs, parts, strict=True):
        line = json.dumps({"job": job.job_id, "runs": [task.id for task in part.tasks]})
        files.append(out / FOLDER / JOBS, f"{line}\n")


def queue(out: Path) -> dict[str, tuple[str, str]]:
    """Run ↦ (job, its state) of the last job that was submitted for it.

    The state is the word of squeue, such as PENDING or RUNNING. A job that is in no queue any more has `ended`; where
    squeue does not answer, the state is `unknown`.
    """
    if not (out / FOLDER / JOBS).exists():
        return {}
    submitted: dict[str, str] = {}
    for line in files.read_text(out / FOLDER / JOBS, below=out / FOLDER).splitlines():
        with contextlib.suppress(InputError, KeyError, TypeError):  # a line that was cut
            job = files.parse_json(line, JOBS)
            submitted |= dict.fromkeys(map(str, job["runs"]), str(job["job"]))
    command = ["squeue", "--me", "--array", "--noheader", "--format=%i|%T"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return {run: (job, UNKNOWN) for run, job in submitted.items()}
    states = dict(line.strip().split("|", 1) for line in said.splitlines() if "|" in line)
    return {run: (job, states.get(job, ENDED)) for run, job in submitted.items()}


def queued(job: engine.Job) -> set[str]:
    """Return the runs that are due and in a job that waits or runs."""
    found = queue(job.out)
    return {task.id for task in job.due() if found.get(task.id, ("", ENDED))[1] not in (ENDED, UNKNOWN)}
