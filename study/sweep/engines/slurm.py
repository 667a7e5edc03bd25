"""SLURM, through submitit: each pack is a job, all of them one array, with the local engine inside the allocation."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import math
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from calendar import timegm
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from study import files, records
from study.errors import InputError
from study.sweep import lease, local
from study.sweep.display import Progress, Running, choose
from study.sweep.engines import Pack, pairs
from study.sweep.outcome import HEADER
from study.sweep.spec import Cell, Spec

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
SETTLED = ("finished", "diverged")
WORDS = {"finished": "done"}
"""States of runs as the local engine words them."""
CLUSTERS = ("slurm", "local", "debug")
EXAMPLE = "Write, for example, partition=gpu,time=4h,gpus=1,parallel=20."


@dataclass(frozen=True)
class Options:
    """Resources of one job, and how many run at a time. `others` are long options of sbatch, such as mem or account."""

    minutes: int = 60
    gpus: int = 0
    cpus: int | None = None
    parallel: int = 16
    cluster: str = "slurm"
    others: Mapping[str, str] = field(default_factory=dict)

    def jobs(self, seconds: Sequence[float | None], at_once: int) -> int:
        """Return the number of jobs for runs of these times, so many at once in a job.

        At least `parallel`; more if one of so many would need more than four fifths of the time limit.
        """
        known = [took for took in seconds if took is not None]
        total = sum(known) / len(known) * len(seconds) if known else 0.0
        return max(self.parallel, math.ceil(total / at_once / (self.minutes * 60 * 0.8)))


def options(text: str | None) -> Options:
    """Return the resources that a text names: `time=4h,gpus=1,parallel=20,partition=gpu`.

    Raises:
        InputError: a part is no name=value, or a value is no time or number.
    """
    given = pairs("--slurm", text, EXAMPLE)
    found: dict[str, Any] = {}
    if "time" in given:
        found["minutes"] = _minutes(given.pop("time"))
    for name in ("gpus", "cpus", "parallel"):
        if name in given:
            found[name] = _count(name, given.pop(name))
    if (cluster := given.pop("cluster", "slurm")) not in CLUSTERS:
        raise InputError(f"--slurm: cluster: expected {', '.join(CLUSTERS)}, got {cluster}.")
    return Options(**found, cluster=cluster, others=given)


def _minutes(text: str) -> int:
    found = re.fullmatch(r"(\d{1,6})(m|h|d)", text, re.ASCII)
    minutes = int(found[1]) * {"m": 1, "h": 60, "d": 1440}[found[2]] if found else 0
    if minutes * 60 <= WARNING:
        raise InputError(f"--slurm: time: expected a time from 3m with its unit, such as 90m, 4h or 2d, got {text}.")
    return minutes


def _count(name: str, text: str) -> int:
    if not re.fullmatch(r"\d{1,6}", text, re.ASCII) or (int(text) < 1 and name != "gpus"):
        raise InputError(f"--slurm: {name}: expected a whole number, got {text}. {EXAMPLE}")
    return int(text)


@dataclass
class Job:
    """The function of one job. submitit calls `checkpoint` to learn what is to be run when the job is queued again."""

    pack: Pack

    def __call__(self) -> int:
        """Run the pack. Before the time limit, and on preemption, end its runs and queue again.

        submitit queues a job again from within the handler of a signal. Here the signal ends the local engine first,
        as Ctrl-C does, so that each run keeps the step at which it is.
        """
        requeue, asked = signal.getsignal(signal.SIGUSR2), threading.Event()

        def stop(number: int, frame: object) -> None:
            asked.set()
            signal.raise_signal(signal.SIGTERM)

        if callable(requeue):
            signal.signal(signal.SIGUSR2, stop)
        code = self.pack()
        # SIGTERM alone comes before the kill of a preemption, after which SLURM itself queues the job again; or it
        # comes with `scancel`, after which the job is over.
        if code == local.INTERRUPTED and callable(requeue) and (asked.is_set() or asked.wait(PATIENCE)):
            requeue(signal.SIGUSR2, None)
        return code

    def checkpoint(self) -> Any:
        """Return what is to be run again: the same, since what is done is on disk."""
        return importlib.import_module("submitit").helpers.DelayedSubmission(self)


class Slurm:
    """Engine that hands packs to SLURM and returns. With the clusters `local` and `debug` it waits for them.

    Args:
        resources: of each job.
        name: the jobs' name.
        out: the folder of runs, which every machine of the cluster must see.

    Raises:
        InputError: submitit is not installed, or no SLURM answers here. Nothing is written yet.
    """

    def __init__(self, resources: Options, name: str, out: Path) -> None:
        self.resources, self.name, self.out = resources, name, out
        self.submitit = importlib.import_module("submitit")
        if resources.cluster == "slurm":
            _check_controller()

    def run(self, packs: Sequence[Pack]) -> Mapping[int, str]:
        """Submit packs as one array. Its scripts and logs get a folder of their own, which goes if sbatch refuses.

        Raises:
            InputError: sbatch refuses.
        """
        (self.out / FOLDER).mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=time.strftime("%Y%m%d-%H%M%S-"), dir=(self.out / FOLDER).resolve()))
        folder.chmod(0o755)
        executor = self._executor(folder)
        try:
            with contextlib.redirect_stderr(io.StringIO()), executor.batch(allow_implicit_submissions=True):
                jobs = [executor.submit(Job(pack)) for pack in packs]
        except Exception as problem:  # submitit has several for what sbatch may say
            shutil.rmtree(folder, ignore_errors=True)
            with contextlib.suppress(OSError):
                (self.out / FOLDER).rmdir()
            remedy = "Check --slurm, and that `sinfo` answers."
            raise InputError(f"--engine slurm: sbatch refuses ({_reason(str(problem))}). {remedy}") from None
        lines = [json.dumps({"job": job.job_id, "runs": pack.ids}) for job, pack in zip(jobs, packs, strict=True)]
        files.append(self.out / FOLDER / JOBS, "".join(f"{line}\n" for line in lines))
        failed: dict[int, str] = {}
        for number, job in enumerate(jobs if self.resources.cluster != "slurm" else ()):
            try:
                job.result()
            except Exception as problem:
                failed[number] = " ".join(str(problem).split())[-300:]
        return failed

    def _executor(self, folder: Path) -> Any:
        cluster, others = self.resources.cluster, {**self.resources.others, "requeue": True}
        more: dict[str, Any] = {"slurm_max_num_timeout": TIMEOUTS} if cluster == "slurm" else {}
        executor = self.submitit.AutoExecutor(folder, cluster=cluster, **more)
        executor.update_parameters(
            name=self.name,
            timeout_min=self.resources.minutes,
            gpus_per_node=self.resources.gpus or None,
            cpus_per_task=self.resources.cpus,
            slurm_array_parallelism=self.resources.parallel,
            slurm_signal_delay_s=WARNING,
            slurm_setup=["export PYTHONSAFEPATH=1"],  # a file study.py of the working directory is not the package
            slurm_additional_parameters=others,
        )
        return executor


def _check_controller() -> None:
    """Ask SLURM for its partitions.

    Raises:
        InputError: SLURM is not installed here, or no controller answers.
    """
    try:
        asked = subprocess.run(["sinfo", "--noheader"], capture_output=True, text=True, timeout=60)
    except OSError:
        said = "sinfo is not installed"
    except subprocess.TimeoutExpired:
        said = "sinfo had no answer within 60 s"
    else:
        if not asked.returncode:
            return
        said = _reason(asked.stderr)
    raise InputError(f"--engine slurm: expected a SLURM controller, got none ({said}). Call it on a login node.")


def _reason(said: str) -> str:
    """The last line in which a command of SLURM names an error, without the command's name."""
    lines = [line for line in said.splitlines() if re.search("error|fatal", line, re.IGNORECASE)]
    return re.sub(r"^\w+: (error|fatal): ", "", " ".join((lines or [said])[-1].split()))[:300].rstrip(".")


def wait(spec: Spec, cells: Sequence[Cell], out: Path) -> None:
    """Show how runs in jobs go on, until each has a good record or no job is left that could make it.

    Raises:
        KeyboardInterrupt: the user does not want to wait. The jobs go on.
    """
    labels = {cell.id: spec.label(cell) for cell in cells if cell.id}
    progress, states, told = Progress(len(labels), 1), dict.fromkeys(labels, ""), ""
    display = choose(progress)
    try:
        while True:
            queue = jobs(out)  # before the records: a job that has ended has written all of its own
            alive = {name: queue[name] for name in labels if queue.get(name, ("", "ended"))[1] != "ended"}
            for name, label in labels.items():
                if states[name] in SETTLED:
                    continue
                state = records.state(out / name)
                if state in SETTLED or (state == "failed") > (states[name] == "failed"):
                    display.say(f"{WORDS.get(state, state):8}{name}  {label}")
                if state == "started" and lease.held(out / name):
                    progress.running.setdefault(name, Running(label, out / name, _began(out / name)))
                elif (run := progress.running.pop(name, None)) and state == "finished":
                    progress.ended(run)
                states[name] = state
            progress.done = sum(state in SETTLED for state in states.values())
            progress.failed = sum(state == "failed" for state in states.values())
            progress.slots = max(len(progress.running), progress.slots)
            counts = Counter(state for _, state in set(alive.values()))
            line = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
            if line != told:
                display.say(f"jobs: {line or 'none left'}")
                told = line
            display.tick()
            if not any(states[name] not in SETTLED for name in alive):
                return
            time.sleep(LOOK)
    finally:
        display.close()


def _began(folder: Path) -> float:
    """Return the time on this process's clock at which the attempt began that a run's log is about."""
    with contextlib.suppress(OSError, InputError, ValueError, IndexError):
        header = HEADER.findall(files.read(folder / "log.txt", below=folder).decode("utf-8", "replace"))[-1]
        return time.monotonic() - max(time.time() - timegm(time.strptime(header, "--- %Y-%m-%d %H:%M:%S UTC ---")), 0.0)
    return time.monotonic()


def jobs(out: Path) -> dict[str, tuple[str, str]]:
    """Run ↦ (job, state) of the last job that was submitted for it.

    The state is the word of squeue, such as PENDING or RUNNING. A job that is in no queue any more has `ended`; where
    squeue does not answer, the state is `unknown`.
    """
    try:
        lines = files.read_text(out / FOLDER / JOBS, below=out / FOLDER).splitlines()
    except InputError:
        return {}
    submitted: dict[str, str] = {}
    for line in lines:
        try:
            job = files.parse_json(line, JOBS)
            submitted |= dict.fromkeys(map(str, job["runs"]), str(job["job"]))
        except (InputError, KeyError, TypeError):  # a line that was cut
            continue
    queue = _queue() if submitted else {}
    return {run: (job, "unknown" if queue is None else queue.get(job, "ended")) for run, job in submitted.items()}


def _queue() -> dict[str, str] | None:
    """Job ↦ state, for all jobs of this user that SLURM has in its queue; None if it does not answer."""
    command = ["squeue", "--me", "--array", "--noheader", "--format=%i|%T"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    found = (line.strip().partition("|") for line in told.splitlines())
    return {job: state for job, _, state in found}
