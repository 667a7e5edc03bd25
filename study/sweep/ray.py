"""Ray, its core and not Tune: each run is a task, with the local engine inside the worker that gets it."""

from __future__ import annotations

import importlib
import os
import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from study.errors import InputError
from study.sweep import local, resources
from study.sweep.options import number, pairs
from study.sweep.resources import plural
from study.sweep.signals import Interrupts
from study.tracking.view import PLACES

RETRIES = 5
"""Number of times that Ray starts a task again whose worker or node was lost."""
EXAMPLE = "Write, for example, gpus=0.25,cpus=2."
QUIET = {"include_dashboard": False, "log_to_driver": False, "logging_level": "warning"}


@dataclass(frozen=True)
class Options:
    """Resources of one run; a part of a GPU lets several runs share it. `address` is that of a cluster.

    `gpus` None: one where the cluster has GPUs and a run may use one, else none.
    """

    cpus: float = 1.0
    gpus: float | None = None
    address: str | None = None

    def describe(self, count: int) -> str:
        """Return tasks and resources in one line."""
        gpus = "1 GPU if the cluster has GPUs" if self.gpus is None else f"{self.gpus:g} GPU"
        where = f"the cluster at {self.address}" if self.address else "this machine"
        return f"Ray: {plural(count, 'task')} on {where}, each {self.cpus:g} CPU and {gpus}, up to {RETRIES} restarts"

    def script(self, commands: Iterable[str]) -> str:
        """Return lines that submit each run as a job of Ray, given its line for a shell."""
        asked = f"--entrypoint-num-cpus={self.cpus:g} --entrypoint-num-gpus={self.gpus or 0:g}"
        host, port, _ = (self.address or "").partition(":")
        where = f" --address=http://{host}:8265" if port else ""
        return "\n".join(f"ray job submit --no-wait{where} {asked} -- {command}" for command in commands)


def options(text: str | None, address: str | None) -> Options:
    """Return the resources that a text names: `gpus=0.25,cpus=2`.

    Raises:
        InputError: a part is no name=value, a name is unknown, or a value is no number.
    """
    given = pairs("--ray", text, ("cpus", "gpus"), EXAMPLE)
    found = {name: number("--ray", name, value) for name, value in given.items()}
    if address not in (None, "auto", "local") and not re.fullmatch(r"\S+:\d+", str(address), re.ASCII):
        raise InputError(f"--address: expected HOST:PORT or auto, got {address}. `ray status` names the address.")
    return Options(**found, address=address)


def run(job: local.Job, options: Options) -> int:
    """Make each run of a job as a task; return 0, or 130 or 143 if a signal ended it.

    A worker or a node that is lost costs the runs under way there: Ray starts their tasks elsewhere, and each continues
    from its last checkpoint. The nodes share the folder of runs. Tasks end with this process, however it ends: Ray ends
    a cluster that it has started with the process that asked for it, and on another cluster the tasks of that process.

    Raises:
        InputError: no cluster answers at the address, or it never has the resources of one task.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    with Interrupts() as interrupts:
        ray = _connected(options.address)
        interrupts.take()  # Ray has handlers of its own
        try:
            _make(ray, job, _checked(options, job, ray.nodes()))
        except KeyboardInterrupt:
            local.tell("stopping the tasks; the same command again continues")
            return interrupts.status
        finally:
            interrupts.answer()
            ray.shutdown()
    return 0


def _make(ray: Any, job: local.Job, options: Options) -> None:
    print(f"{job.name}: {options.describe(len(job.tasks))}", flush=True)
    task = ray.remote(num_cpus=options.cpus, num_gpus=options.gpus, max_retries=RETRIES)(make)
    here = replace(job, out=job.out.resolve(), slots=1)
    under_way = {task.remote(replace(here, tasks=(one,)), options): one for one in job.tasks}
    failed = 0
    while under_way:
        (done, *_), _ = ray.wait(list(under_way))
        one = under_way.pop(done)
        try:
            code = ray.get(done)
        except ray.exceptions.RayError as problem:
            print(f"failed  {one.id}  {one.label}: {_line(problem)}", flush=True)
            code = 1
        failed += code != 0
        print(f"{len(job.tasks) - len(under_way)} of {len(job.tasks)} tasks ended, {failed} failed", flush=True)


def make(job: local.Job, options: Options) -> int:
    """Make one run in a worker, with what Ray gave the task.

    Raises:
        InputError: this node does not see the folder of runs.
    """
    if not (job.out / PLACES).exists():
        raise InputError(f"{job.out}: expected a folder that every node shares, and {socket.gethostname()} lacks it.")
    return local.run(job, resources.here().at_most(options.cpus, options.gpus or 0, "Ray"))


def _connected(address: str | None) -> Any:
    """Return Ray, connected. An address that does not answer is found within seconds; Ray itself tries for minutes."""
    ray = importlib.import_module("ray")
    try:
        host, _, port = (address or "").removeprefix("ray://").rpartition(":")
        if host:
            socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
        ray.init(address=address, **QUIET)
    except (OSError, OverflowError, ValueError, RuntimeError, ray.exceptions.RayError) as problem:
        raise InputError(
            f"--address: no Ray cluster answers at {address} ({_line(problem)}). Start one with `ray start --head`, or "
            "leave --address out. A cluster with a token needs ~/.ray/auth_token here, and RAY_AUTH_MODE=token."
        ) from None
    return ray


def _checked(options: Options, job: local.Job, nodes: Iterable[Mapping[str, Any]]) -> Options:
    """Return the resources of a task.

    Raises:
        InputError: no node has them.
    """
    there = [node["Resources"] for node in nodes if node["Alive"]]
    if options.gpus is None:
        wanted = any(task.experiment.trainer.device != "cpu" for task in job.tasks)
        options = replace(options, gpus=float(wanted and any(node.get("GPU") for node in there)))
    if any(node.get("CPU", 0) >= options.cpus and node.get("GPU", 0) >= (options.gpus or 0) for node in there):
        return options
    found = "; ".join(dict.fromkeys(f"{node.get('CPU', 0):g} CPU, {node.get('GPU', 0):g} GPU" for node in there))
    raise InputError(
        f"--ray: no node has {options.cpus:g} CPU and {options.gpus:g} GPU; there is {found}. Ask for less."
    )


def _line(problem: BaseException) -> str:
    """The last line of an error: a worker's begins with its traceback."""
    return str(problem).strip().splitlines()[-1].strip()[:200]
